"""The command line: commands, their flags, and how results are printed.

Promises: `arco --help` answers at once, because nothing heavy is imported before a command runs; an error
is one sentence on stderr with the next step, never a traceback (unless `--debug` asks for it); exit codes
are 0 for success, 1 for failure and 2 for misuse; every flag has its variable `ARCO_<FLAG>`.
Never: decides what another package should decide; is imported by another package.
May import: every package. Commands about a running Arco use `arco.client`.
"""
