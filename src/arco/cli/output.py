"""Output: one sentence for an error, one document for a program."""

import sys
from collections.abc import Mapping

from arco.core.errors import (
    ArcoError,
    Conflict,
    Corrupt,
    Denied,
    Fenced,
    Invalid,
    NotFound,
    Unavailable,
    Unknown,
)

_NEXT_STEPS: Mapping[type[ArcoError], str] = {
    Conflict: "Read again, then retry.",
    Corrupt: "Stop writing to this store and restore it from a backup.",
    Denied: "Check which identity is in use and what it may do; `arco iam render` prints the policies.",
    Fenced: "Another process has taken over; start again.",
    Invalid: "See `arco --help`.",
    NotFound: "Check the name.",
    Unavailable: "Check the address, the network and the credentials, then try again.",
    Unknown: "It may have happened: look before you try again.",
}


def complain(problem: Exception) -> None:
    """Print what went wrong and what to do, to stderr."""
    if isinstance(problem, ArcoError):
        print(explain(problem, next_step(problem)), file=sys.stderr)
    else:
        kind = type(problem).__name__
        ask = "Run it again with --debug, and report what it prints."
        print(f"arco: something failed that should not have ({kind}). {ask}", file=sys.stderr)


def explain(problem: Exception, advice: str) -> str:
    """One sentence, and the advice after it."""
    said = str(problem).strip().rstrip(".")
    return f"arco: {said}. {advice}".rstrip()


def next_step(problem: ArcoError) -> str:
    """What a person should do about an error; nothing where its message says it already."""
    return next((step for kind, step in _NEXT_STEPS.items() if isinstance(problem, kind)), "")


def print_document(document: object) -> None:
    """Print one JSON document to stdout."""
    import msgspec

    from arco.core.json import encode

    print(msgspec.json.format(encode(document), indent=2).decode())
