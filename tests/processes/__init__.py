"""Real processes and real HTTP: what is left after `kill -9`, a stop, a wrong token (figure 3).

A run has four parts, and none knows how the others work: a deployment of servers, writers that change the
catalog and note what they were told, a killer, and an audit that compares the notes with the store.
"""
