"""Commits: that a table of Iceberg changed, told by the API itself once a commit is in effect."""

from typing import Annotated

from msgspec import Meta

from arco.core import json
from arco.events.field import Moment, Payload
from arco.events.statistics import TABLE_STATS_COLUMNS, nothing_counted, version_order
from arco.events.told import EventKind, Projection, Row, Told, kind, us
from arco.fold.tier2 import EXECUTIONS_DOMAIN, OCCURRED, TABLE_COMMITS, TABLE_STATS

NAME = "iceberg_committed"
VERSION = 1
DOMAIN = EXECUTIONS_DOMAIN

Figure = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # as the writer of a snapshot told it


class IcebergCommitted(Payload, frozen=True, kw_only=True):
    """A table or view of Iceberg changed."""

    table_id: str
    pointer_number: Annotated[int, Meta(ge=0, le=2**53)]
    operation: str
    actor: str
    engine: str | None = None
    update_source: str
    metadata_location: str
    previous_location: str | None = None
    snapshot_id: str | None = None  # as text: such ids do not fit into a float
    snapshot_operation: str | None = None
    row_count: Figure | None = None
    size_bytes: Figure | None = None
    file_count: Figure | None = None
    added_rows: Figure | None = None
    added_bytes: Figure | None = None
    changed: tuple[str, ...] = ()
    transaction: str | None = None
    committed_at: Moment


def _commit(told: Told, said: IcebergCommitted) -> tuple[Row]:
    row = (
        said.table_id,
        said.pointer_number,
        told.event_id,
        said.operation,
        said.actor,
        said.engine,
        said.update_source,
        said.snapshot_id,
        said.metadata_location,
        json.encode(said.changed).decode(),
        said.added_rows,
        said.added_bytes,
        us(said.committed_at),
        told.order(),
        told.occurred,
    )
    return (row,)


def _statistics(told: Told, said: IcebergCommitted) -> tuple[Row]:
    """A commit of a table without a snapshot says when it changed, and nothing of what is in it."""
    if said.snapshot_id is None:
        return (nothing_counted(told, said.table_id, us(said.committed_at)),)
    row = (
        said.table_id,
        said.row_count,
        said.size_bytes,
        said.file_count,
        us(said.committed_at),
        said.snapshot_id,
        "iceberg",
        version_order(told, said.pointer_number),
        told.occurred,
    )
    return (row,)


KINDS: tuple[EventKind, ...] = (
    kind(
        NAME,
        DOMAIN,
        IcebergCommitted,
        Projection(
            TABLE_COMMITS,
            (
                *("table_id", "pointer_number", "commit_id", "operation", "actor", "engine"),
                *("update_source", "snapshot_id", "metadata_location", "changed", "added_rows"),
                *("added_bytes", "committed_at", "_told", OCCURRED),
            ),
            _commit,
        ),
        Projection(TABLE_STATS, TABLE_STATS_COLUMNS, _statistics),
        example={
            "table_id": "01a1e0f6-9113-7475-bb94-e3fac6dcb4cd",
            "pointer_number": 1,
            "operation": "commit",
            "actor": "user:local",
            "engine": "PyIceberg/0.12.0",
            "update_source": "iceberg_rest",
            "metadata_location": "s3://lake/orders/metadata/00001-8f2c.metadata.json",
            "previous_location": "s3://lake/orders/metadata/00000-11d0.metadata.json",
            "snapshot_id": "5780644538497694492",
            "snapshot_operation": "append",
            "row_count": 2,
            "size_bytes": 941,
            "file_count": 1,
            "added_rows": 2,
            "added_bytes": 941,
            "changed": ["add-snapshot", "set-snapshot-ref"],
            "committed_at": "2026-05-01T10:00:00Z",
        },
        ours=True,
    ),
)
ICEBERG_COMMITTED = KINDS[0].type
