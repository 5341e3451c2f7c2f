"""The cost of a commit grows with its size, and a commit that is too large is refused.

Steps are counted, not seconds: the calls of Python functions show the growth on any machine.
"""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine.metadata import Metadata
from arco.iceberg.engine.schema import MAX_FIELDS, read_schema
from arco.iceberg.engine.update import MAX_ADDITIONS, MAX_UPDATES
from tests.iceberg.engine.sample_metadata import (
    add,
    append,
    apply,
    column,
    order,
    partition,
    point,
    sort,
    spec,
    struct,
    table,
    update,
)


def _steps(work: Callable[[], object]) -> int:
    """How many Python functions were called."""
    count = 0

    def note(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def _schemas(count: int) -> list[Json]:
    wide = [struct(column(1, "id"), column(9 + i, f"c{i}")) for i in range(count)]
    return [update("add-schema", schema=each) for each in wide]


def _orders(count: int) -> list[Json]:
    return [
        update("add-sort-order", sort_order=order(sort(1, f"bucket[{i + 1}]")))
        for i in range(count)
    ]


@pytest.mark.parametrize("updates", [_schemas, _orders])
def test_additions_are_not_each_compared_with_all(updates: Callable[[int], list[Json]]) -> None:
    base = table()
    few, many = (_steps(lambda n=n: apply(base, *updates(n))) for n in (40, 160))  # type: ignore[misc]
    # The ids of all are looked at for each, which is a call; a comparison would be dozens.
    assert many < 10 * few


def test_a_removal_of_each_snapshot_on_its_own_costs_as_little_as_one_of_all() -> None:
    """Some clients send one update for every snapshot that has expired."""
    base = append(table(), *range(1, 301))
    ids = list(range(1, 300))
    together = [update("remove-snapshots", snapshot_ids=ids)]
    apart = [update("remove-snapshots", snapshot_ids=[i]) for i in ids]
    assert apply(base, *apart) == apply(base, *together)
    assert _steps(lambda: apply(base, *apart)) < 3 * _steps(lambda: apply(base, *together))


def test_removals_with_something_between_them_stay_in_their_order() -> None:
    base = append(table(), 1, 2)
    updates = [
        update("remove-snapshots", snapshot_ids=[1]),
        add(3, 2),
        point(3, "side"),
        update("remove-snapshots", snapshot_ids=[3]),
    ]
    done = apply(base, *updates)
    assert [each["snapshot-id"] for each in _objects(done, "snapshots")] == [2]
    assert "side" not in str(done["refs"])


def test_a_commit_has_so_many_updates_and_no_more() -> None:
    one = update("set-properties", updates={"a": "b"})
    assert apply(table(), *[one] * MAX_UPDATES)["properties"]
    with pytest.raises(Invalid, match=f"at most {MAX_UPDATES} updates"):
        apply(table(), *[one] * (MAX_UPDATES + 1))


def test_a_commit_adds_so_many_schemas_specs_and_orders_and_no_more() -> None:
    third = MAX_ADDITIONS // 3
    specs = [
        update("add-spec", spec=spec(partition(1, "p", f"bucket[{i + 1}]", **{"field-id": 1000})))
        for i in range(MAX_ADDITIONS - 2 * third)
    ]
    updates = [*_schemas(third), *_orders(third), *specs]
    assert len(_objects(apply(table(), *updates), "schemas")) == third + 1
    with pytest.raises(Invalid, match=f"adds at most {MAX_ADDITIONS} schemas"):
        apply(table(), *updates, *_orders(1))


def test_of_two_schemas_that_mean_the_same_the_first_is_used_again() -> None:
    new = struct(column(1, "id"), column(9, "x"))
    base = apply(table(), update("add-schema", schema=new))
    metadata = apply(
        base,
        update("add-schema", schema=struct(column(1, "id"))),
        update("add-schema", schema=new),
        update("set-current-schema", schema_id=-1),
    )
    assert metadata["current-schema-id"] == 1
    assert [each["schema-id"] for each in _objects(metadata, "schemas")] == [0, 1, 2]


def test_a_schema_that_was_removed_in_the_same_commit_is_added_again() -> None:
    new = update("add-schema", schema=struct(column(1, "id"), column(9, "x")))
    done = apply(apply(table(), new), update("remove-schemas", schema_ids=[1]), new)
    assert [each["schema-id"] for each in _objects(done, "schemas")] == [0, 1]


def test_a_schema_of_too_many_fields_is_refused_before_it_is_read() -> None:
    inner = struct(*(column(i, f"c{i}") for i in range(2, MAX_FIELDS + 1)))

    def read() -> None:
        with pytest.raises(Invalid, match=f"at most {MAX_FIELDS} fields"):
            read_schema(struct(column(1, "s", inner)))

    assert _steps(read) < 3 * MAX_FIELDS  # reading one field takes dozens


def test_the_base_is_left_as_it_is_by_changes_of_its_maps() -> None:
    base = append(table(properties={"a": "1"}), 1)
    before = (dict(_map(base, "properties")), dict(_map(base, "refs")))
    done = apply(
        base,
        update("set-properties", updates={"a": "2", "b": "3"}),
        update("remove-properties", removals=["a"]),
        point(1, "side"),
        update("remove-snapshot-ref", ref_name="main"),
    )
    assert (_map(base, "properties"), _map(base, "refs")) == before
    assert _map(done, "properties").get("b") == "3"
    assert set(_map(done, "refs")) == {"side"}


def _objects(metadata: Metadata, key: str) -> list[dict[str, Json]]:
    entries = metadata[key]
    assert isinstance(entries, list)
    return [each for each in entries if isinstance(each, dict)]


def _map(metadata: Metadata, key: str) -> dict[str, Json]:
    entries = metadata[key]
    assert isinstance(entries, dict)
    return entries
