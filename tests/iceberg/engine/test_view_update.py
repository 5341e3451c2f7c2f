import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import Conflict, Invalid
from arco.core.json import Json
from arco.iceberg.engine.metadata import Metadata
from arco.iceberg.engine.shape import Object
from arco.iceberg.engine.view_metadata import check_view
from arco.iceberg.engine.view_update import apply_view_updates, check_view_requirements
from tests.iceberg.engine.test_columns import JSON, field, schema, with_holes
from tests.iceberg.engine.test_view_metadata import LOCATION, SCHEMA, UUID, sql, version, view

OTHER = schema(field(1, "some_id", "int"))
FREE = {"replace.drop-dialect.allowed": "true"}


def applied(base: Metadata | None, *updates: Json, now_ms: int = 9_000) -> Metadata:
    before = copy.deepcopy(base)
    after = apply_view_updates(base, updates, now_ms=now_ms)
    assert base == before, "the base was changed in place"
    assert check_view(after) is after
    return after


def add_schema(schema: Json) -> Object:
    return {"action": "add-schema", "schema": schema, "last-column-id": 2}


def add_version(view_version: Json) -> Object:
    return {"action": "add-view-version", "view-version": view_version}


def set_current(number: Json) -> Object:
    return {"action": "set-current-view-version", "view-version-id": number}


def replace(view_version: Json) -> tuple[Object, Object]:
    return add_version(view_version), set_current(-1)


def numbers(metadata: Metadata) -> list[Json]:
    versions = metadata["versions"]
    assert isinstance(versions, list)
    return [each["version-id"] for each in versions if isinstance(each, dict)]


def logged(metadata: Metadata) -> list[Json]:
    log = metadata["version-log"]
    assert isinstance(log, list)
    return [each["version-id"] for each in log if isinstance(each, dict)]


def test_a_new_version_with_a_new_schema_becomes_the_current_one() -> None:
    base: Metadata = {**view(), "x-own": {"kept": True}}
    metadata = applied(
        base,
        add_schema({**OTHER, "schema-id": 9}),
        *replace(version(sql("select 2"), number=2, schema_id=-1, more={"timestamp-ms": 7_000})),
    )
    assert metadata == {
        **base,
        "schemas": [SCHEMA, {**OTHER, "schema-id": 1}],
        "current-version-id": 2,
        "versions": [
            version(more={"timestamp-ms": 5_000}),
            version(sql("select 2"), number=2, schema_id=1, more={"timestamp-ms": 7_000}),
        ],
        "version-log": [
            {"timestamp-ms": 5_000, "version-id": 1},
            {"timestamp-ms": 7_000, "version-id": 2},
        ],
    }


def test_a_version_whose_number_is_taken_gets_the_next_one() -> None:
    metadata = applied(view(properties=FREE), *replace(version(sql("select 2"), number=2)))
    later_metadata = applied(metadata, *replace(version(sql("select 3", "trino"), number=2)))
    assert numbers(later_metadata) == [1, 2, 3]
    assert later_metadata["current-version-id"] == 3
    far = applied(later_metadata, *replace(version(sql("select 4", "trino"), number=40)))
    assert numbers(far) == [1, 2, 3, 40]


def test_a_version_that_is_there_already_is_used_again_and_counts_from_now() -> None:
    second = applied(view(), *replace(version(sql("select 2"), number=2)))
    back = applied(second, *replace(version(number=3, more={"timestamp-ms": 8_000})), now_ms=8_500)
    assert numbers(back) == [1, 2]
    assert back["version-log"] == [
        {"timestamp-ms": 5_000, "version-id": 1},
        {"timestamp-ms": 1_000, "version-id": 2},
        {"timestamp-ms": 8_500, "version-id": 1},
    ]


def test_the_same_change_by_two_clients_succeeds_twice_and_is_made_once() -> None:
    change = (add_schema(OTHER), *replace(version(sql("select 2"), number=2, schema_id=-1)))
    once = applied(view(), *change)
    assert applied(once, *change) is once


def test_a_schema_that_says_the_same_is_used_again() -> None:
    base = view()
    spelt = copy.deepcopy(SCHEMA)
    spelt["schema-id"] = 5
    spelt["identifier-field-ids"] = []
    assert applied(base, add_schema(spelt)) is base
    decimals = [schema(field(1, "d", kind, doc=None)) for kind in ("decimal(9,2)", "decimal(9, 2)")]
    metadata = applied(base, *map(add_schema, decimals))
    assert isinstance(metadata["schemas"], list)
    assert len(metadata["schemas"]) == 2
    identified = {**schema({**field(1, "id", "long"), "required": True})}
    other: Object = {**identified, "identifier-field-ids": [1]}
    metadata = applied(base, add_schema(identified), add_schema(other))
    assert isinstance(metadata["schemas"], list)
    assert len(metadata["schemas"]) == 3


def test_only_the_last_of_several_current_versions_is_logged() -> None:
    metadata = applied(
        view(),
        *replace(version(sql("select 2"), number=2)),
        *replace(version(sql("select 3"), number=3)),
    )
    assert logged(metadata) == [1, 3]
    assert metadata["current-version-id"] == 3


def test_properties_are_merged_and_those_that_are_not_there_are_gone_already() -> None:
    base = view(properties={"a": "1", "b": "2"})
    metadata = applied(
        base,
        {"action": "set-properties", "updates": {"b": "3", "c": "4"}},
        {"action": "remove-properties", "removals": ["a", "missing"]},
    )
    assert metadata == {**base, "properties": {"b": "3", "c": "4"}}
    older = applied(
        base,
        {"action": "set-properties", "updated": {"b": "3"}},
        {"action": "remove-properties", "removed": ["a"]},
    )
    assert older["properties"] == {"b": "3"}


def test_the_location_can_be_set() -> None:
    metadata = applied(view(), {"action": "set-location", "location": "s3://elsewhere/v"})
    assert metadata["location"] == "s3://elsewhere/v"


@pytest.mark.parametrize(
    "updates",
    [
        [],
        [{"action": "assign-uuid", "uuid": UUID}],
        [{"action": "upgrade-format-version", "format-version": 1}],
        [{"action": "set-location", "location": LOCATION}],
        [{"action": "set-properties", "updates": {}}],
        [{"action": "set-properties", "updates": {"a": "1"}}],
        [{"action": "remove-properties", "removals": ["missing"]}],
        [add_schema(SCHEMA)],
        [*replace(version(number=2))],
        [set_current(1)],
    ],
)
def test_what_changes_nothing_gives_back_the_base_itself(updates: list[Json]) -> None:
    base = view(properties={"a": "1"})
    assert applied(base, *updates) is base


def test_a_view_can_be_made_of_updates_alone() -> None:
    metadata = applied(
        None,
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "set-location", "location": LOCATION},
        add_schema(SCHEMA),
        *replace(version(schema_id=-1, more={"timestamp-ms": 5_000})),
    )
    assert metadata == view()
    assign_uuid: Object = {"action": "assign-uuid", "uuid": UUID}
    placed: Object = {"action": "set-location", "location": LOCATION}
    for missing in (
        [],
        [assign_uuid],
        [placed],
        [assign_uuid, placed],
        [assign_uuid, placed, add_schema(SCHEMA)],
    ):
        with pytest.raises(Invalid):
            apply_view_updates(None, missing, now_ms=1)


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        ({"action": "assign-uuid", "uuid": "other"}, "Cannot reassign uuid"),
        ({"action": "assign-uuid"}, "lacks uuid"),
        (
            {"action": "upgrade-format-version", "format-version": 2},
            "Unsupported format version: 2",
        ),
        (
            {"action": "upgrade-format-version", "format-version": 0},
            "Cannot downgrade v1 view to v0",
        ),
        ({"action": "upgrade-format-version", "format-version": True}, "whole number"),
        ({"action": "set-location", "location": ""}, "empty"),
        ({"action": "set-properties", "updates": {"a": 1}}, "must be a string"),
        ({"action": "set-properties", "updates": {"ARCO.x": "1"}}, "reserved"),
        ({"action": "remove-properties", "removals": ["arco.x"]}, "reserved"),
        ({"action": "remove-properties", "removals": [1]}, "must be a string"),
        ({"action": "add-schema"}, "must be an object, not null"),
        (add_version(None), "must be an object, not null"),
        (add_version(version(schema_id=7)), "Cannot add version with unknown schema: 7"),
        (add_version(version(schema_id=-1)), "no schema has been added"),
        (add_version(version(number=-1)), "negative"),
        (
            add_version(version(sql("a", "trino"), sql("b", "Trino"), number=2)),
            "^Invalid view version: Cannot add multiple queries for dialect trino$",
        ),
        (set_current(-1), "no last added version"),
        (set_current(4), "Cannot set current version to unknown version: 4"),
        (set_current("1"), "whole number"),
        ({"action": "add-snapshot"}, "Cannot apply the update 'add-snapshot' to a view"),
        ({"action": None}, "must be a string"),
        ({}, "lacks action"),
        ("assign-uuid", "an update must be an object"),
    ],
)
def test_an_update_that_cannot_be_applied_is_refused(update: Json, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        applied(view(), update)


def test_an_engine_cannot_lose_its_query_unless_the_view_allows_it() -> None:
    base = view(version(sql("select 1"), sql("select 1", "Trino")))
    fewer = replace(version(sql("select 2", "SPARK"), number=2))
    with pytest.raises(Invalid, match="no query for trino, which the current one has"):
        applied(base, *fewer)
    both = version(sql("select 2"), sql("select 2", "trino"), number=2)
    assert applied(base, *replace(both))["current-version-id"] == 2
    allow: Object = {"action": "set-properties", "updates": {**FREE}}
    assert applied(base, allow, *fewer)["current-version-id"] == 2
    assert (
        applied(base, add_version(version(sql("a", "flink"), number=2)))["current-version-id"] == 1
    )


def replaced(base: Metadata, count: int, first: int = 2) -> Metadata:
    for number in range(first, first + count):
        base = applied(base, *replace(version(sql(f"select {number}"), number=number)))
    return base


def test_the_ten_latest_versions_are_kept_by_default() -> None:
    metadata = replaced(view(), 12)
    assert numbers(metadata) == logged(metadata) == list(range(4, 14))


def test_as_many_versions_are_kept_as_the_view_asks_for() -> None:
    keep = {"version.history.num-entries": "2"}
    metadata = replaced(view(properties=keep), 3)
    assert numbers(metadata) == logged(metadata) == [3, 4]
    assert numbers(applied(metadata, set_current(3))) == [3, 4]


def test_the_current_version_and_those_just_added_never_expire() -> None:
    keep = {"version.history.num-entries": "1"}
    base = replaced(view(), 2)
    metadata = applied(base, {"action": "set-properties", "updates": {**keep}}, set_current(1))
    assert numbers(metadata) == [1]
    assert logged(metadata) == [1]
    more = [add_version(version(sql(f"select {n}"), number=n)) for n in (10, 11)]
    metadata = applied(base, {"action": "set-properties", "updates": {**keep}}, *more)
    assert numbers(metadata) == [3, 10, 11]
    assert logged(metadata) == [3]


def test_the_log_forgets_everything_before_a_version_that_is_gone() -> None:
    base = replaced(view(), 1)
    base = applied(base, set_current(1))
    base = applied(base, *replace(version(sql("select 3"), number=3)))
    assert logged(base) == [1, 2, 1, 3]
    base = applied(base, set_current(1))
    keep = {"version.history.num-entries": "2"}
    metadata = applied(base, {"action": "set-properties", "updates": {**keep}})
    assert numbers(metadata) == [1, 3]
    assert logged(metadata) == [1, 3, 1]


@pytest.mark.parametrize("entries", ["0", "-1", "many", "", "1" * 20])
def test_a_history_has_a_length_that_is_a_number(entries: str) -> None:
    update: Object = {
        "action": "set-properties",
        "updates": {"version.history.num-entries": entries},
    }
    with pytest.raises(Invalid, match="num-entries must be positive but was"):
        applied(view(), update)


def test_a_view_whose_numbers_are_used_up_takes_no_more_versions() -> None:
    last_id = 2**31 - 1
    base = applied(view(), *replace(version(sql("select 2"), number=last_id)))
    with pytest.raises(Invalid, match="no number left"):
        applied(base, *replace(version(sql("select 3"), number=1)))


def test_the_requirements_of_a_view() -> None:
    base = view()
    check_view_requirements(base, [])
    check_view_requirements(base, [{"type": "assert-view-uuid", "uuid": UUID.upper()}])
    check_view_requirements(None, [{"type": "assert-create"}])
    with pytest.raises(Conflict) as problem:
        check_view_requirements(base, [{"type": "assert-view-uuid", "uuid": "other"}])
    assert str(problem.value) == (
        f"Requirement failed: view UUID does not match: expected {UUID} != other"
    )
    with pytest.raises(Conflict, match="Requirement failed: view already exists"):
        check_view_requirements(base, [{"type": "assert-create"}])
    with pytest.raises(Conflict, match="Requirement failed: view does not exist"):
        check_view_requirements(None, [{"type": "assert-view-uuid", "uuid": UUID}])


@pytest.mark.parametrize(
    "requirement",
    [
        {"type": "assert-table-uuid", "uuid": UUID},
        {"type": "assert-view-uuid"},
        {"type": 1},
        {},
        "assert-create",
        None,
    ],
)
def test_a_requirement_that_is_none_of_a_view_is_refused(requirement: Json) -> None:
    with pytest.raises(Invalid):
        check_view_requirements(view(), [requirement])


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    deep: Json = []
    for _ in range(100_000):
        deep = [deep]
    base = applied(view(), *replace(version(sql("select 2"), number=2, more={"x": [[]]})))
    with pytest.raises(Invalid, match="nested too deeply"):
        apply_view_updates(base, [add_schema({**OTHER, "x": deep})], now_ms=1)


UPDATES: list[Json] = [
    {"action": "assign-uuid", "uuid": UUID},
    {"action": "upgrade-format-version", "format-version": 1},
    {"action": "set-location", "location": "s3://b/v"},
    {"action": "set-properties", "updates": {"version.history.num-entries": "3"}},
    {"action": "remove-properties", "removals": ["version.history.num-entries"]},
    add_schema(SCHEMA),
    add_schema(OTHER),
    *(add_version(version(sql(f"select {n}"), number=n, schema_id=n % 3 - 1)) for n in range(6)),
    *(set_current(number) for number in (-1, 1, 2, 3)),
]


@given(st.lists(st.lists(st.sampled_from(UPDATES), max_size=6), max_size=6))
def test_a_view_stays_whole_whatever_is_applied_to_it(commits: list[list[Json]]) -> None:
    current = view()
    for number, updates in enumerate(commits):
        try:
            after = applied(current, *updates, now_ms=number)
        except Invalid:
            continue
        assert applied(after, now_ms=number) is after
        assert after["current-version-id"] in numbers(after)
        assert set(logged(after)) <= set(numbers(after))
        assert logged(after)[-1] == after["current-version-id"]
        current = after


@given(
    st.one_of(st.just(view()), with_holes(view())),
    st.lists(st.sampled_from(UPDATES).flatmap(with_holes) | JSON, max_size=4),
)
def test_wrong_json_is_refused_and_nothing_else_happens(base: Json, updates: list[Json]) -> None:
    if not isinstance(base, dict):
        return
    try:
        apply_view_updates(base, updates, now_ms=1)
    except Invalid:
        return


@given(
    st.none() | st.just(view()), st.lists(with_holes({"type": "assert-view-uuid", "uuid": UUID}))
)
def test_wrong_requirements_are_refused_and_nothing_else_happens(
    base: Metadata | None, requirements: list[Json]
) -> None:
    try:
        check_view_requirements(base, requirements)
    except (Invalid, Conflict):
        return
