"""Walks over the lineage graph: from table to table, and from a column to all that depends on it.

Both are breadth first, so each vertex is reached once, at its shortest distance, and cycles end. The impact
of a column prefers the strongest path: first everything that values lead to, then what filters, joins,
groups or sorts add, then what table edges add.
"""

from dataclasses import dataclass

import numpy as np

from arco.query.lineage.graph import INFLUENCE, TABLE, VALUE, Indices, LineageGraph, Mask, ranges

UNREACHED = np.iinfo(np.int64).max  # the distance of a table that was not reached
NONE = -1


@dataclass(frozen=True)
class WalkResult:
    """The pairs that were followed, and the distance of each table or `UNREACHED`."""

    pairs: Indices
    up: Indices
    down: Indices


def walk(graph: LineageGraph, start: int, *, up: bool, down: bool, depth: int) -> WalkResult:
    """Follow pairs upstream and downstream, at most `depth` in a row."""
    none = np.full(len(graph.tables), UNREACHED, np.int64)
    up_pairs, ups = _walk_one_way(graph, start, depth, up=True) if up else (none[:0], none)
    down_pairs, downs = _walk_one_way(graph, start, depth, up=False) if down else (none[:0], none)
    return WalkResult(np.union1d(up_pairs, down_pairs), ups, downs)


def _walk_one_way(
    graph: LineageGraph, start: int, depth: int, *, up: bool
) -> tuple[Indices, Indices]:
    ends = graph.pair_sources if up else graph.pair_targets
    begins = graph.in_starts if up else graph.out_starts
    distances = np.full(len(graph.tables), UNREACHED, np.int64)
    distances[start] = 0
    frontier = np.array([start])
    followed = []
    for distance in range(1, depth + 1):
        pairs = ranges(begins[frontier], begins[frontier + 1])
        pairs = graph.in_pairs[pairs] if up else pairs
        followed.append(pairs)
        reached = ends[pairs]
        frontier = np.unique(reached[distances[reached] == UNREACHED])
        if not len(frontier):
            break
        distances[frontier] = distance
    return np.concatenate(followed), distances


@dataclass(frozen=True)
class ImpactResult:
    """The reached vertices, the strongest and then the nearest first; and by vertex, how it was reached."""

    vertices: Indices
    reach: Indices  # VALUE, INFLUENCE or TABLE
    edge: Indices  # the last edge of the path to it; NONE for a start
    before: Indices  # the vertex before it on the path
    distance: Indices  # in steps


def find_impact(graph: LineageGraph, table: int, starts: list[int], outdated: Mask) -> ImpactResult:
    """All vertices downstream of a column of a table. `starts` are the vertices of the column, if any.

    Edges that are `outdated` are not followed.
    """
    search = _ImpactSearch(graph, table, starts, outdated)
    for reach in (VALUE, INFLUENCE, TABLE):
        search.spread(reach)
    return search.result()


def outdated_edges(graph: LineageGraph) -> Mask:
    """Declared edges between tables for which edges between columns were observed."""
    declared = graph.rows.column("soundness").combine_chunks().fill_null("")
    is_declared = (declared.to_numpy(zero_copy_only=False) == "declared").astype(np.bool_)
    is_observed = (graph.reaches != TABLE) & ~is_declared
    observed = np.logical_or.reduceat(is_observed, graph.pair_starts[:-1])
    sizes = np.diff(graph.pair_starts)
    outdated: Mask = np.repeat(observed, sizes) & (graph.reaches == TABLE) & is_declared
    return outdated


class _ImpactSearch:
    def __init__(self, graph: LineageGraph, table: int, starts: list[int], outdated: Mask) -> None:
        # One more than all vertices: the start column itself, which may have no vertex.
        self._itself = len(graph.columns) + len(graph.tables)
        count = self._itself + 1
        self._graph = graph
        self._own_table = np.array([table], np.int64)
        self._outdated = outdated
        self._first = len(graph.columns)  # the first vertex of a whole table
        self._tables = np.fromiter((table for table, _ in graph.columns), np.int64, self._first)
        self._reach = np.full(count, NONE, np.int64)
        self._edge = np.full(count, NONE, np.int64)
        self._before = np.full(count, NONE, np.int64)
        self._distance = np.zeros(count, np.int64)
        self._reached = [np.array([*sorted(set(starts)), self._itself], np.int64)]
        self._reach[self._reached[0]] = VALUE

    def spread(self, reach: int) -> None:
        """Continue from all reached vertices, by edges of this strength or stronger."""
        frontier = np.concatenate(self._reached)
        while len(frontier):
            edges, origins = self._leaving(frontier, reach)
            usable = (self._graph.reaches[edges] <= reach) & ~self._outdated[edges]
            edges, origins = edges[usable], origins[usable]
            targets = self._graph.targets[edges]
            new = self._reach[targets] == NONE
            frontier, first = np.unique(targets[new], return_index=True)
            self._reach[frontier] = reach
            self._edge[frontier] = edges[new][first]
            self._before[frontier] = origins[new][first]
            self._distance[frontier] = self._distance[origins[new][first]] + 1
            self._reached.append(frontier)

    def _leaving(self, frontier: Indices, reach: int) -> tuple[Indices, Indices]:
        """The edges that leave some vertices, and the vertex that each leaves.

        For a whole table, all edges of the table. For a column, its own edges, and with table edges also
        those of its whole table.
        """
        graph = self._graph
        tables = frontier[(frontier >= self._first) & (frontier < self._itself)]
        columns = frontier[frontier < self._first]
        begins, ends = self._edges_of(tables - self._first)
        edges, origins = [ranges(begins, ends)], [np.repeat(tables, ends - begins)]
        owners = [(columns, columns)]
        if reach == TABLE:
            owners.append((self._first + self._tables[columns], columns))
            owners.append((self._first + self._own_table, frontier[frontier == self._itself]))
        for vertices, origin in owners:
            if not len(origin):
                continue
            begins, ends = graph.vertex_starts[vertices], graph.vertex_starts[vertices + 1]
            edges.append(graph.by_vertex[ranges(begins, ends)])
            origins.append(np.repeat(origin, ends - begins))
        return np.concatenate(edges), np.concatenate(origins)

    def _edges_of(self, tables: Indices) -> tuple[Indices, Indices]:
        graph = self._graph
        begins = graph.pair_starts[graph.out_starts[tables]]
        return begins, graph.pair_starts[graph.out_starts[tables + 1]]

    def result(self) -> ImpactResult:
        """All reached vertices but the starts."""
        reached = np.concatenate(self._reached[1:])
        order = np.lexsort((reached, self._distance[reached], self._reach[reached]))
        return ImpactResult(reached[order], self._reach, self._edge, self._before, self._distance)
