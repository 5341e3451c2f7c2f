"""Walks from table to table, breadth first: each table once, at its shortest distance, so cycles end."""

from dataclasses import dataclass

import numpy as np

from arco.query.lineage.graph import INFLUENCE, TABLE, VALUE, Indices, LineageGraph, Mask, ranges

UNREACHED = np.iinfo(np.int64).max  # the distance of what was not reached


@dataclass(frozen=True)
class WalkResult:
    """The pairs that were followed, and how far each table is; `FAR` if it was not reached."""

    pairs: Indices
    up: Indices
    down: Indices


def walk(graph: LineageGraph, start: int, *, up: bool, down: bool, depth: int) -> WalkResult:
    """Follow pairs against their direction and with it, at most so many in a row."""
    nothing = np.full(len(graph.tables), UNREACHED, np.int64)
    above, ups = _spread(graph, start, depth, up=True) if up else (nothing[:0], nothing)
    below, downs = _spread(graph, start, depth, up=False) if down else (nothing[:0], nothing)
    return WalkResult(np.union1d(above, below), ups, downs)


def _spread(graph: LineageGraph, start: int, depth: int, *, up: bool) -> tuple[Indices, Indices]:
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


NONE = -1


@dataclass(frozen=True)
class ImpactResult:
    """The vertices that were reached, the nearest of the surest first; and by vertex, how each was."""

    vertices: Indices
    reach: Indices  # VALUE, INFLUENCE or TABLE
    edge: Indices  # the last edge of the way to it; NONE for where it began
    before: Indices  # the vertex before it on the way
    distance: Indices  # steps


def find_impact(graph: LineageGraph, table: int, starts: list[int], outdated: Mask) -> ImpactResult:
    """All that lies downstream of a column of a table, whichever vertices stand for it, perhaps none.

    Edges that are `outdated` are not followed.
    """
    search = _Search(graph, table, starts, outdated)
    for reach in (VALUE, INFLUENCE, TABLE):
        search.spread(reach)
    return search.reached()


def outdated_edges(graph: LineageGraph) -> Mask:
    """Edges between tables that were only declared, where the columns of these tables were observed."""
    declared = graph.rows.column("soundness").combine_chunks().fill_null("")
    is_declared = (declared.to_numpy(zero_copy_only=False) == "declared").astype(np.bool_)
    is_observed = (graph.reaches != TABLE) & ~is_declared
    observed = np.logical_or.reduceat(is_observed, graph.pair_starts[:-1])
    sizes = np.diff(graph.pair_starts)
    outdated: Mask = np.repeat(observed, sizes) & (graph.reaches == TABLE) & is_declared
    return outdated


class _Search:
    def __init__(self, graph: LineageGraph, table: int, starts: list[int], outdated: Mask) -> None:
        # The one above all vertices is the column itself, which no edge between columns may know.
        self._itself = len(graph.columns) + len(graph.tables)
        count = self._itself + 1
        self._graph = graph
        self._own_table = np.array([table], np.int64)
        self._outdated = outdated
        self._first = len(graph.columns)  # the first vertex that is a whole table
        self._tables = np.fromiter((table for table, _ in graph.columns), np.int64, self._first)
        self._reach = np.full(count, NONE, np.int64)
        self._edge = np.full(count, NONE, np.int64)
        self._before = np.full(count, NONE, np.int64)
        self._distance = np.zeros(count, np.int64)
        self._found = [np.array([*sorted(set(starts)), self._itself], np.int64)]
        self._reach[self._found[0]] = VALUE

    def spread(self, reach: int) -> None:
        """Go on from all that was reached, by edges that are as sure as this or surer."""
        frontier = np.concatenate(self._found)
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
            self._found.append(frontier)

    def _leaving(self, frontier: Indices, reach: int) -> tuple[Indices, Indices]:
        """The edges that leave some vertices, and from which of them.

        Of a whole table, all edges of the table. Of a column, its own, and with those between tables also
        the ones of its table as a whole.
        """
        graph = self._graph
        whole = frontier[(frontier >= self._first) & (frontier < self._itself)]
        columns = frontier[frontier < self._first]
        begins, ends = self._edges_of(whole - self._first)
        edges, origins = [ranges(begins, ends)], [np.repeat(whole, ends - begins)]
        owners = [(columns, columns)]
        if reach == TABLE:
            owners.append((self._first + self._tables[columns], columns))
            owners.append((self._first + self._own_table, frontier[frontier == self._itself]))
        for vertices, told in owners:
            if not len(told):
                continue
            begins, ends = graph.vertex_starts[vertices], graph.vertex_starts[vertices + 1]
            edges.append(graph.by_vertex[ranges(begins, ends)])
            origins.append(np.repeat(told, ends - begins))
        return np.concatenate(edges), np.concatenate(origins)

    def _edges_of(self, tables: Indices) -> tuple[Indices, Indices]:
        graph = self._graph
        begins = graph.pair_starts[graph.out_starts[tables]]
        return begins, graph.pair_starts[graph.out_starts[tables + 1]]

    def reached(self) -> ImpactResult:
        """All that was found but for where it began."""
        found = np.concatenate(self._found[1:])
        order = np.lexsort((found, self._distance[found], self._reach[found]))
        return ImpactResult(found[order], self._reach, self._edge, self._before, self._distance)
