"""Applies the updates of a commit to a table's metadata, in order, all or none.

The semantics of each update are those of the Java reference implementation. A mistake of the client is
`Invalid`; what was right when the client read the table, but is no longer, is `Conflict`.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine import layout, shape, snapshots, table
from arco.iceberg.engine.draft import DEFAULT_VERSION, TableDraft
from arco.iceberg.engine.metadata import Metadata
from arco.iceberg.engine.shape import Object
from arco.iceberg.engine.table import previous_versions

# More than any client sends at once. The cost of a commit must not grow faster than its size.
MAX_UPDATES = 20_000
MAX_ADDITIONS = 500

_ADDITIONS = frozenset({"add-schema", "add-spec", "add-sort-order"})
_REMOVE_SNAPSHOTS = "remove-snapshots"

_UPDATES: Mapping[str, Callable[[TableDraft, Object], None]] = {
    "assign-uuid": table.assign_uuid,
    "upgrade-format-version": table.upgrade_format_version,
    "add-schema": layout.add_schema,
    "set-current-schema": layout.set_current_schema,
    "add-spec": layout.add_spec,
    "set-default-spec": layout.set_default_spec,
    "add-sort-order": layout.add_sort_order,
    "set-default-sort-order": layout.set_default_sort_order,
    "add-snapshot": snapshots.add_snapshot,
    "set-snapshot-ref": snapshots.set_snapshot_ref,
    "remove-snapshots": snapshots.remove_snapshots,
    "remove-snapshot-ref": snapshots.remove_snapshot_ref,
    "set-location": table.set_location,
    "set-properties": table.set_properties,
    "remove-properties": table.remove_properties,
    "set-statistics": snapshots.set_statistics,
    "remove-statistics": snapshots.remove_statistics,
    "set-partition-statistics": snapshots.set_partition_statistics,
    "remove-partition-statistics": snapshots.remove_partition_statistics,
    "remove-partition-specs": layout.remove_partition_specs,
    "remove-schemas": layout.remove_schemas,
    "add-encryption-key": table.add_encryption_key,
    "remove-encryption-key": table.remove_encryption_key,
}


def apply_updates(
    base: Metadata | None, updates: Sequence[Json], *, now_ms: int, previous_location: str | None
) -> Metadata:
    """The metadata after `updates`; `base` itself if they change nothing. `base` is None for a new table.

    `previous_location` is the file of `base`, which is added to the metadata log.
    """
    try:
        read = _read(updates)
        draft = TableDraft(base, format_version=_first_version(read), now_ms=now_ms)
        for update in read:
            _UPDATES[str(update["action"])](draft, update)
        return _finish(draft, previous_location)
    except RecursionError as problem:
        raise Invalid("the updates are nested too deeply") from problem


def _read(updates: Sequence[Json]) -> list[Object]:
    read = [shape.as_object(update, "an update") for update in updates]
    actions = [shape.text(update, "action", "an update") for update in read]
    unknown = sorted({action for action in actions if action not in _UPDATES})
    if unknown:
        raise Invalid(f"unknown updates of a table: {', '.join(unknown)}")
    read = _joined(read)
    if len(read) > MAX_UPDATES:
        raise Invalid(f"a commit has at most {MAX_UPDATES} updates, not {len(read)}: use several")
    if sum(action in _ADDITIONS for action in actions) > MAX_ADDITIONS:
        raise Invalid(
            f"a commit adds at most {MAX_ADDITIONS} schemas, partition specs and sort orders: use several"
        )
    return read


def _joined(updates: Sequence[Object]) -> list[Object]:
    """Join consecutive removals of snapshots: some clients send one for each snapshot."""
    joined: list[Object] = []
    for is_removal, run in groupby(updates, lambda each: each["action"] == _REMOVE_SNAPSHOTS):
        if not is_removal:
            joined += run
            continue
        ids = [i for each in run for i in shape.array(each, "snapshot-ids", _REMOVE_SNAPSHOTS)]
        joined.append({"action": _REMOVE_SNAPSHOTS, "snapshot-ids": ids})
    return joined


def _first_version(updates: Sequence[Object]) -> int:
    """The format version of a new table: that of the first upgrade, if there is one."""
    versions = (
        table.read_version(each) for each in updates if each["action"] == "upgrade-format-version"
    )
    return next(versions, DEFAULT_VERSION)


def _finish(draft: TableDraft, previous_location: str | None) -> Metadata:
    if not draft.changed and draft.base is not None:
        return draft.base
    for key in ("table-uuid", "location"):
        if draft.top.get(key) is None:
            raise Invalid(f"a new table needs a {key}: none of the updates sets it")
    layout.check_layout(draft)
    snapshots.finish_log(draft)
    _log_previous(draft, previous_location)
    draft.put("last-updated-ms", draft.updated_ms)
    _keep_v1(draft)
    return draft.top


def _log_previous(draft: TableDraft, previous_location: str | None) -> None:
    if draft.base is None or previous_location is None:
        return
    entry: Object = {
        "timestamp-ms": draft.base["last-updated-ms"],
        "metadata-file": previous_location,
    }
    most = previous_versions(draft.properties)
    kept_entries = draft.objects("metadata-log")[1 - most :] if most > 1 else []
    draft.replace("metadata-log", [*kept_entries, entry])


def _keep_v1(draft: TableDraft) -> None:
    """Keep the members that old readers of format version 1 use for the schema and spec."""
    spec = draft.spec(draft.number("default-spec-id"))
    if draft.format_version == 1 and spec is not None:
        draft.put("schema", draft.current_schema())
        draft.put("partition-spec", spec["fields"])
    else:
        draft.top.pop("schema", None)
        draft.top.pop("partition-spec", None)
