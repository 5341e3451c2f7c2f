"""Reads of the tables of events in `system`: all queries of one request read the same manifest.

A page token pins the manifest for the pages that follow. A fresh read has none: each of its pages reads all
acknowledged events of its time, and goes on after the last key. `Select` is the one place where a client's
text becomes SQL.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from arco.access.authorization import Operation
from arco.api.http.limits import PAGE_SIZE
from arco.api.http.request import AtQuery, Call, Freshness, PageSize, PageToken, QueryParams
from arco.api.http.route import AnyRoute, ResponseSpec, read_route
from arco.api.http.snapshots import MALFORMED, PageCursor, decode_page_token, take_page
from arco.api.responses import ResponseModel
from arco.api.services import QueryEngine, Services
from arco.catalog.snapshot import Snapshot
from arco.core import json
from arco.core.errors import Invalid, NotFound
from arco.core.sql_literal import quote_text
from arco.fold.tier2 import EXECUTIONS_DOMAIN

D = TypeVar("D", bound=ResponseModel)

_NUMBER = re.compile(r"-?[0-9]{1,19}")


def equal(column: str, text: str) -> str:
    """The condition that a column has this text."""
    return f"{column} = {quote_text(text)}"


@dataclass(frozen=True)
class Select:
    """A query of a table of `system`, or of another query. Only literals may hold a client's text."""

    table: "str | Select"
    columns: Sequence[str]
    where: Sequence[str] = ()
    group_by: Sequence[str] = ()
    order_by: Sequence[str] = ()
    limit: int | None = None

    def __str__(self) -> str:
        source = f"system.{self.table}" if isinstance(self.table, str) else f"({self.table})"
        parts = [f"SELECT {', '.join(self.columns)} FROM {source}"]  # noqa: S608 - see above
        if self.where:
            parts.append("WHERE " + " AND ".join(f"({each})" for each in self.where))
        if self.group_by:
            parts.append("GROUP BY " + ", ".join(self.group_by))
        if self.order_by:
            parts.append("ORDER BY " + ", ".join(self.order_by))
        if self.limit is not None:
            parts.append(f"LIMIT {self.limit}")
        return " ".join(parts)


class PageKey(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last row of a page."""

    key: str  # the value that the list is sorted by
    name: str  # distinguishes rows with the same value


class FreshQuery(AtQuery, frozen=True, kw_only=True):
    """A read of a published manifest, or of all acknowledged events."""

    freshness: Freshness | None = None


class FreshPageQuery(FreshQuery, frozen=True, kw_only=True):
    """Such a read, page by page."""

    page_size: PageSize = PAGE_SIZE
    page_token: PageToken | None = None


class EventTableReader:
    """Reads one manifest; its `number` is -1 for a fresh read, or if nothing was published."""

    def __init__(
        self, engine: QueryEngine, number: int, *, fresh: bool, caller: str | None = None
    ) -> None:
        self._engine = engine
        self._caller = caller
        self.number = number
        self._fresh = fresh

    async def rows(self, select: Select) -> list[dict[str, Any]]:
        """The rows of a query, with maps as dicts."""
        if self._fresh:
            table: pa.Table = await self._engine.query(
                str(select), freshness="fresh", caller=self._caller
            )
        elif self.number < 0:
            return []
        else:
            table = await self._engine.query(
                str(select), as_of=str(self.number), caller=self._caller
            )
        return list(table.to_pylist(maps_as_pydicts="strict"))

    async def counts(self, table: str, column: str, where: list[str]) -> dict[str, int]:
        """The number of rows by value of a column; null counts as UNKNOWN."""
        select = Select(
            table,
            (f"coalesce({column}, 'UNKNOWN') AS value", "count(*) AS count"),
            where,
            group_by=("1",),
            order_by=("1",),
        )
        return {row["value"]: row["count"] for row in await self.rows(select)}

    def token(self, key: str | None) -> str | None:
        """The token of the page after this key."""
        return None if key is None else PageCursor(max(0, self.number), key).encode()


async def open_reader(
    services: Services, call: Call[Any, None], page_token: str | None = None
) -> EventTableReader:
    """The reader for a request."""
    query: FreshQuery = call.query
    fresh = query.freshness == "fresh"
    if fresh and query.as_of is not None:
        raise Invalid("as_of asks for what was published then: leave it out for a fresh read")
    cursor = None if page_token is None else decode_page_token(page_token)
    snapshot = None if fresh else await _snapshot(services, query.as_of, cursor)
    number = -1 if snapshot is None else snapshot.number
    return EventTableReader(services.engine, number, fresh=fresh, caller=call.caller)


async def _snapshot(services: Services, as_of: str | None, cursor: PageCursor | None) -> Snapshot:
    reader = services.domains[EXECUTIONS_DOMAIN]
    if cursor is None:
        return await reader.at(as_of)
    try:
        return await reader.at_number(cursor.number)
    except NotFound:
        return await reader.head()  # it was collected: the list goes on in the newest (P29)


def page_start(page_token: str | None) -> PageKey | None:
    """The last row of the page before; None for the first page."""
    if page_token is None:
        return None
    try:
        return json.decode(decode_page_token(page_token).key.encode(), PageKey)
    except Invalid as problem:
        raise Invalid(MALFORMED) from problem


def after_key(
    sort_key: str, last_key: PageKey | None, *, name: str, numeric: bool = False
) -> list[str]:
    """The condition of the rows after `last_key`: ascending for texts, descending for numbers."""
    if last_key is None:
        return []
    if numeric and not _NUMBER.fullmatch(last_key.key):
        raise Invalid(MALFORMED)
    value, sign = (last_key.key, "<") if numeric else (quote_text(last_key.key), ">")
    return [
        f"{sort_key} {sign} {value} OR ({sort_key} = {value} AND {name} > {quote_text(last_key.name)})"
    ]


def split_page(
    rows: list[dict[str, Any]], size: int, sort_key: str, name: str
) -> tuple[list[dict[str, Any]], str | None]:
    """The rows of a page, and the key of its last if there are more."""
    return take_page(
        rows, size, lambda row: json.encode(PageKey(str(row[sort_key]), row[name])).decode()
    )


def from_row(response: type[D], row: dict[str, Any], **others: object) -> D:
    """A row as a response, without the columns that are only for sorting."""
    names = {field.name for field in msgspec.structs.fields(response)}
    return response(**{name: value for name, value in row.items() if name in names}, **others)


def event_table_route(
    path: str, operation: Operation, handler: Any, query: type[QueryParams], response: Any
) -> AnyRoute:
    """A route that reads tables of events."""
    spec = ResponseSpec(200, "As the events report it.", response)
    return read_route(path, operation, handler, query, spec, runs_sql=True)
