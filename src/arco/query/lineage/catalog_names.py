"""Current names of tables and columns by their ids, and the column that an impact starts from.

Edges hold ids, and names only as they once were. Many ids are looked up together, so that files that are
not cached are read in parallel, and each schema is resolved once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arco.catalog.bucket import Bucket
from arco.catalog.model import AnyRow, ColumnRow, ObjectKind, ObjectRow, TableRow
from arco.catalog.name import print_dotted
from arco.catalog.snapshot import Snapshot
from arco.core.errors import NotFound
from arco.core.tasks import Tasks
from arco.fold.table import StateTable
from arco.fold.tier1 import COLUMNS, OBJECTS, TABLES
from arco.query.lineage.graph import BY_ID, BY_NAME, Indices, LineageGraph, mask, ranges

R = TypeVar("R", bound=AnyRow)

_BATCH = 256  # rows that are decoded before other tasks get a turn


@dataclass(frozen=True)
class TableLabel:
    """The current name of a table or view."""

    name: str
    is_view: bool
    dropped: bool


@dataclass(frozen=True)
class _SchemaName:
    levels: tuple[str, ...]
    live: bool


class CatalogNames:
    """Looks up tables and columns by their ids."""

    def __init__(self, snapshot: Snapshot, tasks: Tasks) -> None:
        self._snapshot = snapshot
        self._tasks = tasks
        self._schemas: dict[str, _SchemaName] = {}

    async def tables(self, ids: Iterable[str]) -> dict[str, TableLabel]:
        """The tables and views with these ids, including dropped ones."""
        schema_ids = await self._schema_ids(sorted(set(ids)))
        schemas = sorted(set(schema_ids.values()))
        buckets = await self._buckets(TABLES, schemas, TableRow)
        labels: dict[str, TableLabel] = {}
        for at, (table_id, schema_id) in enumerate(schema_ids.items(), start=1):
            row = buckets[schema_id].get((schema_id, table_id))
            if row is not None:
                labels[table_id] = await self._label(row.row)
            if at % _BATCH == 0:
                await self._tasks.turn()
        return labels

    async def columns(self, table_ids: Iterable[str]) -> dict[str, dict[str, ColumnRow]]:
        """The columns of tables by their ids, including dropped ones."""
        wanted = sorted(set(table_ids))
        buckets = await self._buckets(COLUMNS, wanted, ColumnRow)
        columns: dict[str, dict[str, ColumnRow]] = {}
        for each in wanted:
            rows = buckets[each].below((each,), state=None)
            columns[each] = {row.row.column_id: row.row for row in rows}
            await self._tasks.turn()
        return columns

    async def _schema_ids(self, ids: list[str]) -> dict[str, str]:
        """The schema of each id that is a table or view."""
        buckets = await self._buckets(OBJECTS, ids, ObjectRow)
        schema_ids: dict[str, str] = {}
        for at, each in enumerate(ids, start=1):
            entry = buckets[each].get((each,))
            if entry is not None and entry.row.kind in (ObjectKind.TABLE, ObjectKind.VIEW):
                schema_ids[each] = entry.row.bucket_key
            if at % _BATCH == 0:
                await self._tasks.turn()
        return schema_ids

    async def _buckets(
        self, table: StateTable, values: list[str], kind: type[R]
    ) -> dict[str, Bucket[R]]:
        """The bucket of each value, by value: two values of one bucket may be in different files."""
        by_value: dict[str, Bucket[R]] = {}
        for start in range(0, len(values), _BATCH):
            batch = values[start : start + _BATCH]
            buckets = await self._tasks.gather(
                *(self._snapshot.bucket(table, each, kind) for each in batch)
            )
            by_value |= zip(batch, buckets, strict=True)
            await self._tasks.turn()
        return by_value

    async def _label(self, row: TableRow) -> TableLabel:
        schema = self._schemas.get(row.schema_id)
        if schema is None:
            schema = self._schemas[row.schema_id] = await self._schema(row.schema_id)
        return TableLabel(
            name=print_dotted((*schema.levels, row.name)),
            is_view=row.kind is ObjectKind.VIEW,
            dropped=row.dropped_at is not None or not schema.live,
        )

    async def _schema(self, schema_id: str) -> _SchemaName:
        schema = await self._snapshot.schema_by_id(schema_id)
        if schema is None:
            return _SchemaName((), live=False)
        levels = await self._snapshot.levels(schema.row)
        return _SchemaName(levels, live=await self._snapshot.is_live(schema.row))


def unknown_table(table_id: str) -> NotFound:
    """The error for an id that neither the catalog nor any edge has."""
    return NotFound(f"there is no table {table_id[:80]!r}, and no lineage of one")


@dataclass(frozen=True)
class StartColumn:
    """A column by its current name, and its vertices in the graph."""

    name: str
    id: str | None
    vertices: list[int]


async def find_column(
    names: CatalogNames, graph: LineageGraph, table_id: str, column: str
) -> StartColumn:
    """The column of a table by its name or id; a live column is preferred to a dropped one.

    `NotFound` if neither the catalog nor any edge has the table or the column.
    """
    tables = await names.tables([table_id])
    table = graph.table_numbers.get(table_id)
    if table_id not in tables and table is None:
        raise unknown_table(table_id)
    rows = (await names.columns(tables)).get(table_id, {})
    row = _in_catalog(rows, column)
    texts = [BY_NAME + column]
    if row is not None:
        texts = [BY_ID + row.column_id, BY_NAME + row.name]
    vertices = set() if table is None else _by_text(graph, table, texts)
    if row is None and table is not None:
        vertices |= _by_text(graph, table, [BY_ID + column]) | _by_observed_name(
            graph, table, column
        )
    if row is None and not vertices:
        raise NotFound(f"the table has no column {column[:80]!r}, and no lineage of one")
    if row is not None:
        return StartColumn(row.name, row.column_id, sorted(vertices))
    return StartColumn(column, None, sorted(vertices))


def _in_catalog(rows: dict[str, ColumnRow], column: str) -> ColumnRow | None:
    matches = [row for row in rows.values() if column in (row.name, row.column_id)]
    live = [row for row in matches if row.dropped_at is None]
    if live:
        return live[0]
    return max(matches, key=lambda row: (row.updated_at, row.column_id), default=None)


def _by_text(graph: LineageGraph, table: int, texts: list[str]) -> set[int]:
    numbers = (graph.column_numbers.get((table, text)) for text in texts)
    return {number for number in numbers if number is not None}


def _by_observed_name(graph: LineageGraph, table: int, column: str) -> set[int]:
    """The columns of a table that edges observed under a name, as a source or a target."""
    leaving = (
        graph.pair_starts[graph.out_starts[table]],
        graph.pair_starts[graph.out_starts[table + 1]],
    )
    made = graph.in_pairs[graph.in_starts[table] : graph.in_starts[table + 1]]
    sides = (
        (np.arange(*leaving), "source_name", graph.sources),
        (_edges_of(graph, made), "target_name", graph.targets),
    )
    columns: set[int] = set()
    for edges, name, vertices in sides:
        names = graph.rows.column(name).take(pa.array(edges)).combine_chunks()
        own = vertices[edges[mask(pc.equal(names, column))]]
        columns |= set(own[own < len(graph.columns)].tolist())
    return columns


def _edges_of(graph: LineageGraph, pairs: Indices) -> Indices:
    return ranges(graph.pair_starts[pairs], graph.pair_starts[pairs + 1])
