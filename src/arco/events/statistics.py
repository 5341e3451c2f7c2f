"""Statistics: what a profiler counted in a table."""

from typing import Annotated

from msgspec import Meta

from arco.events.field import Count, Id, Moment, Payload, Text
from arco.events.told import EventKind, Projection, Row, Told, kind, us
from arco.fold.tier2 import COLUMN_STATS, EXECUTIONS_DOMAIN, OCCURRED, TABLE_STATS

TABLE_STATS_COLUMNS = (
    *("table_id", "row_count", "size_bytes", "file_count", "last_modified_at", "snapshot_id"),
    *("source", "_told", OCCURRED),
)
PROFILER = "profiler"


class ColumnProfile(Payload, frozen=True, kw_only=True):
    """What was counted in one column; values are told as text."""

    column_id: Id
    column_name: Id | None = None
    row_count: Count | None = None
    null_count: Count | None = None
    distinct_count: Count | None = None
    min_value: Text | None = None
    max_value: Text | None = None
    size_bytes: Count | None = None


class TableProfiled(Payload, frozen=True, kw_only=True):
    """A profiler counted rows, files and bytes of a table, and looked into its columns."""

    table_id: Id
    version: Count | None = (
        None  # of the table; for Iceberg the pointer number. Decides before clocks
    )
    snapshot_id: Id | None = None
    row_count: Count | None = None
    size_bytes: Count | None = None
    file_count: Count | None = None
    last_modified_at: Moment | None = None
    columns: Annotated[tuple[ColumnProfile, ...], Meta(max_length=10_000)] = ()


def version_order(told: Told, version: int | None) -> bytes:
    """Who does not know which version was looked at is outranked by who does."""
    return told.order(causal=0 if version is None else version + 1)


def nothing_counted(told: Told, table_id: str, modified: int | None) -> Row:
    """Who counted nothing leaves what others counted: without an order, nothing is said."""
    return (table_id, None, None, None, modified, None, None, None, told.occurred)


def _table(told: Told, said: TableProfiled) -> tuple[Row]:
    figures = (said.row_count, said.size_bytes, said.file_count)
    if figures == (None, None, None):
        return (nothing_counted(told, said.table_id, _modified(said)),)
    order = version_order(told, said.version)
    named = (said.table_id, *figures, _modified(said), said.snapshot_id, PROFILER)
    return ((*named, order, told.occurred),)


def _columns(told: Told, said: TableProfiled) -> list[Row]:
    """Should a column be told of twice, the first counts: one event has one order."""
    order, modified = version_order(told, said.version), _modified(said)
    columns = {each.column_id: each for each in reversed(said.columns)}
    return [
        (
            said.table_id,
            each.column_id,
            each.column_name,
            said.row_count if each.row_count is None else each.row_count,
            each.null_count,
            each.distinct_count,
            each.min_value,
            each.max_value,
            each.size_bytes,
            modified,
            said.snapshot_id,
            PROFILER,
            order,
            told.occurred,
        )
        for each in columns.values()
    ]


def _modified(said: TableProfiled) -> int | None:
    return None if said.last_modified_at is None else us(said.last_modified_at)


KINDS: tuple[EventKind, ...] = (
    kind(
        "table_profiled",
        EXECUTIONS_DOMAIN,
        TableProfiled,
        Projection(TABLE_STATS, TABLE_STATS_COLUMNS, _table),
        Projection(
            COLUMN_STATS,
            (
                *("table_id", "column_id", "column_name", "row_count", "null_count"),
                *("distinct_count", "min_value", "max_value", "size_bytes", "last_modified_at"),
                *("snapshot_id", "source", "_told", OCCURRED),
            ),
            _columns,
        ),
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
)
