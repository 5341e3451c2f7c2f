"""Names: what tables and columns are called now, by one snapshot of the catalog.

Edges know ids, and names only as they once were. Many ids are looked up together, so files that are not in
memory yet are read at once, and each schema is asked once whether it is there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arco.catalog.model import AnyRow, ColumnRow, ObjectKind, ObjectRow, TableRow
from arco.catalog.name import print_dotted
from arco.catalog.shelf import Shelf
from arco.catalog.snapshot import Snapshot
from arco.core.errors import NotFound
from arco.core.tasks import Tasks
from arco.fold.table import StateTable
from arco.fold.tier1 import COLUMNS, OBJECTS, TABLES
from arco.query.lineage.graph import BY_ID, BY_NAME, Indices, LineageGraph, mask, ranges

R = TypeVar("R", bound=AnyRow)

_AT_ONCE = 256  # rows that are decoded without letting others have their turn


@dataclass(frozen=True)
class TableLabel:
    """A table as the catalog has it."""

    name: str
    is_view: bool
    dropped: bool


@dataclass(frozen=True)
class _Schema:
    levels: tuple[str, ...]
    live: bool


class CatalogNames:
    """Looks tables and columns up by their ids."""

    def __init__(self, snapshot: Snapshot, tasks: Tasks) -> None:
        self._snapshot = snapshot
        self._tasks = tasks
        self._schemas: dict[str, _Schema] = {}

    async def tables(self, ids: Iterable[str]) -> dict[str, TableLabel]:
        """The tables and views among these, dropped or not."""
        homes = await self._homes(sorted(set(ids)))
        schemas = sorted(set(homes.values()))
        shelves = await self._shelves(TABLES, schemas, TableRow)
        found: dict[str, TableLabel] = {}
        for at, (table_id, schema_id) in enumerate(homes.items(), start=1):
            row = shelves[schema_id].get((schema_id, table_id))
            if row is not None:
                found[table_id] = await self._named(row.row)
            if at % _AT_ONCE == 0:
                await self._tasks.turn()
        return found

    async def columns(self, table_ids: Iterable[str]) -> dict[str, dict[str, ColumnRow]]:
        """The columns of tables by their ids, dropped or not."""
        wanted = sorted(set(table_ids))
        shelves = await self._shelves(COLUMNS, wanted, ColumnRow)
        found: dict[str, dict[str, ColumnRow]] = {}
        for each in wanted:
            rows = shelves[each].below((each,), state=None)
            found[each] = {row.row.column_id: row.row for row in rows}
            await self._tasks.turn()
        return found

    async def _homes(self, ids: list[str]) -> dict[str, str]:
        """The schemas of those ids that are of tables or views."""
        shelves = await self._shelves(OBJECTS, ids, ObjectRow)
        homes: dict[str, str] = {}
        for at, each in enumerate(ids, start=1):
            found = shelves[each].get((each,))
            if found is not None and found.row.kind in (ObjectKind.TABLE, ObjectKind.VIEW):
                homes[each] = found.row.bucket_key
            if at % _AT_ONCE == 0:
                await self._tasks.turn()
        return homes

    async def _shelves(
        self, table: StateTable, values: list[str], kind: type[R]
    ) -> dict[str, Shelf[R]]:
        """The shelf of each value: two values of one bucket may be in different files of it."""
        found: dict[str, Shelf[R]] = {}
        for start in range(0, len(values), _AT_ONCE):
            some = values[start : start + _AT_ONCE]
            shelves = await self._tasks.gather(
                *(self._snapshot.shelf(table, each, kind) for each in some)
            )
            found |= zip(some, shelves, strict=True)
            await self._tasks.turn()
        return found

    async def _named(self, row: TableRow) -> TableLabel:
        schema = self._schemas.get(row.schema_id)
        if schema is None:
            schema = self._schemas[row.schema_id] = await self._schema(row.schema_id)
        return TableLabel(
            name=print_dotted((*schema.levels, row.name)),
            is_view=row.kind is ObjectKind.VIEW,
            dropped=row.dropped_at is not None or not schema.live,
        )

    async def _schema(self, schema_id: str) -> _Schema:
        found = await self._snapshot.schema_by_id(schema_id)
        if found is None:
            return _Schema((), live=False)
        levels = await self._snapshot.levels(found.row)
        return _Schema(levels, live=await self._snapshot.is_live(found.row))


def unknown_table(table_id: str) -> NotFound:
    """What is said of an id that nobody knows."""
    return NotFound(f"there is no table {table_id[:80]!r}, and nothing was told of one")


@dataclass(frozen=True)
class StartColumn:
    """A column by the name that it has now."""

    name: str
    id: str | None
    vertices: list[int]


async def find_column(
    names: CatalogNames, graph: LineageGraph, table_id: str, column: str
) -> StartColumn:
    """The column of a table by its name or id; one that is there comes before one that was dropped.

    `NotFound` if the table or the column is known neither to the catalog nor to any edge.
    """
    tables = await names.tables([table_id])
    table = graph.table_numbers.get(table_id)
    if table_id not in tables and table is None:
        raise unknown_table(table_id)
    rows = (await names.columns(tables)).get(table_id, {})
    found = _in_catalog(rows, column)
    texts = [BY_NAME + column]
    if found is not None:
        texts = [BY_ID + found.column_id, BY_NAME + found.name]
    vertices = set() if table is None else _by_text(graph, table, texts)
    if found is None and table is not None:
        vertices |= _by_text(graph, table, [BY_ID + column]) | _as_seen(graph, table, column)
    if found is None and not vertices:
        raise NotFound(f"the table has no column {column[:80]!r}, and nothing was told of one")
    if found is not None:
        return StartColumn(found.name, found.column_id, sorted(vertices))
    return StartColumn(column, None, sorted(vertices))


def _in_catalog(rows: dict[str, ColumnRow], column: str) -> ColumnRow | None:
    named = [row for row in rows.values() if column in (row.name, row.column_id)]
    live = [row for row in named if row.dropped_at is None]
    if live:
        return live[0]
    return max(named, key=lambda row: (row.updated_at, row.column_id), default=None)


def _by_text(graph: LineageGraph, table: int, texts: list[str]) -> set[int]:
    numbers = (graph.column_numbers.get((table, text)) for text in texts)
    return {number for number in numbers if number is not None}


def _as_seen(graph: LineageGraph, table: int, column: str) -> set[int]:
    """The columns of a table that edges have seen under a name, on either side."""
    leaving = (
        graph.pair_starts[graph.out_starts[table]],
        graph.pair_starts[graph.out_starts[table + 1]],
    )
    made = graph.in_pairs[graph.in_starts[table] : graph.in_starts[table + 1]]
    sides = (
        (np.arange(*leaving), "source_name", graph.sources),
        (_edges_of(graph, made), "target_name", graph.targets),
    )
    found: set[int] = set()
    for edges, name, vertices in sides:
        names = graph.rows.column(name).take(pa.array(edges)).combine_chunks()
        own = vertices[edges[mask(pc.equal(names, column))]]
        found |= set(own[own < len(graph.columns)].tolist())
    return found


def _edges_of(graph: LineageGraph, pairs: Indices) -> Indices:
    return ranges(graph.pair_starts[pairs], graph.pair_starts[pairs + 1])
