"""The planning context: everything a plan depends on apart from the request: project, state and time.

`TableIndex` looks up the state of one table by partition, `InputPartitions` has one input of an asset or
task for many of its partitions at once. Columns of the state are not copied;
only the row of each key is indexed.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

from arco.core.errors import Invalid
from arco.flow.define.declarations import raised_at
from arco.flow.define.inputs import InputDef
from arco.flow.define.options import UNPARTITIONED
from arco.flow.define.project import Project
from arco.flow.partition import MappingContext, PartitionSet, Upstreams, checked_dynamic_values
from arco.flow.partition.dimension import DynamicValues, require_moment
from arco.flow.partition.upstreams import KeyIndexes
from arco.flow.plan.graph import AssetGraph, MakerDef
from arco.flow.plan.input_fingerprint import digest_lines, material_line, outside_material
from arco.flow.plan.keys import short_name
from arco.flow.plan.table_state import PlanningState, TableState

T = TypeVar("T")
U = TypeVar("U")

_EMPTY_STATE = TableState()
_CACHED_INDEXES = 16
"""Results for at least this many read partitions are cached for other partitions that read the same."""


@dataclass(frozen=True)
class TableIndex:
    """The state of one table by partition. `is_made`: the project fills the table."""

    name: str
    state: TableState
    is_made: bool

    @property
    def identity(self) -> str:
        """The name of the table in fingerprints."""
        return self.state.table_id or self.name

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each partition in the columns of the state."""
        return dict(zip(self.state.keys, range(len(self.state.keys)), strict=True))

    @cached_property
    def by_key(self) -> dict[str, str | None]:
        """The material of each partition that has a row."""
        return dict(zip(self.state.keys, self.state.materials, strict=True))

    def material(self, key: str) -> str | None:
        """The identity of the data of a partition; None if no data are recorded."""
        if self.is_made:
            return self.by_key.get(key)
        return outside_material(key, self.state.version, self.by_key)

    def materials(self, keys: Iterable[str]) -> list[str | None]:
        """The materials of many partitions."""
        if self.is_made or self.by_key:
            materials = list(map(self.by_key.get, keys))
            if self.is_made or None not in materials:
                return materials
        return [self.material(key) for key in keys]

    def made_at_ms(self, key: str) -> int | None:
        """When the data of a partition were published; for a source when the table last changed."""
        row = self.rows.get(key)
        if row is not None and self.state.made_at_ms and self.state.made_at_ms[row] is not None:
            return self.state.made_at_ms[row]
        return None if self.is_made else self.state.changed_at_ms


@dataclass(frozen=True)
class StateIndex:
    """All tables of a state; each is indexed when it is first used."""

    state: PlanningState
    made: frozenset[str]

    @cached_property
    def _tables(self) -> dict[str, TableIndex]:
        return {}

    def table(self, name: str) -> TableIndex:
        """The state of a table; an empty one if nothing is recorded."""
        if name not in self._tables:
            state = self.state.tables.get(name, _EMPTY_STATE)
            self._tables[name] = TableIndex(name, state, name in self.made)
        return self._tables[name]


@dataclass(frozen=True, eq=False)
class InputPartitions:
    """The partitions of an input that each partition of an asset reads.

    `is_own`: the asset writes the table itself. `skips_missing`: partitions without data are skipped.
    """

    declared: InputDef
    table: TableIndex
    upstreams: Upstreams
    is_own: bool = False
    skips_missing: bool = False

    def keys(self, number: int) -> tuple[str, ...]:
        """The partitions that the asset's partition with this number reads."""
        return self.upstreams.of(number)

    def skipped(self, number: int, planned: Container[str]) -> tuple[str, ...]:
        """The partitions that are skipped: they have no data and the plan does not make them."""
        if not self.skips_missing or None not in self.materials:
            return ()
        keys, materials = self.upstreams.keys, self.materials
        return tuple(
            keys[index]
            for index in self.upstreams.indexes[number]
            if materials[index] is None and keys[index] not in planned
        )

    @cached_property
    def materials(self) -> list[str | None]:
        """The materials of all partitions that are read."""
        return self.table.materials(self.upstreams.keys)

    @cached_property
    def digests(self) -> list[str]:
        """For each partition of the asset the `material_digest` of what it would read now."""
        keys = self.upstreams.keys
        lines = list(map(material_line, keys, self.materials))
        digest = self.per_partition(lines, digest_lines)
        if not all(one < other for one, other in pairwise(keys)):
            # The order of a calendar may differ from the text order, in which lines are digested.
            digest = self.per_partition(list(zip(keys, lines, strict=True)), _sorted_digest)
        return [digest(number) for number in range(len(self.upstreams.indexes))]

    def per_partition(self, column: list[T], compute: Callable[[list[T]], U]) -> Callable[[int], U]:
        """A function from the number of a partition to `compute` of the values that it reads.

        `column` has a value for each key in `upstreams.keys`.
        """
        cached: dict[KeyIndexes, U] = {}
        all_indexes = self.upstreams.indexes

        def computed(number: int) -> U:
            indexes = all_indexes[number]
            if len(indexes) < _CACHED_INDEXES:
                return compute(_values_at(column, indexes))
            if indexes not in cached:
                cached[indexes] = compute(_values_at(column, indexes))
            return cached[indexes]

        return computed


def _values_at(column: list[T], indexes: KeyIndexes) -> list[T]:
    if isinstance(indexes, range):
        return column[indexes.start : indexes.stop : indexes.step] if indexes else []
    return [column[index] for index in indexes]


def _sorted_digest(read: list[tuple[str, bytes]]) -> str:
    return digest_lines(line for _, line in sorted(read))


@dataclass(frozen=True)
class PlanningContext:
    """A project, the state of its tables, and the time."""

    project: Project
    state: PlanningState
    now: datetime

    def __post_init__(self) -> None:
        require_moment(self.now)

    @cached_property
    def graph(self) -> AssetGraph:
        """The assets, tasks and sources, and what each reads."""
        return AssetGraph(self.project)

    @cached_property
    def tables(self) -> StateIndex:
        """The state of the tables, and of the tasks that write none."""
        tasks = [each.name for each in self.project.makers() if not each.outputs]
        return StateIndex(self.state, frozenset([*self.project.made_by, *tasks]))

    @cached_property
    def dynamic(self) -> DynamicValues:
        """The values of dynamic dimensions."""
        return checked_dynamic_values(self.state.dynamic)

    @cached_property
    def now_ms(self) -> int:
        """The time in milliseconds since 1970."""
        since = self.now.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return since.days * 86_400_000 + since.seconds * 1_000 + since.microseconds // 1_000

    def outputs(self, maker: MakerDef) -> list[TableIndex]:
        """The tables that a maker writes; a task that writes none has a state under its own name."""
        names = [each.table for each in maker.outputs] or [maker.name]
        return [self.tables.table(name) for name in names]

    @contextmanager
    def mapping_errors(self, maker: MakerDef, declared: InputDef) -> Iterator[None]:
        """Add the file, the line, the maker and the table to an error that a mapping raises."""
        try:
            yield
        except Invalid as wrong:
            cause = wrong.__cause__
            raised = None if cause is None else raised_at(cause, self.project.folder)
            names = f"{short_name(maker.name)} cannot read {short_name(declared.table)}"
            raise Invalid(f"{raised or declared.where}: {names}: {wrong}") from (cause or wrong)

    def compared_with(self, maker: MakerDef) -> list[TableIndex]:
        """The tables that only the checks of a maker read."""
        return [self.tables.table(name) for name in self.project.compared_with(maker)]

    def inputs(self, maker: MakerDef, chosen: PartitionSet) -> Sequence[InputPartitions]:
        """What some partitions of a maker read."""
        own = {each.table for each in maker.outputs}
        inputs: list[InputPartitions] = []
        for declared in maker.inputs:
            if declared.mapping is None:
                raise Invalid(
                    f"{maker.name} cannot read {declared.table} as it is declared: run "
                    "`arco validate` for the reason"
                )
            reads = self.project.tables.get(declared.table, UNPARTITIONED)
            mapping_context = MappingContext(maker.partitions, reads, self.now, self.dynamic)
            with self.mapping_errors(maker, declared):
                upstreams = declared.mapping.upstreams(chosen, mapping_context)
            table = self.tables.table(declared.table)
            skips = declared.skips_missing(maker.partitions, reads)
            inputs.append(InputPartitions(declared, table, upstreams, declared.table in own, skips))
        return inputs
