"""Pipelines on the command line: projects, plans, runs and workers.

Promises: the same flags, exit codes and documents for every command; what is printed of a run is what the
coordinator answered.
Never: decides anything about plans or runs; that is in `arco.flow`.
May import: every package below `cli`.
"""
