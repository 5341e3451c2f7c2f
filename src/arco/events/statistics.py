"""Statistics: what a profiler counted in a table."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NamedTuple

import pyarrow as pa
from msgspec import Meta

from arco.events.field import Count, Id, Moment, Payload, Text
from arco.events.told import EventKind, Projection, Rows, Told, kind, us_or_none
from arco.fold.tier2 import COLUMN_STATS, EXECUTIONS_DOMAIN, TABLE_STATS
from arco.ledger.envelope import RowCount

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


def version_order(told: Told[Any], versions: Sequence[int | None]) -> pa.Array:
    """Who does not know which version was looked at is outranked by who does."""
    return told.order(causal=[0 if each is None else each + 1 for each in versions])


def _table(told: Told[TableProfiled]) -> Rows:
    """Who counted nothing leaves what others counted."""
    counts = {
        **told.fields("row_count", "size_bytes", "file_count", "snapshot_id"),
        "source": told.all(PROFILER),
        "_told": version_order(told, told.field("version")),
    }
    has_counted = [
        any(each is not None for each in (said.row_count, said.size_bytes, said.file_count))
        for said in told.said
    ]
    modified = [us_or_none(said.last_modified_at) for said in told.said]
    columns = {**told.fields("table_id"), "last_modified_at": modified}
    return Rows(told, {**columns, **told.where(has_counted, counts)})


class _Looked(NamedTuple):
    """A profile of a column, and the event that has it."""

    said: TableProfiled
    column: ColumnProfile


def _looked(said: TableProfiled) -> Iterable[_Looked]:
    """Should a column be told of twice, the first counts: one event has one order."""
    columns = {each.column_id: each for each in reversed(said.columns)}
    return [_Looked(said, each) for each in columns.values()]


def _count_columns(profile: TableProfiled) -> RowCount:
    repeated_bytes = len(profile.table_id) + len(profile.snapshot_id or "")
    return RowCount(len(profile.columns), len(profile.columns) * repeated_bytes)


def _columns(told: Told[TableProfiled]) -> Rows:
    of = told.spread(_looked)
    columns = [each.column for each in of.said]
    profiles = [each.said for each in of.said]
    names = ("column_id", "column_name", "null_count", "distinct_count", "min_value", "max_value")
    return Rows(
        of,
        {
            **{name: [getattr(each, name) for each in columns] for name in (*names, "size_bytes")},
            "table_id": [each.table_id for each in profiles],
            "row_count": [
                said.row_count if column.row_count is None else column.row_count
                for said, column in of.said
            ],
            "last_modified_at": [us_or_none(each.last_modified_at) for each in profiles],
            "snapshot_id": [each.snapshot_id for each in profiles],
            "source": of.all(PROFILER),
            "_told": version_order(of, [each.version for each in profiles]),
        },
    )


KINDS: tuple[EventKind, ...] = (
    kind(
        "table_profiled",
        EXECUTIONS_DOMAIN,
        TableProfiled,
        Projection(TABLE_STATS, _table),
        Projection(COLUMN_STATS, _columns, _count_columns),
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
