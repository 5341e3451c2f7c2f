from collections.abc import Iterator

import pytest

from arco.core import errors
from arco.core.errors import ArcoError

# The codes are API: clients branch on them. A line may be added here, never changed or taken away.
CODES = {
    "AlreadyExists": "already_exists",
    "ArcoError": "error",
    "AttemptFenced": "attempt_fenced",
    "BacklogTooLarge": "backlog_too_large",
    "Conflict": "conflict",
    "ContradictoryUpdate": "invalid",
    "Corrupt": "corrupt",
    "Denied": "denied",
    "DeniedMetadata": "unavailable",
    "Fenced": "fenced",
    "InProgress": "in_progress",
    "Invalid": "invalid",
    "InvalidView": "invalid",
    "KeyExpired": "idempotency_key_expired",
    "KeyReused": "idempotency_key_reused",
    "LocationTaken": "conflict",
    "MissingMetadata": "corrupt",
    "NoSuchCatalog": "not_found",
    "NoSuchSchema": "not_found",
    "NoSuchTable": "not_found",
    "NoSuchView": "not_found",
    "NotEmpty": "not_empty",
    "NotFound": "not_found",
    "PreconditionFailed": "precondition_failed",
    "StoreFull": "store_full",
    "StoreReadOnly": "store_read_only",
    "TakenOver": "taken_over",
    "TooManyQueries": "too_many_queries",
    "Unauthenticated": "unauthenticated",
    "Unavailable": "unavailable",
    "Unknown": "unknown_outcome",
    "UnreservedPath": "invalid",
    "Unsupported": "unsupported",
}


def tree(root: type[ArcoError]) -> Iterator[type[ArcoError]]:
    """The errors of every package; the client has additional ones."""
    yield root
    for child in root.__subclasses__():
        if child.__module__ == ArcoError.__module__:
            yield from tree(child)


def test_every_error_has_the_code_it_always_had() -> None:
    assert {kind.__name__: kind.code for kind in tree(ArcoError)} == CODES


def test_two_errors_share_a_code_only_if_one_is_the_parent_of_the_other() -> None:
    own = [kind.code for kind in tree(ArcoError) if "code" in vars(kind)]
    assert len(set(own)) == len(own)
    assert set(own) == set(CODES.values())
    for code, kind in errors.errors_by_code().items():
        assert "code" in vars(kind)
        assert kind.code == code
    assert errors.errors_by_code()["not_found"] is errors.NotFound


def test_the_tree_is_drawn_whole_at_the_top_of_its_module() -> None:
    drawn = errors.__doc__ or ""
    assert [name for name in CODES if name not in drawn] == []


def test_few_errors_are_subclasses_of_another() -> None:
    # A caller that catches Invalid must not catch an Unknown too.
    deep = [kind for kind in tree(ArcoError) if kind.__base__ not in (ArcoError, Exception)]
    assert {kind.__name__ for kind in deep} == {
        *(
            "AttemptFenced",
            "BacklogTooLarge",
            "ContradictoryUpdate",
            "DeniedMetadata",
            "InProgress",
            "InvalidView",
            "KeyExpired",
            "KeyReused",
            "LocationTaken",
            "MissingMetadata",
            "NoSuchCatalog",
            "NoSuchSchema",
            "NoSuchTable",
            "NoSuchView",
            "NotEmpty",
            "PreconditionFailed",
            "StoreFull",
            "StoreReadOnly",
            "TakenOver",
            "TooManyQueries",
            "Unauthenticated",
            "UnreservedPath",
        ),
    }


def test_unavailable_may_say_when_to_come_back() -> None:
    assert errors.Unavailable("busy").retry_after_ms is None
    with pytest.raises(errors.Unavailable) as raised:
        raise errors.Unavailable("busy", retry_after_ms=1_500)
    assert (raised.value.retry_after_ms, str(raised.value)) == (1_500, "busy")
