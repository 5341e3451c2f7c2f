"""The data versions of tables that active runs read and write, for the input digests of tasks.

The state of tables is read when a run starts. From then on every publication passes through the
coordinator, which so knows newer versions without a read. Source tables change without the coordinator:
their versions are read for each task that is dispatched.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from arco.core.tasks import Tasks
from arco.flow.coordinator.attempt_events import PublishedOutput
from arco.flow.coordinator.messages import TaskInput
from arco.flow.plan.input_fingerprint import material_digest, outside_material
from arco.flow.plan.plan import Plan, PlannedTask, ReadPartitions
from arco.flow.plan.table_state import SourceVersions, StateReader, TableState

_NOT_SETTLED = frozenset({"FAILED", "RUNNING"})


@dataclass(frozen=True)
class _Table:
    """The state of a table when it was read."""

    table_id: str | None
    format: str | None
    version: str | None
    is_written: bool  # by the plan itself
    is_source: bool
    materials: Mapping[str, str | None]
    input_fingerprints: Mapping[str, str | None] = field(default_factory=dict)

    def material(self, key: str) -> str | None:
        """Of a partition, as planning sees it."""
        if self.is_written:
            return self.materials.get(key)
        return outside_material(key, self.version, self.materials)


@dataclass(frozen=True)
class _CachedInput:
    """An input as of a change of its table: its digest, and the partitions of it that are read."""

    change: int
    digest: str
    partitions: tuple[str, ...]


@dataclass
class VersionSnapshot:
    """The tables of a run as they were read at publication number `since`."""

    since: int
    tables: dict[str, _Table]
    unsettled: frozenset[tuple[str, str]]
    inputs: dict[int, _CachedInput] = field(default_factory=dict)  # by their index in the plan


class LastPublication(NamedTuple):
    """The attempt, and the fingerprint of its code and inputs; None where it is unknown.

    `is_new`: it came after the run started.
    """

    material: str | None
    input_fingerprint: str | None
    is_new: bool = False


@dataclass(frozen=True)
class _Publication:
    """A publication that came after some runs have read the state."""

    number: int
    table_id: str | None
    material: str
    input_fingerprint: str | None


class DataVersions:
    """All publications since the oldest active run started."""

    def __init__(self, reader: StateReader, sources: SourceVersions, tasks: Tasks) -> None:
        self._reader = reader
        self._sources = sources
        self._tasks = tasks
        self._number = 0
        self._forgotten = 0  # the last publication that was dropped
        self._published: dict[str, dict[str, _Publication]] = {}  # by table and partition
        self._changes: dict[str, int] = {}  # how often each table was published to

    async def load(self, plan: Plan, *, caller: str | None = None) -> VersionSnapshot:
        """Read the tables of a plan, when its run starts."""
        written = {target.table for maker in plan.makers for target in maker.targets}
        tables = sorted({*written, *(reads.table for reads in plan.reads)})
        since = self._number  # before the read: a publication during it is newer, or the same
        if not tables:
            return VersionSnapshot(since, {}, frozenset())
        state = await self._reader.state(tables, caller=caller)
        read = {
            name: _table(table, is_written=name in written) for name, table in state.tables.items()
        }
        return VersionSnapshot(since, read, _unsettled(state.tables, written))

    def record(
        self,
        table: str,
        table_id: str | None,
        partition: str,
        material: str,
        input_fingerprint: str | None = None,
    ) -> None:
        """A partition was published, and that is durable."""
        self._number += 1
        publication = _Publication(self._number, table_id, material, input_fingerprint)
        self._published.setdefault(table, {})[partition] = publication
        self._changes[table] = self._changes.get(table, 0) + 1

    def record_outputs(self, published: Sequence[PublishedOutput]) -> None:
        """Published outputs were found in the chains of their tables."""
        for publication in published:
            output, material = publication.output, publication.attempt.attempt_id
            self.record(
                output.table,
                output.table_id,
                output.partition,
                material,
                publication.input_fingerprint,
            )

    def forget(self, active: Sequence[VersionSnapshot]) -> None:
        """Drop the publications that all active runs have read themselves."""
        oldest = min((snapshot.since for snapshot in active), default=self._number)
        self._forgotten = max(self._forgotten, oldest)
        for table, published in list(self._published.items()):
            recent = {key: each for key, each in published.items() if each.number > oldest}
            if recent:
                self._published[table] = recent
            else:
                del self._published[table]

    def is_complete(self, snapshot: VersionSnapshot) -> bool:
        """Whether no publication was dropped that came after the snapshot was read."""
        return snapshot.since >= self._forgotten

    def last(self, snapshot: VersionSnapshot, table: str, partition: str) -> LastPublication:
        """The last publication of a partition, whatever later attempts did."""
        publication = self._published.get(table, {}).get(partition)
        if publication is not None and publication.number > snapshot.since:
            return LastPublication(publication.material, publication.input_fingerprint, is_new=True)
        read = snapshot.tables.get(table)
        if read is None or not read.is_written:
            return LastPublication(None, None)
        return LastPublication(
            read.materials.get(partition), read.input_fingerprints.get(partition)
        )

    async def inputs(
        self, plan: Plan, snapshot: VersionSnapshot, task: PlannedTask
    ) -> tuple[TaskInput, ...]:
        """The inputs of a task now."""
        if not task.inputs:
            return ()
        fresh = await self._read_sources(
            snapshot, {plan.reads[index].table for index in task.inputs}
        )
        return tuple(self._input(plan, snapshot, index, fresh) for index in task.inputs)

    async def _read_sources(self, snapshot: VersionSnapshot, tables: set[str]) -> dict[str, _Table]:
        read = {
            name: snapshot.tables[name]
            for name in sorted(tables & snapshot.tables.keys())
            if snapshot.tables[name].is_source and name not in self._published
        }
        fresh = await self._tasks.gather(*map(self._read_source, read.values())) if read else []
        return dict(zip(read, fresh, strict=True))

    async def _read_source(self, table: _Table) -> _Table:
        if table.table_id is None or table.format is None:
            return table
        version, materials = await self._sources.versions(table.table_id, table.format)
        return replace(table, version=version, materials=dict(materials))

    def _input(
        self, plan: Plan, snapshot: VersionSnapshot, index: int, fresh: Mapping[str, _Table]
    ) -> TaskInput:
        reads = plan.reads[index]
        table = fresh.get(reads.table) or snapshot.tables.get(reads.table)
        cached = self._cached_input(snapshot, index, reads, fresh)
        return TaskInput(
            table=reads.table,
            table_id=_table_id(table, self._published.get(reads.table, {})),
            partitions=cached.partitions,
            digest=cached.digest,
        )

    def _cached_input(
        self,
        snapshot: VersionSnapshot,
        index: int,
        reads: ReadPartitions,
        fresh: Mapping[str, _Table],
    ) -> _CachedInput:
        """One input now; cached, since many tasks read the same table, which has many partitions."""
        name = reads.table
        if name in fresh:
            return _digest_input(reads, 0, fresh[name].material)
        change, cached = self._changes.get(name, 0), snapshot.inputs.get(index)
        if cached is None or cached.change != change:
            cached = _digest_input(reads, change, lambda key: self._material(snapshot, name, key))
            snapshot.inputs[index] = cached
        return cached

    def _material(self, snapshot: VersionSnapshot, name: str, key: str) -> str | None:
        publication = self._published.get(name, {}).get(key)
        if publication is not None and publication.number > snapshot.since:
            return publication.material
        table = snapshot.tables.get(name)
        return None if table is None else table.material(key)


def _digest_input(
    reads: ReadPartitions, change: int, material: Callable[[str], str | None]
) -> _CachedInput:
    """What is read of an input; a skipped partition counts in the digest, since its data may come later."""
    materials = [(key, material(key)) for key in reads.partitions]
    partitions = reads.partitions
    if reads.skips_missing and any(each is None for _, each in materials):
        partitions = tuple(key for key, each in materials if each is not None)
    return _CachedInput(change, material_digest(materials), partitions)


def _table(state: TableState, *, is_written: bool) -> _Table:
    fingerprints = zip(state.keys, state.input_fingerprints, strict=True)
    return _Table(
        state.table_id,
        state.format,
        state.version,
        is_written,
        state.is_source and not is_written,
        dict(zip(state.keys, state.materials, strict=True)),
        dict(fingerprints) if is_written else {},
    )


def _unsettled(tables: Mapping[str, TableState], written: set[str]) -> frozenset[tuple[str, str]]:
    """Partitions whose last attempt did not report a success: it may still be running."""
    return frozenset(
        (name, key)
        for name, state in tables.items()
        if name in written
        for key, status in zip(state.keys, state.statuses, strict=True)
        if status in _NOT_SETTLED
    )


def _table_id(table: _Table | None, published: Mapping[str, _Publication]) -> str | None:
    if table is not None and table.table_id is not None:
        return table.table_id
    return next((each.table_id for each in published.values() if each.table_id is not None), None)
