"""Lineage: what was read to make what, as somebody observed it.

An edge is the same edge each time it is observed, so that running a pipeline again adds none. Where nothing
is known of columns, there is an edge from table to table. Ids that nobody could resolve are empty, as keys
are never null; the names that were seen stand beside them.
"""

import hashlib
from typing import Annotated, Literal

from msgspec import Meta

from arco.core import json
from arco.events.field import Count, Id, Keys, Message, Moment, Payload, Text
from arco.events.partition_name import canonical_key
from arco.events.told import EventKind, Projection, Row, Told, kind
from arco.fold.tier2 import (
    EDGE_OBSERVATIONS,
    LINEAGE_DOMAIN,
    LINEAGE_EDGES,
    OCCURRED,
    PARTITION_LINEAGE,
)

MOST_PAIRS = 10_000

Soundness = Literal["exact", "opaque", "table_only", "declared", "unsupported"]
Transformation = Literal[
    "DIRECT",
    "AGGREGATE",
    "EXPRESSION",
    "CASE",
    "CAST",
    "WINDOW",
    "JOIN",
    "FILTER",
    "GROUP_BY",
    "SORT",
    "UNKNOWN",
]


class _Dataset(Payload, frozen=True, kw_only=True):
    """A table, by its id or, if that is not known, by the name that was seen."""

    table_id: Id | None = None
    name: Text | None = None
    partitions: Keys = ()

    def __post_init__(self) -> None:
        if self.table_id is None and self.name is None:
            raise ValueError("table_id or name is needed")


class Input(_Dataset, frozen=True, kw_only=True):
    """What was read; `rows` and `bytes` are those of all of it together."""

    version: Id | None = None
    rows: Count | None = None
    bytes: Count | None = None


class Output(_Dataset, frozen=True, kw_only=True):
    """What was written."""


class ColumnEdge(Payload, frozen=True, kw_only=True):
    """From a column that was read to a column that was written."""

    source_table_id: Id | None = None
    source_column_id: Id | None = None
    source_name: Text | None = None
    target_table_id: Id | None = None
    target_column_id: Id | None = None
    target_name: Text | None = None
    transformation_type: Transformation = "UNKNOWN"
    transformation_sql: Message | None = None
    transform_fingerprint: Id | None = None


class LineageObserved(Payload, frozen=True, kw_only=True):
    """It was seen which data were read to make which data."""

    soundness: Soundness
    inputs: Annotated[tuple[Input, ...], Meta(max_length=1_000)] = ()
    outputs: Annotated[tuple[Output, ...], Meta(max_length=1_000)] = ()
    column_edges: Annotated[tuple[ColumnEdge, ...], Meta(max_length=10_000)] = ()
    pipeline_id: Id | None = None
    execution_id: Id | None = None
    task_id: Id | None = None
    attempt_id: Id | None = None
    observed_at: Moment | None = None

    def __post_init__(self) -> None:
        for edge in self.column_edges:
            if edge.source_column_id is None and edge.source_name is None:
                raise ValueError("an edge needs source_column_id or source_name")
            if edge.target_column_id is None and edge.target_name is None:
                raise ValueError("an edge needs target_column_id or target_name")
        read = sum(max(len(each.partitions), 1) for each in self.inputs)
        written = sum(max(len(each.partitions), 1) for each in self.outputs)
        if read * written > MOST_PAIRS:
            raise ValueError(
                f"an observation has at most {MOST_PAIRS} pairs of partitions, this one has "
                f"{read * written}; send one for each output"
            )


def edge_id(edge: ColumnEdge) -> str:
    """What makes an edge the same edge; a column without an id goes by its table and name."""
    source = edge.source_column_id or (edge.source_table_id, edge.source_name)
    target = edge.target_column_id or (edge.target_table_id, edge.target_name)
    return _hash(source, target, edge.transformation_type, edge.transform_fingerprint)


def _edges(said: LineageObserved) -> dict[str, ColumnEdge]:
    """By id: the edges between columns, and one for each two tables that none of these connects."""
    found: dict[str, ColumnEdge] = {}
    for edge in said.column_edges:
        found.setdefault(edge_id(edge), edge)
    joined = {(edge.source_table_id, edge.target_table_id) for edge in said.column_edges}
    for source in said.inputs:
        for target in said.outputs:
            pair = (source.table_id, target.table_id)
            if None in pair or pair not in joined:
                name = _hash(source.table_id or [source.name], target.table_id or [target.name])
                found.setdefault(name, _between(source, target))
    return found


def _between(source: Input, target: Output) -> ColumnEdge:
    return ColumnEdge(
        source_table_id=source.table_id,
        source_name=source.name,
        target_table_id=target.table_id,
        target_name=target.name,
    )


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.encode(parts)).hexdigest()


def _edge_rows(told: Told, said: LineageObserved) -> list[Row]:
    at, order = told.when(said.observed_at), told.order()
    execution = said.execution_id or told.execution_id
    return [
        (
            name,
            edge.source_table_id,
            edge.source_column_id,
            edge.target_table_id or "",
            edge.target_column_id,
            edge.source_name,
            edge.target_name,
            edge.transformation_type,
            edge.transformation_sql,
            edge.transform_fingerprint,
            said.pipeline_id,
            execution,
            said.soundness,
            *(at, at, at),
            order,
            told.occurred,
        )
        for name, edge in _edges(said).items()
    ]


def _observations(told: Told, said: LineageObserved) -> list[Row]:
    at, execution = told.when(said.observed_at), said.execution_id or told.execution_id or ""
    return [
        (edge.target_table_id or "", name, execution, said.task_id or "", at, told.occurred)
        for name, edge in _edges(said).items()
    ]


def _partitions(told: Told, said: LineageObserved) -> list[Row]:
    at, order = told.when(said.observed_at), told.order()
    execution = said.execution_id or told.execution_id or ""
    rows: dict[Row, Row] = {}
    for target in said.outputs:
        for source in said.inputs:
            figures = _figures(source)
            for key in _pairs(target, source):
                rows.setdefault(key, (*key, execution, *figures, at, order, told.occurred))
    return list(rows.values())


def _pairs(target: Output, source: Input) -> list[Row]:
    return [
        (target.table_id or "", canonical_key(written), source.table_id or "", canonical_key(read))
        for written in target.partitions or ("",)
        for read in source.partitions or ("",)
    ]


def _figures(source: Input) -> Row:
    """Rows and bytes of several partitions together cannot be told apart."""
    if len(source.partitions) > 1:
        return (source.version, None, None)
    return (source.version, source.rows, source.bytes)


KINDS: tuple[EventKind, ...] = (
    kind(
        "lineage_observed",
        LINEAGE_DOMAIN,
        LineageObserved,
        Projection(
            LINEAGE_EDGES,
            (
                *("edge_id", "source_table_id", "source_column_id", "target_table_id"),
                *("target_column_id", "source_name", "target_name", "transformation_type"),
                *("transformation_sql", "transform_fingerprint", "pipeline_id", "execution_id"),
                *("soundness", "first_observed_at", "last_observed_at", "created_at"),
                *("_told", OCCURRED),
            ),
            _edge_rows,
        ),
        Projection(
            EDGE_OBSERVATIONS,
            (
                *("target_table_id", "edge_id", "execution_id", "task_id", "observed_at"),
                OCCURRED,
            ),
            _observations,
        ),
        Projection(
            PARTITION_LINEAGE,
            (
                *("target_table_id", "target_partition_key", "source_table_id"),
                *("source_partition_key", "execution_id", "source_version", "rows_read"),
                *("bytes_read", "observed_at", "_told", OCCURRED),
            ),
            _partitions,
        ),
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
