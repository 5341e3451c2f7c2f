"""Materials: what the data of partitions are, right now, for the digests that tasks are given.

The state of tables is read when a run begins. From then on every publication passes through the book, so
that it knows what is newer without asking. Tables that no pipeline makes change behind its back: they are
asked for each time tasks are given out, before anybody reads them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from arco.core.tasks import Tasks
from arco.flow.plan.input_fingerprint import material_digest, outside_material
from arco.flow.plan.plan import Plan, PlannedTask, ReadPartitions
from arco.flow.run.made import Made
from arco.flow.run.ports import Versions
from arco.flow.run.wire import InputMaterial
from arco.flow.state import StateReader, TableState

_ENDED_BADLY = frozenset({"FAILED", "RUNNING"})


@dataclass(frozen=True)
class _Table:
    """What was known of a table when it was read."""

    table_id: str | None
    format: str | None
    version: str | None
    is_made: bool  # by the plan itself
    is_source: bool
    materials: Mapping[str, str | None]
    made_of: Mapping[str, str | None] = field(default_factory=dict)  # what partitions record

    def material(self, key: str) -> str | None:
        """Of a partition, as planning sees it."""
        if self.is_made:
            return self.materials.get(key)
        return outside_material(key, self.version, self.materials)


@dataclass(frozen=True)
class _Read:
    """An input as of a change of its table: its digest, and the partitions of it that are read."""

    change: int
    digest: str
    partitions: tuple[str, ...]


@dataclass
class Known:
    """What a run knows of the tables that it reads and writes, as of publication number `since`."""

    since: int
    tables: dict[str, _Table]
    unsettled: frozenset[tuple[str, str]]
    inputs: dict[int, "_Read"] = field(default_factory=dict)  # by their places in the plan


class Last(NamedTuple):
    """A publication: the attempt, and the fingerprint of its code and inputs; None where nobody knows.

    `is_new`: it has come since the run began.
    """

    material: str | None
    made_of: str | None
    is_new: bool = False


@dataclass(frozen=True)
class _News:
    """A publication that came after some runs have read the state."""

    number: int
    table_id: str | None
    material: str
    made_of: str | None  # the fingerprint of its code and inputs


class Materials:
    """All publications that have passed, as long as some run needs them."""

    def __init__(self, reader: StateReader, versions: Versions, tasks: Tasks) -> None:
        self._reader = reader
        self._versions = versions
        self._tasks = tasks
        self._number = 0
        self._forgotten = 0  # the last publication that was dropped
        self._news: dict[str, dict[str, _News]] = {}
        self._changes: dict[str, int] = {}  # how often each table was published to

    async def load(self, plan: Plan) -> Known:
        """What is known of the tables of a plan; to be asked when its run begins."""
        written = {target.table for maker in plan.makers for target in maker.targets}
        tables = sorted({*written, *(reads.table for reads in plan.reads)})
        since = self._number  # before the read: what passes meanwhile is newer, or the same
        if not tables:
            return Known(since, {}, frozenset())
        state = await self._reader.state(tables)
        known = {
            name: _known(found, is_made=name in written) for name, found in state.tables.items()
        }
        return Known(since, known, _unsettled(state.tables, written))

    def published(
        self,
        table: str,
        table_id: str | None,
        partition: str,
        material: str,
        made_of: str | None = None,
    ) -> None:
        """A partition was published, and that is durable."""
        self._number += 1
        news = _News(self._number, table_id, material, made_of)
        self._news.setdefault(table, {})[partition] = news
        self._changes[table] = self._changes.get(table, 0) + 1

    def found(self, made: Sequence[Made]) -> None:
        """Partitions turned out to have been published."""
        for each in made:
            at = each.written
            self.published(
                at.table, at.table_id, at.partition, each.attempt.attempt_id, each.made_of
            )

    def forget(self, live: Sequence[Known]) -> None:
        """Drop what every run that is left has read by itself."""
        oldest = min((known.since for known in live), default=self._number)
        self._forgotten = max(self._forgotten, oldest)
        for table, news in list(self._news.items()):
            kept = {key: each for key, each in news.items() if each.number > oldest}
            if kept:
                self._news[table] = kept
            else:
                del self._news[table]

    def is_whole(self, known: Known) -> bool:
        """Whether nothing was dropped that came after it was read, while nobody knew that it was needed."""
        return known.since >= self._forgotten

    def last(self, known: Known, table: str, partition: str) -> Last:
        """What was last published of a partition, whatever became of attempts since."""
        news = self._news.get(table, {}).get(partition)
        if news is not None and news.number > known.since:
            return Last(news.material, news.made_of, is_new=True)
        found = known.tables.get(table)
        if found is None or not found.is_made:
            return Last(None, None)
        return Last(found.materials.get(partition), found.made_of.get(partition))

    async def inputs(
        self, plan: Plan, known: Known, task: PlannedTask
    ) -> tuple[InputMaterial, ...]:
        """The inputs of a task as they stand."""
        if not task.inputs:
            return ()
        fresh = await self._sources(known, {plan.reads[index].table for index in task.inputs})
        return tuple(self._input(plan, known, index, fresh) for index in task.inputs)

    async def _sources(self, known: Known, tables: set[str]) -> dict[str, _Table]:
        names = [
            name
            for name in sorted(tables)
            if name in known.tables and known.tables[name].is_source and name not in self._news
        ]
        if not names:
            return {}
        found = await self._tasks.gather(*(self._ask(known.tables[name]) for name in names))
        return dict(zip(names, found, strict=True))

    async def _ask(self, table: _Table) -> _Table:
        if table.table_id is None or table.format is None:
            return table
        version, materials = await self._versions.versions(table.table_id, table.format)
        return replace(table, version=version, materials=dict(materials))

    def _input(
        self, plan: Plan, known: Known, index: int, fresh: Mapping[str, _Table]
    ) -> InputMaterial:
        reads = plan.reads[index]
        news = self._news.get(reads.table, {})
        table = fresh.get(reads.table) or known.tables.get(reads.table)
        read = self._read(known, index, reads, fresh)
        return InputMaterial(
            table=reads.table,
            table_id=_table_id(table, news),
            partitions=read.partitions,
            digest=read.digest,
        )

    def _read(
        self, known: Known, index: int, reads: ReadPartitions, fresh: Mapping[str, _Table]
    ) -> _Read:
        """One input as it stands; many tasks read the same, and a table has many partitions."""
        name = reads.table
        if name in fresh:
            return _read_of(reads, 0, fresh[name].material)
        change, found = self._changes.get(name, 0), known.inputs.get(index)
        if found is None or found.change != change:
            found = _read_of(reads, change, lambda key: self._material(known, name, key))
            known.inputs[index] = found
        return found

    def _material(self, known: Known, name: str, key: str) -> str | None:
        news = self._news.get(name, {}).get(key)
        if news is not None and news.number > known.since:
            return news.material
        table = known.tables.get(name)
        return None if table is None else table.material(key)


def _read_of(reads: ReadPartitions, change: int, material: Callable[[str], str | None]) -> _Read:
    """What is read of an input; a partition that is skipped counts in the digest, as it may come later."""
    materials = [(key, material(key)) for key in reads.partitions]
    partitions = reads.partitions
    if reads.skips_missing and any(found is None for _, found in materials):
        partitions = tuple(key for key, found in materials if found is not None)
    return _Read(change, material_digest(materials), partitions)


def _known(state: TableState, *, is_made: bool) -> _Table:
    return _Table(
        state.table_id,
        state.format,
        state.version,
        is_made,
        state.is_source and not is_made,
        dict(zip(state.keys, state.materials, strict=True)),
        dict(zip(state.keys, state.input_fingerprints, strict=True)) if is_made else {},
    )


def _unsettled(tables: Mapping[str, TableState], written: set[str]) -> frozenset[tuple[str, str]]:
    """Partitions whose last attempt was not seen to end well: it may still be at work somewhere."""
    return frozenset(
        (name, key)
        for name, state in tables.items()
        if name in written
        for key, status in zip(state.keys, state.statuses, strict=True)
        if status in _ENDED_BADLY
    )


def _table_id(table: _Table | None, news: Mapping[str, _News]) -> str | None:
    if table is not None and table.table_id is not None:
        return table.table_id
    return next((each.table_id for each in news.values() if each.table_id is not None), None)
