"""Errors on the wire: RFC 9457 problem documents, with our stable code and the next step.

The table is asked from the top, so a subclass stands above its parent, and a new error of the tree gets its
parent's line. Only errors that speak about the request carry their own words; those that speak about the
machinery get a fixed sentence, because theirs may name paths of the store.
"""

import re
from dataclasses import dataclass

import msgspec
from msgspec import UNSET, UnsetType

from arco.core import json
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    AttemptFenced,
    BacklogTooLarge,
    Conflict,
    Corrupt,
    Denied,
    Fenced,
    InProgress,
    Invalid,
    KeyExpired,
    KeyReused,
    NotEmpty,
    NotFound,
    PreconditionFailed,
    StoreFull,
    StoreReadOnly,
    TooManyQueries,
    Unauthenticated,
    Unavailable,
    Unknown,
    Unsupported,
)

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER_MS = 1_000

# How paths of the store begin; the words of an error that holds one stay inside.
_STORED = re.compile(
    r"(?:^|[\s'\"(/])(?:tenant=|workspace=|_catalog/|manifests/|commits/|ledger/|state/|snapshots/"
    r"|locks/|sequence/|quarantine/|index/)"
)

# What a log may not hold besides: addresses, paths from the root, what tokens and signatures come in.
_PRIVATE = re.compile(r"://|(?:^|[\s'\"(=])/\w|bearer\b|signature|secret|password", re.IGNORECASE)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    next_step: str | UnsetType = UNSET


@dataclass(frozen=True)
class Kind:
    """How one class of errors is told."""

    error: type[BaseException]
    status: int
    title: str
    next_step: str | None = None
    detail: str | None = None  # the fixed sentence, where the error's own words stay inside


KINDS = (
    Kind(
        KeyReused,
        422,
        "The idempotency key belongs to another request",
        "Send this request with a key of its own.",
    ),
    Kind(
        KeyExpired,
        409,
        "The idempotency key has expired",
        "Look whether it happened; if not, send the request with a new key.",
    ),
    Kind(Invalid, 400, "The request is not valid", "Change the request."),
    Kind(
        Unauthenticated,
        401,
        "Nobody knows who is asking",
        "Send a valid token in the header Authorization: Bearer; `arco token mint` makes one.",
    ),
    Kind(
        Denied,
        403,
        "This identity may not do that",
        "Ask for access, or use another identity.",
        "this identity may not do that",
    ),
    Kind(NotFound, 404, "There is no such thing", "Check the name, and as of when you look."),
    Kind(AlreadyExists, 409, "The name is taken", "Choose another name, or use what is there."),
    Kind(
        PreconditionFailed,
        412,
        "It has changed since you read it",
        "Read it again, and send its new ETag in If-Match.",
    ),
    Kind(
        NotEmpty,
        409,
        "It is not empty",
        "Drop what it holds first, or add ?force=true to drop it all.",
    ),
    Kind(
        Conflict,
        409,
        "Somebody else was first",
        "Read again, then retry.",
    ),
    Kind(
        AttemptFenced,
        409,
        "Another attempt has taken over",
        "Stop: what this attempt has staged is never seen, and will be collected.",
    ),
    Kind(
        Fenced,
        503,
        "Another process has taken over",
        "Retry.",
        "another process has taken over this work; nothing of this request was published",
    ),
    Kind(
        InProgress,
        503,
        "It is being done",
        "Retry with the same key after the time in Retry-After.",
        "another attempt of this request is under way, and may be carried out",
    ),
    Kind(
        StoreReadOnly,
        507,
        "The store is read-only",
        "Mount the disk of the store writable, then retry.",
        "the disk of the store is read-only; nothing was changed",
    ),
    Kind(
        StoreFull,
        507,
        "The store is full",
        "Make room where the store lies, then retry.",
        "no space is left where the store lies; nothing was changed",
    ),
    Kind(
        TooManyQueries,
        429,
        "Too many queries",
        "Retry after the time in Retry-After.",
    ),
    Kind(
        BacklogTooLarge,
        503,
        "Too many events wait to be compacted",
        "Read what is published (freshness=published), or retry once the compactor has caught up.",
    ),
    Kind(
        Unavailable,
        503,
        "Not now",
        "Retry after the time in Retry-After.",
        "something that this request needs does not answer; nothing was changed",
    ),
    Kind(
        Unknown,
        504,
        "The outcome is not known",
        "Read the object to see whether it happened, or repeat the request with its Idempotency-Key.",
        "the request may or may not have taken effect",
    ),
    Kind(
        Corrupt,
        500,
        "What is stored contradicts itself",
        "Run `arco verify` on the store; it names what is wrong.",
        "stored bytes are missing or not what they should be",
    ),
    Kind(
        Unsupported,
        501,
        "Not supported here",
        None,
        "this installation lacks something that the request needs",
    ),
    Kind(
        BaseException,
        500,
        "Something went wrong inside",
        "Retry; if it stays, look for the request id in the server's log.",
        "an unexpected error; the log has the place",
    ),
)


class Refusal(Exception):
    """A refusal that HTTP itself has a status for, and that never reaches the rooms below."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        next_step: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.next_step = next_step
        self.headers = headers or {}


TITLES = {
    403: "Not from here",
    404: "There is no such route",
    405: "This route does not take that method",
    408: "The request came too slowly",
    413: "The body is too large",
    414: "The URL is too long",
    415: "This kind of body is not read here",
    431: "The headers are too large",
    503: "Not now",
    504: "The outcome is not known",
}


def kind_of(error: BaseException) -> Kind:
    """The first line of the table that the error belongs to."""
    return next(kind for kind in KINDS if isinstance(error, kind.error))


def problem_of(error: BaseException) -> Problem:
    """The document that tells a caller of `error`."""
    if isinstance(error, Refusal):
        return Problem(
            type=_type(error.code),
            title=TITLES.get(error.status, "Refused"),
            status=error.status,
            detail=error.detail,
            code=error.code,
            next_step=error.next_step or UNSET,
        )
    kind = kind_of(error)
    code = error.code if isinstance(error, ArcoError) else "internal"
    return Problem(
        type=_type(code),
        title=kind.title,
        status=kind.status,
        detail=kind.detail or presentable(error) or kind.title.lower(),
        code=code,
        next_step=_advice(error) or kind.next_step or UNSET,
    )


def headers_of(error: BaseException) -> dict[str, str]:
    """The headers that go with the document."""
    if isinstance(error, Refusal):
        return error.headers
    if isinstance(error, Unauthenticated):
        return {"WWW-Authenticate": 'Bearer realm="arco"'}
    if isinstance(error, AttemptFenced):
        return {}
    if isinstance(error, Unavailable | Fenced):
        wait_ms = getattr(error, "retry_after_ms", None) or RETRY_AFTER_MS
        return {"Retry-After": str(max(1, -(-wait_ms // 1000)))}
    return {}


def encode_problem(problem: Problem) -> bytes:
    """The document as JSON."""
    return json.encode(problem)


def loggable(error: BaseException) -> str:
    """The error's words for whoever runs the server; none if they hold a path, an address or a secret."""
    words = str(error)
    return "" if _STORED.search(words) or _PRIVATE.search(words) else words


def _advice(error: BaseException) -> str:
    """What whoever raised the error said to do about it: it knew better than a table can."""
    words = " ".join(getattr(error, "__notes__", ()))
    return "" if _STORED.search(words) or _PRIVATE.search(words) else words


def _type(code: str) -> str:
    return f"urn:arco:problem:{code}"


def presentable(error: BaseException) -> str:
    """The error's own words, if they are about the request and nothing else."""
    words = str(error)
    return "" if _STORED.search(words) else words
