"""The lineage of an attempt: observed from its queries, read from its frame's plan, or as declared.

An error in here makes the lineage weaker, and never fails the task.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Protocol
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession

from arco.core.clock import utc
from arco.events.lineage_payload import LineageInput, LineageObserved, LineageOutput
from arco.flow.coordinator.messages import LeasedTask
from arco.flow.define import AssetDef, TaskDef
from arco.flow.lineage import Dataset, LineageObservation, ReadFact, ResolvedTable, to_event
from arco.flow.lineage.partition_text import MAX_PARTITIONS
from arco.flow.spark.lineage import Capture
from arco.flow.spark.table_format import TableContext
from arco.flow.table_name import qualified_name
from arco.flow.worker.ports import CatalogTable

_MAX_NOTE_CHARS = 1_000


class WrittenPartition(Protocol):
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


class AttemptLineage:
    """The lineage of one attempt, captured from before its code is called."""

    def __init__(
        self, session: SparkSession, table_context: TableContext, task: LeasedTask
    ) -> None:
        self._table_context = table_context
        self._task = task
        self._capture: Capture | None = None
        self._reads: dict[str, ReadFact] = {}
        self.notes: list[str] = []
        with self._note_errors("lineage is not captured"):
            self._capture = Capture(session)

    def undeclared_inputs(self, asset: AssetDef) -> tuple[str, ...]:
        """The names of tables that the code has read without having declared them."""
        declared = {each.table for each in asset.inputs} | {each.table for each in asset.outputs}
        names: dict[str, None] = {}
        with self._note_errors("undeclared inputs are not known"):
            for read in () if self._capture is None else self._capture.reads():
                table = self._table(read.dataset)
                names.setdefault(str(read.dataset) if table is None else table.name)
        return tuple(name for name in names if name not in declared)

    def mark_computed(self) -> None:
        """The code has returned its frames: later queries write and measure them."""
        if self._capture is not None:
            self._capture.mark_end_of_code()

    def mark_staged(self) -> None:
        """All outputs are staged: later jobs are no part of their lineage."""
        if self._capture is not None:
            self._capture.stop_job_tracking()

    def event(
        self,
        maker: AssetDef | TaskDef,
        target: WrittenPartition,
        now_ms: int,
        *,
        location: str = "",
        frame: DataFrame | None = None,
    ) -> LineageObserved:
        """The lineage of one output; `location` is where its rows were staged, if that is a path.

        `frame` is what was written, if that is known.
        """
        written = Dataset(path=location) if location else Dataset(name=target.table)
        with self._note_errors("its columns are not known"):
            if self._capture is not None:
                observation = self._capture.finish(
                    written, frame=frame, ignored_literals=target.values.values()
                )
                reads = tuple(map(self._with_partitions, observation.reads))
                observation = replace(observation, reads=reads)
                if _may_have_read_more(maker, observation):
                    more_reads = self._unobserved_inputs(maker, observation)
                    observation = replace(observation, reads=(*reads, *more_reads))
                self._keep(observation)
                return to_event(
                    observation,
                    lambda each: self._resolve(target, written, each),
                    written,
                    partitions=(target.partition,) if target.partition else (),
                    observed_at=utc(now_ms),
                    pipeline_id=maker.name,
                    execution_id=self._task.run_id,
                    task_id=self._task.key,
                    attempt_id=self._task.attempt_id,
                )
        find = self._table_context.tables.get
        return declared_lineage(maker, target.table, self._task, find, now_ms)

    def close(self) -> None:
        """Stop capturing."""
        if self._capture is not None:
            with suppress(Exception):  # the JVM may have ended
                self._capture.close()

    def rows_and_bytes_read(self) -> tuple[int | None, int | None]:
        """The rows and bytes that were read, as far as they are known."""
        rows = [each.rows for each in self._reads.values() if each.rows is not None]
        size = [each.bytes for each in self._reads.values() if each.bytes is not None]
        return (sum(rows) if rows else None, sum(size) if size else None)

    def _keep(self, observation: LineageObservation) -> None:
        self._reads.update({str(each.dataset): each for each in observation.reads})
        if observation.note:
            self.notes.append(f"lineage: {observation.note}")

    def _with_partitions(self, read: ReadFact) -> ReadFact:
        """Add the partitions of files that were given to Spark one by one, which Spark does not know.

        A table that was queried and not scanned, as its metadata may have answered, has the partitions that
        the input was filtered to.
        """
        table = None if read.partitions else self._table(read.dataset)
        if table is None:
            return read
        opened = self._table_context.opened.get(table.name, ())
        if opened:
            return replace(read, partitions=tuple(sorted(filter(None, opened))))
        chosen = self._chosen_partitions(table.name) if read.rows is None else ()
        if chosen:
            note = f"lineage: {table.name} was not scanned: its partitions are those of the input"
            self.notes.append(note)
        return replace(read, partitions=chosen)

    def _chosen_partitions(self, table: str) -> tuple[str, ...]:
        """The partitions that inputs of a table were filtered to; none if one was not, or if too many."""
        sets = self._table_context.chosen.get(table, [])
        if not all(each.axes for each in sets) or sum(map(len, sets)) > MAX_PARTITIONS:
            return ()
        return tuple(sorted({key for each in sets for key in each}))

    def _unobserved_inputs(
        self, maker: AssetDef | TaskDef, observation: LineageObservation
    ) -> Iterator[ReadFact]:
        """The declared inputs that no query has read."""
        tables = map(self._table, (each.dataset for each in observation.reads))
        observed = {table.name for table in tables if table is not None}
        for each in maker.inputs:
            table = None if each.table in observed else self._table_context.find(each.table)
            if table is not None:
                yield ReadFact(Dataset(table.name), self._chosen_partitions(table.name))

    def _resolve(
        self, target: WrittenPartition, written: Dataset, dataset: Dataset
    ) -> ResolvedTable | None:
        is_target = dataset == written
        table = self._table_context.find(target.table) if is_target else self._table(dataset)
        if table is None:
            return None
        ids = {each.name: each.column_id for each in table.columns if each.column_id}
        lower_case = {name.lower(): each for name, each in ids.items()}
        return ResolvedTable(table.table_id, table.name, {**lower_case, **ids})

    def _table(self, dataset: Dataset) -> CatalogTable | None:
        """The table with this name, or one known to the task that holds this path."""
        if dataset.name is not None:
            with suppress(Exception):
                return self._table_context.find(qualified_name(dataset.name))
            return None
        path = _normal_path(dataset.path or "")
        for table in self._table_context.tables.values():
            root = "" if table is None else _normal_path(table.location)
            if root and path.startswith(f"{root}/"):
                return table
        return None

    @contextmanager
    def _note_errors(self, consequence: str) -> Iterator[None]:
        """Turn errors into notes."""
        try:
            yield
        except Exception as problem:
            note = f"lineage: {consequence}: {type(problem).__name__}: {problem}"
            self.notes.append(note[:_MAX_NOTE_CHARS])


def declared_lineage(
    maker: AssetDef | TaskDef,
    table: str,
    task: LeasedTask,
    find: Callable[[str], CatalogTable | None],
    now_ms: int,
) -> LineageObserved:
    """The lineage of one table as its definition declares it, if nothing was observed."""
    return LineageObserved(
        soundness="declared",
        inputs=tuple(
            LineageInput(table_id=_table_id(find(each.table)), name=each.table)
            for each in maker.inputs
        ),
        outputs=(
            LineageOutput(
                table_id=_table_id(find(table)),
                name=table,
                partitions=(task.partition,) if task.partition else (),
            ),
        ),
        observed_at=utc(now_ms),
        pipeline_id=maker.name,
        execution_id=task.run_id,
        task_id=task.key,
        attempt_id=task.attempt_id,
    )


def _table_id(table: CatalogTable | None) -> str | None:
    return None if table is None else table.table_id


def _may_have_read_more(maker: AssetDef | TaskDef, observation: LineageObservation) -> bool:
    """Whether more may have been read than queries show; a task need not use Spark."""
    if observation.soundness == "declared":
        return True
    return isinstance(maker, TaskDef) and observation.soundness == "table_only"


def _normal_path(url: str) -> str:
    """The bucket and path of a URL: Spark writes `file:/x` for `file:///x`, and s3a for s3."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path}".rstrip("/")
