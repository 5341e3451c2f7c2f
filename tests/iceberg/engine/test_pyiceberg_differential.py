"""The same commits through PyIceberg's engine, where it means the same as the reference implementation.

Left out is what it does otherwise: it keeps duplicates instead of reusing schemas, specs and orders, drops
the parents of snapshots whose parent is removed, keeps the log as if nothing were removed, and takes the
time of a snapshot for that of the commit.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import TableUpdate, update_table_metadata

from arco.core.json import Json, decode
from arco.iceberg.engine.metadata import Metadata, current_snapshot_id, encode_metadata
from tests.iceberg.engine.sample_metadata import (
    CREATED_MS,
    OTHER_UUID,
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

THEIRS: TypeAdapter[TableUpdate] = TypeAdapter(TableUpdate)

# The times of a commit, which PyIceberg takes from elsewhere, and what version 1 repeats for old readers,
# which it lets go stale.
LEFT_OUT = ("last-updated-ms", "snapshot-log", "metadata-log", "schema", "partition-spec")


def their_view(metadata: Metadata) -> dict[str, Any]:
    """The metadata as PyIceberg reads it, so that only meanings are compared."""
    read = TableMetadataUtil.parse_raw(encode_metadata(metadata).decode())
    return decode(read.model_dump_json().encode(), dict)


def theirs(base: Metadata, updates: list[Json]) -> dict[str, Any]:
    parsed = tuple(THEIRS.validate_python(each) for each in updates)
    read = TableMetadataUtil.parse_raw(encode_metadata(base).decode())
    updated = update_table_metadata(read, parsed, enforce_validation=True)
    return decode(updated.model_dump_json().encode(), dict)


def comparable(view: dict[str, Any]) -> dict[str, Any]:
    logged = [entry["snapshot-id"] for entry in view["snapshot-log"]]
    return {**{key: value for key, value in view.items() if key not in LEFT_OUT}, "logged": logged}


WIDE = struct(*(column(each, f"c{each}") for each in range(1, 5)))


@st.composite
def commits(draw: st.DrawFn, base: dict[str, Any]) -> list[Json]:
    """One commit that both engines understand alike."""
    version = base["format-version"]
    fresh = len(base["snapshots"]) + 1
    next_schema = max(each["schema-id"] for each in base["schemas"]) + 1
    next_spec = max(each["spec-id"] for each in base["partition-specs"]) + 1
    next_order = max(each["order-id"] for each in base["sort-orders"]) + 1
    next_column, next_field = base["last-column-id"] + 1, base["last-partition-id"] + 1
    number: dict[str, Json] = {} if version == 2 else {"sequence-number": 0}
    wider = struct(
        *WIDE["fields"],  # type: ignore[misc]
        column(next_column, f"c{next_column}"),
        **{"schema-id": next_schema},
    )
    field = partition(
        draw(st.integers(1, 4)), f"p{next_field}", "bucket[4]", **{"field-id": next_field}
    )
    sorted_by = order(sort(1, f"bucket[{next_order}]"), **{"order-id": next_order})
    choices: list[list[Json]] = [
        [add(fresh, current_snapshot_id(base), **number), point(fresh)],
        [add(fresh, **number), point(fresh, "dev")],
        [update("add-schema", schema=wider), update("set-current-schema", schema_id=-1)],
        [update("set-properties", updates={draw(st.sampled_from("ab")): draw(st.sampled_from("xy"))})],
        [update("remove-properties", removals=[draw(st.sampled_from(sorted(base["properties"])))])],
        [update("set-location", location=draw(st.sampled_from(["s3://b/x", "s3://b/y"])))],
        [update("assign-uuid", uuid=OTHER_UUID)],
        [
            update("add-sort-order", sort_order=sorted_by),
            update("set-default-sort-order", sort_order_id=-1),
        ],
        [update("remove-snapshot-ref", ref_name="dev")],
        [update("upgrade-format-version", format_version=2)],
    ]  # fmt: skip
    if version == 2:
        with_field = update("add-spec", spec=spec(field, **{"spec-id": next_spec}))
        choices.append([with_field, update("set-default-spec", spec_id=-1)])
    if base["snapshots"]:
        snapshot_id = draw(st.sampled_from([each["snapshot-id"] for each in base["snapshots"]]))
        choices.append([point(snapshot_id, "t", "tag", max_ref_age_ms=9)])
        choices.append([point(snapshot_id)])
        numbers: dict[str, Json] = {
            "snapshot-id": snapshot_id,
            "statistics-path": "s",
            "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        }
        choices.append([update("set-statistics", snapshot_id=snapshot_id, statistics=numbers)])
    return draw(st.sampled_from(choices))


@settings(max_examples=100)
@given(st.sampled_from([1, 2]), st.data())
def test_both_engines_make_the_same_of_a_commit(version: int, data: st.DataObject) -> None:
    base = table(version, WIDE, properties={"owner": "ada"})
    for number in range(1, 6):
        if not base["properties"]:
            break
        updates = data.draw(commits(base))
        metadata = apply(base, *updates, now_ms=CREATED_MS + 100 + number, file=f"f{number}")
        assert comparable(their_view(metadata)) == comparable(theirs(base, updates))
        base = metadata


def test_both_engines_forget_the_oldest_snapshot_alike_but_for_the_parent() -> None:
    base = append(table(2, WIDE), 1, 2, 3)
    updates: list[Json] = [update("remove-snapshots", snapshot_ids=[1])]
    ours, their = comparable(their_view(apply(base, *updates))), comparable(theirs(base, updates))
    assert ours["snapshots"][0].pop("parent-snapshot-id") == 1
    their["snapshots"][0].pop("parent-snapshot-id", None)
    assert ours == their
