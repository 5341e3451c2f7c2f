"""Refusals of a server, read back into the errors that they were, with what to do on the command line."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

from arco.core import json
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Corrupt,
    Denied,
    Invalid,
    NotEmpty,
    StoreFull,
    StoreReadOnly,
    Unauthenticated,
    Unavailable,
    Unknown,
    Unsupported,
)

if TYPE_CHECKING:
    import httpx2

E = TypeVar("E", bound=ArcoError)

PROBLEM = "application/problem+json"

# A server speaks to programs; these are the same steps for a person at a prompt.
_STEPS: Mapping[type[ArcoError], str] = {
    NotEmpty: "Drop what it holds first, or add --force to drop it all.",
    AlreadyExists: "Choose another name, or use what is there.",
    Unauthenticated: (
        "Set ARCO_TOKEN, or name a file that holds a token with --token-file; `arco token mint` "
        "makes one."
    ),
    Denied: "Ask for access, or use another token.",
    Corrupt: "Run `arco verify` on the store; it names what is wrong.",
    StoreReadOnly: "Mount the disk of that Arco's store writable, then try again.",
    StoreFull: "Make room where the store of that Arco lies, then try again.",
    Unavailable: "Try again in a moment.",
}
_BY_STATUS: Mapping[int, type[ArcoError]] = {
    401: Unauthenticated,
    403: Denied,
    408: Unavailable,
    429: Unavailable,
    502: Unknown,
    503: Unavailable,
    504: Unknown,
    507: StoreFull,
}


class _Told(msgspec.Struct):
    """A problem document, as far as it matters here."""

    code: str
    detail: str = ""
    next_step: str = ""


def refusal(answer: "httpx2.Response", url: str) -> ArcoError:
    """The error behind an answer that is none of a success."""
    told = _read(answer)
    if told is None:
        return stranger(answer.status_code, url)
    if told.code == "no_such_route":
        other = Unsupported(f"the Arco at {url} does not know this request")
        return advise(other, "Its version may be another: compare `arco version` on both sides.")
    kind = _KINDS.get(told.code) or _by_status(answer.status_code)
    step = next((step for each, step in _STEPS.items() if issubclass(kind, each)), told.next_step)
    return advise(kind(told.detail or f"refused with {told.code}"), step)


def advise(error: E, step: str) -> E:
    """`error` with what to do about it, which the last line that a person sees ends with."""
    if step:
        error.add_note(step)
    return error


def wait_ms(answer: "httpx2.Response") -> int | None:
    """How long the server asks to wait."""
    text = answer.headers.get("retry-after", "")
    return int(text) * 1000 if text.isascii() and text.isdigit() and len(text) < 6 else None


def _read(answer: "httpx2.Response") -> _Told | None:
    if not answer.headers.get("content-type", "").startswith(PROBLEM):
        return None
    try:
        return json.decode(answer.content, _Told)
    except Invalid:
        return None


def _by_status(status: int) -> type[ArcoError]:
    return _BY_STATUS.get(status) or (Invalid if status < 500 else Unknown)


def stranger(status: int, url: str) -> ArcoError:
    """The error behind an answer without a code of ours: it may come from somebody in between."""
    kind = _BY_STATUS.get(status) or (Unsupported if status < 500 else Unknown)
    said = f"what answers at {url} is not an Arco, or somebody stands before it (status {status})"
    return advise(kind(said), "" if kind is Unknown else "Name the right one with --url.")


def _tree(kind: type[ArcoError]) -> Iterator[type[ArcoError]]:
    """The errors of the tree itself: those of other rooms share a code, and may take other arguments."""
    for each in kind.__subclasses__():
        if each.__module__ == ArcoError.__module__:
            yield each
            yield from _tree(each)


_KINDS: Mapping[str, type[ArcoError]] = {kind.code: kind for kind in _tree(ArcoError)}
