"""The command line: where rooms are wired into processes, and where people come in.

Promises: `arco --help` answers at once, because nothing heavy is imported before a command runs; what goes
wrong is one sentence on stderr with the next step, never a traceback (unless `--debug` asks for it);
exit codes are 0 for done, 1 for failed and 2 for misuse; every flag has its variable `ARCO_<FLAG>`.
Never: decides anything that a room should decide; is imported by a room.
May enter: every room.
"""
