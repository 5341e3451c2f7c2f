"""The events of an attempt's end, as pure functions of what its worker reported or of what it published.

A report becomes one batch: check results, lineage, partitions, table profiles and the end of the task. A
partition counts as materialized only with a version that publishes it. Versions name their attempt, code
and inputs, so outputs can be recorded one by one even if the worker, or the coordinator, was lost.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import msgspec

from arco.core.clock import utc
from arco.events.partition import PartitionCompleted, PartitionFailed
from arco.events.quality import QualityCheckFailed, QualityCheckPassed
from arco.events.table import TableProfiled
from arco.events.task import TaskCompleted
from arco.flow.coordinator.events import AttemptEvents, PartitionRef, limit_message, run_event
from arco.flow.coordinator.messages import (
    AttemptReport,
    CheckOutcome,
    LeasedTask,
    OutputResult,
    TaskInput,
    TaskOutput,
    TaskStatus,
)
from arco.flow.coordinator.ports import RunEvent
from arco.flow.define.fingerprint import limit_parts
from arco.flow.plan.input_fingerprint import input_fingerprint
from arco.flow.plan.table_state import (
    CODE_METRIC,
    CODE_PARTS_METRIC,
    COLUMN_CHANGES_METRIC,
    INPUTS_METRIC,
)

Status = Literal["SUCCESS", "FAILED", "SKIPPED", "BLOCKED", "CANCELLED"]

# A metric of a task that will be retried: a restarted coordinator continues counting from it.
FAILURES_METRIC = "failed_attempts"

_NO_FAILURE = (TaskStatus.SUCCESS, TaskStatus.CANCELLED)
_MAX_TEXT_CHARS = 4_000
_MAX_KEYS = 10_000


@dataclass(frozen=True)
class OutputPartition:
    """A partition that an attempt writes; `table_id` None: the table did not exist when it started."""

    table: str
    table_id: str | None
    partition: str

    def ref(self) -> PartitionRef:
        """As events name it."""
        if self.table_id is None:
            return PartitionRef(partition_key=self.partition)
        return PartitionRef(table_id=self.table_id, partition_key=self.partition)


@dataclass(frozen=True)
class AttemptEnd:
    """The report of an attempt, and what it means for the task."""

    attempt: AttemptEvents
    report: AttemptReport
    status: TaskStatus
    error: str | None
    inputs: tuple[TaskInput, ...] | None  # None: they were lost
    outputs: tuple[OutputPartition, ...]
    kept_outputs: tuple[OutputPartition, ...] = ()  # published before, not by this attempt
    failures: int = 0  # failed attempts at the task, if it will be retried

    def events(self) -> Iterator[RunEvent]:
        """All events of the end."""
        yield from self._checks()
        yield from self._lineage()
        yield from self._partitions()
        if self.status is TaskStatus.SUCCESS:
            yield from kept_output_events(
                self.attempt, self.kept_outputs, self.report.completed_at_ms
            )
        yield from self._profiles()
        yield self._task()

    def publications(self) -> Iterator[RunEvent]:
        """The partitions that an attempt published although it had lost its task."""
        yield from self._partitions(failed=False)

    def _checks(self) -> Iterator[RunEvent]:
        for check in self.report.outcome.checks:
            if check.table_id is not None:
                payload, name = self._check(check, check.table_id)
                yield run_event(name, self._check_key(check), self.attempt.run_id, payload)

    def _check_key(self, check: CheckOutcome) -> str:
        """Two outputs may have checks of the same name: the first output's keys have no index."""
        key = f"qc:{self.attempt.attempt_id}:{check.name}"
        indexes = [index for index, each in enumerate(self.outputs) if each.table == check.table]
        return f"{key}:{indexes[0]}" if indexes and indexes[0] else key

    def _check(
        self, check: CheckOutcome, table_id: str
    ) -> tuple[QualityCheckPassed | QualityCheckFailed, str]:
        kind = QualityCheckPassed if check.passed else QualityCheckFailed
        blocks = check.severity == "error"
        payload = kind(
            table_id=table_id,
            partition_key=self._partition_of(check.table),
            check_name=check.name,
            check_type=check.type,
            severity=check.severity,
            blocking=blocks,
            expected_value=_limit_text(check.expected),
            actual_value=_limit_text(check.actual),
            message=limit_message(check.message),
            execution_id=self.attempt.run_id,
            task_id=self.attempt.key,
            checked_at=utc(self.report.completed_at_ms),
        )
        if isinstance(payload, QualityCheckFailed):
            if not blocks:
                payload = msgspec.structs.replace(payload, status="WARNING")
            return payload, "quality_check_failed"
        return payload, "quality_check_passed"

    def _lineage(self) -> Iterator[RunEvent]:
        attempt = self.attempt
        for number, lineage in enumerate(self.report.outcome.lineage):
            payload = msgspec.structs.replace(
                lineage,
                execution_id=attempt.run_id,
                task_id=attempt.key,
                attempt_id=attempt.attempt_id,
                pipeline_id=lineage.pipeline_id or attempt.fields["task_name"],
            )
            key = f"lin:{attempt.attempt_id}:{number}"
            yield run_event("lineage_observed", key, attempt.run_id, payload)

    def _partitions(self, *, failed: bool = True) -> Iterator[RunEvent]:
        """Each output that was published, and, if the attempt failed, all others.

        A cancelled attempt leaves its partitions as they were.
        """
        results = {(each.table, each.partition): each for each in self.report.outcome.outputs}
        ids = {(each.table, each.partition): each.table_id for each in self.outputs}
        kept_tables = {each.table for each in self.kept_outputs}
        for index, output in enumerate(dict.fromkeys([*ids, *results])):
            result = results.get(output)
            table_id = (result.table_id if result is not None else None) or ids.get(output)
            if table_id is None:
                continue
            if result is not None and result.version is not None:
                yield self._partition_completed(index, result, table_id, result.version)
            elif failed and self.status not in _NO_FAILURE and output[0] not in kept_tables:
                yield self._partition_failed(index, table_id, output[1])

    def _partition_completed(
        self, index: int, result: OutputResult, table_id: str, version: int
    ) -> RunEvent:
        report, attempt = self.report, self.attempt
        code = report.outcome.code_fingerprint
        payload = PartitionCompleted(
            table_id=table_id,
            partition_key=result.partition,
            row_count=result.rows,
            size_bytes=result.bytes,
            duration_ms=_duration_ms(report),
            version=version,
            materialization_id=attempt.attempt_id,
            input_fingerprint=fingerprint_inputs(code, self.inputs),
            code_fingerprint=code,
            execution_id=attempt.run_id,
            task_id=attempt.key,
            attempt=attempt.attempt,
            completed_at=utc(report.completed_at_ms),
        )
        key = _partition_key(attempt, index)
        return run_event("partition_completed", key, attempt.run_id, payload)

    def _partition_failed(self, index: int, table_id: str, partition: str) -> RunEvent:
        attempt = self.attempt
        payload = PartitionFailed(
            table_id=table_id,
            partition_key=partition,
            error=limit_message(self.error),
            execution_id=attempt.run_id,
            task_id=attempt.key,
            attempt=attempt.attempt,
        )
        return run_event(
            "partition_failed", _partition_key(attempt, index), attempt.run_id, payload
        )

    def _profiles(self) -> Iterator[RunEvent]:
        for number, result in enumerate(self.report.outcome.outputs):
            if result.version is None or result.table_id is None:
                continue
            if result.table_rows is None and result.table_bytes is None and not result.columns:
                continue
            payload = TableProfiled(
                table_id=result.table_id,
                version=result.version,
                snapshot_id=result.snapshot_id,
                row_count=result.table_rows,
                size_bytes=result.table_bytes,
                last_modified_at=utc(self.report.completed_at_ms),
                columns=result.columns,
            )
            key = f"prof:{self.attempt.attempt_id}:{number}"
            yield run_event("table_profiled", key, self.attempt.run_id, payload)

    def _task(self) -> RunEvent:
        report, attempt = self.report, self.attempt
        outcome = report.outcome
        outputs = outcome.outputs
        inputs = self.inputs or ()
        published = [each for each in outputs if each.version is not None]
        metrics = {**outcome.metrics, **self._code_metrics(), **self._input_metrics()}
        if self.failures:
            metrics[FAILURES_METRIC] = self.failures
        payload = TaskCompleted(
            **attempt.fields,
            **self._partition_ref(),
            status=cast("Status", self.status.value),
            published_version=published[0].version if published else None,
            worker=report.worker,
            started_at=utc(report.started_at_ms),
            completed_at=utc(report.completed_at_ms),
            duration_ms=_duration_ms(report),
            error_message=limit_message(self.error),
            input_tables=tuple(each.table_id for each in inputs if each.table_id) or None,
            output_tables=tuple(each.table_id for each in outputs if each.table_id) or None,
            input_partitions=_limit_keys([key for each in inputs for key in each.partitions]),
            output_partitions=_limit_keys([each.partition for each in outputs]),
            rows_read=outcome.rows_read,
            rows_written=sum_present([each.rows for each in published]),
            bytes_read=outcome.bytes_read,
            bytes_written=sum_present([each.bytes for each in published]),
            metrics=metrics or None,
        )
        return run_event("task_completed", f"done:{attempt.attempt_id}", attempt.run_id, payload)

    def _partition_ref(self) -> PartitionRef:
        """The output that the end of the task names: for a failure one that was not published."""
        results = self.report.outcome.outputs
        if self.status is TaskStatus.SUCCESS:
            if results and results[0].table_id is not None:
                return PartitionRef(
                    table_id=results[0].table_id, partition_key=results[0].partition
                )
            return self.outputs[0].ref() if self.outputs else PartitionRef()
        published = {each.table for each in results if each.version is not None}
        return first_unpublished(
            self.outputs, published | {each.table for each in self.kept_outputs}
        )

    def _input_metrics(self) -> dict[str, str]:
        """A task without outputs records itself what its partitions otherwise would."""
        fingerprint = fingerprint_inputs(self.report.outcome.code_fingerprint, self.inputs)
        if fingerprint is None or self.outputs or self.status is not TaskStatus.SUCCESS:
            return {}
        return {INPUTS_METRIC: fingerprint}

    def _code_metrics(self) -> dict[str, str]:
        """The code that ran, its parts, and how its columns differ from those of its tables."""
        outcome = self.report.outcome
        metrics = (
            {} if outcome.code_fingerprint is None else {CODE_METRIC: outcome.code_fingerprint}
        )
        for name, value in (
            (CODE_PARTS_METRIC, limit_parts(outcome.code_parts, _MAX_TEXT_CHARS)),
            (COLUMN_CHANGES_METRIC, outcome.column_changes),
        ):
            text = msgspec.json.encode(value, order="deterministic").decode()
            if value and len(text) <= _MAX_TEXT_CHARS:  # longer ones do not fit into an event
                metrics[name] = text
        return metrics

    def _partition_of(self, table: str) -> str | None:
        return next((each.partition for each in self.outputs if each.table == table), None)


@dataclass(frozen=True)
class PublishedOutput:
    """An output that an attempt has published, found in the table's chain; `index` among the outputs."""

    index: int
    output: OutputPartition
    attempt: AttemptEvents
    version: int
    code: str | None
    input_fingerprint: str | None

    def events(self, at_ms: int) -> Iterator[RunEvent]:
        """The event that the report of its worker would have led to, as far as it is known."""
        attempt = self.attempt
        if self.output.table_id is None:
            return
        payload = PartitionCompleted(
            table_id=self.output.table_id,
            partition_key=self.output.partition,
            version=self.version,
            materialization_id=attempt.attempt_id,
            input_fingerprint=self.input_fingerprint,
            code_fingerprint=self.code,
            execution_id=attempt.run_id,
            task_id=attempt.key,
            attempt=attempt.attempt,
            completed_at=utc(at_ms),
        )
        key = _partition_key(attempt, self.index)
        yield run_event("partition_completed", key, attempt.run_id, payload)


def finished_task_events(published: Sequence[PublishedOutput], at_ms: int) -> Iterator[RunEvent]:
    """All outputs were published by attempts that never reported it: the task succeeded (P35)."""
    for each in published:
        yield from each.events(at_ms)
    newest = max(published, key=lambda each: each.attempt.attempt).attempt
    payload = TaskCompleted(
        **newest.fields,
        **published[0].output.ref(),
        status="SUCCESS",
        published_version=published[0].version,
        completed_at=utc(at_ms),
        output_tables=tuple(each.output.table_id for each in published if each.output.table_id),
        output_partitions=tuple(each.output.partition for each in published),
    )
    yield run_event("task_completed", f"done:{newest.attempt_id}", newest.run_id, payload)


def kept_output_events(
    attempt: AttemptEvents, outputs: Sequence[OutputPartition], at_ms: int
) -> Iterator[RunEvent]:
    """Outputs of a task that succeeded, which were published before and keep their data."""
    for number, output in enumerate(outputs):
        if output.table_id is not None:
            payload = PartitionCompleted(
                table_id=output.table_id,
                partition_key=output.partition,
                version=None,
                execution_id=attempt.run_id,
                task_id=attempt.key,
                attempt=attempt.attempt,
                completed_at=utc(at_ms),
            )
            key = f"stands:{attempt.attempt_id}:{number}"
            yield run_event("partition_completed", key, attempt.run_id, payload)


def stamp_outputs(task: LeasedTask, code: str | None) -> LeasedTask:
    """The task with outputs whose publications name the code and inputs; called by the executor."""
    fingerprint = fingerprint_inputs(code, task.inputs)

    def stamp(output: TaskOutput) -> TaskOutput:
        attempt = msgspec.structs.replace(output.attempt, code=code, made_of=fingerprint)
        return msgspec.structs.replace(output, attempt=attempt)

    return msgspec.structs.replace(task, outputs=tuple(map(stamp, task.outputs)))


def failed_attempts(metrics: Iterable[tuple[str, str]] | None) -> int:
    """How many attempts at a task failed, from the metrics of the last one that was reported."""
    count = dict(metrics or ()).get(FAILURES_METRIC, "")
    return int(count) if count.isascii() and count.isdigit() else 0


def first_unpublished(
    outputs: Sequence[OutputPartition], published: Collection[str]
) -> PartitionRef:
    """The first output that was not published, for an event that marks it as failed, if there is one."""
    return next((each.ref() for each in outputs if each.table not in published), PartitionRef())


def is_all_published(report: AttemptReport) -> bool:
    """Whether an attempt succeeded and published all of its outputs, of which it has some."""
    outputs = report.outcome.outputs
    return (
        report.outcome.status is TaskStatus.SUCCESS
        and bool(outputs)
        and all(each.version is not None for each in outputs)
    )


def count_published(report: AttemptReport) -> int:
    """How many of its outputs an attempt reports as published."""
    return sum(each.version is not None for each in report.outcome.outputs)


def sum_present(values: Sequence[int | None]) -> int | None:
    """The sum of the values that are not None; None if all are."""
    numbers = [each for each in values if each is not None]
    return sum(numbers) if numbers else None


def fingerprint_inputs(code: str | None, inputs: Sequence[TaskInput] | None) -> str | None:
    """The recorded fingerprint of the code and data of a partition; None if either is unknown."""
    if code is None or inputs is None:
        return None
    return input_fingerprint(code, [(each.table_id or each.table, each.digest) for each in inputs])


def _partition_key(attempt: AttemptEvents, index: int) -> str:
    """The event key of an output: that of the first output has no index."""
    return f"part:{attempt.attempt_id}:{index}" if index else f"part:{attempt.attempt_id}"


def _duration_ms(report: AttemptReport) -> int:
    return max(0, report.completed_at_ms - report.started_at_ms)


def _limit_text(text: str | None) -> str | None:
    return None if text is None else text.replace("\0", "")[:_MAX_TEXT_CHARS]


def _limit_keys(keys: list[str]) -> tuple[str, ...] | None:
    """As many keys as an event may have; the plan has them all."""
    return tuple(keys[:_MAX_KEYS]) or None
