"""The lineage graph: all edges of one state, as arrays.

Texts are encoded as integers, and tables are numbered in the order of their ids. A vertex is a column, or a
whole table where the columns are unknown or where an edge concerns all of them. Edges are sorted by their
tables, so that those between two tables are adjacent and form a pair; walks over tables follow pairs only.
Edges that differ only in the code that made them are one, shown as the newest.

A table without an id is external and identified by the observed name; a column of one is written as
`table.column`. A column that some edges name with an id and others without is one column.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arco.events.lineage_payload import ColumnEdge, table_edge_id

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

VALUE, INFLUENCE, TABLE = 0, 1, 2  # how an edge reaches its target, the strongest first

INFLUENCES = frozenset({"FILTER", "JOIN", "GROUP_BY", "SORT"})

NEVER = np.iinfo(np.int64).max  # in microseconds: later than every observation

# The columns of edges that are read.
EDGE_COLUMNS = (
    *("edge_id", "source_table_id", "source_column_id", "source_name"),
    *("target_table_id", "target_column_id", "target_name"),
    *("transformation_type", "transformation_sql", "pipeline_id", "execution_id", "soundness"),
    *("first_observed_at", "last_observed_at"),
)

EXTERNAL = "external:"  # prefix of the name of a table without an id
EVERY_COLUMN = "*"  # as the name of a target: an influence on all its columns
BY_ID, BY_NAME = "#", "."  # prefix of the id or the name that identifies a column

SOURCE, TARGET = "source", "target"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class EdgeEndpoints:
    """The sources or the targets of edges: tables, and columns by id or name; null for all columns."""

    tables: pa.Array
    columns: pa.Array


def between_tables(rows: pa.Table) -> Mask:
    """Which edges are between tables, without columns."""
    none = pc.and_(
        pc.is_null(rows.column("source_column_id")), pc.is_null(rows.column("target_column_id"))
    )
    unknown = pc.equal(rows.column("transformation_type").fill_null("UNKNOWN"), "UNKNOWN")
    table_edges = mask(pc.and_(none, unknown).combine_chunks())
    names = ("edge_id", "source_table_id", "source_name", "target_table_id", "target_name")
    candidates = np.flatnonzero(table_edges)
    columns = [column.to_pylist() for column in rows.select(names).take(candidates).columns]
    for at, values in zip(candidates, zip(*columns, strict=True), strict=True):
        edge_id, *fields = values
        edge = ColumnEdge(**dict(zip(names[1:], fields, strict=True)))
        table_edges[at] = edge_id == table_edge_id(edge)
    return table_edges


def endpoints_of(rows: pa.Table, tables_only: Mask) -> tuple[EdgeEndpoints, EdgeEndpoints]:
    """The sources and the targets of all edges."""
    externals = _externals(rows, tables_only)
    source, target = (_endpoints(rows, side, tables_only, externals) for side in (SOURCE, TARGET))
    return _with_ids(rows, source, target)


def _externals(rows: pa.Table, tables_only: Mask) -> set[str]:
    """The names of external tables."""
    names: set[str] = set()
    for side in (SOURCE, TARGET):
        is_external = np.logical_and(_has_no_table_id(rows, side), tables_only)
        names |= set(rows.column(f"{side}_name").filter(pa.array(is_external)).to_pylist())
    return names - {None}


def _has_no_table_id(rows: pa.Table, side: str) -> Mask:
    table_ids = rows.column(f"{side}_table_id").combine_chunks().fill_null("")
    return mask(pc.equal(table_ids, ""))


def _endpoints(rows: pa.Table, side: str, tables_only: Mask, externals: set[str]) -> EdgeEndpoints:
    table, column, name = (
        rows.column(f"{side}_{what}").combine_chunks() for what in ("table_id", "column_id", "name")
    )
    by_id = pc.binary_join_element_wise(BY_ID, column, "")
    by_name = pc.binary_join_element_wise(BY_NAME, name, "")
    is_table = pc.and_(pc.is_null(column), pc.equal(name, EVERY_COLUMN).fill_null(fill_value=False))
    columns = pc.if_else(
        pc.or_(pa.array(tables_only), is_table),
        pa.scalar(None, pa.string()),
        pc.coalesce(by_id, by_name),
    )
    without = np.flatnonzero(_has_no_table_id(rows, side))
    if not len(without):
        return EdgeEndpoints(table, columns)
    tables, texts = table.to_pylist(), columns.to_pylist()
    for at in without:
        observed = name[at].as_py() or column[at].as_py() or ""
        own, rest = (observed, None) if tables_only[at] else _split(observed, externals)
        tables[at] = EXTERNAL + own
        texts[at] = None if rest is None else BY_NAME + rest
    return EdgeEndpoints(pa.array(tables, pa.string()), pa.array(texts, pa.string()))


def _split(observed: str, externals: set[str]) -> tuple[str, str | None]:
    """The external table and the column in an observed name; without such a table, the name itself."""
    table = observed
    while "." in table:
        table = table.rpartition(".")[0]
        if table in externals:
            column = observed[len(table) + 1 :]
            return table, None if column == EVERY_COLUMN else column
    return observed, None


def _with_ids(
    rows: pa.Table, source: EdgeEndpoints, target: EdgeEndpoints
) -> tuple[EdgeEndpoints, EdgeEndpoints]:
    """Replace column names by ids where any edge has the id of that name; the newest edge wins."""
    by_name = [mask(pc.starts_with(side.columns, BY_NAME)) for side in (source, target)]
    if not any(each.any() for each in by_name):
        return source, target
    ids = _column_ids(rows)
    sides = []
    for side, is_named in zip((source, target), by_name, strict=True):
        columns = side.columns.to_pylist()
        for at in np.flatnonzero(is_named):
            column_id = ids.get((side.tables[at].as_py(), columns[at][len(BY_NAME) :]))
            columns[at] = columns[at] if column_id is None else BY_ID + column_id
        sides.append(EdgeEndpoints(side.tables, pa.array(columns, pa.string())))
    return sides[0], sides[1]


def _column_ids(rows: pa.Table) -> dict[tuple[str, str], str]:
    sides = []
    for side in (SOURCE, TARGET):
        names = [f"{side}_{what}" for what in ("table_id", "name", "column_id")]
        columns = rows.select([*names, "last_observed_at"])
        sides.append(columns.rename_columns(["table", "name", "id", "at"]))
    both = pa.concat_tables(sides)
    identified = both.filter(
        pc.and_(pc.is_valid(both.column("name")), pc.is_valid(both.column("id")))
    ).sort_by([("at", "ascending"), ("id", "ascending")])
    tables, names, ids, _ = (column.to_pylist() for column in identified.columns)
    return dict(zip(zip(tables, names, strict=True), ids, strict=True))


@dataclass(frozen=True)
class LineageGraph:
    """Edges, tables, columns and pairs, each numbered from 0."""

    tables: list[str]  # ids, or names of external tables
    columns: list[tuple[int, str]]  # the table of each, and its id or name with a prefix
    rows: pa.Table  # the columns `EDGE_COLUMNS` of each edge
    reaches: Indices  # of each edge: VALUE, INFLUENCE or TABLE
    sources: Indices  # vertex of each edge
    targets: Indices  # vertex of each edge
    pair_sources: Indices  # table of each pair
    pair_targets: Indices
    pair_starts: Indices  # first edge of each pair, and the end of the last
    out_starts: Indices  # first pair of each source table, and the end of the last

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
        """Start of the pairs of each target table in `in_pairs`, and the end of the last."""
        return group_starts(self.pair_targets[self.in_pairs], len(self.tables))

    @cached_property
    def by_vertex(self) -> Indices:
        """The edges, sorted by their source vertices."""
        return np.argsort(self.sources, kind="stable").astype(np.int64)

    @cached_property
    def vertex_starts(self) -> Indices:
        return group_starts(self.sources[self.by_vertex], len(self.columns) + len(self.tables))

    def table_of(self, vertex: int) -> int:
        """The table of a vertex."""
        at = vertex - len(self.columns)
        return at if at >= 0 else self.columns[vertex][0]

    def warm(self) -> "LineageGraph":
        """The same graph, with all cached properties computed."""
        for cached in (self.table_numbers, self.column_numbers, self.in_starts, self.vertex_starts):
            len(cached)
        return self


def build_graph(rows: pa.Table) -> LineageGraph:
    """The graph of these edges, which have the columns `EDGE_COLUMNS`."""
    rows = rows.combine_chunks()
    tables_only = between_tables(rows)
    source, target = endpoints_of(rows, tables_only)
    numbers, tables = encode_texts([source.tables, target.tables])
    vertices, columns = _vertices(numbers, (source, target))
    reaches = _reaches(rows, tables_only)
    order, first = _order(rows, numbers, vertices)
    kept = order[first]
    pairs = np.stack([numbers[0][kept], numbers[1][kept]])
    begins = np.flatnonzero(_changes(pairs))
    return LineageGraph(
        tables=tables,
        columns=columns,
        rows=_newest_rows(rows, order, first),
        reaches=reaches[kept],
        sources=vertices[0][kept],
        targets=vertices[1][kept],
        pair_sources=pairs[0][begins],
        pair_targets=pairs[1][begins],
        pair_starts=np.append(begins, len(kept)).astype(np.int64),
        out_starts=group_starts(pairs[0][begins], len(tables)),
    )


def _vertices(
    tables: list[Indices], sides: tuple[EdgeEndpoints, EdgeEndpoints]
) -> tuple[list[Indices], list[tuple[int, str]]]:
    """The vertices of sources and targets, and the columns among them."""
    texts, names = encode_texts([side.columns for side in sides])
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
    """The edges sorted by tables, columns and kind, the newest of equals first; and the first of equals."""
    [kinds], _ = encode_texts([rows.column("transformation_type").combine_chunks()])
    # Ids break ties between edges of the same age, so that the order of files does not matter.
    ranks = pc.rank(rows.column("edge_id"), tiebreaker="first").to_numpy()
    newest = _microseconds(rows, "last_observed_at", -1)
    order = np.lexsort((ranks, -newest, kinds, vertices[1], vertices[0], tables[1], tables[0]))
    same = np.stack([vertices[0], vertices[1], kinds])[:, order]
    return order.astype(np.int64), _changes(same)


def _changes(keys: Indices) -> Mask:
    """Which columns of a matrix of keys differ from the one before."""
    if not keys.shape[1]:
        return np.zeros(0, np.bool_)
    differ = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    return np.concatenate([[True], differ])


def _newest_rows(rows: pa.Table, order: Indices, first: Mask) -> pa.Table:
    """The newest of equal edges, with the time when the first of them was observed."""
    begins = np.flatnonzero(first)
    newest = rows.take(pa.array(order[first])).combine_chunks()
    if not len(begins) or len(begins) == len(order):
        return newest
    field = rows.schema.field("first_observed_at")
    earliest = np.minimum.reduceat(_microseconds(rows, field.name, NEVER)[order], begins)
    times = pa.array(earliest, mask=earliest == NEVER).cast(field.type)
    return newest.set_column(rows.schema.get_field_index(field.name), field, times)


def _microseconds(rows: pa.Table, name: str, missing: int) -> Indices:
    column = rows.column(name).combine_chunks().cast(pa.int64())
    values: Indices = column.fill_null(missing).to_numpy()
    return values


def encode_texts(columns: Sequence[pa.Array]) -> tuple[list[Indices], list[str]]:
    """The rank of each text among all distinct texts, -1 for nulls, by column; and the sorted texts.

    A rank depends on the texts only, so sorting by ranks is deterministic.
    """
    texts = pa.concat_arrays([column.cast(pa.string()) for column in columns])
    encoded = texts.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    indices = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    ranks = np.where(indices < 0, -1, rank[indices]) if len(order) else indices
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return list(np.split(ranks, ends)), encoded.dictionary.take(pa.array(order)).to_pylist()


def mask(values: pa.Array) -> Mask:
    """A column of booleans; null is false."""
    booleans: Mask = (
        values.fill_null(fill_value=False).to_numpy(zero_copy_only=False).astype(np.bool_)
    )
    return booleans


def group_starts(sorted_values: Indices, count: int) -> Indices:
    """The start of each value 0 to `count` in a sorted array, and the end of the last."""
    return np.searchsorted(sorted_values, np.arange(count + 1)).astype(np.int64)


def ranges(begin: Indices, end: Indices) -> Indices:
    """The numbers of several ranges, concatenated."""
    sizes = end - begin
    total = int(sizes.sum())
    if not total:
        return np.empty(0, np.int64)
    before = np.cumsum(sizes) - sizes
    numbers: Indices = np.arange(total) + np.repeat(begin - before, sizes)
    return numbers


def to_datetimes(times: pa.Array | pa.ChunkedArray) -> list[datetime | None]:
    """Arrow times as Python ones; each distinct time is made once, because one run observes many edges."""
    microseconds = times.cast(pa.int64()).to_pylist()
    times_by_us: dict[int | None, datetime | None] = {
        each: None if each is None else _EPOCH + timedelta(microseconds=each)
        for each in set(microseconds)
    }
    return [times_by_us[each] for each in microseconds]
