"""Impact: all that depends on a column, and how surely.

What is made of its values comes first, then what filters, joins, groups or sorts by it, then what was only
seen to be made of the same table. Each is reached in the surest way that there is: first everything that
values alone lead to, then what influences add, then what tables add; each time by few steps.
"""

from dataclasses import dataclass

import numpy as np

from arco.query.lineage.codes import Mask, Places, ranges
from arco.query.lineage.graph import INFLUENCE, TABLE, VALUE, Graph

NONE = -1


@dataclass(frozen=True)
class Reached:
    """The vertices that were reached, the nearest of the surest first; and by vertex, how each was."""

    vertices: Places
    reach: Places  # VALUE, INFLUENCE or TABLE
    edge: Places  # the last edge of the way to it; NONE for where it began
    before: Places  # the vertex before it on the way
    distance: Places  # steps


def impact(graph: Graph, table: int, starts: list[int], outdated: Mask) -> Reached:
    """All that lies downstream of a column of a table, whichever vertices stand for it, perhaps none.

    Edges that are `outdated` are not followed.
    """
    search = _Search(graph, table, starts, outdated)
    for reach in (VALUE, INFLUENCE, TABLE):
        search.spread(reach)
    return search.reached()


def outdated_edges(graph: Graph) -> Mask:
    """Edges between tables that were only declared, where the columns of these tables were observed."""
    declared = graph.rows.column("soundness").combine_chunks().fill_null("")
    is_declared = (declared.to_numpy(zero_copy_only=False) == "declared").astype(np.bool_)
    is_observed = (graph.reaches != TABLE) & ~is_declared
    observed = np.logical_or.reduceat(is_observed, graph.pair_starts[:-1])
    sizes = np.diff(graph.pair_starts)
    outdated: Mask = np.repeat(observed, sizes) & (graph.reaches == TABLE) & is_declared
    return outdated


class _Search:
    def __init__(self, graph: Graph, table: int, starts: list[int], outdated: Mask) -> None:
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

    def _leaving(self, frontier: Places, reach: int) -> tuple[Places, Places]:
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

    def _edges_of(self, tables: Places) -> tuple[Places, Places]:
        graph = self._graph
        begins = graph.pair_starts[graph.out_starts[tables]]
        return begins, graph.pair_starts[graph.out_starts[tables + 1]]

    def reached(self) -> Reached:
        """All that was found but for where it began."""
        found = np.concatenate(self._found[1:])
        order = np.lexsort((found, self._distance[found], self._reach[found]))
        return Reached(found[order], self._reach, self._edge, self._before, self._distance)
