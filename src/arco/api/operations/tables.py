"""Handlers of what was told of a table: its partitions, its health, its statistics."""

from typing import Literal

from arco.api.limits import MOST_COLUMNS
from arco.api.operations.reading import (
    FreshPageQuery,
    FreshQuery,
    after,
    behind,
    document,
    look,
    page,
)
from arco.api.operations.selection import Select, equal
from arco.api.operations.wire import (
    CheckResult,
    ColumnStatistics,
    Counts,
    PartitionPage,
    PartitionStatus,
    PartitionThing,
    TableHealth,
    TableStatistics,
    columns_of,
)
from arco.api.route import Call, Reply
from arco.api.services import Services
from arco.core import json
from arco.core.errors import NotFound

_PARTITION = columns_of(PartitionThing, "detailed_status")
_DETAILED_STATUS = (
    "CASE WHEN status = 'FAILED' AND materialization_id IS NULL THEN 'FAILED_NEVER_MADE' "
    "WHEN status = 'FAILED' THEN 'FAILED_OLDER_DATA_SERVED' ELSE status END AS detailed_status"
)
_CHECK = columns_of(CheckResult)
_COLUMN = columns_of(ColumnStatistics)
_TABLE = columns_of(TableStatistics, "columns")
_MOST_CHECKS = 10_000
# A key may be long, and it goes into a token: what is alike at its beginning is ordered by id.
_KEY = "substr(coalesce(partition_key, ''), 1, 300)"

Status = Literal["PASSED", "WARNING", "FAILED", "UNKNOWN"]


class PartitionsQuery(FreshPageQuery, frozen=True, kw_only=True):
    """Partitions of a table, perhaps those in one status alone."""

    status: PartitionStatus | None = None


class TableFacts:
    """Reads what events say of tables."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def partitions(self, call: Call[PartitionsQuery, None]) -> Reply:
        """The partitions of a table, and how many are in which status."""
        query, table_id = call.query, call.names["table_id"]
        reading = await look(self._services, call, query.page_token)
        of_table = [equal("table_id", table_id)]
        wanted = [] if query.status is None else [equal("status", query.status)]
        spot = after(query.page_token)
        rows = await reading.rows(
            Select(
                "partitions",
                (*_PARTITION, _DETAILED_STATUS, f"{_KEY} AS sort_key"),
                [*of_table, *wanted, *behind(_KEY, spot, name="partition_id")],
                order_by=("sort_key", "partition_id"),
                limit=query.page_size + 1,
            )
        )
        counts = await reading.counts("partitions", "status", of_table)
        if not counts:
            await self._refuse_unknown(table_id)
        shown, last = page(rows, query.page_size, "sort_key", "partition_id")
        told = PartitionPage(
            items=tuple(document(PartitionThing, row) for row in shown),
            status_counts=counts,
            next_page_token=reading.token(last),
        )
        return Reply(200, json.encode(told))

    async def health(self, call: Call[FreshQuery, None]) -> Reply:
        """The latest result of each check of a table."""
        table_id = call.names["table_id"]
        reading = await look(self._services, call)
        newest = (
            "row_number() OVER (PARTITION BY check_name ORDER BY checked_at DESC, result_id DESC)"
        )
        of_table = [equal("table_id", table_id)]
        placed = Select("quality_results", (*_CHECK, f"{newest} AS place"), of_table)
        rows = await reading.rows(
            Select(placed, _CHECK, ["place = 1"], order_by=("check_name",), limit=_MOST_CHECKS)
        )
        if not rows:
            await self._refuse_unknown(table_id)
        checks = tuple(document(CheckResult, row) for row in rows)
        counts: Counts = {}
        for check in checks:
            counts[check.status or "UNKNOWN"] = counts.get(check.status or "UNKNOWN", 0) + 1
        told = TableHealth(
            table_id=table_id, status=_worst(counts), status_counts=counts, checks=checks
        )
        return Reply(200, json.encode(told))

    async def statistics(self, call: Call[FreshQuery, None]) -> Reply:
        """What was counted in a table and its columns."""
        table_id = call.names["table_id"]
        reading = await look(self._services, call)
        of_table = [equal("table_id", table_id)]
        rows = await reading.rows(Select("table_stats", _TABLE, of_table, limit=1))
        found = await reading.rows(
            Select("column_stats", _COLUMN, of_table, order_by=("column_id",), limit=MOST_COLUMNS)
        )
        if not rows and not found:
            await self._refuse_unknown(table_id)
        columns = tuple(document(ColumnStatistics, row) for row in found)
        counted = rows[0] if rows else {"table_id": table_id}
        return Reply(200, json.encode(document(TableStatistics, counted, columns=columns)))

    async def _refuse_unknown(self, table_id: str) -> None:
        """`NotFound` unless the catalog has the table: then nothing was told of it, and that is that."""
        snapshot = await self._services.reader.head()
        if not await snapshot.has_object(table_id):
            raise NotFound(f"there is no table {table_id[:80]!r}, and nothing was told of one")


def _worst(counts: Counts) -> Status:
    for status in ("FAILED", "WARNING", "PASSED"):
        if counts.get(status):
            return status
    return "UNKNOWN"
