"""One attempt at an asset: read its inputs, compute, stage, check and publish its outputs.

Nothing is published before all outputs are staged and all their checks have passed, nor after the attempt
was stopped.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import msgspec
from pyspark.sql import DataFrame, SparkSession

from arco.core.clock import Clock
from arco.core.errors import ArcoError, Invalid
from arco.events.partition_key import parse_partition_key
from arco.flow.coordinator.messages import (
    AttemptOutcome,
    CheckOutcome,
    LeasedTask,
    OutputResult,
    TaskStatus,
)
from arco.flow.define import AssetDef, Project
from arco.flow.spark.attempt_lineage import AttemptLineage
from arco.flow.spark.commit_queue import CommitQueues
from arco.flow.spark.format_registry import TableFormats
from arco.flow.spark.inputs import TaskInputs
from arco.flow.spark.row_checks import ROWS, count_of, other_checks
from arco.flow.spark.running_attempt import RunningAttempt
from arco.flow.spark.staged_checks import CheckRunner
from arco.flow.spark.staging import StagedOutput, stage_output
from arco.flow.spark.table_format import TableContext, WriteTarget
from arco.flow.spark.user_code import call_asset
from arco.flow.worker.ports import CatalogTable, TaskCatalog


@dataclass
class AssetAttempt:
    """Runs one attempt at an asset."""

    project: Project
    asset: AssetDef
    attempt: RunningAttempt
    catalog: TaskCatalog
    clock: Clock
    new_session: Callable[[], SparkSession]
    commit_queues: CommitQueues = field(default_factory=CommitQueues)
    done: list[OutputResult] = field(default_factory=list)  # published outputs, if the rest fails

    def run(self) -> AttemptOutcome:
        """Read, compute, stage, check and publish."""
        session = self.attempt.add_session(self.new_session())
        table_context = TableContext(
            session,
            self.catalog,
            commit_queues=self.commit_queues,
            raise_if_stopped=self.attempt.raise_if_stopped,
            changes=self.attempt.column_changes,
        )
        formats = TableFormats(table_context)
        lineage = AttemptLineage(session, table_context, self.attempt.task)
        try:
            return self._run(table_context, formats, lineage)
        finally:
            formats.close()
            lineage.close()

    def _run(
        self, table_context: TableContext, formats: TableFormats, lineage: AttemptLineage
    ) -> AttemptOutcome:
        attempt = self.attempt
        targets = targets_of(self.asset, attempt.task)
        attempt.begin("reading")
        inputs = TaskInputs(self.project, attempt.task, table_context, formats)
        frames = inputs.frames(self.asset)
        attempt.begin("computing")
        context = attempt.context(parse_partition_key(attempt.task.partition) or {})
        results = call_asset(self.asset, frames, table_context.session, context)
        lineage.mark_computed()
        attempt.begin("writing")
        already_published = {each.table for each in attempt.task.outputs if each.is_made}
        outputs = [
            self._stage(targets[name], frame, table_context, formats)
            for name, frame in results.items()
            if name not in already_published  # by an earlier attempt
        ]
        lineage.mark_staged()
        attempt.begin("checking")
        with self._hold_tables(outputs, table_context):
            checks = self._check(outputs, table_context)
            warnings = _check_warnings(checks)
            if self.asset.strict or failed_checks(checks):  # otherwise it would delay publishing
                warnings += self._undeclared_inputs(lineage)
            if failed_checks(checks):
                return self._blocked(outputs, checks, warnings, table_context)
            attempt.begin("publishing")
            for output in outputs:
                output.published = output.format.publish(output.target, output.staged)
                self.done.append(output_done(output, table_context.find(output.target.table)))
        warnings += self._describe(outputs, table_context)
        if not self.asset.strict:
            warnings += self._undeclared_inputs(lineage)
        return self._success(outputs, checks, warnings, lineage)

    @contextmanager
    def _hold_tables(
        self, outputs: list[StagedOutput], table_context: TableContext
    ) -> Iterator[None]:
        """Keep merged tables unchanged between checks that read their rows and the publication."""
        with ExitStack() as stack:
            if self.asset.mode.kind == "merge" and other_checks(self.asset.checks):
                for table in sorted(each.target.table for each in outputs):
                    queues = table_context.commit_queues
                    stack.enter_context(queues.hold(table, table_context.raise_if_stopped))
            yield

    def _blocked(
        self,
        outputs: list[StagedOutput],
        checks: list[CheckOutcome],
        warnings: list[str],
        table_context: TableContext,
    ) -> AttemptOutcome:
        for output in outputs:
            output.kept_as = output.format.keep(output.target, output.staged)
        return AttemptOutcome(
            status=TaskStatus.BLOCKED,
            error=_blocked_error(checks, outputs),
            outputs=tuple(
                output_done(each, table_context.find(each.target.table)) for each in outputs
            ),
            checks=tuple(checks),
            warnings=tuple(warnings),
            metrics=self.attempt.metrics,
        )

    def _stage(
        self,
        target: WriteTarget,
        frame: DataFrame,
        table_context: TableContext,
        formats: TableFormats,
    ) -> StagedOutput:
        self.attempt.raise_if_stopped()
        checks = tuple(each for each in self.asset.checks if each.table == target.table)
        return stage_output(target, frame, checks, table_context, formats)

    def _check(
        self, outputs: list[StagedOutput], table_context: TableContext
    ) -> list[CheckOutcome]:
        for output in outputs:
            output.write_metrics.check_partition(output.metrics)
        runner = CheckRunner(self.project, self.attempt, self.catalog, self.clock, self.new_session)
        return [
            outcome
            for each in outputs
            for outcome in runner.run(each, table_context.find(each.target.table))
        ]

    def _undeclared_inputs(self, lineage: AttemptLineage) -> list[str]:
        names = lineage.undeclared_inputs(self.asset)
        if not names:
            return []
        message = f"it reads {', '.join(names)} without having declared it"
        if self.asset.strict:
            raise Invalid(
                f"{self.asset.where}: {message}: add a parameter with table(...) for each"
            )
        self.attempt.log(message)
        return [message]

    def _describe(self, outputs: list[StagedOutput], table_context: TableContext) -> list[str]:
        """Set comment, owner and tags; a failure is a warning, as the data are published."""
        warnings: list[str] = []
        for output in outputs:
            table = table_context.find(output.target.table)
            if table is None:
                continue
            try:
                self.catalog.describe(table, output.target.table_definition())
            except ArcoError as problem:
                warnings.append(f"{table.name} could not be described: {problem}")
        return warnings

    def _success(
        self,
        outputs: list[StagedOutput],
        checks: list[CheckOutcome],
        warnings: list[str],
        lineage: AttemptLineage,
    ) -> AttemptOutcome:
        now_ms = self.clock.now_ms()
        events = [
            lineage.event(
                self.asset, each.target, now_ms, location=each.staged.location, frame=each.frame
            )
            for each in outputs
        ]
        rows, size = lineage.rows_and_bytes_read()
        for note in lineage.notes:
            self.attempt.log(note)
        return AttemptOutcome(
            status=TaskStatus.SUCCESS,
            outputs=tuple(self.done),
            checks=tuple(checks),
            lineage=tuple(events),
            rows_read=rows,
            bytes_read=size,
            metrics=self.attempt.metrics,
            warnings=tuple(dict.fromkeys(warnings)),
        )


def targets_of(asset: AssetDef, task: LeasedTask) -> dict[str, WriteTarget]:
    """What an attempt is going to write, by table."""
    leased_outputs = {each.table: each for each in task.outputs}
    targets: dict[str, WriteTarget] = {}
    for output in asset.outputs:
        leased = leased_outputs.get(output.table)
        if leased is None:
            raise Invalid(f"the task {task.key} was leased without its output {output.table}")
        targets[output.table] = WriteTarget(
            table=output.table,
            format=asset.format,
            partition=task.partition,
            values=parse_partition_key(task.partition) or {},
            mode=asset.mode,
            attempt=leased.attempt,
            on_missing_column=asset.on_missing_column,
            replaces=leased.replaces,
            comment=asset.description or None,
            owner=asset.owner,
            tags=asset.tags,
        )
    return targets


def failed_checks(checks: Iterable[CheckOutcome]) -> list[CheckOutcome]:
    """The checks that keep data from being published."""
    return [each for each in checks if not each.passed and each.severity == "error"]


def output_done(output: StagedOutput, table: CatalogTable | None) -> OutputResult:
    """The result of one output, published or not."""
    target, staged, published = output.target, output.staged, output.published
    ids = {} if table is None else {c.name: c.column_id for c in table.columns if c.column_id}
    done = OutputResult(
        table=target.table,
        table_id=None if table is None else table.table_id,
        partition=target.partition,
        rows=count_of(output.metrics, ROWS),
        bytes=staged.bytes,
        files=staged.files,
    )
    if published is None:
        return done
    return msgspec.structs.replace(
        done,
        version=published.number,
        snapshot_id=published.snapshot_id,
        table_rows=published.table_rows,
        table_bytes=published.table_bytes,
        columns=output.write_metrics.statistics.profiles(output.metrics, ids),
    )


def _check_warnings(checks: Iterable[CheckOutcome]) -> list[str]:
    return [
        f"check {each.name} of {each.table}: {each.message or 'it does not hold'}"
        for each in checks
        if not each.passed and each.severity != "error"
    ]


def _blocked_error(checks: Iterable[CheckOutcome], outputs: Iterable[StagedOutput]) -> str:
    """Which checks failed, and where the unpublished rows are."""
    lines = [
        f"check {each.name} of {each.table} failed: {each.message or 'it does not hold'}"
        for each in failed_checks(checks)
    ]
    staged = ", ".join(f"{each.target.table} as {each.kept_as}" for each in outputs)
    return "\n".join([*lines, f"nothing was published; staged: {staged}"])
