from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadataUtil

from arco.core.errors import Conflict, Invalid
from arco.core.json import Json
from arco.iceberg.engine.metadata import Metadata, current_snapshot_id, encode_metadata
from tests.iceberg.engine.sample_metadata import (
    CREATED_MS,
    add,
    apply,
    column,
    order,
    parse_metadata,
    partition,
    point,
    sort,
    spec,
    struct,
    table,
    update,
)

NAMES = st.sampled_from(["a", "b", "c"])
COLUMNS = st.lists(st.integers(1, 6), min_size=1, max_size=5, unique=True)
SCHEMAS = COLUMNS.map(lambda ids: struct(*(column(each, f"c{each}") for each in sorted(ids))))
FIELD_IDS = st.integers(1, 6)
FILE: dict[str, Json] = {"statistics-path": "p", "file-size-in-bytes": 1}
REFS = st.sampled_from(["main", "main", "dev", "tag"])


@st.composite
def commits(draw: st.DrawFn, base: Metadata) -> list[Json]:
    """A few updates that make sense for a table like `base`, or nearly."""
    last_sequence_number = int(str(base.get("last-sequence-number", 0)))
    rows = base.get("next-row-id", 0)
    lineage = {"first-row-id": rows, "added-rows": 3} if base["format-version"] == 3 else {}
    if base["format-version"] == 1:
        lineage = {"sequence-number": 0}
    fresh = last_sequence_number + 1 if base["format-version"] != 1 else len(base["snapshots"]) + 1  # type: ignore[arg-type]
    name = draw(REFS)
    some = draw(st.integers(1, fresh))
    ours: list[list[Json]] = [
        [add(fresh, current_snapshot_id(base), **lineage), point(fresh)],
        [add(fresh, **lineage), point(fresh, "dev")],
        [point(some, name, "tag" if name == "tag" else "branch")],
        [update("remove-snapshots", snapshot_ids=draw(st.lists(st.integers(1, fresh), max_size=3)))],
        [update("remove-snapshot-ref", ref_name=name)],
        [update("add-schema", schema=draw(SCHEMAS)), update("set-current-schema", schema_id=-1)],
        [update("add-spec", spec=spec(partition(draw(FIELD_IDS), "p", "bucket[4]")))],
        [update("add-spec", spec=spec()), update("set-default-spec", spec_id=-1)],
        [
            update("add-sort-order", sort_order=order(sort(draw(FIELD_IDS)))),
            update("set-default-sort-order", sort_order_id=-1),
        ],
        [update("set-properties", updates={draw(NAMES): draw(NAMES)})],
        [update("remove-properties", removals=[draw(NAMES)])],
        [update("remove-schemas", schema_ids=[draw(st.integers(0, 4))])],
        [update("remove-partition-specs", spec_ids=[draw(st.integers(0, 4))])],
        [update("set-partition-statistics", partition_statistics={**FILE, "snapshot-id": some})],
        [update("upgrade-format-version", format_version=draw(st.integers(1, 3)))],
    ]  # fmt: skip
    return [
        each
        for group in draw(st.lists(st.sampled_from(ours), min_size=1, max_size=3))
        for each in group
    ]


def check_invariants(metadata: dict[str, Any], now_ms: int) -> None:
    ids = [each["snapshot-id"] for each in metadata["snapshots"]]
    current = current_snapshot_id(metadata)
    assert len(set(ids)) == len(ids)
    assert {ref["snapshot-id"] for ref in metadata["refs"].values()} <= set(ids)
    assert current == metadata["refs"].get("main", {}).get("snapshot-id")
    log = [each["snapshot-id"] for each in metadata["snapshot-log"]]
    assert set(log) <= set(ids)
    assert current is None or log[-1] == current
    assert all(
        each.get("sequence-number", 0) <= metadata.get("last-sequence-number", 0)
        for each in metadata["snapshots"]
    )
    assert {each["snapshot-id"] for each in metadata["partition-statistics"]} <= set(range(1, 99))
    for key, id_key in (
        ("schemas", "schema-id"),
        ("partition-specs", "spec-id"),
        ("sort-orders", "order-id"),
    ):
        layout_ids = [each[id_key] for each in metadata[key]]
        assert len(set(layout_ids)) == len(layout_ids)
    highest = max(
        (field["id"] for schema in metadata["schemas"] for field in schema["fields"]), default=0
    )
    assert metadata["last-column-id"] >= highest
    assert metadata["last-updated-ms"] == now_ms
    assert metadata["format-version"] != 3 or metadata["next-row-id"] >= 0
    assert ("schema" in metadata) == (metadata["format-version"] == 1)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.integers(1, 3), st.data())
def test_any_sequence_of_commits_leaves_a_sound_table(version: int, data: st.DataObject) -> None:
    metadata = table(version, struct(*(column(each, f"c{each}") for each in range(1, 7))))
    for number in range(1, 9):
        before, raw = metadata, encode_metadata(metadata)
        now_ms = CREATED_MS + 100 + number
        try:
            metadata = apply(before, *data.draw(commits(before)), now_ms=now_ms, file=f"f{number}")
        except (Invalid, Conflict):
            metadata = before
        assert encode_metadata(before) == raw  # what is made is never changed
        if metadata is before:
            continue
        check_invariants(metadata, now_ms)
        assert parse_metadata(encode_metadata(metadata)) == metadata
        if metadata["format-version"] != 3:
            TableMetadataUtil.parse_raw(encode_metadata(metadata).decode())
