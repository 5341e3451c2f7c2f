"""One attempt at a task: user code that reads and writes by itself, with Spark only if it asks for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark.sql import SparkSession

from arco.core.clock import Clock
from arco.core.errors import ArcoError, Invalid
from arco.events.lineage_payload import LineageObserved
from arco.events.partition_key import parse_partition_key
from arco.flow.coordinator.messages import AttemptOutcome, OutputResult, TaskStatus
from arco.flow.define import Project, TaskDef
from arco.flow.spark.attempt_lineage import AttemptLineage, declared_lineage
from arco.flow.spark.format_registry import TableFormats
from arco.flow.spark.inputs import TaskInputs
from arco.flow.spark.running_attempt import RunningAttempt
from arco.flow.spark.table_format import TableContext
from arco.flow.spark.user_code import call_task
from arco.flow.worker.ports import TaskCatalog


class _TaskOutput(NamedTuple):
    """A partition that a task has written, according to its definition."""

    table: str
    partition: str
    values: dict[str, str]


@dataclass
class TaskAttempt:
    """Runs one attempt at a task; without `new_session`, its code gets no Spark."""

    project: Project
    task: TaskDef
    attempt: RunningAttempt
    catalog: TaskCatalog
    clock: Clock
    new_session: Callable[[], SparkSession] | None
    done: list[OutputResult] = field(default_factory=list)

    def run(self) -> AttemptOutcome:
        """Call the task, and report the tables that it is defined to write."""
        self._create_schemas()
        if self.new_session is None:
            return self._run(None, None)
        session = self.attempt.add_session(self.new_session())
        table_context = TableContext(session, self.catalog)
        self._create_views(table_context)
        lineage = AttemptLineage(session, table_context, self.attempt.task)
        try:
            return self._run(session, lineage)
        finally:
            lineage.close()

    def _run(self, spark: SparkSession | None, lineage: AttemptLineage | None) -> AttemptOutcome:
        values = parse_partition_key(self.attempt.task.partition) or {}
        self.attempt.begin("computing")
        call_task(self.task, spark, self.attempt.context(values))
        outputs = self.attempt.task.outputs
        warnings = [warning for each in outputs if (warning := self._add_output(each.table))]
        events = tuple(self._lineage_event(each.table, values, lineage) for each in self.done)
        for note in () if lineage is None else lineage.notes:
            self.attempt.log(note)
        return AttemptOutcome(
            status=TaskStatus.SUCCESS,
            outputs=tuple(self.done),
            lineage=events,
            metrics=self.attempt.metrics,
            warnings=tuple(warnings),
        )

    def _lineage_event(
        self, table: str, values: dict[str, str], lineage: AttemptLineage | None
    ) -> LineageObserved:
        """The observed lineage of a table; without Spark, the declared one."""
        now_ms, task = self.clock.now_ms(), self.attempt.task
        if lineage is None:
            return declared_lineage(self.task, table, task, self.catalog.find, now_ms)
        return lineage.event(self.task, _TaskOutput(table, task.partition, values), now_ms)

    def _create_schemas(self) -> None:
        """Create the schemas of its outputs; if that fails, the task is still called."""
        for output in self.attempt.task.outputs:
            try:
                if self.catalog.find(output.table) is None:
                    self.catalog.make_schema(output.table)
            except ArcoError as problem:
                self.attempt.log(f"the schema of {output.table} could not be created: {problem}")

    def _create_views(self, table_context: TableContext) -> None:
        """A view for each table of `reads`, named like the table without its schema, of any format."""
        formats = TableFormats(table_context)
        inputs = TaskInputs(self.project, self.attempt.task, table_context, formats)
        for declared in self.task.inputs:
            try:
                inputs.frame(declared, self.task).createOrReplaceTempView(declared.parameter)
            except Invalid as problem:
                self.attempt.log(f"there is no view {declared.parameter}: {problem}")

    def _add_output(self, table: str) -> str | None:
        """Record a table that the task has written; a warning if it does not exist."""
        catalog_table = self.catalog.find(table)
        if catalog_table is None:
            return f"the task declares that it writes {table}, and there is no such table"
        leased = next(each for each in self.attempt.task.outputs if each.table == table)
        self.done.append(
            OutputResult(
                table=table,
                table_id=catalog_table.table_id,
                partition=self.attempt.task.partition,
                version=max(leased.attempt.dispatched_at_number, 0),
            )
        )
        return None
