"""Updates of snapshots, branches, tags and statistics files, and of the snapshot log.

A snapshot has at most one statistics file of each kind.
"""

from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import cast

from arco.core.errors import Conflict, Invalid
from arco.iceberg.engine import shape
from arco.iceberg.engine.draft import TableDraft
from arco.iceberg.engine.metadata import MAIN
from arco.iceberg.engine.shape import Object

_ROW_LINEAGE = 3  # the first format version with row ids
_TOLERANCE_MS = 60_000  # between the clocks of two writers
_RETRY = "Validation failed, please retry:"
_LIMITS = ("min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms")

_TABLE = "statistics"
_PARTITION = "partition-statistics"


def add_snapshot(draft: TableDraft, update: Object) -> None:
    """Add a snapshot; readers see it once a branch or tag names it."""
    snapshot = _read_snapshot(shape.obj(update, "snapshot", "add-snapshot"), draft.format_version)
    for key, thing in (
        ("schemas", "schema"),
        ("partition-specs", "partition spec"),
        ("sort-orders", "sort order"),
    ):
        if not draft.objects(key):
            raise Invalid(f"Attempting to add a snapshot before a {thing} is added")
    snapshot_id = cast("int", snapshot["snapshot-id"])
    if snapshot_id in draft.snapshots:
        raise Invalid(f"Snapshot already exists for id: {snapshot_id}")
    _take_sequence_number(draft, snapshot)
    if draft.format_version >= _ROW_LINEAGE:
        _take_rows(draft, snapshot)
    draft.own("snapshots").append(snapshot)
    draft.snapshots[snapshot_id] = snapshot
    draft.added_snapshots.add(snapshot_id)


def _read_snapshot(snapshot: Object, format_version: int) -> Object:
    label = "the snapshot"
    optional = (
        "parent-snapshot-id",
        "schema-id",
        "first-row-id",
        "added-rows",
        "key-id",
        "summary",
    )
    snapshot = shape.without_nulls(
        snapshot, *optional, "sequence-number", "manifest-list", "manifests"
    )
    for key in ("snapshot-id", "timestamp-ms"):
        shape.long(snapshot, key, label)
    for key in ("sequence-number", "parent-snapshot-id"):
        shape.maybe_long(snapshot, key, label)
    shape.maybe_integer(snapshot, "schema-id", label)
    shape.maybe_text(snapshot, "key-id", label)
    if "summary" in snapshot:
        shape.texts(snapshot, "summary", label)
    if format_version == 1 and "manifest-list" not in snapshot:
        for path in shape.array(snapshot, "manifests", label):
            shape.as_text(path, "each of manifests of the snapshot")
    else:
        shape.text(snapshot, "manifest-list", label)
    for key in ("first-row-id", "added-rows"):
        if (shape.maybe_long(snapshot, key, label) or 0) < 0:
            raise Invalid(f"Invalid {key} (cannot be negative): {snapshot[key]}")
    if "first-row-id" in snapshot and "added-rows" not in snapshot:
        raise Invalid("Invalid added-rows (required when first-row-id is set): null")
    return snapshot


def _take_sequence_number(draft: TableDraft, snapshot: Object) -> None:
    """Check that sequence numbers rise; only a snapshot without a parent may repeat the last one."""
    number = cast("int", snapshot.get("sequence-number", 0))
    last_sequence_number = draft.number("last-sequence-number")
    if draft.format_version == 1:
        if number != 0:
            raise Invalid(f"Sequence number must be 0 in v1: {number}")
        return
    if number < last_sequence_number or (
        number == last_sequence_number and "parent-snapshot-id" in snapshot
    ):
        raise Conflict(
            f"{_RETRY} Cannot add snapshot with sequence number {number} "
            f"older than last sequence number {last_sequence_number}"
        )
    draft.put("last-sequence-number", number)


def _take_rows(draft: TableDraft, snapshot: Object) -> None:
    """Reserve the row ids of the snapshot, which no other snapshot may have."""
    if "first-row-id" not in snapshot:
        raise Invalid("Cannot add a snapshot: first-row-id is null")
    first = cast("int", snapshot["first-row-id"])
    next_row = draft.number("next-row-id")
    if first < next_row:
        raise Conflict(
            f"{_RETRY} Cannot add a snapshot, first-row-id is behind table next-row-id: "
            f"{first} < {next_row}"
        )
    draft.put("next-row-id", first + cast("int", snapshot["added-rows"]))


def set_snapshot_ref(draft: TableDraft, update: Object) -> None:
    """Set a branch or tag to a snapshot; readers see main."""
    name = shape.text(update, "ref-name", "set-snapshot-ref")
    ref = _read_ref(update)
    if draft.refs.get(name) == ref:
        return
    snapshot_id = cast("int", ref["snapshot-id"])
    snapshot = draft.snapshots.get(snapshot_id)
    if snapshot is None:
        raise Invalid(f"Cannot set {name} to unknown snapshot: {snapshot_id}")
    if name == MAIN:
        if ref["type"] != "branch":
            raise Invalid("Cannot set main to a tag, it must be a branch")
        # A rollback to an older snapshot is logged with the current time.
        added = snapshot_id in draft.added_snapshots
        time_ms = snapshot["timestamp-ms"] if added else draft.updated_ms
        draft.own("snapshot-log").append({"timestamp-ms": time_ms, "snapshot-id": snapshot_id})
        draft.logged += 1
        draft.main_was.add(snapshot_id)
        draft.set_current_snapshot(snapshot_id)
    draft.put_ref(name, ref)


def _read_ref(update: Object) -> Object:
    label = "set-snapshot-ref"
    kind = shape.text(update, "type", label).lower()
    if kind not in {"branch", "tag"}:
        raise Invalid(f"Invalid snapshot ref type: {kind}")
    ref = {key: value for key, value in update.items() if key not in {"action", "ref-name"}}
    ref = {**shape.without_nulls(ref, *_LIMITS), "type": kind}
    shape.long(ref, "snapshot-id", label)
    for key in _LIMITS:
        read = shape.maybe_integer if key == _LIMITS[0] else shape.maybe_long
        value = read(ref, key, label)
        if value is None:
            continue
        if value <= 0:
            raise Invalid(f"{key} must be greater than 0, not {value}")
        if kind == "tag" and key != "max-ref-age-ms":
            raise Invalid(f"Tags do not support setting {key}")
    return ref


def remove_snapshot_ref(draft: TableDraft, update: Object) -> None:
    """Remove a branch or tag; a table without main is empty."""
    name = shape.text(update, "ref-name", "remove-snapshot-ref")
    if name not in draft.refs:
        return
    if name == MAIN:
        draft.set_current_snapshot(None)
    draft.drop_ref(name)


def remove_snapshots(draft: TableDraft, update: Object) -> None:
    """Remove snapshots and their refs and statistics; unknown ids are ignored."""
    listed_ids = shape.array(update, "snapshot-ids", "remove-snapshots")
    ids = {shape.as_long(each, "each of snapshot-ids") for each in listed_ids}
    removed_ids = ids & draft.snapshots.keys()
    if not removed_ids:
        return
    draft.replace(
        "snapshots",
        [each for each in draft.objects("snapshots") if each["snapshot-id"] not in removed_ids],
    )
    for snapshot_id in removed_ids:
        del draft.snapshots[snapshot_id]
    draft.snapshots_removed = True
    forget_snapshots(draft, removed_ids)
    for name, ref in list(draft.refs.items()):
        if ref["snapshot-id"] in removed_ids:
            remove_snapshot_ref(draft, {"ref-name": name})


def finish_log(draft: TableDraft) -> None:
    """Keep in the log the snapshots that readers have seen, without gaps, in time order."""
    current = draft.snapshot_id
    passing = (draft.main_was & draft.added_snapshots) - {current}
    if passing or draft.snapshots_removed:
        kept_entries: list[Object] = []
        for entry in draft.objects("snapshot-log"):
            if entry["snapshot-id"] not in draft.snapshots:
                # Without this entry the log would show another snapshot as current at its time.
                kept_entries = [] if draft.snapshots_removed else kept_entries
            elif entry["snapshot-id"] not in passing:
                kept_entries.append(entry)
        if kept_entries and current is not None and kept_entries[-1]["snapshot-id"] != current:
            raise Invalid(
                "Cannot set invalid snapshot log: latest entry is not the current snapshot"
            )
        draft.replace("snapshot-log", kept_entries)
    _check_times(draft)


def _check_times(draft: TableDraft) -> None:
    """Refuse snapshots with times far off: readers reject a log that goes backwards."""
    if not draft.logged:
        return
    recent = draft.objects("snapshot-log")[-draft.logged - 1 :]
    times = [cast("int", entry["timestamp-ms"]) for entry in recent]
    for before, after in pairwise(times):
        if after - before < -_TOLERANCE_MS:
            raise Invalid(
                f"the snapshot is of {after}, more than a minute before {before}, "
                "when the one before it became current"
            )
    if times and draft.updated_ms - times[-1] < -_TOLERANCE_MS:
        raise Invalid(
            f"Invalid update timestamp {draft.updated_ms}: "
            f"before last snapshot log entry at {times[-1]}"
        )


def set_statistics(draft: TableDraft, update: Object) -> None:
    """Set the statistics file of a snapshot."""
    label = "set-statistics"
    statistics = shape.obj(update, "statistics", label)
    shape.text(statistics, "statistics-path", label)
    shape.long(statistics, "file-size-in-bytes", label)
    shape.long(statistics, "file-footer-size-in-bytes", label)
    blobs = [_read_blob(each) for each in shape.objects(statistics, "blob-metadata", label)]
    _put(draft, _TABLE, {**statistics, "blob-metadata": [*blobs]})


def _read_blob(blob_metadata: Object) -> Object:
    label = "blob-metadata"
    blob = shape.without_nulls(blob_metadata, "properties")
    shape.text(blob, "type", label)
    shape.long(blob, "snapshot-id", label)
    shape.long(blob, "sequence-number", label)
    for field_id in shape.array(blob, "fields", label):
        shape.as_int(field_id, f"each of fields of {label}")
    if "properties" in blob:
        shape.texts(blob, "properties", label)
    return blob


def set_partition_statistics(draft: TableDraft, update: Object) -> None:
    """Set the partition statistics file of a snapshot."""
    label = "set-partition-statistics"
    statistics = shape.obj(update, "partition-statistics", label)
    shape.text(statistics, "statistics-path", label)
    shape.long(statistics, "file-size-in-bytes", label)
    _put(draft, _PARTITION, statistics)


def remove_statistics(draft: TableDraft, update: Object) -> None:
    """Remove the statistics file of a snapshot."""
    _forget(draft, _TABLE, {shape.long(update, "snapshot-id", "remove-statistics")})


def remove_partition_statistics(draft: TableDraft, update: Object) -> None:
    """Remove the partition statistics file of a snapshot."""
    _forget(draft, _PARTITION, {shape.long(update, "snapshot-id", "remove-partition-statistics")})


def forget_snapshots(draft: TableDraft, removed_ids: AbstractSet[int]) -> None:
    """Remove the statistics of removed snapshots."""
    _forget(draft, _TABLE, removed_ids)
    _forget(draft, _PARTITION, removed_ids)


def _put(draft: TableDraft, key: str, statistics: Object) -> None:
    snapshot_id = shape.long(statistics, "snapshot-id", key)
    files = draft.objects(key)
    if statistics in files:
        return
    others = [each for each in files if each["snapshot-id"] != snapshot_id]
    draft.replace(key, [*others, statistics])


def _forget(draft: TableDraft, key: str, removed_ids: AbstractSet[int]) -> None:
    files = draft.objects(key)
    kept_files = [each for each in files if each["snapshot-id"] not in removed_ids]
    if len(kept_files) < len(files):
        draft.replace(key, kept_files)
