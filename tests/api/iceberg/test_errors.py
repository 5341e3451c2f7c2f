"""Errors in Iceberg's shape: every class of ours has its type, and none is a 4xx that may have happened."""

import json
from typing import Any

import pytest

from arco.access.authorization import ICEBERG_OPERATIONS, Operation
from arco.api.http.problem import HttpError
from arco.api.iceberg.errors import COMMITS, ERROR_TYPES, ICEBERG_ERROR_FORMAT
from arco.core import errors
from arco.core.errors import ArcoError
from arco.iceberg.errors import no_such_table

READ = Operation.ICEBERG_LOAD_TABLE
COMMIT = Operation.ICEBERG_UPDATE_TABLE
CREATE = Operation.ICEBERG_CREATE_TABLE

INTERNAL = (500, "InternalServerError")
TOLD = {
    "Invalid": (400, "BadRequestException"),
    "ContradictoryUpdate": (422, "UnprocessableEntityException"),
    "InvalidView": (400, "IllegalArgumentException"),
    "UnreservedPath": (400, "BadRequestException"),
    "KeyReused": (422, "UnprocessableEntityException"),
    "KeyExpired": (422, "UnprocessableEntityException"),
    "Unauthenticated": (401, "NotAuthorizedException"),
    "Denied": (403, "ForbiddenException"),
    "NotFound": (404, "NotFoundException"),
    "NoSuchCatalog": (404, "NoSuchWarehouseException"),
    "NoSuchSchema": (404, "NoSuchNamespaceException"),
    "NoSuchTable": (404, "NoSuchTableException"),
    "NoSuchView": (404, "NoSuchViewException"),
    "MissingMetadata": (404, "NotFoundException"),
    "DeniedMetadata": (403, "ForbiddenException"),
    "AlreadyExists": (409, "AlreadyExistsException"),
    "Conflict": (409, "CommitFailedException"),
    "LocationTaken": (409, "CommitFailedException"),
    "NotEmpty": (409, "NamespaceNotEmptyException"),
    "PreconditionFailed": (409, "CommitFailedException"),
    "AttemptFenced": (403, "AttemptFencedException"),
    "Fenced": (503, "SlowDownException"),
    "TakenOver": (503, "SlowDownException"),
    "Unavailable": (503, "SlowDownException"),
    "InProgress": (503, "SlowDownException"),
    "TooManyQueries": (503, "SlowDownException"),
    "BacklogTooLarge": (503, "SlowDownException"),
    "StoreFull": (507, "InsufficientStorageException"),
    "StoreReadOnly": (507, "InsufficientStorageException"),
    "Unknown": (500, "CommitStateUnknownException"),
    "Corrupt": INTERNAL,
    "Unsupported": INTERNAL,
}
ALL = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ArcoError) and kind is not ArcoError
]


def received(error: BaseException, operation: str = READ) -> dict[str, Any]:
    reply = ICEBERG_ERROR_FORMAT.format(error, operation).reply
    document = json.loads(reply.body)
    assert list(document) == ["error"]
    assert sorted(document["error"]) == ["code", "message", "type"]
    assert document["error"]["code"] == reply.status
    assert document["error"]["message"]
    assert reply.content_type == "application/json"
    error_model: dict[str, Any] = document["error"]
    return error_model


def headers(error: BaseException) -> dict[str, str]:
    return ICEBERG_ERROR_FORMAT.format(error, READ).reply.headers


@pytest.mark.parametrize("kind", ALL)
def test_every_error_has_its_status_and_its_type(kind: type[ArcoError]) -> None:
    error_message = received(kind("a reason"))
    assert (error_message["code"], error_message["type"]) == TOLD[kind.__name__]


@pytest.mark.parametrize("kind", ALL)
def test_a_new_subclass_is_sent_like_its_parent(kind: type[ArcoError]) -> None:
    newer = type("Newer", (kind,), {"code": "newer"})
    error_message = received(newer("a reason"))
    assert (error_message["code"], error_message["type"]) == TOLD[kind.__name__]


def test_a_subclass_stands_above_its_parent_in_the_table() -> None:
    for place, kind in enumerate(ERROR_TYPES):
        for later in ERROR_TYPES[place + 1 :]:
            assert not issubclass(later.error, kind.error), f"{later.error} is never reached"


@pytest.mark.parametrize("operation", sorted(COMMITS))
@pytest.mark.parametrize(
    "error",
    [
        errors.Unknown("it is not known"),
        errors.Corrupt("stored bytes contradict each other"),
        errors.Unsupported("no"),
        RuntimeError("a slip"),
        KeyError("x"),
    ],
)
def test_a_commit_with_an_unknown_outcome_says_so(operation: str, error: Exception) -> None:
    error_message = received(error, operation)
    assert (error_message["code"], error_message["type"]) == (500, "CommitStateUnknownException")


def test_what_commits_is_what_changes_tables_or_views_that_are_there() -> None:
    assert {"iceberg_update_table", "iceberg_commit_transaction", "iceberg_replace_view"} == COMMITS
    assert COMMITS <= ICEBERG_OPERATIONS


@pytest.mark.parametrize("operation", [READ, CREATE, "none"])
def test_a_slip_elsewhere_is_an_internal_error(operation: str) -> None:
    error_message = received(ValueError("/srv/lake/secret"), operation)
    assert (error_message["code"], error_message["type"]) == INTERNAL
    assert "secret" not in error_message["message"]
    assert not ICEBERG_ERROR_FORMAT.format(ValueError("x"), operation).expected


def test_a_refusal_of_iceberg_is_sent_word_for_word() -> None:
    error_message = received(no_such_table(("db", "raw"), "orders"))
    assert error_message == {
        "message": "Table does not exist: db.raw.orders",
        "type": "NoSuchTableException",
        "code": 404,
    }
    assert ICEBERG_ERROR_FORMAT.format(errors.Conflict("y"), COMMIT).expected


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "BadRequestException"),
        (403, "ForbiddenException"),
        (404, "NotFoundException"),
        (405, "MethodNotAllowedException"),
        (408, "RequestTimeoutException"),
        (413, "ContentTooLargeException"),
        (414, "UriTooLongException"),
        (415, "UnsupportedMediaTypeException"),
        (503, "SlowDownException"),
    ],
)
def test_a_refusal_of_http_keeps_its_status_and_headers(status: int, kind: str) -> None:
    refusal = HttpError(status, "some_code", "some words", headers={"Connection": "close"})
    error_message = received(refusal)
    assert (error_message["code"], error_message["type"], error_message["message"]) == (
        status,
        kind,
        "some words",
    )
    assert headers(refusal)["Connection"] == "close"


@pytest.mark.parametrize(
    ("error", "wait"),
    [
        (errors.Unavailable("x"), "1"),
        (errors.Unavailable("x", retry_after_ms=300), "1"),
        (errors.InProgress("x", retry_after_ms=1_400), "2"),
        (errors.InProgress("x", retry_after_ms=64_000), "2"),
        (errors.Fenced("x"), "1"),
        (HttpError(503, "too_busy", "x", headers={"Retry-After": "1"}), "1"),
    ],
)
def test_whatever_can_be_retried_says_when_and_that_is_soon(error: Exception, wait: str) -> None:
    assert headers(error)["Retry-After"] == wait


def test_nothing_else_says_when_to_retry() -> None:
    for error in (
        errors.Unknown("x"),
        errors.Conflict("x"),
        errors.NotFound("x"),
        errors.DeniedMetadata("x"),
        ValueError(),
    ):
        assert "Retry-After" not in headers(error)
    assert "Bearer" in headers(errors.Unauthenticated("x"))["WWW-Authenticate"]


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    "words",
    [
        "manifests/catalog/00000000000000000017.json is missing",
        "lost /srv/lake/tenant=a/workspace=b/commits/catalog/1.json",
        "there is no object at tenant=default/workspace=default/x",
    ],
)
def test_no_error_shows_a_path_of_the_store(kind: type[ArcoError], words: str) -> None:
    for operation in (READ, COMMIT):
        message = received(kind(words), operation)["message"]
        if kind.has_public_message:  # it names locations that the caller knows
            assert message == words
            continue
        for secret in ("tenant=", "manifests/", "commits/", "/srv"):
            assert secret not in message


def test_what_is_about_the_request_keeps_its_words() -> None:
    assert received(errors.Invalid("unknown update 'x'"))["message"] == "unknown update 'x'"
