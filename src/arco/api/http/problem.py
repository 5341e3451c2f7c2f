"""Errors on the wire: RFC 9457 problem documents, with a stable code and the next step.

The first problem type whose error class matches applies, so a subclass precedes its parent. Only errors
about the request carry their own message; errors about the machinery get a fixed sentence, because their
messages may name paths of the store. A protocol with another format of errors has its own `ErrorFormat`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec import UNSET, UnsetType

from arco.api.http.reply import Reply
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
    next_step_for,
)
from arco.flow.coordinator.ports import CoordinatedElsewhere

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER_MS = 1_000

# How paths of the store begin; a message that contains one is not sent.
_STORED = re.compile(
    r"(?:^|[\s'\"(/])(?:tenant=|workspace=|_catalog/|manifests/|commits/|ledger/|state/|snapshots/"
    r"|locks/|sequence/|quarantine/|index/)"
)

# What is not logged either: addresses, absolute paths, tokens and signatures.
_PRIVATE = re.compile(r"://|(?:^|[\s'\"(=])/\w|bearer\b|signature|secret|password", re.IGNORECASE)


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    next_step: str | UnsetType = UNSET


@dataclass(frozen=True)
class ProblemType:
    """The problem document of one class of errors."""

    error: type[BaseException]
    status: int
    title: str
    next_step: str | None = None  # where it differs from that of the class; "" for none
    detail: str | None = None  # the fixed sentence, where the error's own message is not sent


PROBLEM_TYPES = (
    ProblemType(
        KeyReused,
        422,
        "The idempotency key belongs to another request",
    ),
    ProblemType(
        KeyExpired,
        409,
        "The idempotency key has expired",
    ),
    ProblemType(Invalid, 400, "The request is not valid", ""),  # `detail` says what to change
    ProblemType(
        Unauthenticated,
        401,
        "The caller is not authenticated",
        "Send a valid token in the header Authorization: Bearer; `arco token mint` makes one.",
    ),
    ProblemType(
        Denied,
        403,
        "This identity may not do that",
        detail="this identity may not do that",
    ),
    ProblemType(NotFound, 404, "There is no such object", "Check the name and `as_of`."),
    ProblemType(AlreadyExists, 409, "The name is taken"),
    ProblemType(
        PreconditionFailed,
        412,
        "The object has changed since it was read",
        "Read it again, and send its new ETag in If-Match.",
    ),
    ProblemType(
        NotEmpty,
        409,
        "The object is not empty",
        "Drop its contents first, or add ?force=true to drop it all.",
    ),
    ProblemType(Conflict, 409, "Another writer was first"),
    ProblemType(
        AttemptFenced,
        409,
        "Another attempt has taken over",
    ),
    ProblemType(
        Fenced,
        503,
        "Another process has taken over",
        "Retry.",
        "another process has taken over this work; nothing of this request was published",
    ),
    ProblemType(
        InProgress,
        503,
        "The request is in progress",
        "Retry with the same key after the time in Retry-After.",
        "another attempt of this request is under way, and may be carried out",
    ),
    ProblemType(
        StoreReadOnly,
        507,
        "The store is read-only",
        detail="the disk of the store is read-only; nothing was changed",
    ),
    ProblemType(
        StoreFull,
        507,
        "The store is full",
        detail="no space is left on the disk of the store; nothing was changed",
    ),
    ProblemType(TooManyQueries, 429, "Too many queries", "Retry after the time in Retry-After."),
    ProblemType(
        BacklogTooLarge,
        503,
        "Too many events wait to be compacted",
    ),
    ProblemType(
        CoordinatedElsewhere,
        503,
        "Another server coordinates the runs",
        "This server takes over within seconds after the other one has ended.",
        "another server, or a command, on the same root or store coordinates the runs of this workspace: "
        "send the request to that server, or stop it; nothing was changed",
    ),
    ProblemType(
        Unavailable,
        503,
        "Temporarily unavailable",
        "Retry after the time in Retry-After.",
        "something that this request needs does not answer; nothing was changed",
    ),
    ProblemType(
        Unknown,
        504,
        "The outcome is not known",
        "Read the object to see whether it happened, or repeat the request with its Idempotency-Key.",
        "the request may or may not have taken effect",
    ),
    ProblemType(
        Corrupt,
        500,
        "Stored data is corrupt",
        detail="stored bytes are missing or not what they should be",
    ),
    ProblemType(Unsupported, 501, "Not supported by this installation"),
    ProblemType(
        BaseException,
        500,
        "Internal error",
        "Retry; if it fails again, look up the x-request-id of the answer in the server's log.",
        "internal error",
    ),
)


_API_STEPS: Mapping[type[ArcoError], str] = {
    each.error: each.next_step
    for each in PROBLEM_TYPES
    if each.next_step is not None and issubclass(each.error, ArcoError)
}


class HttpError(Exception):
    """A refusal by the plumbing itself, with a status of HTTP; the packages below never raise it."""

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
    403: "The origin of the request is not allowed",
    404: "There is no such route",
    405: "Method not allowed on this route",
    408: "The request came too slowly",
    413: "The body is too large",
    414: "The URL is too long",
    415: "Unsupported content type",
    431: "The headers are too large",
    503: "Temporarily unavailable",
    504: "The outcome is not known",
}


@dataclass(frozen=True)
class FormattedError:
    """An error as it is sent, and the code under which it is logged."""

    reply: Reply
    code: str
    expected: bool  # False for an exception that the code did not foresee


class ErrorFormat(Protocol):
    """How one protocol sends errors."""

    def format(self, error: BaseException, operation: str) -> FormattedError:
        """The answer to a request that ended in `error`; `operation` is `none` before routing."""


class ProblemFormat:
    """Problem documents, the same for every operation."""

    def format(self, error: BaseException, operation: str) -> FormattedError:  # noqa: ARG002
        problem = problem_of(error)
        return FormattedError(
            Reply(problem.status, encode_problem(problem), CONTENT_TYPE, headers=headers_of(error)),
            problem.code,
            expected=isinstance(error, ArcoError | HttpError),
        )


PROBLEM_FORMAT: ErrorFormat = ProblemFormat()


def problem_type_of(error: BaseException) -> ProblemType:
    """The first problem type that matches the error."""
    return next(each for each in PROBLEM_TYPES if isinstance(error, each.error))


def problem_of(error: BaseException) -> ProblemDocument:
    """The problem document of an error."""
    if isinstance(error, HttpError):
        return ProblemDocument(
            type=_type(error.code),
            title=TITLES.get(error.status, "Refused"),
            status=error.status,
            detail=error.detail,
            code=error.code,
            next_step=error.next_step or UNSET,
        )
    problem_type = problem_type_of(error)
    code = error.code if isinstance(error, ArcoError) else "internal"
    return ProblemDocument(
        type=_type(code),
        title=problem_type.title,
        status=problem_type.status,
        detail=problem_type.detail or presentable(error) or problem_type.title.lower(),
        code=code,
        next_step=_advice(error) or _next_step(error) or UNSET,
    )


def headers_of(error: BaseException) -> dict[str, str]:
    """The headers of an error's answer."""
    if isinstance(error, HttpError):
        return error.headers
    if isinstance(error, Unauthenticated):
        return {"WWW-Authenticate": 'Bearer realm="arco"'}
    if isinstance(error, AttemptFenced):
        return {}
    if isinstance(error, Unavailable | Fenced):
        wait_ms = getattr(error, "retry_after_ms", None) or RETRY_AFTER_MS
        return {"Retry-After": str(max(1, -(-wait_ms // 1000)))}
    return {}


def encode_problem(problem: ProblemDocument) -> bytes:
    """The document as JSON."""
    return json.encode(problem)


def presentable(error: BaseException) -> str:
    """The error's message, or "" if it contains a path of the store."""
    message = str(error)
    return "" if _STORED.search(message) else message


def loggable(error: BaseException) -> str:
    """The error's message for the log, or "" if it contains a path, an address or a secret."""
    return _without_secrets(str(error))


def _advice(error: BaseException) -> str:
    """The next step that the code raising the error has added as notes; more specific than the table."""
    return _without_secrets(" ".join(getattr(error, "__notes__", ())))


def _next_step(error: BaseException) -> str:
    if isinstance(error, ArcoError):
        return next_step_for(type(error), _API_STEPS)
    return problem_type_of(error).next_step or ""


def _without_secrets(text: str) -> str:
    return "" if _STORED.search(text) or _PRIVATE.search(text) else text


def _type(code: str) -> str:
    return f"urn:arco:problem:{code}"
