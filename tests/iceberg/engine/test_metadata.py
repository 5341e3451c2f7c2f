import gzip
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadataUtil

from arco.core.errors import Conflict, Invalid
from arco.core.json import Json, decode
from arco.iceberg.engine.metadata import Metadata, current_snapshot_id, encode_metadata, refs_only
from tests.iceberg.engine.sample_metadata import (
    CREATED_MS,
    LOCATION,
    ORDERS,
    UUID,
    add,
    append,
    apply,
    column,
    parse_metadata,
    partition,
    point,
    snapshot,
    struct,
    table,
    update,
)
from tests.iceberg.engine.test_requirement import JUNK


def test_a_file_is_read_gzipped_or_not() -> None:
    base = append(table(), 1)
    raw = encode_metadata(base)
    assert parse_metadata(raw) == parse_metadata(gzip.compress(raw)) == base


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        gzip.compress(b"{}", mtime=0)[:-4],
        b"\x1f\x8bnonsense",
        b"[" * 100_000,
    ],
)
def test_what_is_no_metadata_file_is_refused(raw: bytes) -> None:
    with pytest.raises(Invalid):
        parse_metadata(raw)


def test_a_file_that_is_cut_short_is_refused_even_if_its_text_is_whole() -> None:
    with pytest.raises(Invalid, match="cut short"):
        parse_metadata(gzip.compress(encode_metadata(table()))[:-4])


def test_the_current_snapshot_is_the_last_of_main_or_none() -> None:
    assert current_snapshot_id(append(table(2), 1, 2)) == 2
    assert current_snapshot_id(table(1)) is None
    assert current_snapshot_id(table(3)) is None


def test_refs_only_leaves_the_snapshots_that_have_a_name() -> None:
    base = apply(append(table(), 1, 2, 3, 4), point(2, "v1", "tag"))
    small = refs_only(base)
    assert small["snapshots"] == [snapshot(2, 1), snapshot(4, 3)]
    assert small == {**base, "snapshots": small["snapshots"]}
    assert refs_only(table())["snapshots"] == []


OLD_V1: Metadata = {
    "format-version": 1,
    "table-uuid": UUID,
    "location": LOCATION,
    "last-updated-ms": CREATED_MS,
    "last-column-id": 3,
    "schema": ORDERS,
    "partition-spec": [partition(2, "d", "day"), partition(3, "country")],
    "current-snapshot-id": 7,
    "snapshots": [{"snapshot-id": 7, "timestamp-ms": CREATED_MS, "manifest-list": "m.avro"}],
    "vendor": {"x": 1},
}


def test_what_early_writers_left_out_is_there_once_read() -> None:
    read = parse_metadata(encode_metadata(OLD_V1))
    numbered: list[Json] = [
        partition(2, "d", "day", **{"field-id": 1000}),
        partition(3, "country", **{"field-id": 1001}),
    ]
    expected: dict[str, Any] = {
        **OLD_V1,
        "schemas": [{**ORDERS, "schema-id": 0}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": numbered}],
        "default-spec-id": 0,
        "last-partition-id": 1001,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "refs": {"main": {"snapshot-id": 7, "type": "branch"}},
        "snapshot-log": [],
        "metadata-log": [],
    }
    assert read == expected
    upgraded = apply(read, update("upgrade-format-version", format_version=2))
    assert upgraded["vendor"] == {"x": 1}
    TableMetadataUtil.parse_raw(encode_metadata(upgraded).decode())


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("format-version", 4, "unsupported version 4"),
        ("format-version", "2", "format-version of the metadata"),
        ("table-uuid", None, "table-uuid"),
        ("location", 3, "location"),
        ("last-updated-ms", 1.5, "last-updated-ms"),
        ("last-sequence-number", None, "last-sequence-number"),
        ("schemas", [], "current-schema-id"),
        ("schemas", [1], "schemas"),
        ("schemas", [struct(column(1, "a"), column(1, "b"), **{"schema-id": 0})], "for id 1"),
        ("current-schema-id", 9, "current-schema-id of the metadata is 9"),
        ("default-spec-id", 9, "default-spec-id of the metadata is 9"),
        ("default-sort-order-id", 9, "default-sort-order-id of the metadata is 9"),
        ("partition-specs", [{"spec-id": 0, "fields": [{}]}], "lacks name"),
        ("sort-orders", [{"order-id": 0, "fields": [{}]}], "lacks source-id"),
        ("properties", {"a": 1}, "properties"),
        ("current-snapshot-id", 9, "Cannot find current version"),
        ("current-snapshot-id", 1, "does not match main branch"),
        ("snapshots", [snapshot(1), snapshot(2), snapshot(1)], "the same id"),
        ("snapshots", [{**snapshot(1), "snapshot-id": 2**63}, snapshot(2)], "out of range"),
        ("snapshots", [{**snapshot(1), "timestamp-ms": "x"}, snapshot(2)], "timestamp-ms"),
        (
            "refs",
            {"x": {"snapshot-id": 9, "type": "tag"}},
            "Snapshot for reference x does not exist",
        ),
        ("refs", {"x": {"snapshot-id": 1}}, "ref x lacks type"),
        ("snapshot-log", [{"snapshot-id": 1}], "snapshot log lacks timestamp-ms"),
        ("snapshot-log", [[]], "snapshot log must be an object"),
        ("metadata-log", [1], "metadata-log"),
        ("statistics", [{}], "snapshot-id"),
        ("encryption-keys", [{}], "key-id"),
    ],
)
def test_metadata_that_contradict_themselves_are_refused(key: str, value: Json, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        parse_metadata(encode_metadata({**append(table(), 1, 2), key: value}))


@pytest.mark.parametrize(
    "update_",
    [update("set-properties", updates={"a": "2"}), update("remove-snapshots", snapshot_ids=[1])],
)
def test_members_that_we_do_not_know_survive_a_commit_at_every_level(update_: Json) -> None:
    base = decode(encode_metadata(append(table(), 1, 2)), dict)
    base["x"] = {"deep": [1, {"y": None}]}
    for key in ("schemas", "partition-specs", "sort-orders", "snapshots", "snapshot-log"):
        base[key][-1]["x"] = key
    base["schemas"][0]["fields"][0]["x"] = 1
    base["snapshots"][-1]["summary"]["x"] = "1"
    base["refs"]["main"]["x"] = 2
    metadata: dict[str, Any] = parse_metadata(encode_metadata(apply(base, update_)))
    assert metadata["x"] == {"deep": [1, {"y": None}]}
    for key in ("schemas", "partition-specs", "sort-orders", "snapshots", "snapshot-log"):
        assert metadata[key][-1]["x"] == key
    assert metadata["schemas"][0]["fields"][0]["x"] == 1
    assert metadata["snapshots"][-1]["summary"]["x"] == "1"
    assert metadata["refs"]["main"]["x"] == 2


@given(st.data())
def test_a_file_of_any_shape_is_sound_or_invalid_and_never_a_crash(data: st.DataObject) -> None:
    base = append(table(data.draw(st.sampled_from([1, 2]))))
    for key in data.draw(st.lists(st.sampled_from(sorted(base)), max_size=3)):
        base = {**base, key: data.draw(JUNK)}
    try:
        read = parse_metadata(encode_metadata(base))
    except Invalid as refusal:
        assert str(refusal)
        return
    current_snapshot_id(read)
    refs_only(read)
    try:
        apply(read, update("set-properties", updates={"n": "1"}), add(1), point(1))
    except (Invalid, Conflict) as refusal:
        assert str(refusal)
