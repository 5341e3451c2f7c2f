"""One attempt at a task: code that reads and writes by itself, with Spark only if it asks for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark.sql import SparkSession

from arco.core.clock import Clock
from arco.core.errors import ArcoError, Invalid
from arco.events.lineage import LineageObserved
from arco.events.partition_key import parse_partition_key
from arco.flow.define import Project, TaskDef
from arco.flow.run.wire import Outcome, OutputDone, TaskStatus
from arco.flow.spark.call import call_task
from arco.flow.spark.declared import declared
from arco.flow.spark.formats import Formats
from arco.flow.spark.inputs import Inputs
from arco.flow.spark.running import Running
from arco.flow.spark.target import Room
from arco.flow.spark.traced import Traced
from arco.flow.work.port import Lake


class _Made(NamedTuple):
    """What a task has written, as it says itself."""

    table: str
    partition: str
    values: dict[str, str]


@dataclass
class TaskWork:
    """What carries one attempt at a task out."""

    project: Project
    task: TaskDef
    running: Running
    lake: Lake
    clock: Clock
    new_session: Callable[[], SparkSession] | None
    done: list[OutputDone] = field(default_factory=list)

    def run(self) -> Outcome:
        """Call it, and tell of the tables that it says it writes."""
        self._make_schemas()
        if self.new_session is None:
            return self._run(None, None)
        session = self.running.session(self.new_session())
        room = Room(session, self.lake)
        self._lay_out(room)
        traced = Traced(session, room, self.running.task)
        try:
            return self._run(session, traced)
        finally:
            traced.close()

    def _run(self, spark: SparkSession | None, traced: Traced | None) -> Outcome:
        values = parse_partition_key(self.running.task.partition) or {}
        self.running.go_on("computing")
        call_task(self.task, spark, self.running.context(values))
        warnings = [text for each in self.running.task.outputs if (text := self._tell(each.table))]
        lineage = tuple(self._lineage(each.table, values, traced) for each in self.done)
        for note in () if traced is None else traced.notes:
            self.running.log(note)
        return Outcome(
            status=TaskStatus.SUCCESS,
            outputs=tuple(self.done),
            lineage=lineage,
            metrics=self.running.metrics,
            warnings=tuple(warnings),
        )

    def _lineage(
        self, table: str, values: dict[str, str], traced: Traced | None
    ) -> LineageObserved:
        """What Spark has told of a table that was written; without Spark, what is declared."""
        now_ms, task = self.clock.now_ms(), self.running.task
        if traced is None:
            return declared(self.task, table, task, self.lake.find, now_ms)
        return traced.event(self.task, _Made(table, task.partition, values), now_ms)

    def _make_schemas(self) -> None:
        """The schemas of what it is going to write; without them it is called all the same."""
        for each in self.running.task.outputs:
            try:
                if self.lake.find(each.table) is None:
                    self.lake.make_schema(each.table)
            except ArcoError as problem:
                self.running.log(f"the schema of {each.table} is not made: {problem}")

    def _lay_out(self, room: Room) -> None:
        """Each table of `reads` as a view under its own name without a schema, whatever its format is."""
        inputs = Inputs(self.project, self.running.task, room, Formats(room))
        for each in self.task.inputs:
            try:
                inputs.frame(each, self.task).createOrReplaceTempView(each.parameter)
            except Invalid as problem:
                self.running.log(f"there is no view {each.parameter}: {problem}")

    def _tell(self, table: str) -> str | None:
        """Keep what is known of a table that the task has written; a warning if it is not there."""
        found = self.lake.find(table)
        if found is None:
            return f"it says that it writes {table}, and there is no such table"
        place = next(each for each in self.running.task.outputs if each.table == table)
        self.done.append(
            OutputDone(
                table=table,
                table_id=found.table_id,
                partition=self.running.task.partition,
                version=max(place.attempt.dispatched_at_number, 0),
            )
        )
        return None
