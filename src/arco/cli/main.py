"""The commands of `arco`, and where an error becomes a sentence and an exit code."""

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

from cyclopts import App, Parameter
from cyclopts.exceptions import CycloptsError

from arco import __version__
from arco.cli.output import report_error, report_output_error
from arco.cli.settings import VARIABLES, Flag, choose_store, ignore_empty
from arco.core.imports import hide_pandas

_HELP = "Arco: a lakehouse catalog and orchestrator with no database."

_EXAMPLES = """\
Examples:
  arco up                                      run everything on this machine, on ./.arco
  arco init shop                               a small pipeline project that runs
  arco run gold.report --partitions 2026-01-01..2026-01-31
  arco table list sales                        what a running Arco knows
  arco preview sales.orders --limit 5          some rows of a table
  arco sql "SELECT * FROM system.tables"       ask the files themselves
  arco connect spark                           what to paste into an engine
  arco doctor                                  check this machine and ./.arco
  arco doctor --store s3://bucket/prefix       check a bucket
  arco iam render --cloud aws --bucket lake    print the policies of every role

Every flag has a variable, such as ARCO_STORE for --store. Secrets are never
flags: they come from each cloud's own variables or the machine's identity."""

_DOCTOR_EXAMPLES = """\
Examples:
  arco doctor                                  this machine and ./.arco
  arco doctor --root /data/arco --json         a directory, for a program
  arco doctor --store gs://bucket/prefix       a bucket on Google Cloud
  arco doctor --deep                           and all that the workspace holds
  arco doctor --store "s3://bucket?endpoint=http://localhost:9000"

It exits with 0 if all is well, 1 if a check failed, 2 if it was misused,
130 if it was interrupted."""

_UP_EXAMPLES = """\
Examples:
  arco up                                      on ./.arco, at http://127.0.0.1:8181
  arco up --root /data/arco --port 9000
  arco up --store s3://bucket/prefix --host 0.0.0.0 --auth local
  arco up --retention-days 30                  keep the past for thirty days
  arco up --keep executions=90 --keep tasks=30 keep rows of runs so many days
  arco up --no-spark                           leave events in the ledger: no Java needed

Spark is started with the first event, and ended after ten minutes without one
(--spark-idle). Until then, and between, nothing of it runs."""

_API_EXAMPLES = """\
Examples, API and compactor as two processes with an identity each:
  export ARCO_SERVICE_TOKEN=$(openssl rand -hex 32) ARCO_STORAGE_BUCKET=s3://bucket/prefix
  ARCO_TENANT_ID=acme ARCO_WORKSPACE_ID=production arco compactor --port 8182
  arco api --tenant acme --workspace production --compactor http://127.0.0.1:8182"""

_COMPACTOR_EXAMPLES = f"""\
{_API_EXAMPLES}

Examples, compaction of events:
  arco compactor --master spark://host:7077    on a cluster with Arco on it
  arco compactor --remote sc://host:15002      by Spark Connect
  arco compactor --once                        all there is, then end: for cron
  arco compactor --rebuild --domain lineage    the same rows, rebuilt
  arco compactor --no-spark                    the catalog alone"""

_VERIFY_EXAMPLES = """\
Examples:
  arco verify                                  the newest version, and the whole chain
  arco verify --all --store s3://bucket/prefix every file of every version that is kept
  arco verify --expect 12:9f86d081884c...      and that version 12 is still the one it was
  arco verify --domain executions              the events of executions alone

It exits with 0 if all is well, 1 if something is wrong or nothing was
published, 2 if it was misused."""

_GC_EXAMPLES = """\
Examples:
  arco gc --dry-run                            what would go
  arco gc --retention-days 30                  keep thirty days
  arco gc --compactor http://127.0.0.1:8182    publish the mark through a compactor"""

# These commands run users' code or Spark in this process.
_LOADING_PANDAS = frozenset(
    (
        *("check", "compactor", "explain", "partitions", "plan", "retry", "run", "tier2-worker"),
        *("validate", "worker"),
    )
)


app = App(
    name="arco",
    help=_HELP,
    help_epilogue=_EXAMPLES,
    help_format="plaintext",
    version=__version__,
    config=(VARIABLES, ignore_empty, choose_store),
    print_error=False,
    exit_on_error=False,
)
app.command(
    "arco.cli.doctor:doctor",
    name="doctor",
    help="Check this machine and a store.",
    help_epilogue=_DOCTOR_EXAMPLES,
)
app.command(
    "arco.cli.iam:app", name="iam", help="Policies for the identities that Arco runs under."
)
app.command(
    "arco.cli.serve:up",
    name="up",
    help="Run everything on this machine: API, compactor and garbage collection.",
    help_epilogue=_UP_EXAMPLES,
)
app.command(
    "arco.cli.serve:api", name="api", help="Run the API alone.", help_epilogue=_API_EXAMPLES
)
app.command(
    "arco.cli.compactor:compactor",
    name="compactor",
    help="Run the compactor of one workspace alone.",
    help_epilogue=_COMPACTOR_EXAMPLES,
)
app.command("arco.cli.compactor:worker", name="tier2-worker", show=False)
app.command(
    "arco.cli.verify:verify",
    name="verify",
    help="Check all that is published against its hashes.",
    help_epilogue=_VERIFY_EXAMPLES,
)
app.command(
    "arco.cli.gc:gc",
    name="gc",
    help="Delete what is older than the retention, and unreferenced files.",
    help_epilogue=_GC_EXAMPLES,
)
app.command("arco.cli.objects:catalog", name="catalog", help="Catalogs of a running Arco.")
app.command("arco.cli.objects:schema", name="schema", help="Schemas of a running Arco.")
app.command("arco.cli.objects:table", name="table", help="Tables of a running Arco.")
app.command("arco.cli.objects:view", name="view", help="Views of a running Arco.")
app.command("arco.cli.column:app", name="column", help="Columns of a table: add, change, drop.")
app.command(
    "arco.cli.connect:app",
    name="connect",
    help="Print what to paste into an engine: Spark, PyIceberg or DuckDB.",
)
app.command("arco.cli.sql:app", name="sql", help="SQL over the files of a store, without a server.")
app.command(
    "arco.cli.preview:app", name="preview", help="Show some rows of an Iceberg or Parquet table."
)
app.command(
    "arco.cli.lineage.command:app",
    name="lineage",
    help="Show what a table is made of, and what is made of it.",
)
app.command("arco.cli.events:app", name="events", help="Send events to a running Arco.")
app.command(
    "arco.cli.events:quarantine_app",
    name="quarantine",
    help="Events that could not be folded: list, show, replay.",
)
app.command("arco.cli.token:app", name="token", help="Tokens for callers of the API.")
app.command("arco.cli.flow.init:app", name="init", help="Make a small project that runs.")
app.command(
    "arco.cli.flow.validate:app",
    name=("validate", "check"),
    help="Load a project and report all its problems.",
)
app.command("arco.cli.flow.plan:app", name="plan", help="Show what would be made, and why.")
app.command(
    "arco.cli.flow.explain:app",
    name="explain",
    help="Explain why a partition is up to date, stale or missing.",
)
app.command("arco.cli.flow.run:app", name="run", help="Plan, and carry the plan out on Spark.")
app.command("arco.cli.flow.runs:app", name="runs", help="List runs, or show one of them.")
app.command("arco.cli.flow.runs:logs_app", name="logs", help="Print what a task has logged.")
app.command("arco.cli.flow.runs:cancel_app", name="cancel", help="Stop a run for good.")
app.command(
    "arco.cli.flow.run:retry_app", name="retry", help="Do once more what a run has not done."
)
app.command(
    "arco.cli.flow.partitions:app", name="partitions", help="Show the partitions of a table."
)
app.command(
    "arco.cli.flow.worker:app",
    name="worker",
    help="Carry out tasks of a running Arco, with a warm Spark.",
)


@app.command
def version() -> None:
    """Print the version of Arco."""
    print(__version__)


@app.meta.default
def launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    debug: Flag = False,
) -> int:
    """Run one command.

    Parameters
    ----------
    debug
        Show the whole traceback of an error, above its sentence.
    """
    try:
        outcome = app(tokens)
        sys.stdout.flush()
    except Exception as problem:
        if isinstance(problem, OSError) and _is_output_broken():
            return report_output_error(problem)
        return report_error(problem, command=_command(tokens), debug=debug)
    return outcome if isinstance(outcome, int) else 0


def main() -> None:
    """The entry point of the `arco` command."""
    if sys.stdout is None:  # closed by the parent process
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - open until the process ends
    if _LOADING_PANDAS.isdisjoint(sys.argv[1:]):  # flags may stand before the command
        hide_pandas()
    try:
        app.meta()
    except SystemExit as end:
        _leave(end.code if isinstance(end.code, int) else int(end.code is not None))
    except CycloptsError as problem:
        _leave(report_error(problem))
    except OSError as problem:  # help is printed outside of `launch`
        if not _is_output_broken():
            raise
        _leave(report_output_error(problem))


def _command(tokens: tuple[str, ...]) -> str:
    """The command whose help a person should read, as far as it is known."""
    try:
        chain, _, _ = app.parse_commands(tokens)
    except CycloptsError:
        chain = ()
    return " ".join(("arco", *chain))


def _is_output_broken() -> bool:
    """Whether stdout takes no more: a full disk, or a reader that has closed the pipe."""
    try:
        print(flush=True)  # what could not be written is not kept, so a flush alone would succeed
    except OSError:
        # The interpreter must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _leave(code: int) -> NoReturn:
    """End the process; after a cloud's client, Spark or a worker, without the interpreter's shutdown.

    The client's threads may still release Python objects; CPython 3.11 stops a thread that waits for the
    lock of a finalizing interpreter in the middle of Rust, which aborts the process after all was done. And
    the interpreter would wait for ever for a thread that waits for a JVM, or for a task that does not stop.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if {"obstore", "pyspark", "arco.flow.worker.worker"} & sys.modules.keys():
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
