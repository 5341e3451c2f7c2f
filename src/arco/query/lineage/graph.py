"""The graph: all edges of one state, as arrays.

Tables are numbered in the order of their ids. A vertex is a column, or a whole table, which an edge leaves
or reaches where nothing is known of columns, or where it is about all of them. Edges are sorted by their
tables, so that those between two tables lie side by side; these are a pair, and walks over tables follow
pairs alone. Edges that differ in nothing but the code that made them are one, told as the newest was.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arco.query.lineage.codes import Mask, Places, code, mask, starts
from arco.query.lineage.sides import Side, between_tables, sides_of

VALUE, INFLUENCE, TABLE = 0, 1, 2  # how an edge reaches its target, the surest first

INFLUENCES = frozenset({"FILTER", "JOIN", "GROUP_BY", "SORT"})

NEVER = np.iinfo(np.int64).max  # in microseconds: later than all that was observed

# What is read of an edge; nothing is kept of the code that made it but its SQL.
SHOWN = (
    *("edge_id", "source_table_id", "source_column_id", "source_name"),
    *("target_table_id", "target_column_id", "target_name"),
    *("transformation_type", "transformation_sql", "pipeline_id", "execution_id", "soundness"),
    *("first_observed_at", "last_observed_at"),
)


@dataclass(frozen=True)
class Graph:
    """Edges by number, 0 to as many as there are; so are tables, columns and pairs."""

    tables: list[str]  # ids, or names of external tables
    columns: list[tuple[int, str]]  # each one's table, and what it goes by
    rows: pa.Table  # what was told of each edge
    reaches: Places  # of each edge: VALUE, INFLUENCE or TABLE
    sources: Places  # of each edge, the vertex that it leaves
    targets: Places  # of each edge, the vertex that it reaches
    pair_sources: Places  # of each pair, a table
    pair_targets: Places
    pair_starts: Places  # of each pair, its first edge; and where the last one ends
    out_starts: Places  # of each table, its first pair as a source; and where the last one ends

    @cached_property
    def table_numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.tables)}

    @cached_property
    def column_numbers(self) -> dict[tuple[int, str], int]:
        return {column: number for number, column in enumerate(self.columns)}

    @cached_property
    def in_pairs(self) -> Places:
        """The pairs, sorted by their targets."""
        return np.lexsort((self.pair_sources, self.pair_targets)).astype(np.int64)

    @cached_property
    def in_starts(self) -> Places:
        """Of each table, where its first pair as a target lies in `in_pairs`; and where the last ends."""
        return starts(self.pair_targets[self.in_pairs], len(self.tables))

    @cached_property
    def by_vertex(self) -> Places:
        """The edges, sorted by the vertices that they leave."""
        return np.argsort(self.sources, kind="stable").astype(np.int64)

    @cached_property
    def vertex_starts(self) -> Places:
        return starts(self.sources[self.by_vertex], len(self.columns) + len(self.tables))

    def whole(self, table: int) -> int:
        """The vertex that stands for all of a table."""
        return len(self.columns) + table

    def table_of(self, vertex: int) -> int:
        """The table that a vertex is of."""
        at = vertex - len(self.columns)
        return at if at >= 0 else self.columns[vertex][0]

    def warm(self) -> "Graph":
        """The same, with everything made that is made when it is first used."""
        for made in (self.table_numbers, self.column_numbers, self.in_starts, self.vertex_starts):
            len(made)
        return self


def graph_of(rows: pa.Table) -> Graph:
    """The graph of these edges, each with the columns of `SHOWN`."""
    rows = rows.combine_chunks()
    tables_only = between_tables(rows)
    source, target = sides_of(rows, tables_only)
    places, tables = code([source.tables, target.tables])
    vertices, columns = _vertices(places, (source, target))
    reaches = _reaches(rows, tables_only)
    order, first = _order(rows, places, vertices)
    kept = order[first]
    pairs = np.stack([places[0][kept], places[1][kept]])
    begins = np.flatnonzero(_changes(pairs))
    return Graph(
        tables=tables,
        columns=columns,
        rows=_told(rows, order, first),
        reaches=reaches[kept],
        sources=vertices[0][kept],
        targets=vertices[1][kept],
        pair_sources=pairs[0][begins],
        pair_targets=pairs[1][begins],
        pair_starts=np.append(begins, len(kept)).astype(np.int64),
        out_starts=starts(pairs[0][begins], len(tables)),
    )


def _vertices(
    tables: list[Places], sides: tuple[Side, Side]
) -> tuple[list[Places], list[tuple[int, str]]]:
    """The vertices of both sides, and what the columns among them are."""
    texts, names = code([side.columns for side in sides])
    size = len(names) + 1
    keys = [table * size + text for table, text in zip(tables, texts, strict=True)]
    is_column = [text >= 0 for text in texts]
    distinct = np.unique(
        np.concatenate([key[own] for key, own in zip(keys, is_column, strict=True)])
    )
    columns = [(int(key) // size, names[int(key) % size]) for key in distinct]
    vertices = [
        np.where(own, np.searchsorted(distinct, key), len(distinct) + table)
        for table, key, own in zip(tables, keys, is_column, strict=True)
    ]
    return vertices, columns


def _reaches(rows: pa.Table, tables_only: Mask) -> Places:
    kinds = pa.array(sorted(INFLUENCES))
    influences = mask(
        pc.is_in(rows.column("transformation_type").combine_chunks(), value_set=kinds)
    )
    return np.where(tables_only, TABLE, np.where(influences, INFLUENCE, VALUE)).astype(np.int64)


def _order(rows: pa.Table, tables: list[Places], vertices: list[Places]) -> tuple[Places, Mask]:
    """The edges by tables, columns and kind, the newest of equals first; and which are first of equals."""
    [kinds], _ = code([rows.column("transformation_type").combine_chunks()])
    # The order of files says nothing: of edges that are as new as each other, the ids decide.
    ranks = pc.rank(rows.column("edge_id"), tiebreaker="first").to_numpy()
    newest = _microseconds(rows, "last_observed_at", -1)
    order = np.lexsort((ranks, -newest, kinds, vertices[1], vertices[0], tables[1], tables[0]))
    same = np.stack([vertices[0], vertices[1], kinds])[:, order]
    return order.astype(np.int64), _changes(same)


def _changes(keys: Places) -> Mask:
    """Which columns of a table of keys differ from the one before."""
    if not keys.shape[1]:
        return np.zeros(0, np.bool_)
    differ = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    return np.concatenate([[True], differ])


def _told(rows: pa.Table, order: Places, first: Mask) -> pa.Table:
    """What the newest of equal edges says, and when the first of them was seen."""
    begins = np.flatnonzero(first)
    told = rows.take(pa.array(order[first])).combine_chunks()
    if not len(begins) or len(begins) == len(order):
        return told
    field = rows.schema.field("first_observed_at")
    earliest = np.minimum.reduceat(_microseconds(rows, field.name, NEVER)[order], begins)
    times = pa.array(earliest, mask=earliest == NEVER).cast(field.type)
    return told.set_column(rows.schema.get_field_index(field.name), field, times)


def _microseconds(rows: pa.Table, name: str, missing: int) -> Places:
    column = rows.column(name).combine_chunks().cast(pa.int64())
    values: Places = column.fill_null(missing).to_numpy()
    return values
