"""Events of tables: Iceberg commits, and the statistics of a profiler.

Both set the statistics of a table. The API writes `iceberg_committed` once a commit is in effect.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
from msgspec import Meta

from arco.core import json
from arco.events.payload import ColumnProfile, Count, Id, Payload, Timestamp
from arco.events.projection import (
    EventBatch,
    EventKind,
    ProjectedRows,
    Projection,
    event_kind,
    to_micros_or_none,
)
from arco.fold.tier2 import COLUMN_STATS, EXECUTIONS_DOMAIN, ORDER, TABLE_COMMITS, TABLE_STATS
from arco.ledger.envelope import RowVolume

ICEBERG_COMMITTED_NAME = "iceberg_committed"
ICEBERG_COMMITTED_VERSION = 1
DOMAIN = EXECUTIONS_DOMAIN  # of `iceberg_committed`

Figure = Annotated[
    int, Meta(ge=0, le=2**63 - 1)
]  # of a snapshot summary, as its writer recorded it

PROFILER = "profiler"


class TableProfiled(Payload, frozen=True, kw_only=True):
    """A profiler counted the rows, files and bytes of a table and profiled its columns."""

    table_id: Id
    # Of the table, for Iceberg the pointer number. Outranks every clock.
    version: Count | None = None
    snapshot_id: Id | None = None
    row_count: Count | None = None
    size_bytes: Count | None = None
    file_count: Count | None = None
    last_modified_at: Timestamp | None = None
    columns: Annotated[tuple[ColumnProfile, ...], Meta(max_length=10_000)] = ()


def _version_order(batch: EventBatch[Any], versions: Sequence[int | None]) -> pa.Array:
    """Orders by the version of the table; an event without a version is outranked by any with one."""
    return batch.order(causal=[0 if each is None else each + 1 for each in versions])


def _table_profile(batch: EventBatch[TableProfiled]) -> ProjectedRows:
    """A profile without counts leaves the earlier counts."""
    counts = {
        **batch.fields("row_count", "size_bytes", "file_count", "snapshot_id"),
        "source": batch.repeat(PROFILER),
        ORDER: _version_order(batch, batch.field("version")),
    }
    has_counted = [
        any(
            each is not None for each in (payload.row_count, payload.size_bytes, payload.file_count)
        )
        for payload in batch.payloads
    ]
    modified = [to_micros_or_none(payload.last_modified_at) for payload in batch.payloads]
    columns = {**batch.fields("table_id"), "last_modified_at": modified}
    return ProjectedRows(batch, {**columns, **batch.only_where(has_counted, counts)})


class _ProfiledColumn(NamedTuple):
    """A column profile, and the payload that it is from."""

    payload: TableProfiled
    column: ColumnProfile


def _profiled_columns(payload: TableProfiled) -> Iterable[_ProfiledColumn]:
    """If a column occurs twice, the first is used: one event has one order."""
    columns = {each.column_id: each for each in reversed(payload.columns)}
    return [_ProfiledColumn(payload, each) for each in columns.values()]


def _count_columns(profile: TableProfiled) -> RowVolume:
    repeated_bytes = len(profile.table_id) + len(profile.snapshot_id or "")
    return RowVolume(len(profile.columns), len(profile.columns) * repeated_bytes)


def _column_profiles(batch: EventBatch[TableProfiled]) -> ProjectedRows:
    exploded = batch.explode(_profiled_columns)
    columns = [each.column for each in exploded.payloads]
    profiles = [each.payload for each in exploded.payloads]
    names = ("column_id", "column_name", "null_count", "distinct_count", "min_value", "max_value")
    return ProjectedRows(
        exploded,
        {
            **{name: [getattr(each, name) for each in columns] for name in (*names, "size_bytes")},
            "table_id": [each.table_id for each in profiles],
            "row_count": [
                payload.row_count if column.row_count is None else column.row_count
                for payload, column in exploded.payloads
            ],
            "last_modified_at": [to_micros_or_none(each.last_modified_at) for each in profiles],
            "snapshot_id": [each.snapshot_id for each in profiles],
            "source": exploded.repeat(PROFILER),
            ORDER: _version_order(exploded, [each.version for each in profiles]),
        },
    )


class IcebergCommitted(Payload, frozen=True, kw_only=True):
    """An Iceberg table or view changed."""

    table_id: str
    pointer_number: Annotated[int, Meta(ge=0, le=2**53)]
    operation: str
    actor: str
    engine: str | None = None
    update_source: str
    metadata_location: str
    previous_location: str | None = None
    snapshot_id: str | None = None  # as text: the ids do not fit into a float
    snapshot_operation: str | None = None
    row_count: Figure | None = None
    size_bytes: Figure | None = None
    file_count: Figure | None = None
    added_rows: Figure | None = None
    added_bytes: Figure | None = None
    changed: tuple[str, ...] = ()
    transaction: str | None = None
    run_id: str | None = None  # of the pipeline run that made the commit
    task_id: str | None = None
    attempt_id: str | None = None
    committed_at: Timestamp


def _commit(batch: EventBatch[IcebergCommitted]) -> ProjectedRows:
    return ProjectedRows(
        batch,
        {
            **batch.fields("table_id", "pointer_number", "operation", "actor", "engine"),
            **batch.fields("update_source", "snapshot_id", "metadata_location", "added_rows"),
            **batch.fields("added_bytes"),
            "commit_id": [line.event_id for line in batch.lines],
            "changed": [json.encode(payload.changed).decode() for payload in batch.payloads],
            "committed_at": batch.times("committed_at"),
            ORDER: batch.order(),
        },
    )


def _committed_statistics(batch: EventBatch[IcebergCommitted]) -> ProjectedRows:
    """A commit without a snapshot sets only the time of the change."""
    counts = {
        **batch.fields("row_count", "size_bytes", "file_count", "snapshot_id"),
        "source": batch.repeat("iceberg"),
        ORDER: _version_order(batch, batch.field("pointer_number")),
    }
    columns = {**batch.fields("table_id"), "last_modified_at": batch.times("committed_at")}
    has_snapshot = [payload.snapshot_id is not None for payload in batch.payloads]
    return ProjectedRows(batch, {**columns, **batch.only_where(has_snapshot, counts)})


KINDS: tuple[EventKind, ...] = (
    event_kind(
        "table_profiled",
        EXECUTIONS_DOMAIN,
        TableProfiled,
        Projection(TABLE_STATS, _table_profile),
        Projection(COLUMN_STATS, _column_profiles, _count_columns),
        example={
            "table_id": "tbl-orders",
            "row_count": 4_500_000,
            "size_bytes": 1_350_000_000,
            "file_count": 30,
            "last_modified_at": "2026-05-01T09:59:00Z",
            "columns": [
                {
                    "column_id": "col-amount",
                    "column_name": "amount",
                    "null_count": 12,
                    "distinct_count": 81_000,
                    "min_value": "0.01",
                    "max_value": "99999.00",
                }
            ],
        },
    ),
    event_kind(
        ICEBERG_COMMITTED_NAME,
        DOMAIN,
        IcebergCommitted,
        Projection(TABLE_COMMITS, _commit),
        Projection(TABLE_STATS, _committed_statistics),
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
        is_internal=True,
    ),
)
ICEBERG_COMMITTED = KINDS[-1].type
