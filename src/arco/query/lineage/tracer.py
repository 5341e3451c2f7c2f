"""The tracer: whoever asks for lineage asks here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import numpy as np

from arco.catalog.reader import SnapshotReader
from arco.core.errors import Invalid
from arco.fold.tier1 import DOMAIN
from arco.query.limits import QueryLimits, wants_fresh
from arco.query.lineage.catalog_names import CatalogNames, find_column, unknown_table
from arco.query.lineage.edges import EdgeReader, LineageSnapshot
from arco.query.lineage.graph import EXTERNAL, Indices, LineageGraph
from arco.query.lineage.graph_cache import GraphCache, IndexedGraph, TailFolder
from arco.query.lineage.response import (
    DIRECTIONS,
    MAX_DEPTH,
    Direction,
    Impact,
    Lineage,
    LineageEdge,
    LineageNode,
    LineageRun,
)
from arco.query.lineage.response_builder import ResponseBuilder, steps_to
from arco.query.lineage.traversal import WalkResult, find_impact, walk

MAX_RUN_TABLES = 500
_MOST_RUNS = 20  # of each edge

# By the tables as they were told, and by their names where they have no ids.
_SQL = """
SELECT source, target, execution_id, task_id, observed_at FROM (
  SELECT *, row_number() OVER (
    PARTITION BY source, target ORDER BY observed_at DESC NULLS LAST, execution_id, task_id
  ) AS place FROM (
    SELECT
      coalesce(e.source_table_id, '{external}' || coalesce(e.source_name, '')) AS source,
      CASE WHEN e.target_table_id = '' THEN '{external}' || coalesce(e.target_name, '')
        ELSE e.target_table_id END AS target,
      o.execution_id, o.task_id, max(o.observed_at) AS observed_at
    FROM system.edge_observations o
    JOIN system.lineage_edges e ON e.edge_id = o.edge_id AND e.target_table_id = o.target_table_id
    WHERE o.target_table_id IN ({targets}) AND e.target_table_id IN ({targets})
    GROUP BY 1, 2, 3, 4
  )
) WHERE place <= {most} ORDER BY source, target, place
"""


class SqlQuerier(Protocol):
    """Whoever answers SQL."""

    async def query(
        self,
        sql: str,
        *,
        as_of: str | None = None,
        freshness: str | None = None,
        caller: str | None = None,
    ) -> Any:
        """The result as an Arrow table."""


Pair = tuple[str, str]


async def runs_of(
    engine: SqlQuerier,
    targets: Iterable[str],
    *,
    as_of: str | None,
    freshness: str | None,
    caller: str | None = None,
) -> Mapping[Pair, tuple[LineageRun, ...]]:
    """The newest runs that have shown an edge into one of these tables, by source and target."""
    named = sorted({"" if each.startswith(EXTERNAL) else each for each in targets})
    if not named:
        return {}
    if len(named) > MAX_RUN_TABLES:
        raise Invalid(
            f"runs are told of at most {MAX_RUN_TABLES} tables, and this way leads to {len(named)}: "
            "ask with a smaller depth"
        )
    sql = _SQL.format(external=EXTERNAL, targets=", ".join(map(_literal, named)), most=_MOST_RUNS)
    answer = await engine.query(sql, as_of=as_of, freshness=freshness, caller=caller)
    rows = answer.to_pylist()
    found: dict[Pair, list[LineageRun]] = {}
    for row in rows:
        run = LineageRun(
            execution_id=row["execution_id"],
            task_id=row["task_id"],
            observed_at=row["observed_at"],
        )
        found.setdefault((row["source"], row["target"]), []).append(run)
    return {pair: tuple(runs) for pair, runs in found.items()}


def _literal(text: str) -> str:
    """A text as a literal of SQL: a quote is written twice, and nothing else means anything in one."""
    return "'" + text.replace("'", "''") + "'"


MAX_TABLES = 10_000
MAX_EDGES = 50_000  # of tables, and of columns
MAX_AFFECTED = 10_000


@dataclass(frozen=True)
class _Chosen:
    """The part of a walk that an answer holds."""

    tables: Indices
    pairs: Indices
    whole: bool


class LineageEngine(SqlQuerier, TailFolder, Protocol):
    """An SQL engine, as far as lineage needs it."""


class Tracer:
    """Walks lineage. `readers` are those of the catalog, `lineage` and `executions`, by domain."""

    def __init__(
        self,
        readers: Mapping[str, SnapshotReader],
        engine: LineageEngine,
        *,
        limits: QueryLimits | None = None,
        edges: EdgeReader | None = None,
    ) -> None:
        limits = limits or QueryLimits()
        self._tasks = readers[DOMAIN].store.runtime.tasks
        self._engine = engine
        self._graphs = GraphCache(edges or EdgeReader(readers, limits), engine, self._tasks, limits)

    async def walk(
        self,
        table_id: str,
        *,
        direction: str = "both",
        depth: int = MAX_DEPTH,
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

        def choose() -> tuple[WalkResult, _Chosen]:
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
        names = CatalogNames(moment.catalog, self._tasks)
        found = await find_column(names, graph, table_id, column)
        table = graph.table_numbers.get(table_id)
        if table is None:
            own = ResponseBuilder(graph, await names.tables([table_id]), {}).node(table_id, None, 0)
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
            lambda: find_impact(graph, start, found.vertices, indexed.outdated)
        )
        near = reached.vertices
        if depth is not None:
            near = near[reached.distance[near] <= depth]
        kept = near[:MAX_AFFECTED]
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
        self,
        table_id: str,
        direction: Direction,
        depth: int,
        moment: LineageSnapshot,
        graph: LineageGraph,
    ) -> Lineage:
        """A table that no edge tells of; `NotFound` if the catalog has none either."""
        tables = await CatalogNames(moment.catalog, self._tasks).tables([table_id])
        if table_id not in tables:
            raise unknown_table(table_id)
        up, down = (None if direction == other else 0 for other in ("down", "up"))
        return Lineage(
            table_id=table_id,
            direction=direction,
            depth=depth,
            truncated=False,
            nodes=(ResponseBuilder(graph, tables, {}).node(table_id, up, down),),
            edges=(),
        )

    async def _teller(
        self, moment: LineageSnapshot, graph: LineageGraph, tables: Indices, *, columns: bool
    ) -> ResponseBuilder:
        ids = [graph.tables[each] for each in tables.tolist()]
        names = CatalogNames(moment.catalog, self._tasks)
        found = await names.tables(ids)
        return ResponseBuilder(graph, found, await names.columns(found) if columns else {})

    async def _with_runs(
        self, lineage: Lineage, moment: LineageSnapshot, caller: str | None
    ) -> Lineage:
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
    if not 1 <= depth <= MAX_DEPTH:
        raise Invalid(f"depth is a number of steps from 1 to {MAX_DEPTH}, not {depth}")


def _choose(indexed: IndexedGraph, walked: WalkResult, *, columns: bool) -> _Chosen:
    """The nearest tables and the pairs between them, as many as an answer holds."""
    graph = indexed.graph
    distance = np.minimum(walked.up, walked.down)
    reached = np.flatnonzero(distance < len(graph.tables))
    tables = reached[np.lexsort((reached, distance[reached]))][:MAX_TABLES]
    held = np.zeros(len(graph.tables), np.bool_)
    held[tables] = True
    sources, targets = graph.pair_sources[walked.pairs], graph.pair_targets[walked.pairs]
    pairs = walked.pairs[held[sources] & held[targets]]
    farthest = np.maximum(distance[graph.pair_sources[pairs]], distance[graph.pair_targets[pairs]])
    pairs = pairs[np.lexsort((pairs, farthest))][:MAX_EDGES]
    if columns:
        pairs = pairs[np.cumsum(indexed.facts.columns[pairs]) <= MAX_EDGES]
    return _Chosen(
        tables, pairs, whole=len(tables) == len(reached) and len(pairs) == len(walked.pairs)
    )


def _nodes(
    graph: LineageGraph,
    teller: ResponseBuilder,
    walked: WalkResult,
    chosen: _Chosen,
    *,
    columns: bool,
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
    indexed: IndexedGraph, teller: ResponseBuilder, chosen: _Chosen, *, columns: bool
) -> tuple[LineageEdge, ...]:
    edges = teller.edges(chosen.pairs, indexed.facts)
    if not columns:
        return tuple(edges)
    own = teller.column_edges(chosen.pairs)
    return tuple(
        msgspec.structs.replace(edge, columns=own.get(pair, ()))
        for pair, edge in zip(chosen.pairs.tolist(), edges, strict=True)
    )


def _nearest(
    graph: LineageGraph, vertices: Indices, distances: Indices, start: int
) -> dict[int, int]:
    """The tables of some vertices, and the fewest steps to each."""
    nearest = {start: 0}
    for vertex in vertices.tolist():
        table, distance = graph.table_of(vertex), int(distances[vertex])
        nearest[table] = min(nearest.get(table, distance), distance)
    return nearest
