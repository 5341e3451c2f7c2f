"""Lineage: what was read to make what, as somebody observed it.

An edge is the same edge each time it is observed, so that running a pipeline again adds none. Where nothing
is known of columns, or not all, there is an edge from table to table. Ids that nobody could resolve are
empty, as keys are never null; the names that were seen stand beside them.
"""

import hashlib
from collections.abc import Iterable
from datetime import datetime
from itertools import product
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from arco.core import json
from arco.events.field import Count, Id, Keys, Message, Moment, Payload, Text
from arco.events.partition_name import canonical_key
from arco.events.told import EventKind, Projection, Rows, Told, kind
from arco.fold.tier2 import (
    EDGE_OBSERVATIONS,
    LINEAGE_DOMAIN,
    LINEAGE_EDGES,
    PARTITION_LINEAGE,
)
from arco.ledger.envelope import RowCount

MOST_PAIRS = 10_000

Soundness = Literal["exact", "opaque", "table_only", "declared", "unsupported"]
WHOLE = ("exact", "opaque")  # no edge between columns is missing
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
        pairs = _partition_count(self.inputs) * _partition_count(self.outputs)
        if pairs > MOST_PAIRS:
            raise ValueError(
                f"an observation has at most {MOST_PAIRS} pairs of partitions, this one has "
                f"{pairs}; send one for each output"
            )


def _partition_count(datasets: Iterable[_Dataset]) -> int:
    """How many partitions these name; a dataset that names none counts as one."""
    return sum(max(len(each.partitions), 1) for each in datasets)


def edge_id(edge: ColumnEdge) -> str:
    """What makes an edge the same edge; a column without an id goes by its table and name."""
    source = edge.source_column_id or (edge.source_table_id, edge.source_name)
    target = edge.target_column_id or (edge.target_table_id, edge.target_name)
    return _hash(source, target, edge.transformation_type, edge.transform_fingerprint)


def table_edge_id(edge: ColumnEdge) -> str:
    """The same for an edge between tables, whose names stand where those of columns would.

    Only by its id can it be told from one between columns of which nothing but the names is known.
    """
    source = edge.source_table_id or [edge.source_name]
    target = edge.target_table_id or [edge.target_name]
    return _hash(source, target)


def _edges(said: LineageObserved) -> dict[str, ColumnEdge]:
    """By id: the edges between columns, and one for each two tables that these do not connect wholly."""
    found: dict[str, ColumnEdge] = {}
    for edge in said.column_edges:
        found.setdefault(edge_id(edge), edge)
    joined: set[tuple[str | None, str | None]] = set()
    if said.soundness in WHOLE:
        joined = {(edge.source_table_id, edge.target_table_id) for edge in said.column_edges}
    for source in said.inputs:
        for target in said.outputs:
            pair = (source.table_id, target.table_id)
            if None in pair or pair not in joined:
                between = _between(source, target)
                found.setdefault(table_edge_id(between), between)
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


class _Observed(NamedTuple):
    """An edge, and the event that tells of it."""

    said: LineageObserved
    edge_id: str
    edge: ColumnEdge

    @property
    def execution_id(self) -> str | None:
        return self.said.execution_id

    @property
    def observed_at(self) -> datetime | None:
        return self.said.observed_at


def _observed(told: Told[LineageObserved]) -> Told[_Observed]:
    return told.spread(
        lambda said: [_Observed(said, name, edge) for name, edge in _edges(said).items()]
    )


_EDGE_ID_BYTES = 64


def _count_edges(observed: LineageObserved) -> RowCount:
    """Of the two tables of edges, one holds the names and the other hardly more than the id."""
    inputs, outputs = len(observed.inputs), len(observed.outputs)
    edges = len(observed.column_edges) + inputs * outputs
    between_bytes = outputs * _name_bytes(observed.inputs) + inputs * _name_bytes(observed.outputs)
    return RowCount(edges, edges * (_EDGE_ID_BYTES + _context_bytes(observed)) + between_bytes)


def _count_observations(observed: LineageObserved) -> RowCount:
    edges = len(observed.column_edges) + len(observed.inputs) * len(observed.outputs)
    row_bytes = _EDGE_ID_BYTES + _context_bytes(observed) + len(observed.soundness)
    return RowCount(edges, edges * row_bytes)


def _count_pairs(observed: LineageObserved) -> RowCount:
    """A row for each pair of partitions: each key of one side stands beside each of the other."""
    read, written = _partition_count(observed.inputs), _partition_count(observed.outputs)
    key_bytes = written * _key_bytes(observed.inputs) + read * _key_bytes(observed.outputs)
    return RowCount(read * written, read * written * _context_bytes(observed) + key_bytes)


def _context_bytes(observed: LineageObserved) -> int:
    """What every row of an observation repeats."""
    named = (observed.pipeline_id, observed.execution_id, observed.task_id)
    return sum(len(each or "") for each in named)


def _name_bytes(datasets: Iterable[_Dataset]) -> int:
    return sum(len(each.table_id or "") + len(each.name or "") for each in datasets)


def _key_bytes(datasets: Iterable[_Dataset]) -> int:
    """The text of the partition keys, and for each the id of its table."""
    return sum(
        sum(map(len, each.partitions)) + max(len(each.partitions), 1) * len(each.table_id or "")
        for each in datasets
    )


def _edge_rows(told: Told[LineageObserved]) -> Rows:
    of = _observed(told)
    edges, at = [each.edge for each in of.said], of.when("observed_at")
    names = (
        *("source_table_id", "source_column_id", "target_column_id", "source_name"),
        *("target_name", "transformation_type", "transformation_sql", "transform_fingerprint"),
    )
    return Rows(
        of,
        {
            **of.fields("edge_id"),
            **{name: [getattr(edge, name) for edge in edges] for name in names},
            "target_table_id": [edge.target_table_id or "" for edge in edges],
            "pipeline_id": [each.said.pipeline_id for each in of.said],
            "execution_id": of.execution_ids(),
            "soundness": [each.said.soundness for each in of.said],
            **dict.fromkeys(("first_observed_at", "last_observed_at", "created_at"), at),
            # What is declared, even later, does not hide what was observed.
            "_told": of.order(beneath=[each.said.soundness == "declared" for each in of.said]),
        },
    )


def _observations(told: Told[LineageObserved]) -> Rows:
    of = _observed(told)
    return Rows(
        of,
        {
            **of.fields("edge_id"),
            "target_table_id": [each.edge.target_table_id or "" for each in of.said],
            "execution_id": _key(of.execution_ids()),
            "task_id": _key(each.said.task_id for each in of.said),
            "observed_at": of.when("observed_at"),
            "soundness": [each.said.soundness for each in of.said],
        },
    )


class _Pair(NamedTuple):
    """A partition that was written, one that was read for it, and who says so."""

    target_table_id: str
    target_partition_key: str
    source_table_id: str
    source_partition_key: str
    source_version: str | None
    rows_read: int | None
    bytes_read: int | None
    execution_id: str | None
    observed_at: datetime | None


def _partitions(told: Told[LineageObserved]) -> Rows:
    of = told.spread(_pairs)
    return Rows(
        of,
        {
            **of.fields(*_Pair._fields[:-2]),
            "execution_id": _key(of.execution_ids()),
            "observed_at": of.when("observed_at"),
            "_told": of.order(),
        },
    )


def _pairs(said: LineageObserved) -> Iterable[_Pair]:
    """Should two be the same, the first counts: one event has one order."""
    found: dict[tuple[str, ...], _Pair] = {}
    for target, source in product(said.outputs, said.inputs):
        # Rows and bytes of several partitions together cannot be told apart.
        several = len(source.partitions) > 1
        figures = (None, None) if several else (source.rows, source.bytes)
        sides = product(_canonical_keys(target), _canonical_keys(source))
        for written, read in sides:
            key = (target.table_id or "", written, source.table_id or "", read)
            pair = _Pair(*key, source.version, *figures, said.execution_id, said.observed_at)
            found.setdefault(key, pair)
    return found.values()


def _canonical_keys(dataset: _Dataset) -> list[str]:
    """The partitions of one side; they are named in many pairs, and spelled once."""
    return [canonical_key(each) for each in dataset.partitions or ("",)]


def _key(names: Iterable[str | None]) -> list[str]:
    """Names as part of a key, which is never null."""
    return [name or "" for name in names]


KINDS: tuple[EventKind, ...] = (
    kind(
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
