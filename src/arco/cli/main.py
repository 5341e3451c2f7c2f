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
  arco up                                      run everything on this machine
  arco init shop                               create a small pipeline project
  arco run gold.report --partitions 2026-01-01..2026-01-31
  arco table list sales                        list tables of a running server
  arco preview sales.orders --limit 5          show some rows of a table
  arco sql "SELECT * FROM system.tables"       query metadata without a server
  arco connect spark                           print the code that connects Spark
  arco doctor                                  check this machine and the store ./.arco
  arco doctor --store s3://bucket/prefix       check a bucket
  arco iam render --cloud aws --bucket lake    print the policies of every role

Every flag has an environment variable, such as ARCO_STORE for --store. Secrets
are never flags: they come from each cloud's own variables or from the machine's
identity."""

_DOCTOR_EXAMPLES = """\
Examples:
  arco doctor                                  this machine and ./.arco
  arco doctor --root /data/arco --json         a directory; the result as JSON
  arco doctor --store gs://bucket/prefix       a bucket on Google Cloud
  arco doctor --deep                           also check everything in the workspace
  arco doctor --store "s3://bucket?endpoint=http://localhost:9000"

It exits with 0 if all checks passed, 1 if a check failed, 2 for wrong arguments,
130 if it was interrupted."""

_UP_EXAMPLES = """\
Examples:
  arco up                                      on ./.arco, at http://127.0.0.1:8181
  arco up --root /data/arco --port 9000
  arco up --store s3://bucket/prefix --host 0.0.0.0 --auth local
  arco up --retention-days 30                  keep old versions for thirty days
  arco up --keep executions=90 --keep tasks=30 delete older rows of runs
  arco up --spark-idle 10m                     keep Spark for ten idle minutes
  arco up --no-spark                           do not compact events: no Java needed

Spark starts with the first event and stops after two minutes without events."""

_API_EXAMPLES = """\
Examples, API and compactor as two processes, each with its own identity:
  export ARCO_SERVICE_TOKEN=$(openssl rand -hex 32) ARCO_STORAGE_BUCKET=s3://bucket/prefix
  ARCO_TENANT_ID=acme ARCO_WORKSPACE_ID=production arco compactor --port 8182
  arco api --tenant acme --workspace production --compactor http://127.0.0.1:8182"""

_COMPACTOR_EXAMPLES = f"""\
{_API_EXAMPLES}

Examples, compaction of events:
  arco compactor --master spark://host:7077    on a cluster with Arco installed
  arco compactor --remote sc://host:15002      through Spark Connect
  arco compactor --once                        compact everything once, then exit (for cron)
  arco compactor --rebuild --domain lineage    rebuild the tables of one domain
  arco compactor --spark-idle 0                never end a Spark that runs
  arco compactor --no-spark                    serve the catalog only"""

_VERIFY_EXAMPLES = """\
Examples:
  arco verify                                  the newest version and the chain of manifests
  arco verify --all --store s3://bucket/prefix the files of all kept versions
  arco verify --expect 12:9f86d081884c...      also that version 12 is unchanged
  arco verify --domain executions              only the domain executions

It exits with 0 if everything is intact, 1 if something is wrong or nothing was
published, 2 for wrong arguments."""

_GC_EXAMPLES = """\
Examples:
  arco gc --dry-run                            report what would be deleted
  arco gc --retention-days 30                  keep thirty days of versions
  arco gc --compactor http://127.0.0.1:8182    publish through this compactor"""

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
    "arco.cli.iam:app",
    name="iam",
    help="Print cloud policies for the identities of Arco's processes.",
)
app.command(
    "arco.cli.serve:up",
    name="up",
    help="Run everything on this machine: API, compactor and garbage collection.",
    help_epilogue=_UP_EXAMPLES,
)
app.command("arco.cli.serve:api", name="api", help="Run the API only.", help_epilogue=_API_EXAMPLES)
app.command(
    "arco.cli.compactor:compactor",
    name="compactor",
    help="Run the compactor of one workspace only.",
    help_epilogue=_COMPACTOR_EXAMPLES,
)
app.command("arco.cli.compactor:worker", name="tier2-worker", show=False)
app.command(
    "arco.cli.verify:verify",
    name="verify",
    help="Check all published files against their hashes.",
    help_epilogue=_VERIFY_EXAMPLES,
)
app.command(
    "arco.cli.gc:gc",
    name="gc",
    help="Delete unreferenced files and versions older than the retention.",
    help_epilogue=_GC_EXAMPLES,
)
app.command(
    "arco.cli.objects:catalog", name="catalog", help="Create, list, change and drop catalogs."
)
app.command("arco.cli.objects:schema", name="schema", help="Create, list, change and drop schemas.")
app.command("arco.cli.objects:table", name="table", help="Create, list, change and drop tables.")
app.command("arco.cli.objects:view", name="view", help="Create, list, change and drop views.")
app.command("arco.cli.column:app", name="column", help="Add, change and drop columns of a table.")
app.command(
    "arco.cli.connect:app",
    name="connect",
    help="Print the code that connects Spark, PyIceberg or DuckDB.",
)
app.command(
    "arco.cli.sql:app", name="sql", help="Query Arco's metadata tables with SQL, without a server."
)
app.command(
    "arco.cli.preview:app", name="preview", help="Show some rows of an Iceberg or Parquet table."
)
app.command(
    "arco.cli.lineage.command:app",
    name="lineage",
    help="Show the upstream and downstream tables of a table.",
)
app.command("arco.cli.events:app", name="events", help="Send events to a running server.")
app.command(
    "arco.cli.events:quarantine_app",
    name="quarantine",
    help="List, show and replay events that could not be processed.",
)
app.command("arco.cli.token:app", name="token", help="Create tokens for callers of the API.")
app.command("arco.cli.flow.init:app", name="init", help="Create a small pipeline project.")
app.command(
    "arco.cli.flow.validate:app",
    name=("validate", "check"),
    help="Load a project and report all its problems.",
)
app.command(
    "arco.cli.flow.plan:app", name="plan", help="Show which partitions would be made, and why."
)
app.command(
    "arco.cli.flow.explain:app",
    name="explain",
    help="Explain why a partition is up to date, stale or missing.",
)
app.command(
    "arco.cli.flow.run:app", name="run", help="Make missing, failed and stale partitions on Spark."
)
app.command("arco.cli.flow.runs:app", name="runs", help="List runs, or show one run.")
app.command("arco.cli.flow.runs:logs_app", name="logs", help="Print the log of a task.")
app.command("arco.cli.flow.runs:cancel_app", name="cancel", help="Cancel a run.")
app.command(
    "arco.cli.flow.run:retry_app", name="retry", help="Retry the unfinished tasks of a run."
)
app.command(
    "arco.cli.flow.partitions:app", name="partitions", help="Show the partitions of a table."
)
app.command(
    "arco.cli.flow.worker:app",
    name="worker",
    help="Run tasks of a running server in a warm Spark session.",
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
        Show the full traceback of an error above its message.
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
