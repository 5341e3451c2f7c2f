"""The graph: all edges of one state, as arrays.

Tables are numbered in the order of their ids. A vertex is a column, or a whole table, which an edge leaves
or reaches where nothing is known of columns, or where it is about all of them. Edges are sorted by their
tables, so that those between two tables lie side by side; these are a pair, and walks over tables follow
pairs alone. Edges that differ in nothing but the code that made them are one, told as the newest was.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arco.events.lineage import ColumnEdge, table_edge_id

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def code(columns: Sequence[pa.Array]) -> tuple[list[Indices], list[str]]:
    """For each column the places of its texts, -1 for nulls; and the distinct texts in their order.

    A place follows from the texts alone, so whatever is ordered by places is ordered the same again.
    """
    together = pa.concat_arrays([column.cast(pa.string()) for column in columns])
    encoded = together.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    indices = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    places = np.where(indices < 0, -1, rank[indices]) if len(order) else indices
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return list(np.split(places, ends)), encoded.dictionary.take(pa.array(order)).to_pylist()


def mask(values: pa.Array) -> Mask:
    """A column of booleans; null is false."""
    found: Mask = values.fill_null(fill_value=False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return found


def starts(sorted_places: Indices, count: int) -> Indices:
    """Where each place begins in an array that is sorted by places, and where the last one ends."""
    return np.searchsorted(sorted_places, np.arange(count + 1)).astype(np.int64)


def ranges(begin: Indices, end: Indices) -> Indices:
    """All numbers of several ranges, one range after the other."""
    sizes = end - begin
    total = int(sizes.sum())
    if not total:
        return np.empty(0, np.int64)
    before = np.cumsum(sizes) - sizes
    numbers: Indices = np.arange(total) + np.repeat(begin - before, sizes)
    return numbers


def moments(times: pa.Array | pa.ChunkedArray) -> list[datetime | None]:
    """Times of Arrow as those of Python, each distinct one made once: one run shows many edges."""
    microseconds = times.cast(pa.int64()).to_pylist()
    known: dict[int | None, datetime | None] = {
        each: None if each is None else _EPOCH + timedelta(microseconds=each)
        for each in set(microseconds)
    }
    return [known[each] for each in microseconds]


EXTERNAL = "external:"  # before the name of a table that has no id
EVERY_COLUMN = "*"  # as the name of a target: an influence on all of its columns
BY_ID, BY_NAME = "#", "."  # before what a column goes by

SOURCE, TARGET = "source", "target"


@dataclass(frozen=True)
class EdgeEndpoints:
    """For each edge a table, and a column of it by id or name; null stands for all of them."""

    tables: pa.Array
    columns: pa.Array


def between_tables(rows: pa.Table) -> Mask:
    """Which edges are told from table to table, without columns."""
    none = pc.and_(
        pc.is_null(rows.column("source_column_id")), pc.is_null(rows.column("target_column_id"))
    )
    unknown = pc.equal(rows.column("transformation_type").fill_null("UNKNOWN"), "UNKNOWN")
    found = mask(pc.and_(none, unknown).combine_chunks())
    names = ("edge_id", "source_table_id", "source_name", "target_table_id", "target_name")
    doubtful = np.flatnonzero(found)
    columns = [column.to_pylist() for column in rows.select(names).take(doubtful).columns]
    for at, values in zip(doubtful, zip(*columns, strict=True), strict=True):
        edge_id, *sides = values
        edge = ColumnEdge(**dict(zip(names[1:], sides, strict=True)))
        found[at] = edge_id == table_edge_id(edge)
    return found


def sides_of(rows: pa.Table, tables_only: Mask) -> tuple[EdgeEndpoints, EdgeEndpoints]:
    """Both sides of every edge."""
    externals = _externals(rows, tables_only)
    source, target = (_side(rows, side, tables_only, externals) for side in (SOURCE, TARGET))
    return _with_ids(rows, source, target)


def _externals(rows: pa.Table, tables_only: Mask) -> set[str]:
    """The names of external tables."""
    known: set[str] = set()
    for side in (SOURCE, TARGET):
        told = np.logical_and(_has_no_table(rows, side), tables_only)
        known |= set(rows.column(f"{side}_name").filter(pa.array(told)).to_pylist())
    return known - {None}


def _has_no_table(rows: pa.Table, side: str) -> Mask:
    told = rows.column(f"{side}_table_id").combine_chunks().fill_null("")
    return mask(pc.equal(told, ""))


def _side(rows: pa.Table, side: str, tables_only: Mask, externals: set[str]) -> EdgeEndpoints:
    table, column, name = (
        rows.column(f"{side}_{what}").combine_chunks() for what in ("table_id", "column_id", "name")
    )
    by_id = pc.binary_join_element_wise(BY_ID, column, "")
    by_name = pc.binary_join_element_wise(BY_NAME, name, "")
    whole = pc.and_(pc.is_null(column), pc.equal(name, EVERY_COLUMN).fill_null(fill_value=False))
    columns = pc.if_else(
        pc.or_(pa.array(tables_only), whole),
        pa.scalar(None, pa.string()),
        pc.coalesce(by_id, by_name),
    )
    without = np.flatnonzero(_has_no_table(rows, side))
    if not len(without):
        return EdgeEndpoints(table, columns)
    tables, texts = table.to_pylist(), columns.to_pylist()
    for at in without:
        seen = name[at].as_py() or column[at].as_py() or ""
        own, rest = (seen, None) if tables_only[at] else _split(seen, externals)
        tables[at] = EXTERNAL + own
        texts[at] = None if rest is None else BY_NAME + rest
    return EdgeEndpoints(pa.array(tables, pa.string()), pa.array(texts, pa.string()))


def _split(seen: str, externals: set[str]) -> tuple[str, str | None]:
    """The table and the column in a name; one whose table was not told stands for itself."""
    table = seen
    while "." in table:
        table = table.rpartition(".")[0]
        if table in externals:
            column = seen[len(table) + 1 :]
            return table, None if column == EVERY_COLUMN else column
    return seen, None


def _with_ids(
    rows: pa.Table, source: EdgeEndpoints, target: EdgeEndpoints
) -> tuple[EdgeEndpoints, EdgeEndpoints]:
    """Columns by their ids wherever any edge knows the id of that name; the newest edge counts."""
    lacking = [mask(pc.starts_with(side.columns, BY_NAME)) for side in (source, target)]
    if not any(each.any() for each in lacking):
        return source, target
    known = _known_ids(rows)
    sides = []
    for side, lacks in zip((source, target), lacking, strict=True):
        columns = side.columns.to_pylist()
        for at in np.flatnonzero(lacks):
            column_id = known.get((side.tables[at].as_py(), columns[at][len(BY_NAME) :]))
            columns[at] = columns[at] if column_id is None else BY_ID + column_id
        sides.append(EdgeEndpoints(side.tables, pa.array(columns, pa.string())))
    return sides[0], sides[1]


def _known_ids(rows: pa.Table) -> dict[tuple[str, str], str]:
    told = []
    for side in (SOURCE, TARGET):
        names = [f"{side}_{what}" for what in ("table_id", "name", "column_id")]
        columns = rows.select([*names, "last_observed_at"])
        told.append(columns.rename_columns(["table", "name", "id", "at"]))
    together = pa.concat_tables(told)
    known = together.filter(
        pc.and_(pc.is_valid(together.column("name")), pc.is_valid(together.column("id")))
    ).sort_by([("at", "ascending"), ("id", "ascending")])
    tables, names, ids, _ = (column.to_pylist() for column in known.columns)
    return dict(zip(zip(tables, names, strict=True), ids, strict=True))


VALUE, INFLUENCE, TABLE = 0, 1, 2  # how an edge reaches its target, the surest first

INFLUENCES = frozenset({"FILTER", "JOIN", "GROUP_BY", "SORT"})

NEVER = np.iinfo(np.int64).max  # in microseconds: later than all that was observed

# What is read of an edge; nothing is kept of the code that made it but its SQL.
EDGE_COLUMNS = (
    *("edge_id", "source_table_id", "source_column_id", "source_name"),
    *("target_table_id", "target_column_id", "target_name"),
    *("transformation_type", "transformation_sql", "pipeline_id", "execution_id", "soundness"),
    *("first_observed_at", "last_observed_at"),
)


@dataclass(frozen=True)
class LineageGraph:
    """Edges by number, 0 to as many as there are; so are tables, columns and pairs."""

    tables: list[str]  # ids, or names of external tables
    columns: list[tuple[int, str]]  # each one's table, and what it goes by
    rows: pa.Table  # what was told of each edge
    reaches: Indices  # of each edge: VALUE, INFLUENCE or TABLE
    sources: Indices  # of each edge, the vertex that it leaves
    targets: Indices  # of each edge, the vertex that it reaches
    pair_sources: Indices  # of each pair, a table
    pair_targets: Indices
    pair_starts: Indices  # of each pair, its first edge; and where the last one ends
    out_starts: Indices  # of each table, its first pair as a source; and where the last one ends

    @cached_property
    def table_numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.tables)}

    @cached_property
    def column_numbers(self) -> dict[tuple[int, str], int]:
        return {column: number for number, column in enumerate(self.columns)}

    @cached_property
    def in_pairs(self) -> Indices:
        """The pairs, sorted by their targets."""
        return np.lexsort((self.pair_sources, self.pair_targets)).astype(np.int64)

    @cached_property
    def in_starts(self) -> Indices:
        """Of each table, where its first pair as a target lies in `in_pairs`; and where the last ends."""
        return starts(self.pair_targets[self.in_pairs], len(self.tables))

    @cached_property
    def by_vertex(self) -> Indices:
        """The edges, sorted by the vertices that they leave."""
        return np.argsort(self.sources, kind="stable").astype(np.int64)

    @cached_property
    def vertex_starts(self) -> Indices:
        return starts(self.sources[self.by_vertex], len(self.columns) + len(self.tables))

    def whole(self, table: int) -> int:
        """The vertex that stands for all of a table."""
        return len(self.columns) + table

    def table_of(self, vertex: int) -> int:
        """The table that a vertex is of."""
        at = vertex - len(self.columns)
        return at if at >= 0 else self.columns[vertex][0]

    def warm(self) -> "LineageGraph":
        """The same, with everything made that is made when it is first used."""
        for made in (self.table_numbers, self.column_numbers, self.in_starts, self.vertex_starts):
            len(made)
        return self


def build_graph(rows: pa.Table) -> LineageGraph:
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
    return LineageGraph(
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
    tables: list[Indices], sides: tuple[EdgeEndpoints, EdgeEndpoints]
) -> tuple[list[Indices], list[tuple[int, str]]]:
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


def _reaches(rows: pa.Table, tables_only: Mask) -> Indices:
    kinds = pa.array(sorted(INFLUENCES))
    influences = mask(
        pc.is_in(rows.column("transformation_type").combine_chunks(), value_set=kinds)
    )
    return np.where(tables_only, TABLE, np.where(influences, INFLUENCE, VALUE)).astype(np.int64)


def _order(rows: pa.Table, tables: list[Indices], vertices: list[Indices]) -> tuple[Indices, Mask]:
    """The edges by tables, columns and kind, the newest of equals first; and which are first of equals."""
    [kinds], _ = code([rows.column("transformation_type").combine_chunks()])
    # The order of files says nothing: of edges that are as new as each other, the ids decide.
    ranks = pc.rank(rows.column("edge_id"), tiebreaker="first").to_numpy()
    newest = _microseconds(rows, "last_observed_at", -1)
    order = np.lexsort((ranks, -newest, kinds, vertices[1], vertices[0], tables[1], tables[0]))
    same = np.stack([vertices[0], vertices[1], kinds])[:, order]
    return order.astype(np.int64), _changes(same)


def _changes(keys: Indices) -> Mask:
    """Which columns of a table of keys differ from the one before."""
    if not keys.shape[1]:
        return np.zeros(0, np.bool_)
    differ = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    return np.concatenate([[True], differ])


def _told(rows: pa.Table, order: Indices, first: Mask) -> pa.Table:
    """What the newest of equal edges says, and when the first of them was seen."""
    begins = np.flatnonzero(first)
    told = rows.take(pa.array(order[first])).combine_chunks()
    if not len(begins) or len(begins) == len(order):
        return told
    field = rows.schema.field("first_observed_at")
    earliest = np.minimum.reduceat(_microseconds(rows, field.name, NEVER)[order], begins)
    times = pa.array(earliest, mask=earliest == NEVER).cast(field.type)
    return told.set_column(rows.schema.get_field_index(field.name), field, times)


def _microseconds(rows: pa.Table, name: str, missing: int) -> Indices:
    column = rows.column(name).combine_chunks().cast(pa.int64())
    values: Indices = column.fill_null(missing).to_numpy()
    return values
