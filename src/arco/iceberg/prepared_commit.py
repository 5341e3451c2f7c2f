"""A prepared commit: new metadata, the file it is written to and the pointer that will name the file.

The file name is unique to the attempt (P3) and begins with the pointer number it is meant for, so a
file that no pointer ever named can be recognised by its name (P27).
"""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from arco.catalog.pending_request import Caller
from arco.catalog.publication import Publication
from arco.core.clock import utc
from arco.core.errors import Denied, Unavailable, Unknown
from arco.core.hashing import sha256_hex
from arco.core.ids import new_object_id
from arco.core.json import Json
from arco.iceberg.after_commit import TableShape, write_pending_receipt
from arco.iceberg.context import IcebergContext
from arco.iceberg.engine.columns import columns_of
from arco.iceberg.engine.metadata import (
    Metadata,
    current_schema,
    encode_metadata,
    logged_files,
    properties_of,
)
from arco.iceberg.loaded_metadata import LoadedMetadata
from arco.iceberg.pointer import Pointer, PointerOperation, SnapshotFacts
from arco.iceberg.table_paths import (
    NO_PATHS,
    PathChanges,
    path_changes,
    paths_beside,
    reserve_paths,
    reserve_place,
)
from arco.ledger.idempotency import ClaimHold

_LEVEL = 1
_DELETE = "write.metadata.delete-after-commit.enabled"


@dataclass(frozen=True)
class PreparedCommit:
    """New metadata with its file and its pointer, before they are written."""

    number: int
    location: str
    metadata: Metadata
    raw: bytes
    pointer: Pointer
    at: datetime
    is_stored: bool = False  # the metadata file exists already
    shape: TableShape | None = None  # for the catalog, if it differs from that of the base
    paths: PathChanges = NO_PATHS  # to be reserved before the pointer is created

    def obsolete_files(self, base: Metadata) -> Sequence[str]:
        """Older metadata files that the table's properties ask to delete, inside its location.

        Registered metadata may name files of other tables in its log.
        """
        if properties_of(self.metadata).get(_DELETE) != "true":
            return ()
        dropped_files = logged_files(base) - logged_files(self.metadata)
        table_folder = f"{str(self.metadata['location']).rstrip('/')}/"
        return sorted(each for each in dropped_files if each.startswith(table_folder))


def prepare_commit(
    context: IcebergContext,
    metadata: Metadata,
    *,
    number: int,
    caller: Caller,
    request_id: str,
    operation: str,
    previous: str | None,
    updates: Sequence[dict[str, Json]] = (),
    transaction: str | None = None,
    stored: LoadedMetadata | None = None,
    base: Metadata | None = None,
    publication: Publication | None = None,
) -> PreparedCommit:
    """Prepare metadata for pointer `number`; `stored` is its file if that exists already.

    `Invalid` if the columns differ from the base and the catalog cannot show them.
    """
    if stored is not None and stored.location is not None:
        location, raw = stored.location, stored.raw
    else:
        location = context.locations.metadata_file(
            str(metadata["location"]),
            properties_of(metadata),
            number,
            str(new_object_id(context.runtime)),
        )
        raw = encode_metadata(metadata)
    pointer = Pointer(
        request_id=request_id,
        operation=operation,
        actor=caller.actor,
        metadata_location=location,
        previous_location=previous,
        metadata_sha256=sha256_hex(raw),
        engine=caller.engine,
        update_source=caller.update_source,
        changed=tuple(dict.fromkeys(str(update.get("action")) for update in updates)),
        transaction=transaction,
        publication=publication,
        **pointer_facts(metadata),
    )
    now = utc(context.runtime.clock.now_ms())
    shape = None if base is None else _changed_shape(context, metadata, base)
    paths = NO_PATHS
    if base is not None and operation == PointerOperation.REGISTER:
        paths = PathChanges(added=paths_beside(context.locations, metadata))
    elif base is not None:
        paths = path_changes(context.locations, metadata, base, updates)
    return PreparedCommit(
        number,
        location,
        metadata,
        raw,
        pointer,
        now,
        is_stored=stored is not None,
        shape=shape,
        paths=paths,
    )


def _changed_shape(
    context: IcebergContext, metadata: Metadata, base: Metadata
) -> TableShape | None:
    schema, location = current_schema(metadata), metadata["location"]
    moved = location != base["location"]
    if current_schema(base) == schema and not moved:
        return None
    return TableShape(
        columns_of(schema), context.locations.stored(str(location)) if moved else None
    )


async def reserve_locations(
    context: IcebergContext, table_id: str, prepared: PreparedCommit, base: LoadedMetadata
) -> None:
    """Reserve the new location and paths in the catalog before the table uses them.

    `LocationTaken` if another table has one, `NotFound` if this table was dropped meanwhile.
    """
    location, actor = str(prepared.metadata["location"]), prepared.pointer.actor
    if location != base.metadata["location"]:
        await reserve_place(context, table_id, context.locations.stored(location), actor)
    await reserve_paths(context, table_id, prepared.paths, actor)


async def write_metadata(
    context: IcebergContext, table_id: str, prepared: PreparedCommit, hold: ClaimHold
) -> LoadedMetadata:
    """Write the metadata file and the pending receipt, and check the hold meanwhile (P11)."""
    if prepared.is_stored:
        await hold.check()
        return await context.load(prepared.location)
    compressed = prepared.location.endswith(".gz.metadata.json")
    stored = gzip.compress(prepared.raw, _LEVEL, mtime=0) if compressed else prepared.raw
    try:
        await context.runtime.tasks.gather(
            context.files.create(prepared.location, stored),
            write_pending_receipt(
                context.store, prepared.at, table_id, prepared.number, prepared.pointer
            ),
            hold.check(),
        )
    except Unknown as unclear:  # no pointer names the file yet, so nothing has happened
        raise Unavailable("the metadata could not be stored; retry") from unclear
    except Denied as refused:
        raise Unavailable("the store denied writing the metadata file") from refused
    return context.keep(prepared.location, prepared.raw, prepared.metadata)


def pointer_facts(metadata: Metadata) -> dict[str, Any]:
    """The members of a pointer that describe its metadata."""
    uuid = metadata.get("table-uuid") or metadata.get("view-uuid")
    return {
        "table_uuid": None if uuid is None else str(uuid),
        "schema_id": _integer(metadata.get("current-schema-id")),
        "sequence_number": _integer(metadata.get("last-sequence-number")) or 0,
        "snapshot": _snapshot(metadata),
    }


def _snapshot(metadata: Metadata) -> SnapshotFacts | None:
    current = _integer(metadata.get("current-snapshot-id"))
    if current is None or current < 0:
        return None
    snapshots = metadata.get("snapshots")
    snapshot: dict[str, Json] = {}
    for each in reversed(snapshots if isinstance(snapshots, list) else []):
        if isinstance(each, dict) and each.get("snapshot-id") == current:
            snapshot = each
            break
    summary = snapshot.get("summary")
    summary_values = summary if isinstance(summary, dict) else {}
    return SnapshotFacts(
        snapshot_id=current,
        operation=str(summary_values["operation"]) if "operation" in summary_values else None,
        rows=_counted(summary_values.get("total-records")),
        size_bytes=_counted(summary_values.get("total-files-size")),
        files=_counted(summary_values.get("total-data-files")),
        added_rows=_counted(summary_values.get("added-records")),
        added_bytes=_counted(summary_values.get("added-files-size")),
    )


def _integer(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _counted(value: Json) -> int | None:
    """A count in a snapshot's summary, which is text; None if it is not a number."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
