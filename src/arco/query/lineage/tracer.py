"""The tracer: answers requests for lineage and impact.

The runs that observed an edge are far more than the edges, so they are not cached: the SQL engine reads
them for the targets of one response.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import numpy as np

from arco.catalog.reader import SnapshotReader
from arco.core.errors import Invalid
from arco.core.sql_literal import quote_texts
from arco.fold.tier1 import DOMAIN
from arco.query.inputs import parse_freshness
from arco.query.limits import QueryLimits
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

MAX_TABLES = 10_000
MAX_EDGES = 50_000  # of tables, and of columns
MAX_AFFECTED = 10_000
MAX_RUN_TABLES = 500
_MAX_RUNS = 20  # of each edge

# By table ids, and by observed names of tables without ids.
_RUNS_SQL = """
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
) WHERE place <= {max_runs} ORDER BY source, target, place
"""


class SqlQuerier(Protocol):
    """An engine that answers SQL."""

    async def query(
        self,
        sql: str,
        *,
        as_of: str | None = None,
        freshness: str | None = None,
        caller: str | None = None,
    ) -> Any:
        """The result as an Arrow table."""


@dataclass(frozen=True)
class _Selection:
    """The part of a walk that fits into a response."""

    tables: Indices
    pairs: Indices
    is_complete: bool


class LineageEngine(SqlQuerier, TailFolder, Protocol):
    """The parts of the SQL engine that lineage uses."""


class Tracer:
    """Answers requests. `readers` are those of the catalog, `lineage` and `executions`, by domain."""

    def __init__(
        self,
        readers: Mapping[str, SnapshotReader],
        engine: LineageEngine,
        *,
        limits: QueryLimits | None = None,
    ) -> None:
        limits = limits or QueryLimits()
        self._tasks = readers[DOMAIN].store.runtime.tasks
        self._engine = engine
        self._graphs = GraphCache(EdgeReader(readers, limits), engine, self._tasks, limits)

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
        """The tables that a table is made of and those made of it, at most `depth` steps away.

        As of a manifest number of the domain, a commit id or a time. With freshness `fresh` it includes
        events that were acknowledged and are not compacted yet.
        """
        checked_direction = check_direction(direction)
        check_depth(depth)
        fresh = parse_freshness(freshness, as_of)
        snapshot, indexed = await self._graphs.at(as_of, fresh=fresh, caller=caller)
        graph = indexed.graph
        start = graph.table_numbers.get(table_id)
        if start is None:
            return await self._isolated_table(table_id, checked_direction, depth, snapshot, graph)

        def select() -> tuple[WalkResult, _Selection]:
            up, down = checked_direction != "down", checked_direction != "up"
            walked = walk(graph, start, up=up, down=down, depth=depth)
            return walked, _select(indexed, walked, columns=columns)

        walked, selection = await self._tasks.in_thread(select)
        builder = await self._builder(snapshot, graph, selection.tables, columns=columns)

        def build() -> Lineage:
            return Lineage(
                table_id=table_id,
                direction=checked_direction,
                depth=depth,
                truncated=not selection.is_complete,
                nodes=_nodes(graph, builder, walked, selection, columns=columns),
                edges=_edges(indexed, builder, selection, columns=columns),
            )

        lineage = await self._tasks.in_thread(build)
        return await self._with_runs(lineage, snapshot, caller) if runs else lineage

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
        """All columns that depend on a column, or those at most `depth` steps away."""
        if depth is not None:
            check_depth(depth)
        fresh = parse_freshness(freshness, as_of)
        snapshot, indexed = await self._graphs.at(as_of, fresh=fresh, caller=caller)
        graph = indexed.graph
        names = CatalogNames(snapshot.catalog, self._tasks)
        start_column = await find_column(names, graph, table_id, column)
        table = graph.table_numbers.get(table_id)
        if table is None:
            own = ResponseBuilder(graph, await names.tables([table_id]), {}).node(table_id, None, 0)
            return Impact(
                table_id=table_id,
                column=start_column.name,
                column_id=start_column.id,
                truncated=False,
                nodes=(own,),
                affected=(),
            )
        start = table
        reached = await self._tasks.in_thread(
            lambda: find_impact(graph, start, start_column.vertices, indexed.outdated)
        )
        near = reached.vertices
        if depth is not None:
            near = near[reached.distance[near] <= depth]
        kept = near[:MAX_AFFECTED]
        distances = _nearest(graph, kept, reached.distance, table)
        tables = np.array(sorted(distances), np.int64)
        builder = await self._builder(snapshot, graph, tables, columns=True)
        return Impact(
            table_id=table_id,
            column=start_column.name,
            column_id=start_column.id,
            truncated=len(kept) < len(near),
            nodes=tuple(
                builder.node(graph.tables[each], None, distances[each])
                for each in sorted(distances, key=lambda each: (distances[each], each))
            ),
            affected=tuple(await self._tasks.in_thread(lambda: builder.affected(reached, kept))),
        )

    async def _isolated_table(
        self,
        table_id: str,
        direction: Direction,
        depth: int,
        snapshot: LineageSnapshot,
        graph: LineageGraph,
    ) -> Lineage:
        """The response for a table without edges; `NotFound` if the catalog does not have it either."""
        tables = await CatalogNames(snapshot.catalog, self._tasks).tables([table_id])
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

    async def _builder(
        self, snapshot: LineageSnapshot, graph: LineageGraph, tables: Indices, *, columns: bool
    ) -> ResponseBuilder:
        ids = [graph.tables[each] for each in tables.tolist()]
        names = CatalogNames(snapshot.catalog, self._tasks)
        labels = await names.tables(ids)
        return ResponseBuilder(graph, labels, await names.columns(labels) if columns else {})

    async def _with_runs(
        self, lineage: Lineage, snapshot: LineageSnapshot, caller: str | None
    ) -> Lineage:
        number, fresh = snapshot.lineage.number, snapshot.tail is not None
        if number < 0 and not fresh:
            return lineage
        runs = await _read_runs(
            self._engine,
            {edge.target for edge in lineage.edges},
            as_of=None if fresh else str(number),
            freshness="fresh" if fresh else None,
            caller=caller,
        )

        def with_runs(edge: LineageEdge) -> LineageEdge:
            return msgspec.structs.replace(edge, runs=runs.get((edge.source, edge.target), ()))

        return msgspec.structs.replace(lineage, edges=tuple(map(with_runs, lineage.edges)))


def check_direction(direction: str) -> Direction:
    """A direction, or `Invalid`."""
    for each in DIRECTIONS:
        if direction == each:
            return each
    raise Invalid(f"direction is up, down or both, not {direction[:40]!r}")


def check_depth(depth: int) -> None:
    """Raise `Invalid` unless the depth is within the limits."""
    if not 1 <= depth <= MAX_DEPTH:
        raise Invalid(f"depth is a number of steps from 1 to {MAX_DEPTH}, not {depth}")


def _select(indexed: IndexedGraph, walked: WalkResult, *, columns: bool) -> _Selection:
    """The nearest tables and the pairs between them, as many as fit into a response."""
    graph = indexed.graph
    distance = np.minimum(walked.up, walked.down)
    reached = np.flatnonzero(distance < len(graph.tables))
    tables = reached[np.lexsort((reached, distance[reached]))][:MAX_TABLES]
    is_selected = np.zeros(len(graph.tables), np.bool_)
    is_selected[tables] = True
    sources, targets = graph.pair_sources[walked.pairs], graph.pair_targets[walked.pairs]
    pairs = walked.pairs[is_selected[sources] & is_selected[targets]]
    farthest = np.maximum(distance[graph.pair_sources[pairs]], distance[graph.pair_targets[pairs]])
    pairs = pairs[np.lexsort((pairs, farthest))][:MAX_EDGES]
    if columns:
        pairs = pairs[np.cumsum(indexed.summaries.column_edges[pairs]) <= MAX_EDGES]
    return _Selection(
        tables, pairs, is_complete=len(tables) == len(reached) and len(pairs) == len(walked.pairs)
    )


def _nodes(
    graph: LineageGraph,
    builder: ResponseBuilder,
    walked: WalkResult,
    selection: _Selection,
    *,
    columns: bool,
) -> tuple[LineageNode, ...]:
    by_table = builder.columns_in(selection.pairs) if columns else {}
    return tuple(
        builder.node(
            graph.tables[table],
            steps_to(walked.up, table),
            steps_to(walked.down, table),
            by_table.get(graph.tables[table], ()),
        )
        for table in selection.tables.tolist()
    )


def _edges(
    indexed: IndexedGraph, builder: ResponseBuilder, selection: _Selection, *, columns: bool
) -> tuple[LineageEdge, ...]:
    edges = builder.edges(selection.pairs, indexed.summaries)
    if not columns:
        return tuple(edges)
    own = builder.column_edges(selection.pairs)
    return tuple(
        msgspec.structs.replace(edge, columns=own.get(pair, ()))
        for pair, edge in zip(selection.pairs.tolist(), edges, strict=True)
    )


def _nearest(
    graph: LineageGraph, vertices: Indices, distances: Indices, start: int
) -> dict[int, int]:
    """The distances of the tables of some vertices, and of the start."""
    nearest = {start: 0}
    for vertex in vertices.tolist():
        table, distance = graph.table_of(vertex), int(distances[vertex])
        nearest[table] = min(nearest.get(table, distance), distance)
    return nearest


async def _read_runs(
    engine: SqlQuerier,
    targets: Iterable[str],
    *,
    as_of: str | None,
    freshness: str | None,
    caller: str | None = None,
) -> Mapping[tuple[str, str], tuple[LineageRun, ...]]:
    """The newest runs that observed an edge into one of these tables, by source and target."""
    ids = sorted({"" if each.startswith(EXTERNAL) else each for each in targets})
    if not ids:
        return {}
    if len(ids) > MAX_RUN_TABLES:
        raise Invalid(
            f"runs are shown for at most {MAX_RUN_TABLES} tables, and this walk reaches {len(ids)}: "
            "use a smaller depth"
        )
    sql = _RUNS_SQL.format(external=EXTERNAL, targets=quote_texts(ids), max_runs=_MAX_RUNS)
    result = await engine.query(sql, as_of=as_of, freshness=freshness, caller=caller)
    runs: dict[tuple[str, str], list[LineageRun]] = {}
    for row in result.to_pylist():
        run = LineageRun(
            execution_id=row["execution_id"],
            task_id=row["task_id"],
            observed_at=row["observed_at"],
        )
        runs.setdefault((row["source"], row["target"]), []).append(run)
    return {pair: tuple(each) for pair, each in runs.items()}
