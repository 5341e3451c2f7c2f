"""Where an impact begins: the column that a caller has named, and the vertices that stand for it."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arco.catalog.model import ColumnRow
from arco.core.errors import NotFound
from arco.query.lineage.codes import Places, mask, ranges
from arco.query.lineage.graph import Graph
from arco.query.lineage.names import Names, unknown_table
from arco.query.lineage.sides import BY_ID, BY_NAME


@dataclass(frozen=True)
class Start:
    """A column by the name that it has now."""

    name: str
    id: str | None
    vertices: list[int]


async def find_column(names: Names, graph: Graph, table_id: str, column: str) -> Start:
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
        return Start(found.name, found.column_id, sorted(vertices))
    return Start(column, None, sorted(vertices))


def _in_catalog(rows: dict[str, ColumnRow], column: str) -> ColumnRow | None:
    named = [row for row in rows.values() if column in (row.name, row.column_id)]
    live = [row for row in named if row.dropped_at is None]
    if live:
        return live[0]
    return max(named, key=lambda row: (row.updated_at, row.column_id), default=None)


def _by_text(graph: Graph, table: int, texts: list[str]) -> set[int]:
    numbers = (graph.column_numbers.get((table, text)) for text in texts)
    return {number for number in numbers if number is not None}


def _as_seen(graph: Graph, table: int, column: str) -> set[int]:
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


def _edges_of(graph: Graph, pairs: Places) -> Places:
    return ranges(graph.pair_starts[pairs], graph.pair_starts[pairs + 1])
