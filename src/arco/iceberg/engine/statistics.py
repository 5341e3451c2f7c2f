"""Updates of statistics files: at most one of each kind for a snapshot."""

from collections.abc import Set as AbstractSet

from arco.iceberg.engine import shape
from arco.iceberg.engine.draft import Draft
from arco.iceberg.engine.shape import Object

_TABLE = "statistics"
_PARTITION = "partition-statistics"


def set_statistics(draft: Draft, update: Object) -> None:
    """Name the statistics file of a snapshot."""
    what = "set-statistics"
    found = shape.obj(update, "statistics", what)
    shape.text(found, "statistics-path", what)
    shape.long(found, "file-size-in-bytes", what)
    shape.long(found, "file-footer-size-in-bytes", what)
    blobs = [_read_blob(each) for each in shape.objects(found, "blob-metadata", what)]
    _put(draft, _TABLE, {**found, "blob-metadata": [*blobs]})


def _read_blob(found: Object) -> Object:
    what = "blob-metadata"
    blob = shape.without_nulls(found, "properties")
    shape.text(blob, "type", what)
    shape.long(blob, "snapshot-id", what)
    shape.long(blob, "sequence-number", what)
    for field_id in shape.array(blob, "fields", what):
        shape.as_int(field_id, f"each of fields of {what}")
    if "properties" in blob:
        shape.texts(blob, "properties", what)
    return blob


def set_partition_statistics(draft: Draft, update: Object) -> None:
    """Name the partition statistics file of a snapshot."""
    what = "set-partition-statistics"
    found = shape.obj(update, "partition-statistics", what)
    shape.text(found, "statistics-path", what)
    shape.long(found, "file-size-in-bytes", what)
    _put(draft, _PARTITION, found)


def remove_statistics(draft: Draft, update: Object) -> None:
    """Forget the statistics file of a snapshot."""
    _forget(draft, _TABLE, {shape.long(update, "snapshot-id", "remove-statistics")})


def remove_partition_statistics(draft: Draft, update: Object) -> None:
    """Forget the partition statistics file of a snapshot."""
    _forget(draft, _PARTITION, {shape.long(update, "snapshot-id", "remove-partition-statistics")})


def forget_snapshots(draft: Draft, gone: AbstractSet[int]) -> None:
    """Forget the files of snapshots that are removed."""
    _forget(draft, _TABLE, gone)
    _forget(draft, _PARTITION, gone)


def _put(draft: Draft, key: str, found: Object) -> None:
    snapshot_id = shape.long(found, "snapshot-id", key)
    files = draft.objects(key)
    if found in files:
        return
    others = [each for each in files if each["snapshot-id"] != snapshot_id]
    draft.replace(key, [*others, found])


def _forget(draft: Draft, key: str, gone: AbstractSet[int]) -> None:
    files = draft.objects(key)
    kept = [each for each in files if each["snapshot-id"] not in gone]
    if len(kept) < len(files):
        draft.replace(key, kept)
