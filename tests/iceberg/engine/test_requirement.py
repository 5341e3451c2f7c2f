import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import Conflict, Invalid
from arco.core.json import Json
from arco.iceberg.engine.requirement import check_requirements, is_create, was_applied
from tests.iceberg.engine.sample_metadata import OTHER_UUID, UUID, append, apply, point, table

TABLE = apply(append(table(), 5, 6), point(5, "audit"), point(6, "v1", "tag"))


def require(kind: str, **members: Json) -> dict[str, Json]:
    return {"type": kind, **{key.replace("_", "-"): value for key, value in members.items()}}


HOLD: list[dict[str, Json]] = [
    require("assert-table-uuid", uuid=UUID),
    require("assert-table-uuid", uuid=UUID.upper()),
    require("assert-ref-snapshot-id", ref="main", snapshot_id=6),
    require("assert-ref-snapshot-id", ref="v1", snapshot_id=6),
    require("assert-ref-snapshot-id", ref="none", snapshot_id=None),
    require("assert-ref-snapshot-id", ref="none"),
    require("assert-last-assigned-field-id", last_assigned_field_id=3),
    require("assert-current-schema-id", current_schema_id=0),
    require("assert-last-assigned-partition-id", last_assigned_partition_id=999),
    require("assert-default-spec-id", default_spec_id=0),
    require("assert-default-sort-order-id", default_sort_order_id=0),
]


@pytest.mark.parametrize("requirement", HOLD)
def test_a_requirement_that_holds_says_nothing(requirement: Json) -> None:
    check_requirements(TABLE, [requirement])


@pytest.mark.parametrize(
    ("requirement", "sentence"),
    [
        (require("assert-create"), "table already exists"),
        (
            require("assert-table-uuid", uuid=OTHER_UUID),
            f"UUID does not match: expected {UUID} != {OTHER_UUID}",
        ),
        (
            require("assert-ref-snapshot-id", ref="main", snapshot_id=5),
            "branch main has changed: expected id 5 != 6",
        ),
        (
            require("assert-ref-snapshot-id", ref="v1", snapshot_id=5),
            "tag v1 has changed: expected id 5 != 6",
        ),
        (
            require("assert-ref-snapshot-id", ref="audit", snapshot_id=None),
            "branch audit was created concurrently",
        ),
        (require("assert-ref-snapshot-id", ref="v1"), "tag v1 was created concurrently"),
        (
            require("assert-ref-snapshot-id", ref="gone", snapshot_id=7),
            "branch or tag gone is missing, expected 7",
        ),
        (
            require("assert-last-assigned-field-id", last_assigned_field_id=2),
            "last assigned field id changed: expected id 2 != 3",
        ),
        (
            require("assert-current-schema-id", current_schema_id=1),
            "current schema changed: expected id 1 != 0",
        ),
        (
            require("assert-last-assigned-partition-id", last_assigned_partition_id=1000),
            "last assigned partition id changed: expected id 1000 != 999",
        ),
        (
            require("assert-default-spec-id", default_spec_id=1),
            "default partition spec changed: expected id 1 != 0",
        ),
        (
            require("assert-default-sort-order-id", default_sort_order_id=1),
            "default sort order changed: expected id 1 != 0",
        ),
    ],
)
def test_a_requirement_that_fails_is_a_conflict_in_the_words_that_clients_know(
    requirement: Json, sentence: str
) -> None:
    with pytest.raises(Conflict) as refusal:
        check_requirements(TABLE, [*HOLD, requirement])
    assert str(refusal.value) == f"Requirement failed: {sentence}"


def test_where_there_is_no_table_only_assert_create_holds() -> None:
    check_requirements(None, [require("assert-create")])
    check_requirements(None, [])
    with pytest.raises(Conflict, match="table does not exist"):
        check_requirements(None, [HOLD[0]])


def test_a_commit_is_a_create_only_if_it_requires_nothing_else() -> None:
    assert is_create([require("assert-create")])
    assert is_create([require("assert-create"), require("assert-create")])
    assert not is_create(HOLD)
    assert not is_create([])
    with pytest.raises(Invalid, match="Invalid create requirements: assert-table-uuid"):
        is_create([require("assert-create"), HOLD[0], HOLD[1]])


def test_all_unknown_requirements_are_named_at_once() -> None:
    unknown = [require("assert-zeal"), HOLD[0], require("assert-view-uuid"), require("assert-zeal")]
    for call in (lambda: check_requirements(TABLE, unknown), lambda: is_create(unknown)):
        with pytest.raises(
            Invalid, match=r"unknown requirements of a table: assert-view-uuid, assert-zeal$"
        ):
            call()


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)


@given(st.sampled_from(HOLD), st.data())
def test_a_requirement_of_the_wrong_shape_is_invalid_and_never_a_crash(
    good: dict[str, Json], data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(good)))
    bad: Json = data.draw(
        st.one_of(
            JUNK,
            JUNK.map(lambda value: {**good, key: value}),
            st.just({name: value for name, value in good.items() if name != key}),
        )
    )
    for call in (lambda: check_requirements(TABLE, [bad]), lambda: is_create([bad])):
        try:
            call()
        except (Invalid, Conflict) as refusal:
            assert str(refusal)


ADDED: dict[str, Json] = {"snapshot-id": 7, "manifest-list": "file:///t/metadata/snap-7.avro"}
OTHER: dict[str, Json] = {"snapshot-id": 8, "manifest-list": "file:///t/metadata/snap-8.avro"}


def adding(*snapshots: Json) -> list[dict[str, Json]]:
    return [{"action": "add-snapshot", "snapshot": each} for each in snapshots]


def test_a_table_that_holds_the_very_snapshots_has_taken_the_request() -> None:
    assert was_applied({"snapshots": [OTHER, ADDED]}, adding(ADDED))
    assert was_applied({"snapshots": [OTHER, ADDED]}, adding(ADDED, OTHER))


@pytest.mark.parametrize(
    "updates",
    [
        [],
        [{"action": "set-properties", "updates": {"a": "b"}}],
        adding(ADDED, OTHER),
        adding({**ADDED, "manifest-list": "file:///t/metadata/another.avro"}),
        adding({"snapshot-id": 7}),
        adding(None),
    ],
)
def test_what_adds_nothing_or_something_else_was_not_applied(
    updates: list[dict[str, Json]],
) -> None:
    assert not was_applied({"snapshots": [ADDED]}, updates)


def test_a_table_without_snapshots_has_taken_nothing() -> None:
    assert not was_applied({}, adding(ADDED))
