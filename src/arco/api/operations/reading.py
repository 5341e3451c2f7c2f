"""One request's look at the tables of events: all its queries are of one moment.

Unless it is to be fresh, the moment is a manifest of the domain; a page token pins it for the pages that
follow. Fresh pages are each of their own moment, and go on behind the last key.
"""

import re
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from arco.api.limits import PAGE_SIZE
from arco.api.operations.selection import Select, literal
from arco.api.paging import MALFORMED, Token, cut, unpack
from arco.api.query_params import AtQuery, Freshness, PageSize, PageToken
from arco.api.route import Call
from arco.api.services import Engine, Services
from arco.api.wire import Document
from arco.catalog.snapshot import Snapshot
from arco.core import json
from arco.core.errors import Invalid, NotFound
from arco.fold.tier2 import EXECUTIONS_DOMAIN

D = TypeVar("D", bound=Document)


class Spot(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a page ends."""

    key: str  # that it is sorted by
    name: str  # of several with this key


_NUMBER = re.compile(r"-?[0-9]{1,19}")


class FreshQuery(AtQuery, frozen=True, kw_only=True):
    """A read of what is published, now or then, or of all that was acknowledged."""

    freshness: Freshness | None = None


class FreshPageQuery(FreshQuery, frozen=True, kw_only=True):
    """A list of that, page by page."""

    page_size: PageSize = PAGE_SIZE
    page_token: PageToken | None = None


class Reading:
    """A look at one moment; `number` is -1 where nothing was published."""

    def __init__(
        self, engine: Engine, number: int, *, fresh: bool, caller: str | None = None
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
        """How many rows have which value of a column; those without one count as UNKNOWN."""
        select = Select(
            table,
            (f"coalesce({column}, 'UNKNOWN') AS value", "count(*) AS count"),
            where,
            group_by=("1",),
            order_by=("1",),
        )
        return {row["value"]: row["count"] for row in await self.rows(select)}

    def token(self, key: str | None) -> str | None:
        """The token of the page after the one that ends with this key."""
        return None if key is None else Token(max(0, self.number), key).pack()


async def look(services: Services, call: Call[Any, None], page_token: str | None = None) -> Reading:
    """The moment that a request is about."""
    query: FreshQuery = call.query
    fresh = query.freshness == "fresh"
    if fresh and query.as_of is not None:
        raise Invalid("as_of asks for what was published then: leave it out for a fresh read")
    token = None if page_token is None else unpack(page_token)
    snapshot = None if fresh else await _snapshot(services, query.as_of, token)
    number = -1 if snapshot is None else snapshot.number
    return Reading(services.engine, number, fresh=fresh, caller=call.caller)


async def _snapshot(services: Services, as_of: str | None, token: Token | None) -> Snapshot:
    reader = services.domains[EXECUTIONS_DOMAIN]
    if token is None:
        return await reader.at(as_of)
    try:
        return await reader.at_number(token.number)
    except NotFound:
        return await reader.head()  # it was collected: the list goes on where it is (P29)


def after(page_token: str | None) -> Spot | None:
    """The sort key and the id that a page goes on behind; None for the first."""
    if page_token is None:
        return None
    try:
        return json.decode(unpack(page_token).key.encode(), Spot)
    except Invalid as problem:
        raise Invalid(MALFORMED) from problem


def behind(sort_key: str, spot: Spot | None, *, name: str, numeric: bool = False) -> list[str]:
    """The condition that a page goes on behind a spot: upwards in texts, downwards in numbers."""
    if spot is None:
        return []
    if numeric and not _NUMBER.fullmatch(spot.key):
        raise Invalid(MALFORMED)
    value, sign = (spot.key, "<") if numeric else (literal(spot.key), ">")
    return [
        f"{sort_key} {sign} {value} OR ({sort_key} = {value} AND {name} > {literal(spot.name)})"
    ]


def page(
    rows: list[dict[str, Any]], size: int, sort_key: str, name: str
) -> tuple[list[dict[str, Any]], str | None]:
    """The rows of a page, and the key of its last if there are more."""
    return cut(rows, size, lambda row: json.encode(Spot(str(row[sort_key]), row[name])).decode())


def document(kind: type[D], row: dict[str, Any], **others: object) -> D:
    """A row as a document; what stands in it for sorting alone is left out."""
    names = {field.name for field in msgspec.structs.fields(kind)}
    return kind(**{name: value for name, value in row.items() if name in names}, **others)
