"""Events: an observation told with the ids of the catalog, within the bounds of what an event holds."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from arco.events.lineage import (
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
    MOST_EDGES,
    Dataset,
    Edge,
    Observation,
    ReadFact,
)

MOST_INPUTS = 1_000

_LONGEST_NAME = 4_096
_LONGEST_SQL = 65_536


@dataclass(frozen=True)
class Resolved:
    """A table of the catalog, and the ids of its columns by their names."""

    table_id: str
    name: str | None = None
    column_ids: Mapping[str, str] = field(default_factory=dict)

    def column_id(self, name: str) -> str | None:
        """The id of a column; Spark does not tell large letters from small ones, so both may be tried."""
        return self.column_ids.get(name) or self.column_ids.get(name.lower())


Resolve = Callable[[Dataset], Resolved | None]


def to_event(
    observation: Observation,
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

    Names that `resolve` does not know stay names. What would be too much for one event is left out:
    first the partitions of the inputs with most of them, and of too many edges all.
    """
    known = _Known(resolve)
    fits = bounded(observation)
    keys = tuple(dict.fromkeys(map(canonical_partition_key, partitions)))
    # Should even one partition of each input be too many beside these, the target's are left out.
    written = keys if len(keys) * max(len(fits.reads), 1) <= MAX_PARTITION_PAIRS else ()
    return LineageObserved(
        soundness=fits.soundness,
        inputs=_within(_inputs(known, fits.reads), max(len(written), 1)),
        outputs=(_output(known, target, written),),
        column_edges=_column_edges(known, fits.edges, target),
        pipeline_id=pipeline_id,
        execution_id=execution_id,
        task_id=task_id,
        attempt_id=attempt_id,
        observed_at=observed_at,
    )


def bounded(observation: Observation) -> Observation:
    """The same, or as much of it as one event holds, with a note of what is missing."""
    if len(observation.edges) > MOST_EDGES:
        count = len(observation.edges)
        observation = observation.without_columns(f"{count} edges are more than an event holds")
    if len(observation.reads) > MOST_INPUTS:
        count = len(observation.reads)
        cut = replace(observation, reads=observation.reads[:MOST_INPUTS])
        observation = cut.without_columns(f"{count} inputs are more than an event holds")
    return observation


class _Known:
    """What the catalog knows, asked once for each dataset."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._answers: dict[Dataset, Resolved | None] = {}

    def __call__(self, dataset: Dataset) -> Resolved | None:
        if dataset not in self._answers:
            self._answers[dataset] = self._resolve(dataset)
        return self._answers[dataset]


def _output(known: _Known, target: Dataset, partitions: tuple[str, ...]) -> LineageOutput:
    table = known(target)
    return LineageOutput(
        table_id=None if table is None else table.table_id,
        name=_name(table, target),
        partitions=partitions,
    )


def _inputs(known: _Known, reads: Iterable[ReadFact]) -> list[LineageInput]:
    """One for each table, though several paths of it may have been read."""
    found: dict[str | Dataset, list[ReadFact]] = {}
    tables: dict[str | Dataset, Resolved | None] = {}
    for read in reads:
        table = known(read.dataset)
        key = read.dataset if table is None else table.table_id
        found.setdefault(key, []).append(read)
        tables[key] = table
    return [_input(tables[key], facts) for key, facts in found.items()]


def _input(table: Resolved | None, facts: list[ReadFact]) -> LineageInput:
    versions = {fact.version for fact in facts}
    # Where a whole dataset was read, naming the partitions of another would hide that.
    named = all(fact.partitions for fact in facts)
    keys = (canonical_partition_key(key) for fact in facts for key in fact.partitions)
    return LineageInput(
        table_id=None if table is None else table.table_id,
        name=_name(table, facts[0].dataset),
        partitions=tuple(dict.fromkeys(keys)) if named else (),
        rows=_sum(fact.rows for fact in facts),
        bytes=_sum(fact.bytes for fact in facts),
        version=versions.pop() if len(versions) == 1 else None,
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _within(inputs: list[LineageInput], written: int) -> tuple[LineageInput, ...]:
    """The inputs, without the partitions of the longest lists if there were too many pairs."""
    found = list(inputs)
    by_length = sorted(range(len(found)), key=lambda at: -len(found[at].partitions))
    for at in by_length:
        if sum(max(len(each.partitions), 1) for each in found) * written <= MAX_PARTITION_PAIRS:
            break
        told = found[at]
        found[at] = LineageInput(
            table_id=told.table_id,
            name=told.name,
            version=told.version,
            rows=told.rows,
            bytes=told.bytes,
        )
    return tuple(found)


def _column_edges(known: _Known, edges: Iterable[Edge], target: Dataset) -> tuple[ColumnEdge, ...]:
    """Two datasets may be one table: what is the same edge then is told once."""
    table = known(target)
    found: dict[str, ColumnEdge] = {}
    for edge in edges:
        source = known(edge.source)
        told = ColumnEdge(
            source_table_id=None if source is None else source.table_id,
            source_column_id=None if source is None else source.column_id(edge.source_column),
            source_name=_column_name(source, edge.source, edge.source_column),
            target_table_id=None if table is None else table.table_id,
            target_column_id=_target_column_id(table, edge.target_column),
            target_name=_column_name(table, target, edge.target_column),
            transformation_type=edge.transformation,
            transformation_sql=None if edge.sql is None else edge.sql[:_LONGEST_SQL],
            transform_fingerprint=edge.fingerprint,
        )
        found.setdefault(edge_id(told), told)
    return tuple(found.values())


def _target_column_id(table: Resolved | None, column: str) -> str | None:
    if table is None or column == EVERY_COLUMN:
        return None
    return table.column_id(column)


def _column_name(table: Resolved | None, dataset: Dataset, column: str) -> str:
    full = column if table is not None else f"{dataset}.{column}"
    return full[:_LONGEST_NAME]


def _name(table: Resolved | None, dataset: Dataset) -> str:
    name = table.name if table is not None and table.name else str(dataset)
    return name[:_LONGEST_NAME]
