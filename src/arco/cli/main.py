"""The commands, and the one place where an error becomes a sentence and an exit code."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from cyclopts.exceptions import CycloptsError

from arco import __version__
from arco.cli.output import complain, explain
from arco.cli.settings import VARIABLES, Flag, choose_place
from arco.core.errors import Invalid

if TYPE_CHECKING:
    from rich.text import Text

_HELP = "Arco: a lakehouse catalog and orchestrator with no database."

_EXAMPLES = """\
Examples:
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
  arco doctor --store "s3://bucket?endpoint=http://localhost:9000"

It exits with 0 if all is well, 1 if a check failed, 2 if it was misused."""


def _usage(problem: CycloptsError) -> "Text":
    from rich.text import Text

    # On one line, however narrow the terminal is: it may be read by a program.
    return Text(explain(problem, "See `arco --help`."), no_wrap=True, overflow="ignore")


app = App(
    name="arco",
    help=_HELP,
    help_epilogue=_EXAMPLES,
    help_format="plaintext",
    version=__version__,
    config=(VARIABLES, choose_place),
    error_formatter=_usage,
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
        Show the whole traceback of an error.
    """
    try:
        outcome = app(tokens)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as problem:
        if debug:
            raise
        complain(problem)
        return 2 if isinstance(problem, Invalid) else 1
    return outcome if isinstance(outcome, int) else 0


def main() -> None:
    """The entry point of the `arco` command."""
    app.meta()


if __name__ == "__main__":
    main()
