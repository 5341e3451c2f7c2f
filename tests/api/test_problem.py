"""Errors on the wire: every error class has a problem type, and no message shows the store."""

import pytest
from msgspec import UNSET

from arco.api.http.problem import PROBLEM_TYPES, HttpError, headers_of, loggable, problem_of
from arco.core import errors
from arco.core.errors import ArcoError

STATUSES = {
    "Invalid": 400,
    "ContradictoryUpdate": 400,
    "InvalidView": 400,
    "UnreservedPath": 400,
    "KeyReused": 422,
    "KeyExpired": 409,
    "Unauthenticated": 401,
    "Denied": 403,
    "NotFound": 404,
    "NoSuchCatalog": 404,
    "NoSuchSchema": 404,
    "NoSuchTable": 404,
    "NoSuchView": 404,
    "AlreadyExists": 409,
    "Conflict": 409,
    "LocationTaken": 409,
    "NotEmpty": 409,
    "PreconditionFailed": 412,
    "AttemptFenced": 409,
    "Fenced": 503,
    "TakenOver": 503,
    "Unavailable": 503,
    "DeniedMetadata": 503,
    "InProgress": 503,
    "StoreFull": 507,
    "StoreReadOnly": 507,
    "TooManyQueries": 429,
    "BacklogTooLarge": 503,
    "Unknown": 504,
    "Corrupt": 500,
    "MissingMetadata": 500,
    "Unsupported": 501,
}

ALL = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ArcoError) and kind is not ArcoError
]


@pytest.mark.parametrize("kind", ALL)
def test_every_error_has_its_status_and_its_own_code(kind: type[ArcoError]) -> None:
    problem = problem_of(kind("a reason"))
    assert (problem.status, problem.code) == (STATUSES[kind.__name__], kind.code)
    assert problem.type == f"urn:arco:problem:{kind.code}"
    assert problem.title
    assert problem.detail


@pytest.mark.parametrize("kind", ALL)
def test_a_new_subclass_is_sent_like_its_parent(kind: type[ArcoError]) -> None:
    newer = type("Newer", (kind,), {"code": "newer"})
    problem = problem_of(newer("a reason"))
    assert (problem.status, problem.code) == (STATUSES[kind.__name__], "newer")


def test_a_subclass_stands_above_its_parent_in_the_table() -> None:
    for place, kind in enumerate(PROBLEM_TYPES):
        for later in PROBLEM_TYPES[place + 1 :]:
            assert not issubclass(later.error, kind.error), f"{later.error} is never reached"


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    "words",
    [
        "manifests/catalog/00000000000000000017.json is missing",
        "lost /srv/lake/tenant=a/workspace=b/commits/catalog/1.json",
        "'ledger/catalog/x' exists",
        "there is no object at tenant=default/workspace=default/x",
    ],
)
def test_no_error_shows_a_path_of_the_store(kind: type[ArcoError], words: str) -> None:
    document = problem_of(kind(words)).detail
    for secret in ("tenant=", "manifests/", "commits/", "ledger/", "/srv"):
        assert secret not in document


def test_what_is_about_the_request_keeps_its_words() -> None:
    assert (
        problem_of(errors.Invalid("position is 0 to 3, not 4")).detail
        == "position is 0 to 3, not 4"
    )
    assert (
        problem_of(errors.NotFound("there is no table 'state'")).detail
        == "there is no table 'state'"
    )


def test_an_unexpected_error_reveals_nothing() -> None:
    problem = problem_of(ValueError("/srv/lake/secret"))
    assert (problem.status, problem.code) == (500, "internal")
    assert "secret" not in problem.detail


def test_a_next_step_that_says_nothing_is_left_out() -> None:
    for kind in (errors.Invalid, errors.InvalidView, errors.ContradictoryUpdate):
        assert problem_of(kind("page_size is 1 to 1,000, not 0")).next_step is UNSET
    assert problem_of(errors.KeyReused("the key is taken")).next_step
    advised = errors.Invalid("the body is compressed")
    advised.add_note("Send it as it is.")
    assert problem_of(advised).next_step == "Send it as it is."


def test_notes_on_an_error_are_its_next_step() -> None:
    error = errors.Conflict("what it lies in was dropped")
    assert problem_of(error).next_step == "Read again, then retry."
    error.add_note("Undrop that first.")
    error.add_note("Then try again.")
    assert problem_of(error).next_step == "Undrop that first. Then try again."
    error.add_note("It is at manifests/catalog/1.json.")
    assert problem_of(error).next_step == "Read again, then retry."


@pytest.mark.parametrize(
    "words",
    [
        "commits/catalog/1.json is missing",
        "lost /srv/lake",
        "'/srv/lake'",
        "http://store.example/x does not answer",
        "Authorization: Bearer abc",
        "X-Amz-Signature=abc",
    ],
)
def test_words_that_name_a_path_an_address_or_a_secret_are_not_logged(words: str) -> None:
    assert loggable(errors.Unavailable(words)) == ""


def test_words_without_any_are_logged() -> None:
    message = "the compactor cannot fold this change; is it older?"
    assert loggable(errors.Unavailable(message)) == message


def test_headers_say_when_to_come_back_and_how_to_prove_oneself() -> None:
    assert headers_of(errors.Unavailable("x", retry_after_ms=2_400)) == {"Retry-After": "3"}
    assert headers_of(errors.Unavailable("x")) == {"Retry-After": "1"}
    assert headers_of(errors.Fenced("x")) == {"Retry-After": "1"}
    assert "Bearer" in headers_of(errors.Unauthenticated("x"))["WWW-Authenticate"]
    assert headers_of(HttpError(405, "x", "x", headers={"Allow": "GET"})) == {"Allow": "GET"}
