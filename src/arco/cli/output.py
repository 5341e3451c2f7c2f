"""Output: one sentence for an error, one document for a program, a progress bar for a person."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from cyclopts.exceptions import CycloptsError, MissingArgumentError, UnusedCliTokensError

from arco.core.errors import (
    ArcoError,
    Conflict,
    Corrupt,
    Denied,
    Fenced,
    Invalid,
    NotFound,
    StoreFull,
    StoreReadOnly,
    Unavailable,
    Unknown,
)

_FAILED = 1
_MISUSED = 2

_NEXT_STEPS: Mapping[type[ArcoError], str] = {
    Conflict: "Read again, then retry.",
    Corrupt: "Stop writing to this store and restore it from a backup.",
    Denied: "Check which identity is in use and what it may do; `arco iam render` prints the policies.",
    Fenced: "Another process has taken over; start again.",
    NotFound: "Check the name.",
    StoreReadOnly: "Mount it writable, or name another place with --root, then try again.",
    StoreFull: "Make room there, then try again: what was made stays.",
    Unavailable: "Check the address, the network and the credentials, then try again.",
    Unknown: "It may have happened: look before you try again.",
}


def complain(problem: Exception, *, command: str = "arco", debug: bool = False) -> int:
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
        ask = "Run it again with --debug, and report what it prints."
        print(f"arco: something failed that should not have ({kind}). {ask}", file=sys.stderr)
    return _MISUSED if isinstance(problem, CycloptsError | Invalid) else _FAILED


def complain_of_output(problem: OSError) -> int:
    """Print that stdout takes no more, unless its reader has closed it; the exit code."""
    if not isinstance(problem, BrokenPipeError):
        reason = (problem.strerror or type(problem).__name__).lower()
        print(_sentence(f"the output could not be written: {reason}", ""), file=sys.stderr)
    return _FAILED


def next_step(problem: ArcoError) -> str:
    """What a person should do about an error; nothing where its message says it already."""
    notes = getattr(problem, "__notes__", ())
    if notes:
        return " ".join(notes)  # the code that raised it knows better
    return next((step for kind, step in _NEXT_STEPS.items() if isinstance(problem, kind)), "")


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
        return f"nothing is known of {' '.join(problem.unused_tokens)!r}"
    if isinstance(problem, MissingArgumentError) and problem.argument is not None:
        need = "needs a value" if problem.keyword else "is required"
        return f"{problem.argument.name} {need}"
    return str(problem)


def _sentence(message: str, advice: str) -> str:
    """One line, however the message was wrapped: it may be read by a program."""
    message = " ".join(message.split()).rstrip(".")
    end = "" if message.endswith("?") else "."
    return f"arco: {message}{end} {advice}".rstrip()
