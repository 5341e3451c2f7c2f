"""Errors as Iceberg's clients read them: a status, a type that they switch on, and a sentence.

A client takes a 4xx for a definite no and deletes the files that it wrote for the commit. So whatever may
have happened is `CommitStateUnknownException`, and where nothing did it is 503 with a time to come back.
The table is asked from the top, so a subclass stands above its parent.
"""

from dataclasses import dataclass

import msgspec

from arco.access.authorization import Operation
from arco.api.problem import Refusal, headers_of, presentable
from arco.api.route import Reply
from arco.api.voice import Told, Voice
from arco.core import json
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    AttemptFenced,
    Conflict,
    Denied,
    Fenced,
    InProgress,
    Invalid,
    KeyExpired,
    KeyReused,
    NotEmpty,
    NotFound,
    StoreFull,
    StoreReadOnly,
    Unauthenticated,
    Unavailable,
    Unknown,
)
from arco.iceberg.refusal import FENCED, Refused

# What a client must take for "it may have happened" whenever it does not hear what became of it.
COMMITS = frozenset(
    {
        Operation.ICEBERG_UPDATE_TABLE,
        Operation.ICEBERG_COMMIT_TRANSACTION,
        Operation.ICEBERG_REPLACE_VIEW,
    }
)
UNKNOWN = "CommitStateUnknownException"
INTERNAL = "InternalServerError"

_LONGEST_WAIT_S = 2  # clients wait as long as they are told, and do nothing else meanwhile


@dataclass(frozen=True)
class Kind:
    """How one class of errors is told."""

    error: type[BaseException]
    status: int
    type: str
    message: str | None = None  # the fixed sentence, where the error's own words stay inside


KINDS = (
    Kind(KeyReused, 422, "UnprocessableEntityException"),
    Kind(KeyExpired, 422, "UnprocessableEntityException"),
    Kind(Invalid, 400, "BadRequestException"),
    Kind(Unauthenticated, 401, "NotAuthorizedException"),
    Kind(Denied, 403, "ForbiddenException", "this identity may not do that"),
    Kind(NotFound, 404, "NotFoundException"),
    Kind(AlreadyExists, 409, "AlreadyExistsException"),
    Kind(NotEmpty, 409, "NamespaceNotEmptyException"),
    Kind(Conflict, 409, "CommitFailedException"),
    Kind(AttemptFenced, 403, FENCED),
    Kind(Fenced, 503, "SlowDownException", "another process has taken over this work; retry"),
    Kind(
        InProgress,
        503,
        "SlowDownException",
        "another attempt of this request is under way; retry with the same key",
    ),
    # No 503: engines would take it for a moment's trouble, and ask again and again.
    Kind(
        StoreReadOnly,
        507,
        "InsufficientStorageException",
        "the disk of the store is read-only; nothing was changed",
    ),
    Kind(
        StoreFull,
        507,
        "InsufficientStorageException",
        "no space is left where the store lies; nothing was changed",
    ),
    Kind(
        Unavailable,
        503,
        "SlowDownException",
        "something that this request needs does not answer; nothing was changed, retry",
    ),
    Kind(Unknown, 500, UNKNOWN, "the request may or may not have taken effect"),
)

# Refusals that HTTP itself has a status for; clients know no types for most of them, and go by the status.
_REFUSALS = {
    400: "BadRequestException",
    403: "ForbiddenException",
    404: "NotFoundException",
    405: "MethodNotAllowedException",
    408: "RequestTimeoutException",
    413: "ContentTooLargeException",
    414: "UriTooLongException",
    415: "UnsupportedMediaTypeException",
    503: "SlowDownException",
}


class ErrorModel(msgspec.Struct, frozen=True):
    """What went wrong."""

    message: str
    type: str
    code: int


class ErrorResponse(msgspec.Struct, frozen=True):
    """The body of an error."""

    error: ErrorModel


def error_of(error: BaseException, operation: str) -> ErrorModel:
    """What a caller is told of `error`, which has ended `operation`."""
    if isinstance(error, Refused):
        return ErrorModel(error.message, error.kind, error.status)
    if isinstance(error, Refusal):
        return ErrorModel(error.detail, _REFUSALS.get(error.status, INTERNAL), error.status)
    kind = next((kind for kind in KINDS if isinstance(error, kind.error)), None)
    if kind is None:
        told = UNKNOWN if operation in COMMITS else INTERNAL
        return ErrorModel("an unexpected error; the server's log has the place", told, 500)
    words = kind.message or presentable(error) or "the request was refused"
    return ErrorModel(words, kind.type, kind.status)


class IcebergVoice:
    """The errors of the Iceberg REST catalog."""

    def tell(self, error: BaseException, operation: str) -> Told:
        told = error_of(error, operation)
        reply = Reply(told.code, json.encode(ErrorResponse(told)), headers=_headers(error, told))
        return Told(reply, told.type, expected=isinstance(error, ArcoError | Refusal | Refused))


def _headers(error: BaseException, told: ErrorModel) -> dict[str, str]:
    headers = dict(headers_of(error))
    if told.code == 503:
        # Without it, a client retries no commit and has to take its outcome for unknown.
        wait_s = min(int(headers.get("Retry-After", "1")), _LONGEST_WAIT_S)
        headers["Retry-After"] = str(wait_s)
    return headers


ICEBERG_VOICE: Voice = IcebergVoice()
