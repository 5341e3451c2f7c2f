"""The tracer: whoever asks for lineage asks here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np

from arco.catalog.reader import SnapshotReader
from arco.core.errors import Invalid
from arco.fold.tier1 import DOMAIN
from arco.query.limits import Limits
from arco.query.lineage.answer import (
    DIRECTIONS,
    MOST_DEPTH,
    Direction,
    Impact,
    Lineage,
    LineageEdge,
    LineageNode,
)
from arco.query.lineage.codes import Places
from arco.query.lineage.edges import EdgeReader, Moment
from arco.query.lineage.graph import Graph
from arco.query.lineage.graphs import Graphs, Indexed, TailReader
from arco.query.lineage.impact import impact
from arco.query.lineage.names import Names, unknown_table
from arco.query.lineage.runs import Asked, runs_of
from arco.query.lineage.start import find_column
from arco.query.lineage.telling import Teller, steps_to
from arco.query.lineage.walk import Walked, walk
from arco.query.statement import wants_fresh

MOST_TABLES = 10_000
MOST_EDGES = 50_000  # of tables, and of columns
MOST_AFFECTED = 10_000


@dataclass(frozen=True)
class _Chosen:
    """The part of a walk that an answer holds."""

    tables: Places
    pairs: Places
    whole: bool


class LineageEngine(Asked, TailReader, Protocol):
    """An SQL engine, as far as lineage needs it."""


class Tracer:
    """Walks lineage. `readers` are those of the catalog, `lineage` and `executions`, by domain."""

    def __init__(
        self,
        readers: Mapping[str, SnapshotReader],
        engine: LineageEngine,
        *,
        limits: Limits | None = None,
        edges: EdgeReader | None = None,
    ) -> None:
        limits = limits or Limits()
        self._tasks = readers[DOMAIN].store.runtime.tasks
        self._engine = engine
        self._graphs = Graphs(edges or EdgeReader(readers, limits), engine, self._tasks, limits)

    async def walk(
        self,
        table_id: str,
        *,
        direction: str = "both",
        depth: int = MOST_DEPTH,
        columns: bool = False,
        runs: bool = False,
        freshness: str | None = None,
        as_of: str | None = None,
        caller: str | None = None,
    ) -> Lineage:
        """What a table is made of and what is made of it, at most so many steps away.

        As of a manifest number of the domain, a commit id or a time. With freshness `fresh` it also has
        what was acknowledged and is not compacted yet.
        """
        wanted = check_direction(direction)
        check_depth(depth)
        fresh = wants_fresh(freshness, as_of)
        moment, indexed = await self._graphs.at(as_of, fresh=fresh, caller=caller)
        graph = indexed.graph
        start = graph.table_numbers.get(table_id)
        if start is None:
            return await self._alone(table_id, wanted, depth, moment, graph)

        def choose() -> tuple[Walked, _Chosen]:
            up, down = wanted != "down", wanted != "up"
            walked = walk(graph, start, up=up, down=down, depth=depth)
            return walked, _choose(indexed, walked, columns=columns)

        walked, chosen = await self._tasks.in_thread(choose)
        teller = await self._teller(moment, graph, chosen.tables, columns=columns)

        def tell() -> Lineage:
            edges = _edges(indexed, teller, chosen, columns=columns)
            return Lineage(
                table_id=table_id,
                direction=wanted,
                depth=depth,
                truncated=not chosen.whole,
                nodes=_nodes(graph, teller, walked, chosen, columns=columns),
                edges=edges,
            )

        lineage = await self._tasks.in_thread(tell)
        return await self._with_runs(lineage, moment, caller) if runs else lineage

    async def impact(
        self,
        table_id: str,
        column: str,
        *,
        depth: int | None = None,
        freshness: str | None = None,
        as_of: str | None = None,
        caller: str | None = None,
    ) -> Impact:
        """All that depends on a column, or what of it is at most so many steps away."""
        if depth is not None:
            check_depth(depth)
        fresh = wants_fresh(freshness, as_of)
        moment, indexed = await self._graphs.at(as_of, fresh=fresh, caller=caller)
        graph = indexed.graph
        names = Names(moment.catalog, self._tasks)
        found = await find_column(names, graph, table_id, column)
        table = graph.table_numbers.get(table_id)
        if table is None:
            own = Teller(graph, await names.tables([table_id]), {}).node(table_id, None, 0)
            return Impact(
                table_id=table_id,
                column=found.name,
                column_id=found.id,
                truncated=False,
                nodes=(own,),
                affected=(),
            )
        start = table
        reached = await self._tasks.in_thread(
            lambda: impact(graph, start, found.vertices, indexed.outdated)
        )
        near = reached.vertices
        if depth is not None:
            near = near[reached.distance[near] <= depth]
        kept = near[:MOST_AFFECTED]
        distances = _nearest(graph, kept, reached.distance, table)
        tables = np.array(sorted(distances), np.int64)
        teller = await self._teller(moment, graph, tables, columns=True)
        return Impact(
            table_id=table_id,
            column=found.name,
            column_id=found.id,
            truncated=len(kept) < len(near),
            nodes=tuple(
                teller.node(graph.tables[each], None, distances[each])
                for each in sorted(distances, key=lambda each: (distances[each], each))
            ),
            affected=tuple(await self._tasks.in_thread(lambda: teller.affected(reached, kept))),
        )

    async def _alone(
        self, table_id: str, direction: Direction, depth: int, moment: Moment, graph: Graph
    ) -> Lineage:
        """A table that no edge tells of; `NotFound` if the catalog has none either."""
        tables = await Names(moment.catalog, self._tasks).tables([table_id])
        if table_id not in tables:
            raise unknown_table(table_id)
        up, down = (None if direction == other else 0 for other in ("down", "up"))
        return Lineage(
            table_id=table_id,
            direction=direction,
            depth=depth,
            truncated=False,
            nodes=(Teller(graph, tables, {}).node(table_id, up, down),),
            edges=(),
        )

    async def _teller(
        self, moment: Moment, graph: Graph, tables: Places, *, columns: bool
    ) -> Teller:
        ids = [graph.tables[each] for each in tables.tolist()]
        names = Names(moment.catalog, self._tasks)
        found = await names.tables(ids)
        return Teller(graph, found, await names.columns(found) if columns else {})

    async def _with_runs(self, lineage: Lineage, moment: Moment, caller: str | None) -> Lineage:
        number, fresh = moment.lineage.number, moment.tail is not None
        if number < 0 and not fresh:
            return lineage
        found = await runs_of(
            self._engine,
            {edge.target for edge in lineage.edges},
            as_of=None if fresh else str(number),
            freshness="fresh" if fresh else None,
            caller=caller,
        )

        def with_runs(edge: LineageEdge) -> LineageEdge:
            return msgspec.structs.replace(edge, runs=found.get((edge.source, edge.target), ()))

        return msgspec.structs.replace(lineage, edges=tuple(map(with_runs, lineage.edges)))


def check_direction(direction: str) -> Direction:
    """A direction, or `Invalid`."""
    for known in DIRECTIONS:
        if direction == known:
            return known
    raise Invalid(f"direction is up, down or both, not {direction[:40]!r}")


def check_depth(depth: int) -> None:
    """`Invalid` for more steps than are walked, and for none."""
    if not 1 <= depth <= MOST_DEPTH:
        raise Invalid(f"depth is a number of steps from 1 to {MOST_DEPTH}, not {depth}")


def _choose(indexed: Indexed, walked: Walked, *, columns: bool) -> _Chosen:
    """The nearest tables and the pairs between them, as many as an answer holds."""
    graph = indexed.graph
    distance = np.minimum(walked.up, walked.down)
    reached = np.flatnonzero(distance < len(graph.tables))
    tables = reached[np.lexsort((reached, distance[reached]))][:MOST_TABLES]
    held = np.zeros(len(graph.tables), np.bool_)
    held[tables] = True
    sources, targets = graph.pair_sources[walked.pairs], graph.pair_targets[walked.pairs]
    pairs = walked.pairs[held[sources] & held[targets]]
    farthest = np.maximum(distance[graph.pair_sources[pairs]], distance[graph.pair_targets[pairs]])
    pairs = pairs[np.lexsort((pairs, farthest))][:MOST_EDGES]
    if columns:
        pairs = pairs[np.cumsum(indexed.facts.columns[pairs]) <= MOST_EDGES]
    return _Chosen(
        tables, pairs, whole=len(tables) == len(reached) and len(pairs) == len(walked.pairs)
    )


def _nodes(
    graph: Graph, teller: Teller, walked: Walked, chosen: _Chosen, *, columns: bool
) -> tuple[LineageNode, ...]:
    seen = teller.columns_in(chosen.pairs) if columns else {}
    return tuple(
        teller.node(
            graph.tables[table],
            steps_to(walked.up, table),
            steps_to(walked.down, table),
            seen.get(graph.tables[table], ()),
        )
        for table in chosen.tables.tolist()
    )


def _edges(
    indexed: Indexed, teller: Teller, chosen: _Chosen, *, columns: bool
) -> tuple[LineageEdge, ...]:
    edges = teller.edges(chosen.pairs, indexed.facts)
    if not columns:
        return tuple(edges)
    own = teller.column_edges(chosen.pairs)
    return tuple(
        msgspec.structs.replace(edge, columns=own.get(pair, ()))
        for pair, edge in zip(chosen.pairs.tolist(), edges, strict=True)
    )


def _nearest(graph: Graph, vertices: Places, distances: Places, start: int) -> dict[int, int]:
    """The tables of some vertices, and the fewest steps to each."""
    nearest = {start: 0}
    for vertex in vertices.tolist():
        table, distance = graph.table_of(vertex), int(distances[vertex])
        nearest[table] = min(nearest.get(table, distance), distance)
    return nearest
