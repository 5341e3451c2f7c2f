"""Refusals that are stored under a key: later versions answer them as the version that stored them did."""

import json

import msgspec
import pytest

from arco.api.http.problem import problem_of
from arco.api.iceberg.errors import error_of
from arco.core import errors
from arco.core.errors import ArcoError, Corrupt, Fenced, Unavailable, Unknown
from arco.iceberg.idempotency import (
    STORED_REFUSALS,
    StoredRefusal,
    error_answer,
    read_refusal,
    read_result,
    success_answer,
    table_answer,
)
from arco.ledger.claim import Answer, ClaimOutcome

STORED_IN = "the manifest list s3://lake/tenant=a/workspace=b/warehouse/t is in no location"

# Stored type, which a client receives too; stored status; message; the status that a client receives.
STORED = [
    ("NoSuchNamespaceException", 404, "Namespace does not exist: s", 404),
    ("NoSuchTableException", 404, "Table does not exist: s.t", 404),
    ("NoSuchTableException", 404, "cannot undrop: the table was purged, or never existed", 404),
    ("NoSuchViewException", 404, "View does not exist: s.v", 404),
    ("NoSuchWarehouseException", 404, "Warehouse does not exist: w", 404),
    ("NotFoundException", 404, "there is no snapshot 7", 404),
    ("AlreadyExistsException", 409, "Table already exists: s.t", 409),
    ("NamespaceNotEmptyException", 409, "Namespace s is not empty.", 409),
    ("CommitFailedException", 409, "Requirement failed: table already exists", 409),
    ("AttemptFencedException", 409, "another attempt owns the partition", 403),
    ("UnprocessableEntityException", 422, "cannot also set and remove properties", 422),
    ("IllegalArgumentException", 400, "a view needs a version", 400),
    ("BadRequestException", 400, "unknown update 'x'", 400),
    ("BadRequestException", 400, STORED_IN, 400),
]


def stored(kind: str, status: int, message: str) -> Answer:
    """An answer as it lies in the store, decoded from the entry of a key."""
    entry = {
        "kind": "outcome",
        "request_sha256": "0",
        "answer": {
            "status": status,
            "body": {"type": kind, "message": message},
            "headers": {},
            "has_landed": True,
        },
    }
    return msgspec.json.decode(json.dumps(entry), type=ClaimOutcome).answer


def refusal_in(answer: Answer) -> ArcoError:
    refusal = read_refusal(answer)
    assert refusal is not None
    return refusal


@pytest.mark.parametrize(("kind", "status", "message", "sent"), STORED)
def test_a_stored_refusal_is_answered_as_it_always_was(
    kind: str, status: int, message: str, sent: int
) -> None:
    answer = stored(kind, status, message)
    with pytest.raises(ArcoError) as raised:
        read_result(answer)
    model = error_of(raised.value, "none")
    assert (model.code, model.type, model.message) == (sent, kind, message)
    stored_answer = error_answer(raised.value)
    assert (stored_answer.status, bytes(stored_answer.body)) == (
        status,
        json.dumps({"type": kind, "message": message}, separators=(",", ":")).encode(),
    )


def test_a_stale_version_is_stored_for_the_native_api() -> None:
    refusal = refusal_in(stored("PreconditionFailedException", 412, "it has changed"))
    assert type(refusal) is errors.PreconditionFailed
    assert problem_of(refusal).status == 412
    assert error_answer(refusal).status == 412


@pytest.mark.parametrize("stored_refusal", STORED_REFUSALS, ids=lambda each: each.error.__name__)
def test_each_class_that_is_stored_is_read_again(stored_refusal: StoredRefusal) -> None:
    answer = error_answer(stored_refusal.error("a reason"))
    assert (answer.status, json.loads(bytes(answer.body))) == (
        stored_refusal.status,
        {"type": stored_refusal.type, "message": "a reason"},
    )
    refusal = refusal_in(answer)
    assert (type(refusal), str(refusal)) == (stored_refusal.error, "a reason")


def test_a_subclass_stands_above_its_parent_in_the_table() -> None:
    for index, earlier in enumerate(STORED_REFUSALS):
        for later in STORED_REFUSALS[index + 1 :]:
            assert not issubclass(later.error, earlier.error), f"{later.error} is never stored"


@pytest.mark.parametrize(
    ("status", "nearest"),
    [
        (400, errors.Invalid),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (412, errors.PreconditionFailed),
        (422, errors.Invalid),
    ],
)
def test_a_type_of_a_newer_version_is_the_nearest_class(
    status: int, nearest: type[ArcoError]
) -> None:
    refusal = refusal_in(stored("NewerException", status, "a reason"))
    assert (type(refusal), str(refusal)) == (nearest, "a reason")


@pytest.mark.parametrize(
    "problem",
    [
        Unavailable("x"),
        Unknown("x"),
        Fenced("x"),
        Corrupt("x"),
        errors.Denied("x"),
        errors.MissingMetadata("x"),
        errors.DeniedMetadata("x"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_is_no_outcome_of_the_request_is_raised_and_not_stored(problem: ArcoError) -> None:
    with pytest.raises(type(problem)) as raised:
        error_answer(problem)
    assert raised.value is problem


def test_a_success_is_read_as_its_result() -> None:
    assert read_result(success_answer(read_result(table_answer("t")))).table_id == "t"
