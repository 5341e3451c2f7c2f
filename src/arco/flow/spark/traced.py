"""Lineage of a task: what was observed, or what its frame's plan says, or what was declared.

Whatever goes wrong in here makes the lineage weaker, and never fails the task.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession

from arco.core.clock import utc
from arco.events.lineage import Input, LineageObserved, Output
from arco.flow.define import AssetDef
from arco.flow.define.name import three_levels
from arco.flow.lineage import Dataset, Observation, ReadFact, Resolved, to_event
from arco.flow.run.wire import LeasedTask
from arco.flow.spark.lineage import Capture
from arco.flow.spark.target import Room, Target
from arco.flow.work.port import LakeTable


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

    def event(
        self, asset: AssetDef, target: Target, place: str, frame: DataFrame, now_ms: int
    ) -> LineageObserved:
        """The lineage of one output; `place` is where its rows were staged, if that is a path."""
        written = Dataset(path=place) if place else Dataset(name=target.table)
        with self._harmless("its columns are not known"):
            if self._capture is not None:
                seen = self._capture.finish(written, frame=frame, forget=target.values.values())
                seen = replace(seen, reads=tuple(map(self._with_partitions, seen.reads)))
                self._keep(seen)
                return to_event(
                    seen,
                    lambda each: self._resolved(target, written, each),
                    written,
                    partitions=(target.partition,) if target.partition else (),
                    observed_at=utc(now_ms),
                    pipeline_id=asset.name,
                    execution_id=self._task.run_id,
                    task_id=self._task.key,
                    attempt_id=self._task.attempt_id,
                )
        return self._declared(asset, target, now_ms)

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
        """Of files that were given to it one by one Spark knows no partitions; we do."""
        table = None if read.partitions else self._table(read.dataset)
        opened = () if table is None else self._room.opened.get(table.name, ())
        return replace(read, partitions=tuple(sorted(filter(None, opened)))) if opened else read

    def _read(self) -> Iterator[Dataset]:
        if self._capture is not None:
            yield from (each.dataset for each in self._capture.reads())

    def _resolved(self, target: Target, written: Dataset, dataset: Dataset) -> Resolved | None:
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
                return self._room.find(three_levels(dataset.name))
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

    def _declared(self, asset: AssetDef, target: Target, now_ms: int) -> LineageObserved:
        """What the definition says, for want of anything better."""
        inputs = [(each.table, self._room.found.get(each.table)) for each in asset.inputs]
        table = self._room.found.get(target.table)
        return LineageObserved(
            soundness="declared",
            inputs=tuple(
                Input(table_id=None if known is None else known.table_id, name=name)
                for name, known in inputs
            ),
            outputs=(
                Output(
                    table_id=None if table is None else table.table_id,
                    name=target.table,
                    partitions=(target.partition,) if target.partition else (),
                ),
            ),
            observed_at=utc(now_ms),
            pipeline_id=asset.name,
            execution_id=self._task.run_id,
            task_id=self._task.key,
            attempt_id=self._task.attempt_id,
        )

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


def _path(url: str) -> str:
    """The place behind a URL: Spark writes `file:/x` for `file:///x`, and s3a for s3."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path}".rstrip("/")
