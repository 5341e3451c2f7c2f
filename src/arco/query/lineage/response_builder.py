"""Builds responses: the numbers of a graph as names, and the summary of the edges between two tables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from arco.catalog.model import ColumnRow
from arco.query.lineage.catalog_names import TableLabel
from arco.query.lineage.graph import (
    BY_ID,
    EXTERNAL,
    NEVER,
    TABLE,
    Indices,
    LineageGraph,
    encode_texts,
    ranges,
    to_datetimes,
)
from arco.query.lineage.response import (
    ImpactedColumn,
    ImpactStep,
    LineageColumn,
    LineageColumnEdge,
    LineageEdge,
    LineageNode,
    NodeKind,
    Reach,
)
from arco.query.lineage.traversal import NONE, UNREACHED, ImpactResult

_REACHES: tuple[Reach, ...] = ("value", "influence", "table")


@dataclass(frozen=True)
class PairSummaries:
    """For each pair: its newest edge, when it was first and last observed, and its soundness."""

    newest: Indices
    first: pa.Array
    last: pa.Array
    column_edges: Indices
    _soundness_bits: Indices
    _soundness_names: list[str]

    def soundness(self, pairs: Indices) -> list[tuple[str, ...]]:
        """All soundness values of the edges of each pair."""
        bits = self._soundness_bits[pairs].tolist()
        names = {
            each: tuple(name for at, name in enumerate(self._soundness_names) if each >> at & 1)
            for each in set(bits)
        }
        return [names[each] for each in bits]


def summarize_pairs(graph: LineageGraph) -> PairSummaries:
    """The summaries of all pairs."""
    begins = graph.pair_starts[:-1]
    sizes = np.diff(graph.pair_starts)
    [sounds], words = encode_texts([graph.rows.column("soundness").combine_chunks()])
    times = graph.rows.column("last_observed_at").combine_chunks()
    last = times.cast(pa.int64()).fill_null(-1).to_numpy()
    order = np.lexsort((-last, np.repeat(np.arange(len(begins)), sizes)))
    newest = order[begins].astype(np.int64)
    first = graph.rows.column("first_observed_at").combine_chunks()
    earliest = first.cast(pa.int64()).fill_null(NEVER).to_numpy()
    least = np.minimum.reduceat(earliest, begins) if len(begins) else earliest
    return PairSummaries(
        newest=newest,
        first=pa.array(least, mask=least == NEVER).cast(first.type),
        last=times.take(pa.array(newest)),
        column_edges=_sums((graph.reaches != TABLE).astype(np.int64), begins),
        _soundness_bits=_bits(np.where(sounds < 0, 0, 1 << np.maximum(sounds, 0)), begins),
        _soundness_names=words,
    )


def _sums(values: Indices, begins: Indices) -> Indices:
    return np.add.reduceat(values, begins) if len(begins) else values


def _bits(values: Indices, begins: Indices) -> Indices:
    return np.bitwise_or.reduceat(values, begins) if len(begins) else values


class ResponseBuilder:
    """Builds the parts of a response from one graph and the names of one snapshot of the catalog."""

    def __init__(
        self,
        graph: LineageGraph,
        tables: Mapping[str, TableLabel],
        columns: Mapping[str, Mapping[str, ColumnRow]],
    ) -> None:
        self._graph = graph
        self._tables = tables
        self._columns = columns

    def node(
        self, table_id: str, up: int | None, down: int | None, columns: Iterable[LineageColumn] = ()
    ) -> LineageNode:
        """The node of a table."""
        label = self._tables.get(table_id)
        kind: NodeKind
        if label is not None:
            name, kind, dropped = label.name, "VIEW" if label.is_view else "TABLE", label.dropped
        elif table_id.startswith(EXTERNAL):
            name, kind, dropped = table_id.removeprefix(EXTERNAL), "EXTERNAL", False
        else:
            name, kind, dropped = self._observed_names.get(table_id, table_id), "UNKNOWN", False
        return LineageNode(
            id=table_id,
            name=name,
            kind=kind,
            dropped=dropped,
            up=up,
            down=down,
            columns=tuple(columns),
        )

    def edges(self, pairs: Indices, summaries: PairSummaries) -> list[LineageEdge]:
        """The edges of pairs."""
        graph, at = self._graph, pa.array(summaries.newest[pairs])
        rows = zip(
            graph.pair_sources[pairs].tolist(),
            graph.pair_targets[pairs].tolist(),
            summaries.soundness(pairs),
            summaries.column_edges[pairs].tolist(),
            graph.rows.column("pipeline_id").take(at).to_pylist(),
            graph.rows.column("execution_id").take(at).to_pylist(),
            to_datetimes(summaries.first.take(pa.array(pairs))),
            to_datetimes(summaries.last.take(pa.array(pairs))),
            strict=True,
        )
        return [
            LineageEdge(
                source=graph.tables[source],
                target=graph.tables[target],
                soundness=soundness,
                column_edges=columns,
                pipeline_id=pipeline,
                execution_id=execution,
                first_observed_at=first,
                last_observed_at=last,
            )
            for source, target, soundness, columns, pipeline, execution, first, last in rows
        ]

    def column_edges(self, pairs: Indices) -> dict[int, tuple[LineageColumnEdge, ...]]:
        """The column edges of pairs, by pair."""
        graph = self._graph
        sizes = graph.pair_starts[pairs + 1] - graph.pair_starts[pairs]
        edges = ranges(graph.pair_starts[pairs], graph.pair_starts[pairs + 1])
        owners = np.repeat(pairs, sizes)
        usable = graph.reaches[edges] != TABLE
        by_pair: dict[int, list[LineageColumnEdge]] = {}
        for pair, edge in zip(
            owners[usable].tolist(), self._column_edges(edges[usable]), strict=True
        ):
            by_pair.setdefault(pair, []).append(edge)
        return {pair: tuple(sorted(each, key=_by_columns)) for pair, each in by_pair.items()}

    def _column_edges(self, edges: Indices) -> Iterable[LineageColumnEdge]:
        graph = self._graph
        names = (
            *("edge_id", "source_name", "target_name", "transformation_type"),
            *("transformation_sql", "soundness"),
        )
        rows = graph.rows.take(pa.array(edges))
        columns = [rows.column(name).to_pylist() for name in names]
        columns += [
            to_datetimes(rows.column(name)) for name in ("first_observed_at", "last_observed_at")
        ]
        sources, targets = graph.sources[edges].tolist(), graph.targets[edges].tolist()
        reaches = graph.reaches[edges].tolist()
        for source, target, reach, *row in zip(sources, targets, reaches, *columns, strict=True):
            edge_id, source_name, target_name, kind, sql, soundness, first, last = row
            read, written = self._column(source, source_name), self._column(target, target_name)
            yield LineageColumnEdge(
                edge_id=edge_id,
                source_column=None if read is None else read.name,
                source_column_id=None if read is None else read.id,
                target_column=None if written is None else written.name,
                target_column_id=None if written is None else written.id,
                reach=_REACHES[reach],
                transformation=kind or "UNKNOWN",
                sql=sql,
                soundness=soundness,
                first_observed_at=first,
                last_observed_at=last,
            )

    def columns_in(self, pairs: Indices) -> dict[str, list[LineageColumn]]:
        """The columns of the edges of pairs, by table, sorted by name."""
        graph = self._graph
        edges = ranges(graph.pair_starts[pairs], graph.pair_starts[pairs + 1])
        columns: dict[int, LineageColumn] = {}
        for vertices, name in ((graph.sources, "source_name"), (graph.targets, "target_name")):
            distinct, first = np.unique(vertices[edges], return_index=True)
            names = graph.rows.column(name).take(pa.array(edges[first])).to_pylist()
            for vertex, observed in zip(distinct.tolist(), names, strict=True):
                column = self._column(vertex, observed)
                if column is not None:
                    columns.setdefault(vertex, column)
        tables: dict[str, list[LineageColumn]] = {}
        for vertex, column in sorted(columns.items(), key=lambda each: (each[1].name, each[0])):
            tables.setdefault(graph.tables[graph.table_of(vertex)], []).append(column)
        return tables

    def affected(self, reached: ImpactResult, vertices: Indices) -> list[ImpactedColumn]:
        """The reached columns, each with the path to it."""
        steps: dict[int, ImpactStep] = {}
        return [self._affected(reached, vertex, steps) for vertex in vertices.tolist()]

    def _affected(
        self, reached: ImpactResult, vertex: int, steps: dict[int, ImpactStep]
    ) -> ImpactedColumn:
        path: list[ImpactStep] = []
        at = vertex
        while reached.edge[at] != NONE:
            if at not in steps:
                steps[at] = self._step(at, int(reached.edge[at]))
            path.append(steps[at])
            at = int(reached.before[at])
        last, column = path[0], self._column(vertex, path[0].column)
        return ImpactedColumn(
            table_id=last.table_id,
            column=last.column,
            column_id=None if column is None else column.id,
            reach=_REACHES[reached.reach[vertex]],
            distance=len(path),
            path=tuple(reversed(path)),
        )

    def _step(self, vertex: int, edge: int) -> ImpactStep:
        graph = self._graph
        [row] = graph.rows.select(["target_name", "transformation_type"]).slice(edge, 1).to_pylist()
        column = self._column(vertex, row["target_name"])
        return ImpactStep(
            table_id=graph.tables[graph.table_of(vertex)],
            column=None if column is None else column.name,
            transformation=row["transformation_type"] or "UNKNOWN",
            reach=_REACHES[graph.reaches[edge]],
        )

    @cached_property
    def _observed_names(self) -> dict[str, str]:
        """Table names as table edges observed them, for ids that the catalog does not have."""
        rows = self._graph.rows.take(pa.array(np.flatnonzero(self._graph.reaches == TABLE)))
        names: dict[str, str] = {}
        for side in ("source", "target"):
            columns = (rows.column(f"{side}_{what}").to_pylist() for what in ("table_id", "name"))
            for table_id, name in zip(*columns, strict=True):
                if table_id and name:
                    names[table_id] = max(names.get(table_id, ""), name)
        return names

    def _column(self, vertex: int, observed: str | None) -> LineageColumn | None:
        """The column of a vertex by its current or else observed name; None for a whole table."""
        if vertex >= len(self._graph.columns):
            return None
        table, text = self._graph.columns[vertex]
        if not text.startswith(BY_ID):
            return LineageColumn(id=None, name=text[1:], dropped=False)
        column_id = text.removeprefix(BY_ID)
        row = self._columns.get(self._graph.tables[table], {}).get(column_id)
        if row is None:
            return LineageColumn(id=column_id, name=observed or column_id, dropped=False)
        return LineageColumn(id=column_id, name=row.name, dropped=row.dropped_at is not None)


def steps_to(distances: Indices, table: int) -> int | None:
    """The distance of a table; None if it was not reached."""
    distance = int(distances[table])
    return None if distance == UNREACHED else distance


def _by_columns(edge: LineageColumnEdge) -> tuple[object, ...]:
    target = (edge.target_column is None, edge.target_column or "")
    source = (edge.source_column is None, edge.source_column or "")
    return (*target, *source, edge.transformation, edge.edge_id)
