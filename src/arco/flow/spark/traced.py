"""Lineage of a task: what was observed, or what its frame's plan says, or what was declared.

Whatever goes wrong in here makes the lineage weaker, and never fails the task.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Protocol
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession

from arco.core.clock import utc
from arco.events.lineage import LineageObserved
from arco.flow.define import AssetDef, TaskDef
from arco.flow.define.table_name import qualified_name
from arco.flow.lineage import Dataset, Observation, ReadFact, Resolved, to_event
from arco.flow.lineage.partition_text import MOST_PARTITIONS
from arco.flow.run.wire import LeasedTask
from arco.flow.spark.declared import declared
from arco.flow.spark.lineage import Capture
from arco.flow.spark.target import Room
from arco.flow.work.port import LakeTable


class Made(Protocol):
    """One partition of one table that an attempt has written."""

    @property
    def table(self) -> str:
        """Its full name."""

    @property
    def partition(self) -> str:
        """The key of the partition, '' for the whole table."""

    @property
    def values(self) -> dict[str, str]:
        """The values of the partition, by column."""


class Traced:
    """The lineage of one attempt, watched from before its code is called."""

    def __init__(self, session: SparkSession, room: Room, task: LeasedTask) -> None:
        self._room = room
        self._task = task
        self._capture: Capture | None = None
        self.notes: list[str] = []
        self.reads: dict[str, ReadFact] = {}
        with self._harmless("lineage is not captured"):
            self._capture = Capture(session)

    def undeclared(self, asset: AssetDef) -> tuple[str, ...]:
        """What the code has read without having declared it, by name."""
        declared = {each.table for each in asset.inputs} | {each.table for each in asset.outputs}
        found: list[str] = []
        with self._harmless("undeclared inputs are not known"):
            for dataset in self._read():
                table = self._table(dataset)
                name = str(dataset) if table is None else table.name
                if name not in declared:
                    found.append(name)
        return tuple(dict.fromkeys(found))

    def computed(self) -> None:
        """The code has returned its frames: what is run from now on writes and measures them."""
        if self._capture is not None:
            self._capture.code_has_ended()

    def written(self) -> None:
        """All outputs are staged: what is run from now on is no part of their lineage."""
        if self._capture is not None:
            self._capture.look_away()

    def event(
        self,
        maker: AssetDef | TaskDef,
        target: Made,
        now_ms: int,
        *,
        place: str = "",
        frame: DataFrame | None = None,
    ) -> LineageObserved:
        """The lineage of one output; `place` is where its rows were staged, if that is a path.

        `frame` is what was written, where that is known.
        """
        written = Dataset(path=place) if place else Dataset(name=target.table)
        with self._harmless("its columns are not known"):
            if self._capture is not None:
                seen = self._capture.finish(written, frame=frame, forget=target.values.values())
                seen = replace(seen, reads=tuple(map(self._with_partitions, seen.reads)))
                if _may_have_read_more(maker, seen):
                    seen = replace(seen, reads=(*seen.reads, *self._unseen_inputs(maker, seen)))
                self._keep(seen)
                return to_event(
                    seen,
                    lambda each: self._resolved(target, written, each),
                    written,
                    partitions=(target.partition,) if target.partition else (),
                    observed_at=utc(now_ms),
                    pipeline_id=maker.name,
                    execution_id=self._task.run_id,
                    task_id=self._task.key,
                    attempt_id=self._task.attempt_id,
                )
        return declared(maker, target.table, self._task, self._room.found.get, now_ms)

    def close(self) -> None:
        """Watch no longer."""
        if self._capture is not None:
            with suppress(Exception):  # the JVM may be gone
                self._capture.close()

    def totals(self) -> tuple[int | None, int | None]:
        """The rows and bytes that were read, as far as they are known."""
        rows = [each.rows for each in self.reads.values() if each.rows is not None]
        size = [each.bytes for each in self.reads.values() if each.bytes is not None]
        return (sum(rows) if rows else None, sum(size) if size else None)

    def _keep(self, seen: Observation) -> None:
        self.reads.update({str(each.dataset): each for each in seen.reads})
        if seen.note:
            self.notes.append(f"lineage: {seen.note}")

    def _with_partitions(self, read: ReadFact) -> ReadFact:
        """Of files that were given to it one by one Spark knows no partitions; we do.

        Where a table was asked and not scanned, as it may be answered from its metadata, they are those
        that the input was cut down to.
        """
        table = None if read.partitions else self._table(read.dataset)
        if table is None:
            return read
        opened = self._room.opened.get(table.name, ())
        if opened:
            return replace(read, partitions=tuple(sorted(filter(None, opened))))
        chosen = self._chosen(table.name) if read.rows is None else ()
        if chosen:
            note = f"lineage: {table.name} was not scanned: its partitions are those of the input"
            self.notes.append(note)
        return replace(read, partitions=chosen)

    def _chosen(self, table: str) -> tuple[str, ...]:
        """The partitions that the inputs of a table were cut down to; none if one was not, or for many."""
        sets = self._room.chosen.get(table, [])
        if not all(each.axes for each in sets) or sum(map(len, sets)) > MOST_PARTITIONS:
            return ()
        return tuple(sorted({key for each in sets for key in each}))

    def _unseen_inputs(self, maker: AssetDef | TaskDef, seen: Observation) -> Iterator[ReadFact]:
        """The inputs that were declared and of which no query has told."""
        told = {
            None if (table := self._table(each.dataset)) is None else table.name
            for each in seen.reads
        }
        for each in maker.inputs:
            if each.table not in told and (table := self._room.find(each.table)) is not None:
                yield ReadFact(Dataset(table.name), self._chosen(table.name))

    def _read(self) -> Iterator[Dataset]:
        if self._capture is not None:
            yield from (each.dataset for each in self._capture.reads())

    def _resolved(self, target: Made, written: Dataset, dataset: Dataset) -> Resolved | None:
        table = self._room.find(target.table) if dataset == written else self._table(dataset)
        if table is None:
            return None
        ids = {each.name: each.column_id for each in table.columns if each.column_id}
        lower = {name.lower(): each for name, each in ids.items()}
        return Resolved(table.table_id, table.name, {**lower, **ids})

    def _table(self, dataset: Dataset) -> LakeTable | None:
        """The table that a name or a path belongs to, as far as the task knows it."""
        if dataset.name is not None:
            with suppress(Exception):
                return self._room.find(qualified_name(dataset.name))
            return None
        place = _path(dataset.path or "")
        for table in self._room.found.values():
            if (
                table is not None
                and (home := _path(table.location))
                and place.startswith(f"{home}/")
            ):
                return table
        return None

    def _harmless(self, what: str) -> "_Harmless":
        return _Harmless(self.notes, what)


class _Harmless:
    """Whatever is raised within is noted, and the work goes on."""

    def __init__(self, notes: list[str], what: str) -> None:
        self._notes = notes
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, problem: BaseException | None, _trace: object) -> bool:
        if isinstance(problem, Exception):
            self._notes.append(
                f"lineage: {self._what}: {type(problem).__name__}: {problem}"[:1_000]
            )
            return True
        return False


def _may_have_read_more(maker: AssetDef | TaskDef, seen: Observation) -> bool:
    """Whether queries may not tell all that was read; a task need not use Spark for what it does."""
    if seen.soundness == "declared":
        return True
    return isinstance(maker, TaskDef) and seen.soundness == "table_only"


def _path(url: str) -> str:
    """The place behind a URL: Spark writes `file:/x` for `file:///x`, and s3a for s3."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path}".rstrip("/")
