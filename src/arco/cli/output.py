"""Output: one sentence for an error, one document for a program, a progress bar for a person."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cyclopts.exceptions import CycloptsError, MissingArgumentError, UnusedCliTokensError

from arco.core.errors import ArcoError, Invalid
from arco.server.finding import next_step

_FAILED = 1
_MISUSED = 2


def report_error(problem: Exception, *, command: str = "arco", debug: bool = False) -> int:
    """Print to stderr what went wrong and what to do; the exit code that goes with it."""
    if debug:
        import traceback

        traceback.print_exception(problem)
    if isinstance(problem, CycloptsError | Invalid):
        advice = " ".join(getattr(problem, "__notes__", ())) or f"See `{command} --help`."
        print(_sentence(_plain(problem), advice), file=sys.stderr)
    elif isinstance(problem, ArcoError):
        print(_sentence(str(problem), next_step(problem)), file=sys.stderr)
    else:
        kind = type(problem).__name__
        advice = "Run it again with --debug, and report what it prints."
        print(f"arco: internal error ({kind}). {advice}", file=sys.stderr)
    return _MISUSED if isinstance(problem, CycloptsError | Invalid) else _FAILED


def report_output_error(problem: OSError) -> int:
    """Print that stdout takes no more, unless its reader has closed it; the exit code."""
    if not isinstance(problem, BrokenPipeError):
        reason = (problem.strerror or type(problem).__name__).lower()
        print(_sentence(f"the output could not be written: {reason}", ""), file=sys.stderr)
    return _FAILED


def print_document(document: object) -> None:
    """Print one JSON document to stdout."""
    from arco.core.json import encode

    print_raw(encode(document))


def print_raw(document: bytes) -> None:
    """Print a JSON document as the server sent it, indented."""
    import msgspec

    print(msgspec.json.format(document, indent=2).decode())


@contextmanager
def progress_bar(what: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """A function to report progress with; None where stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _plain(problem: Exception) -> str:
    """What is wrong with the command line, without the parser's own words."""
    if isinstance(problem, UnusedCliTokensError) and problem.unused_tokens:
        return f"unexpected argument {' '.join(problem.unused_tokens)!r}"
    if isinstance(problem, MissingArgumentError) and problem.argument is not None:
        need = "needs a value" if problem.keyword else "is required"
        return f"{problem.argument.name} {need}"
    return str(problem)


def _sentence(message: str, advice: str) -> str:
    """One line, however the message was wrapped: it may be read by a program."""
    message = " ".join(message.split()).rstrip(".")
    end = "" if message.endswith("?") else "."
    return f"arco: {message}{end} {advice}".rstrip()
