"""Handlers of what events say about a table: its partitions, health and statistics."""

from typing import Literal

from arco.access.authorization import Operation
from arco.api.http.limits import MAX_PAGE_COLUMNS
from arco.api.http.reply import Reply
from arco.api.http.request import Call
from arco.api.http.route import AnyRoute
from arco.api.operations.reading import (
    FreshPageQuery,
    FreshQuery,
    Select,
    after_key,
    equal,
    event_table_route,
    from_row,
    open_reader,
    page_start,
    split_page,
)
from arco.api.operations.responses import (
    CheckResult,
    ColumnStatistics,
    Counts,
    PartitionPage,
    PartitionResponse,
    PartitionStatus,
    TableHealth,
    TableStatistics,
    columns_of,
)
from arco.api.services import Services
from arco.core import json
from arco.core.errors import NotFound

_PARTITION = columns_of(PartitionResponse, "detailed_status")
_DETAILED_STATUS = (
    "CASE WHEN status = 'FAILED' AND materialization_id IS NULL THEN 'FAILED_NEVER_MADE' "
    "WHEN status = 'FAILED' THEN 'FAILED_OLDER_DATA_SERVED' ELSE status END AS detailed_status"
)
_CHECK = columns_of(CheckResult)
_COLUMN = columns_of(ColumnStatistics)
_TABLE = columns_of(TableStatistics, "columns")
_MAX_CHECKS = 10_000
# Partition keys may be long, and go into page tokens: those with the same beginning are sorted by id.
_KEY = "substr(coalesce(partition_key, ''), 1, 300)"

Status = Literal["PASSED", "WARNING", "FAILED", "UNKNOWN"]


class PartitionsQuery(FreshPageQuery, frozen=True, kw_only=True):
    """Partitions of a table, or those in one status."""

    status: PartitionStatus | None = None


class TableFactHandlers:
    """Read what events say about tables."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def partitions(self, call: Call[PartitionsQuery, None]) -> Reply:
        """The partitions of a table, and how many are in which status."""
        query, table_id = call.query, call.path_params["table_id"]
        reader = await open_reader(self._services, call, query.page_token)
        of_table = [equal("table_id", table_id)]
        in_status = [] if query.status is None else [equal("status", query.status)]
        start = page_start(query.page_token)
        rows = await reader.rows(
            Select(
                "partitions",
                (*_PARTITION, _DETAILED_STATUS, f"{_KEY} AS sort_key"),
                [*of_table, *in_status, *after_key(_KEY, start, name="partition_id")],
                order_by=("sort_key", "partition_id"),
                limit=query.page_size + 1,
            )
        )
        counts = await reader.counts("partitions", "status", of_table)
        if not counts:
            await self._check_table(table_id)
        page, last_key = split_page(rows, query.page_size, "sort_key", "partition_id")
        document = PartitionPage(
            items=tuple(from_row(PartitionResponse, row) for row in page),
            status_counts=counts,
            next_page_token=reader.token(last_key),
        )
        return Reply(200, json.encode(document))

    async def health(self, call: Call[FreshQuery, None]) -> Reply:
        """The latest result of each check of a table."""
        table_id = call.path_params["table_id"]
        reader = await open_reader(self._services, call)
        newest = (
            "row_number() OVER (PARTITION BY check_name ORDER BY checked_at DESC, result_id DESC)"
        )
        of_table = [equal("table_id", table_id)]
        ranked = Select("quality_results", (*_CHECK, f"{newest} AS place"), of_table)
        rows = await reader.rows(
            Select(ranked, _CHECK, ["place = 1"], order_by=("check_name",), limit=_MAX_CHECKS)
        )
        if not rows:
            await self._check_table(table_id)
        checks = tuple(from_row(CheckResult, row) for row in rows)
        counts: Counts = {}
        for check in checks:
            counts[check.status or "UNKNOWN"] = counts.get(check.status or "UNKNOWN", 0) + 1
        document = TableHealth(
            table_id=table_id, status=_worst(counts), status_counts=counts, checks=checks
        )
        return Reply(200, json.encode(document))

    async def statistics(self, call: Call[FreshQuery, None]) -> Reply:
        """What was counted in a table and its columns."""
        table_id = call.path_params["table_id"]
        reader = await open_reader(self._services, call)
        of_table = [equal("table_id", table_id)]
        rows = await reader.rows(Select("table_stats", _TABLE, of_table, limit=1))
        column_rows = await reader.rows(
            Select(
                "column_stats", _COLUMN, of_table, order_by=("column_id",), limit=MAX_PAGE_COLUMNS
            )
        )
        if not rows and not column_rows:
            await self._check_table(table_id)
        columns = tuple(from_row(ColumnStatistics, row) for row in column_rows)
        table_row = rows[0] if rows else {"table_id": table_id}
        return Reply(200, json.encode(from_row(TableStatistics, table_row, columns=columns)))

    async def _check_table(self, table_id: str) -> None:
        """`NotFound` unless the catalog has the table."""
        snapshot = await self._services.reader.head()
        if not await snapshot.has_object(table_id):
            raise NotFound(f"there is no table {table_id[:80]!r}, and no event names one")


def _worst(counts: Counts) -> Status:
    for status in ("FAILED", "WARNING", "PASSED"):
        if counts.get(status):
            return status
    return "UNKNOWN"


def table_fact_routes(on: TableFactHandlers) -> tuple[AnyRoute, ...]:
    """The routes of partitions, health and statistics of tables."""
    table = "/api/v1/tables/{table_id}"
    partitions, health = f"{table}/partitions", f"{table}/health"
    return (
        event_table_route(
            partitions, Operation.LIST_PARTITIONS, on.partitions, PartitionsQuery, PartitionPage
        ),
        event_table_route(health, Operation.GET_TABLE_HEALTH, on.health, FreshQuery, TableHealth),
        event_table_route(
            f"{table}/statistics",
            Operation.GET_STATISTICS,
            on.statistics,
            FreshQuery,
            TableStatistics,
        ),
    )
