"""Lineage events: which tables, columns and partitions were read to write which.

An edge has the same id each time it is observed, so running a pipeline again adds none. Where the columns
are unknown, or not all are known, there is an edge from table to table. Ids that were not resolved are
empty, because keys are never null; the observed names are stored beside them.
"""

from collections.abc import Iterable
from datetime import datetime
from itertools import product
from typing import NamedTuple

from arco.events.lineage_payload import (
    COMPLETE_SOUNDNESS,
    ColumnEdge,
    LineageDataset,
    LineageInput,
    LineageObserved,
    LineageOutput,
    edge_id,
    partition_count,
    table_edge_id,
)
from arco.events.partition_key import canonical_partition_key
from arco.events.projection import EventBatch, EventKind, ProjectedRows, Projection, event_kind
from arco.fold.tier2 import (
    EDGE_OBSERVATIONS,
    LINEAGE_DOMAIN,
    LINEAGE_EDGES,
    ORDER,
    PARTITION_LINEAGE,
)
from arco.ledger.envelope import RowVolume


def _edges(payload: LineageObserved) -> dict[str, ColumnEdge]:
    """By id: the column edges, and a table edge for each pair of tables that they do not fully cover."""
    edges: dict[str, ColumnEdge] = {}
    for edge in payload.column_edges:
        edges.setdefault(edge_id(edge), edge)
    covered: set[tuple[str | None, str | None]] = set()
    if payload.soundness in COMPLETE_SOUNDNESS:
        covered = {(edge.source_table_id, edge.target_table_id) for edge in payload.column_edges}
    for source in payload.inputs:
        for target in payload.outputs:
            pair = (source.table_id, target.table_id)
            if None in pair or pair not in covered:
                edge = _table_edge(source, target)
                edges.setdefault(table_edge_id(edge), edge)
    return edges


def _table_edge(source: LineageInput, target: LineageOutput) -> ColumnEdge:
    return ColumnEdge(
        source_table_id=source.table_id,
        source_name=source.name,
        target_table_id=target.table_id,
        target_name=target.name,
    )


class _Observed(NamedTuple):
    """An edge, and the payload that it is from."""

    payload: LineageObserved
    edge_id: str
    edge: ColumnEdge

    @property
    def execution_id(self) -> str | None:
        return self.payload.execution_id

    @property
    def observed_at(self) -> datetime | None:
        return self.payload.observed_at


def _observed(batch: EventBatch[LineageObserved]) -> EventBatch[_Observed]:
    return batch.explode(
        lambda payload: [_Observed(payload, name, edge) for name, edge in _edges(payload).items()]
    )


_EDGE_ID_BYTES = 64


def _count_edges(observed: LineageObserved) -> RowVolume:
    """Rows of `lineage_edges`, which hold the names; those of `edge_observations` hold the ids only."""
    inputs, outputs = len(observed.inputs), len(observed.outputs)
    edges = len(observed.column_edges) + inputs * outputs
    between_bytes = outputs * _name_bytes(observed.inputs) + inputs * _name_bytes(observed.outputs)
    return RowVolume(edges, edges * (_EDGE_ID_BYTES + _context_bytes(observed)) + between_bytes)


def _count_observations(observed: LineageObserved) -> RowVolume:
    edges = len(observed.column_edges) + len(observed.inputs) * len(observed.outputs)
    row_bytes = _EDGE_ID_BYTES + _context_bytes(observed) + len(observed.soundness)
    return RowVolume(edges, edges * row_bytes)


def _count_pairs(observed: LineageObserved) -> RowVolume:
    """A row for each pair of an input partition and an output partition."""
    read, written = partition_count(observed.inputs), partition_count(observed.outputs)
    key_bytes = written * _key_bytes(observed.inputs) + read * _key_bytes(observed.outputs)
    return RowVolume(read * written, read * written * _context_bytes(observed) + key_bytes)


def _context_bytes(observed: LineageObserved) -> int:
    """The text that every row of an observation repeats."""
    ids = (observed.pipeline_id, observed.execution_id, observed.task_id)
    return sum(len(each or "") for each in ids)


def _name_bytes(datasets: Iterable[LineageDataset]) -> int:
    return sum(len(each.table_id or "") + len(each.name or "") for each in datasets)


def _key_bytes(datasets: Iterable[LineageDataset]) -> int:
    """The text of the partition keys, and the id of the table with each."""
    return sum(
        sum(map(len, each.partitions)) + max(len(each.partitions), 1) * len(each.table_id or "")
        for each in datasets
    )


def _edge_rows(batch: EventBatch[LineageObserved]) -> ProjectedRows:
    exploded = _observed(batch)
    edges, at = [each.edge for each in exploded.payloads], exploded.times("observed_at")
    names = (
        *("source_table_id", "source_column_id", "target_column_id", "source_name"),
        *("target_name", "transformation_type", "transformation_sql", "transform_fingerprint"),
    )
    return ProjectedRows(
        exploded,
        {
            **exploded.fields("edge_id"),
            **{name: [getattr(edge, name) for edge in edges] for name in names},
            "target_table_id": [edge.target_table_id or "" for edge in edges],
            "pipeline_id": [each.payload.pipeline_id for each in exploded.payloads],
            "execution_id": exploded.execution_ids(),
            "soundness": [each.payload.soundness for each in exploded.payloads],
            **dict.fromkeys(("first_observed_at", "last_observed_at", "created_at"), at),
            # A declaration never hides an observation, even an older one.
            ORDER: exploded.order(
                beneath=[each.payload.soundness == "declared" for each in exploded.payloads]
            ),
        },
    )


def _observations(batch: EventBatch[LineageObserved]) -> ProjectedRows:
    exploded = _observed(batch)
    return ProjectedRows(
        exploded,
        {
            **exploded.fields("edge_id"),
            "target_table_id": [each.edge.target_table_id or "" for each in exploded.payloads],
            "execution_id": _key(exploded.execution_ids()),
            "task_id": _key(each.payload.task_id for each in exploded.payloads),
            "observed_at": exploded.times("observed_at"),
            "soundness": [each.payload.soundness for each in exploded.payloads],
        },
    )


class _Pair(NamedTuple):
    """An output partition, an input partition read for it, and the run."""

    target_table_id: str
    target_partition_key: str
    source_table_id: str
    source_partition_key: str
    source_version: str | None
    rows_read: int | None
    bytes_read: int | None
    execution_id: str | None
    observed_at: datetime | None


def _partitions(batch: EventBatch[LineageObserved]) -> ProjectedRows:
    exploded = batch.explode(_pairs)
    return ProjectedRows(
        exploded,
        {
            **exploded.fields(*_Pair._fields[:-2]),
            "execution_id": _key(exploded.execution_ids()),
            "observed_at": exploded.times("observed_at"),
            ORDER: exploded.order(),
        },
    )


def _pairs(payload: LineageObserved) -> Iterable[_Pair]:
    """If two pairs are equal, the first is used: one event has one order."""
    pairs: dict[tuple[str, ...], _Pair] = {}
    for target, source in product(payload.outputs, payload.inputs):
        # Totals of several partitions cannot be divided between them.
        several = len(source.partitions) > 1
        figures = (None, None) if several else (source.rows, source.bytes)
        sides = product(_canonical_keys(target), _canonical_keys(source))
        for written, read in sides:
            key = (target.table_id or "", written, source.table_id or "", read)
            pair = _Pair(*key, source.version, *figures, payload.execution_id, payload.observed_at)
            pairs.setdefault(key, pair)
    return pairs.values()


def _canonical_keys(dataset: LineageDataset) -> list[str]:
    """The partition keys of a dataset, made canonical once for all pairs."""
    return [canonical_partition_key(each) for each in dataset.partitions or ("",)]


def _key(names: Iterable[str | None]) -> list[str]:
    """Values of a key column, which is never null."""
    return [name or "" for name in names]


KINDS: tuple[EventKind, ...] = (
    event_kind(
        "lineage_observed",
        LINEAGE_DOMAIN,
        LineageObserved,
        Projection(LINEAGE_EDGES, _edge_rows, _count_edges),
        Projection(EDGE_OBSERVATIONS, _observations, _count_observations),
        Projection(PARTITION_LINEAGE, _partitions, _count_pairs),
        example={
            "execution_id": "run-7",
            "task_id": "load",
            "pipeline_id": "orders_daily",
            "soundness": "exact",
            "inputs": [
                {
                    "table_id": "tbl-raw-orders",
                    "name": "raw.orders",
                    "version": "41",
                    "partitions": ["date=2026-05-01"],
                    "rows": 150_200,
                    "bytes": 61_000_000,
                },
                {"name": "hive.legacy.customers"},
            ],
            "outputs": [
                {
                    "table_id": "tbl-orders",
                    "name": "sales.orders",
                    "partitions": ["date=2026-05-01"],
                }
            ],
            "column_edges": [
                {
                    "source_table_id": "tbl-raw-orders",
                    "source_column_id": "col-raw-amount",
                    "source_name": "amount",
                    "target_table_id": "tbl-orders",
                    "target_column_id": "col-amount",
                    "target_name": "amount",
                    "transformation_type": "CAST",
                    "transformation_sql": "CAST(amount AS DECIMAL(18, 2))",
                    "transform_fingerprint": "9c1f",
                }
            ],
        },
    ),
)
