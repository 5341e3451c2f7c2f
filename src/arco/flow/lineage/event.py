"""An observation as a lineage event: with ids of the catalog, and within the limits of one event."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from arco.events.lineage_payload import (
    MAX_PARTITION_PAIRS,
    ColumnEdge,
    LineageInput,
    LineageObserved,
    LineageOutput,
    edge_id,
)
from arco.events.partition_key import canonical_partition_key
from arco.flow.lineage.observation import (
    EVERY_COLUMN,
    MAX_EDGES,
    Dataset,
    LineageObservation,
    ObservedEdge,
    ReadFact,
)

_MAX_INPUTS = 1_000
_MAX_NAME_CHARS = 4_096
_MAX_SQL_CHARS = 65_536


@dataclass(frozen=True)
class ResolvedTable:
    """A table of the catalog, and the ids of its columns by their names."""

    table_id: str
    name: str | None = None
    column_ids: Mapping[str, str] = field(default_factory=dict)

    def column_id(self, name: str) -> str | None:
        """The id of a column; Spark ignores case, so the name in lower case is tried too."""
        return self.column_ids.get(name) or self.column_ids.get(name.lower())


Resolve = Callable[[Dataset], ResolvedTable | None]


def to_event(
    observation: LineageObservation,
    resolve: Resolve,
    target: Dataset,
    *,
    partitions: Iterable[str] = (),
    execution_id: str | None = None,
    task_id: str | None = None,
    attempt_id: str | None = None,
    pipeline_id: str | None = None,
    observed_at: datetime | None = None,
) -> LineageObserved:
    """The event of an observation; `partitions` are those of the target that were written.

    Datasets that `resolve` does not find keep their names. What exceeds the limits of an event is left out:
    partitions of the inputs that have the most, and all edges if there are too many.
    """
    lookup = _TableLookup(resolve)
    bounded = _limit(observation)
    keys = tuple(dict.fromkeys(map(canonical_partition_key, partitions)))
    # If even one partition of each input exceeds the limit, the target's partitions are left out.
    written = keys if len(keys) * max(len(bounded.reads), 1) <= MAX_PARTITION_PAIRS else ()
    return LineageObserved(
        soundness=bounded.soundness,
        inputs=_limit_partitions(_inputs(lookup, bounded.reads), max(len(written), 1)),
        outputs=(_output(lookup, target, written),),
        column_edges=_column_edges(lookup, bounded.edges, target),
        pipeline_id=pipeline_id,
        execution_id=execution_id,
        task_id=task_id,
        attempt_id=attempt_id,
        observed_at=observed_at,
    )


def _limit(observation: LineageObservation) -> LineageObservation:
    """As much of an observation as one event holds, with a note of what is missing."""
    if len(observation.edges) > MAX_EDGES:
        count = len(observation.edges)
        observation = observation.without_columns(f"{count} edges are more than an event holds")
    if len(observation.reads) > _MAX_INPUTS:
        count = len(observation.reads)
        first_reads = replace(observation, reads=observation.reads[:_MAX_INPUTS])
        observation = first_reads.without_columns(f"{count} inputs are more than an event holds")
    return observation


class _TableLookup:
    """Tables of the catalog, resolved once for each dataset."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._answers: dict[Dataset, ResolvedTable | None] = {}

    def __call__(self, dataset: Dataset) -> ResolvedTable | None:
        if dataset not in self._answers:
            self._answers[dataset] = self._resolve(dataset)
        return self._answers[dataset]


def _output(lookup: _TableLookup, target: Dataset, partitions: tuple[str, ...]) -> LineageOutput:
    table = lookup(target)
    return LineageOutput(
        table_id=None if table is None else table.table_id,
        name=_name(table, target),
        partitions=partitions,
    )


def _inputs(lookup: _TableLookup, reads: Iterable[ReadFact]) -> list[LineageInput]:
    """One input for each table, though several paths of it may have been read."""
    grouped: dict[str | Dataset, list[ReadFact]] = {}
    tables: dict[str | Dataset, ResolvedTable | None] = {}
    for read in reads:
        table = lookup(read.dataset)
        key = read.dataset if table is None else table.table_id
        grouped.setdefault(key, []).append(read)
        tables[key] = table
    return [_input(tables[key], facts) for key, facts in grouped.items()]


def _input(table: ResolvedTable | None, facts: list[ReadFact]) -> LineageInput:
    versions = {fact.version for fact in facts}
    # Where one dataset was read completely, naming the partitions of another would hide that.
    has_partitions = all(fact.partitions for fact in facts)
    keys = (canonical_partition_key(key) for fact in facts for key in fact.partitions)
    return LineageInput(
        table_id=None if table is None else table.table_id,
        name=_name(table, facts[0].dataset),
        partitions=tuple(dict.fromkeys(keys)) if has_partitions else (),
        rows=_sum(fact.rows for fact in facts),
        bytes=_sum(fact.bytes for fact in facts),
        version=versions.pop() if len(versions) == 1 else None,
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    numbers = [count for count in counts if count is not None]
    return sum(numbers) if numbers else None


def _limit_partitions(inputs: list[LineageInput], written: int) -> tuple[LineageInput, ...]:
    """The inputs, without the longest lists of partitions if there are too many pairs."""
    limited = list(inputs)
    by_length = sorted(range(len(limited)), key=lambda at: -len(limited[at].partitions))
    for at in by_length:
        if sum(max(len(each.partitions), 1) for each in limited) * written <= MAX_PARTITION_PAIRS:
            break
        limited[at] = msgspec.structs.replace(limited[at], partitions=())
    return tuple(limited)


def _column_edges(
    lookup: _TableLookup, edges: Iterable[ObservedEdge], target: Dataset
) -> tuple[ColumnEdge, ...]:
    """Each edge once: two datasets may be one table."""
    table = lookup(target)
    by_id: dict[str, ColumnEdge] = {}
    for edge in edges:
        source = lookup(edge.source)
        column_edge = ColumnEdge(
            source_table_id=None if source is None else source.table_id,
            source_column_id=None if source is None else source.column_id(edge.source_column),
            source_name=_column_name(source, edge.source, edge.source_column),
            target_table_id=None if table is None else table.table_id,
            target_column_id=_target_column_id(table, edge.target_column),
            target_name=_column_name(table, target, edge.target_column),
            transformation_type=edge.transformation,
            transformation_sql=None if edge.sql is None else edge.sql[:_MAX_SQL_CHARS],
            transform_fingerprint=edge.fingerprint,
        )
        by_id.setdefault(edge_id(column_edge), column_edge)
    return tuple(by_id.values())


def _target_column_id(table: ResolvedTable | None, column: str) -> str | None:
    if table is None or column == EVERY_COLUMN:
        return None
    return table.column_id(column)


def _column_name(table: ResolvedTable | None, dataset: Dataset, column: str) -> str:
    full_name = column if table is not None else f"{dataset}.{column}"
    return full_name[:_MAX_NAME_CHARS]


def _name(table: ResolvedTable | None, dataset: Dataset) -> str:
    name = table.name if table is not None and table.name else str(dataset)
    return name[:_MAX_NAME_CHARS]
