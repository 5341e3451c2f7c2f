"""The error format of the Iceberg REST catalog: a status, a type that clients switch on, and a message.

After a 4xx a client deletes the files that it wrote for the commit. So a commit with an unknown outcome is
`CommitStateUnknownException`, and one that did not happen is 503 with Retry-After. The first error type
whose class matches applies, so a subclass precedes its parent.
"""

from dataclasses import dataclass

import msgspec

from arco.access.authorization import Operation
from arco.api.http.problem import ErrorFormat, FormattedError, HttpError, headers_of, presentable
from arco.api.http.reply import Reply
from arco.core import json
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    AttemptFenced,
    Conflict,
    ContradictoryUpdate,
    Denied,
    DeniedMetadata,
    Fenced,
    InProgress,
    Invalid,
    InvalidView,
    KeyExpired,
    KeyReused,
    MissingMetadata,
    NoSuchCatalog,
    NoSuchSchema,
    NoSuchTable,
    NoSuchView,
    NotEmpty,
    NotFound,
    StoreFull,
    StoreReadOnly,
    Unauthenticated,
    Unavailable,
    Unknown,
)

# Operations whose outcome is unknown to a client that gets no answer.
COMMITS = frozenset(
    {
        Operation.ICEBERG_UPDATE_TABLE,
        Operation.ICEBERG_COMMIT_TRANSACTION,
        Operation.ICEBERG_REPLACE_VIEW,
    }
)
UNKNOWN = "CommitStateUnknownException"
FENCED = "AttemptFencedException"  # not a type of the specification: clients do not retry a 403
INTERNAL = "InternalServerError"

_MAX_WAIT_S = 2  # clients block for the whole Retry-After


class NoSuchFunction(NotFound):
    """A request names a function; Arco has none."""

    has_public_message = True


@dataclass(frozen=True)
class IcebergErrorType:
    """How one class of errors is sent."""

    error: type[BaseException]
    status: int
    type: str
    message: str | None = None  # the fixed sentence, where the error's own message is not sent


# What a client gets, also when a refusal is replayed under an idempotency key: `STORED_REFUSALS`
# (arco/iceberg/idempotency.py) only says how such a refusal is stored. The first class that matches wins.
ERROR_TYPES = (
    IcebergErrorType(KeyReused, 422, "UnprocessableEntityException"),
    IcebergErrorType(KeyExpired, 422, "UnprocessableEntityException"),
    IcebergErrorType(ContradictoryUpdate, 422, "UnprocessableEntityException"),
    IcebergErrorType(InvalidView, 400, "IllegalArgumentException"),
    IcebergErrorType(Invalid, 400, "BadRequestException"),
    IcebergErrorType(Unauthenticated, 401, "NotAuthorizedException"),
    IcebergErrorType(Denied, 403, "ForbiddenException", "this identity may not do that"),
    IcebergErrorType(NoSuchCatalog, 404, "NoSuchWarehouseException"),
    IcebergErrorType(NoSuchSchema, 404, "NoSuchNamespaceException"),
    IcebergErrorType(NoSuchTable, 404, "NoSuchTableException"),
    IcebergErrorType(NoSuchView, 404, "NoSuchViewException"),
    IcebergErrorType(NoSuchFunction, 404, "NoSuchFunctionException"),
    IcebergErrorType(NotFound, 404, "NotFoundException"),
    IcebergErrorType(AlreadyExists, 409, "AlreadyExistsException"),
    IcebergErrorType(NotEmpty, 409, "NamespaceNotEmptyException"),
    IcebergErrorType(Conflict, 409, "CommitFailedException"),
    IcebergErrorType(AttemptFenced, 403, FENCED),
    IcebergErrorType(
        Fenced, 503, "SlowDownException", "another process has taken over this work; retry"
    ),
    IcebergErrorType(
        InProgress,
        503,
        "SlowDownException",
        "another attempt of this request is under way; retry with the same key",
    ),
    # Not 503: engines would retry again and again.
    IcebergErrorType(
        StoreReadOnly,
        507,
        "InsufficientStorageException",
        "the disk of the store is read-only; nothing was changed",
    ),
    IcebergErrorType(
        StoreFull,
        507,
        "InsufficientStorageException",
        "no space is left on the disk of the store; nothing was changed",
    ),
    IcebergErrorType(DeniedMetadata, 403, "ForbiddenException"),
    IcebergErrorType(
        Unavailable,
        503,
        "SlowDownException",
        "something that this request needs does not answer; nothing was changed, retry",
    ),
    IcebergErrorType(Unknown, 500, UNKNOWN, "the request may or may not have taken effect"),
    IcebergErrorType(MissingMetadata, 404, "NotFoundException"),
)

# Types for refusals of the plumbing; clients know few of these types, and go by the status.
_HTTP_ERROR_TYPES = {
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
    """The error that is sent for `error`, which has ended `operation`."""
    if isinstance(error, HttpError):
        return ErrorModel(error.detail, _HTTP_ERROR_TYPES.get(error.status, INTERNAL), error.status)
    error_type = next((each for each in ERROR_TYPES if isinstance(error, each.error)), None)
    if error_type is None:
        name = UNKNOWN if operation in COMMITS else INTERNAL
        return ErrorModel("internal error; look up the x-request-id in the server's log", name, 500)
    message = error_type.message or _message(error) or "the request was refused"
    return ErrorModel(message, error_type.type, error_type.status)


def _message(error: BaseException) -> str:
    is_public = isinstance(error, ArcoError) and error.has_public_message
    return str(error) if is_public else presentable(error)


class IcebergErrorFormat:
    """The errors of the Iceberg REST catalog."""

    def format(self, error: BaseException, operation: str) -> FormattedError:
        model = error_of(error, operation)
        reply = Reply(model.code, json.encode(ErrorResponse(model)), headers=_headers(error, model))
        return FormattedError(reply, model.type, expected=isinstance(error, ArcoError | HttpError))


def _headers(error: BaseException, model: ErrorModel) -> dict[str, str]:
    if isinstance(error, DeniedMetadata):
        return {}  # an operator has to grant access first
    headers = dict(headers_of(error))
    if model.code == 503:
        # Without Retry-After a client does not retry a commit, and treats its outcome as unknown.
        wait_s = min(int(headers.get("Retry-After", "1")), _MAX_WAIT_S)
        headers["Retry-After"] = str(wait_s)
    return headers


ICEBERG_ERROR_FORMAT: ErrorFormat = IcebergErrorFormat()
