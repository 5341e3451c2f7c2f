"""The payload of lineage events, and the identity of its edges.

It is apart from the rows (`lineage`), which need Arrow: workers, the coordinator and commands send and
read observations without it.
"""

import hashlib
from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta

from arco.core import json
from arco.events.payload import Count, Id, Keys, Message, Payload, Text, Timestamp

MAX_PARTITION_PAIRS = 10_000

Soundness = Literal["exact", "opaque", "table_only", "declared", "unsupported"]
COMPLETE_SOUNDNESS = ("exact", "opaque")  # no column edge is missing
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


class LineageDataset(Payload, frozen=True, kw_only=True):
    """A table, by its id or, if that is unknown, by the observed name."""

    table_id: Id | None = None
    name: Text | None = None
    partitions: Keys = ()

    def __post_init__(self) -> None:
        if self.table_id is None and self.name is None:
            raise ValueError("an input or output needs table_id or name")


class LineageInput(LineageDataset, frozen=True, kw_only=True):
    """A table that was read; `rows` and `bytes` are the totals of all its partitions."""

    version: Id | None = None
    rows: Count | None = None
    bytes: Count | None = None


class LineageOutput(LineageDataset, frozen=True, kw_only=True):
    """A table that was written."""


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
    """A run read some tables and wrote others."""

    soundness: Soundness
    inputs: Annotated[tuple[LineageInput, ...], Meta(max_length=1_000)] = ()
    outputs: Annotated[tuple[LineageOutput, ...], Meta(max_length=1_000)] = ()
    column_edges: Annotated[tuple[ColumnEdge, ...], Meta(max_length=10_000)] = ()
    pipeline_id: Id | None = None
    execution_id: Id | None = None
    task_id: Id | None = None
    attempt_id: Id | None = None
    observed_at: Timestamp | None = None

    def __post_init__(self) -> None:
        for edge in self.column_edges:
            if edge.source_column_id is None and edge.source_name is None:
                raise ValueError("an edge needs source_column_id or source_name")
            if edge.target_column_id is None and edge.target_name is None:
                raise ValueError("an edge needs target_column_id or target_name")
        pairs = partition_count(self.inputs) * partition_count(self.outputs)
        if pairs > MAX_PARTITION_PAIRS:
            raise ValueError(
                f"an observation has at most {MAX_PARTITION_PAIRS} pairs of partitions, this one has "
                f"{pairs}; send one event for each output"
            )


def partition_count(datasets: Iterable[LineageDataset]) -> int:
    """The number of partitions; a dataset that names none counts as one."""
    return sum(max(len(each.partitions), 1) for each in datasets)


def edge_id(edge: ColumnEdge) -> str:
    """The identity of a column edge; a column without an id is identified by its table and name."""
    source = edge.source_column_id or (edge.source_table_id, edge.source_name)
    target = edge.target_column_id or (edge.target_table_id, edge.target_name)
    return _hash(source, target, edge.transformation_type, edge.transform_fingerprint)


def table_edge_id(edge: ColumnEdge) -> str:
    """The identity of an edge between tables, whose names are stored in the columns' fields.

    Only the id distinguishes it from an edge between columns of which only the names are known.
    """
    source = edge.source_table_id or [edge.source_name]
    target = edge.target_table_id or [edge.target_name]
    return _hash(source, target)


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.encode(parts)).hexdigest()
