"""The end of an attempt, from what its worker says to the events that are told of it: pure.

All of it is one batch: what checks found, what was read and written, what was published, what became of the
partitions and of the task. A partition counts as made only by a version that publishes it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import msgspec

from arco.core.clock import utc
from arco.events.partition import PartitionCompleted, PartitionFailed
from arco.events.quality import QualityCheckFailed, QualityCheckPassed
from arco.events.statistics import TableProfiled
from arco.events.task import TaskCompleted
from arco.flow.plan.input_fingerprint import input_fingerprint
from arco.flow.run.events import OfAttempt, Where, fact, message
from arco.flow.run.ports import Fact
from arco.flow.run.wire import CheckOutcome, Completed, InputMaterial, OutputDone, TaskStatus

Status = Literal["SUCCESS", "FAILED", "SKIPPED", "BLOCKED", "CANCELLED"]

_NO_FAILURE = (TaskStatus.SUCCESS, TaskStatus.CANCELLED)

# Metrics of every attempt: its code, the parts of that, and how its columns differ from its tables.
CODE = "code_fingerprint"
CODE_PARTS = "code_parts"
COLUMN_CHANGES = "column_changes"
# A metric of a task that writes no table.
INPUTS = "input_fingerprint"
# A metric of a task that is tried again: a book that begins anew goes on counting from there.
FAILURES = "failed_attempts"

_LONGEST_TEXT = 4_000
_MOST_KEYS = 10_000


@dataclass(frozen=True)
class Written:
    """A table that an attempt was to write, as far as it is known; `table_id` None: it was not there."""

    table: str
    table_id: str | None
    partition: str

    def where(self) -> Where:
        """As events name it."""
        if self.table_id is None:
            return Where(partition_key=self.partition)
        return Where(table_id=self.table_id, partition_key=self.partition)


@dataclass(frozen=True)
class Ended:
    """An attempt that is over, what it was given, and what its end means for the task."""

    attempt: OfAttempt
    completed: Completed
    status: TaskStatus
    error: str | None
    inputs: tuple[InputMaterial, ...] | None  # None: nobody knows them any more
    written: tuple[Written, ...]
    stands: tuple[Written, ...] = ()  # outputs that were published before, and not by it
    failures: int = 0  # attempts at the task that ended badly, if there will be another

    def facts(self) -> Iterator[Fact]:
        """All that is told of it."""
        yield from self._checks()
        yield from self._lineage()
        yield from self._partitions()
        if self.status is TaskStatus.SUCCESS:
            yield from standing(self.attempt, self.stands, self.completed.completed_at_ms)
        yield from self._profiles()
        yield self._task()

    def publications(self) -> Iterator[Fact]:
        """Of an attempt that has lost its task: what it has published all the same."""
        yield from self._partitions(failed=False)

    def _checks(self) -> Iterator[Fact]:
        of = self.attempt
        for check in self.completed.outcome.checks:
            if check.table_id is None:
                continue
            payload, name = self._check(check, check.table_id)
            yield fact(name, self._check_key(check), of.run_id, payload)

    def _check_key(self, check: CheckOutcome) -> str:
        """Two outputs may have checks of the same name: those of the first have the name alone."""
        key = f"qc:{self.attempt.attempt_id}:{check.name}"
        places = [number for number, each in enumerate(self.written) if each.table == check.table]
        return f"{key}:{places[0]}" if places and places[0] else key

    def _check(
        self, check: CheckOutcome, table_id: str
    ) -> tuple[QualityCheckPassed | QualityCheckFailed, str]:
        kind = QualityCheckPassed if check.passed else QualityCheckFailed
        blocks = check.severity == "error"
        found = kind(
            table_id=table_id,
            partition_key=self._partition_of(check.table),
            check_name=check.name,
            check_type=check.type,
            severity=check.severity,
            blocking=blocks,
            expected_value=_text(check.expected),
            actual_value=_text(check.actual),
            message=message(check.message),
            execution_id=self.attempt.run_id,
            task_id=self.attempt.key,
            checked_at=utc(self.completed.completed_at_ms),
        )
        if isinstance(found, QualityCheckFailed):
            warned = found if blocks else msgspec.structs.replace(found, status="WARNING")
            return warned, "quality_check_failed"
        return found, "quality_check_passed"

    def _lineage(self) -> Iterator[Fact]:
        of = self.attempt
        for number, seen in enumerate(self.completed.outcome.lineage):
            told = msgspec.structs.replace(
                seen,
                execution_id=of.run_id,
                task_id=of.key,
                attempt_id=of.attempt_id,
                pipeline_id=seen.pipeline_id or of.names["task_name"],
            )
            yield fact("lineage_observed", f"lin:{of.attempt_id}:{number}", of.run_id, told)

    def _partitions(self, *, failed: bool = True) -> Iterator[Fact]:
        """Of each output that was published, and, if the attempt failed, of all others.

        One that was cancelled leaves its partitions as they were.
        """
        outputs = {(each.table, each.partition): each for each in self.completed.outcome.outputs}
        ids = {(each.table, each.partition): each.table_id for each in self.written}
        there = {each.table for each in self.stands}
        for number, at in enumerate(dict.fromkeys([*ids, *outputs])):
            done = outputs.get(at)
            table_id = (done.table_id if done is not None else None) or ids.get(at)
            if table_id is None:
                continue
            if done is not None and done.version is not None:
                yield self._made(number, done, table_id, done.version)
            elif failed and self.status not in _NO_FAILURE and at[0] not in there:
                yield self._bad(number, table_id, at[1])

    def _made(self, number: int, done: OutputDone, table_id: str, version: int) -> Fact:
        said, of = self.completed, self.attempt
        code = said.outcome.code_fingerprint
        payload = PartitionCompleted(
            table_id=table_id,
            partition_key=done.partition,
            row_count=done.rows,
            size_bytes=done.bytes,
            duration_ms=_span(said),
            version=version,
            materialization_id=of.attempt_id,
            input_fingerprint=fingerprint_of(code, self.inputs),
            code_fingerprint=code,
            execution_id=of.run_id,
            task_id=of.key,
            attempt=of.attempt,
            completed_at=utc(said.completed_at_ms),
        )
        return fact("partition_completed", part_key(of, number), of.run_id, payload)

    def _bad(self, number: int, table_id: str, partition: str) -> Fact:
        of = self.attempt
        payload = PartitionFailed(
            table_id=table_id,
            partition_key=partition,
            error=message(self.error),
            execution_id=of.run_id,
            task_id=of.key,
            attempt=of.attempt,
        )
        return fact("partition_failed", part_key(of, number), of.run_id, payload)

    def _profiles(self) -> Iterator[Fact]:
        for number, done in enumerate(self.completed.outcome.outputs):
            if done.version is None or done.table_id is None:
                continue
            if done.table_rows is None and done.table_bytes is None and not done.columns:
                continue
            payload = TableProfiled(
                table_id=done.table_id,
                version=done.version,
                snapshot_id=done.snapshot_id,
                row_count=done.table_rows,
                size_bytes=done.table_bytes,
                last_modified_at=utc(self.completed.completed_at_ms),
                columns=done.columns,
            )
            key = f"prof:{self.attempt.attempt_id}:{number}"
            yield fact("table_profiled", key, self.attempt.run_id, payload)

    def _task(self) -> Fact:
        said, of = self.completed, self.attempt
        outcome = said.outcome
        outputs = outcome.outputs
        inputs = self.inputs or ()
        versions = [each.version for each in outputs if each.version is not None]
        payload = TaskCompleted(
            **of.names,
            **self._where(),
            status=cast("Status", self.status.value),
            published_version=versions[0] if versions else None,
            worker=said.worker,
            started_at=utc(said.started_at_ms),
            completed_at=utc(said.completed_at_ms),
            duration_ms=_span(said),
            error_message=message(self.error),
            input_tables=tuple(each.table_id for each in inputs if each.table_id) or None,
            output_tables=tuple(each.table_id for each in outputs if each.table_id) or None,
            input_partitions=_few([key for each in inputs for key in each.partitions]),
            output_partitions=_few([each.partition for each in outputs]),
            rows_read=outcome.rows_read,
            rows_written=total([each.rows for each in outputs if each.version is not None]),
            bytes_read=outcome.bytes_read,
            bytes_written=total([each.bytes for each in outputs if each.version is not None]),
            metrics={**outcome.metrics, **self._code(), **self._made_of(), **self._failures()}
            or None,
        )
        return fact("task_completed", f"done:{of.attempt_id}", of.run_id, payload)

    def _failures(self) -> dict[str, int]:
        return {FAILURES: self.failures} if self.failures else {}

    def _where(self) -> Where:
        """The output that the end of the task is about: of a bad end none that was published."""
        outputs = self.completed.outcome.outputs
        if self.status is TaskStatus.SUCCESS:
            if outputs and outputs[0].table_id is not None:
                return Where(table_id=outputs[0].table_id, partition_key=outputs[0].partition)
            return self.written[0].where() if self.written else Where()
        there = {each.table for each in outputs if each.version is not None}
        return first_missing(self.written, there | {each.table for each in self.stands})

    def _made_of(self) -> dict[str, str]:
        """Where no partition can say which code and data it is made of, the task itself does."""
        code = self.completed.outcome.code_fingerprint
        made_of = fingerprint_of(code, self.inputs)
        if made_of is None or self.written:
            return {}
        return {INPUTS: made_of} if self.status is TaskStatus.SUCCESS else {}

    def _code(self) -> dict[str, str]:
        """Which code ran, in which parts, and how its columns differ from those of its tables."""
        outcome = self.completed.outcome
        found = {} if outcome.code_fingerprint is None else {CODE: outcome.code_fingerprint}
        for name, value in (
            (CODE_PARTS, outcome.code_parts),
            (COLUMN_CHANGES, outcome.column_changes),
        ):
            text = msgspec.json.encode(value, order="deterministic").decode()
            if value and len(text) <= _LONGEST_TEXT:  # more than an event may say is left out
                found[name] = text
        return found

    def _partition_of(self, table: str) -> str | None:
        return next((each.partition for each in self.written if each.table == table), None)


def failures_of(metrics: Iterable[tuple[str, str]] | None) -> int:
    """How many attempts at a task ended badly, as the metrics of the last that was heard of say."""
    said = dict(metrics or ()).get(FAILURES, "")
    return int(said) if said.isascii() and said.isdigit() else 0


def first_missing(written: Sequence[Written], there: Collection[str]) -> Where:
    """The first output that was not published, for an event that calls it bad; nothing if all were."""
    return next((each.where() for each in written if each.table not in there), Where())


def standing(of: OfAttempt, stands: Sequence[Written], at_ms: int) -> Iterator[Fact]:
    """Outputs of a task that is done now, which were published before: their data are those of before."""
    for number, each in enumerate(stands):
        if each.table_id is not None:
            payload = PartitionCompleted(
                table_id=each.table_id,
                partition_key=each.partition,
                version=None,
                execution_id=of.run_id,
                task_id=of.key,
                attempt=of.attempt,
                completed_at=utc(at_ms),
            )
            key = f"stands:{of.attempt_id}:{number}"
            yield fact("partition_completed", key, of.run_id, payload)


def is_all_published(completed: Completed) -> bool:
    """Whether an attempt was a success that readers see, with all of its outputs."""
    outputs = completed.outcome.outputs
    return (
        completed.outcome.status is TaskStatus.SUCCESS
        and bool(outputs)
        and all(each.version is not None for each in outputs)
    )


def published_outputs(completed: Completed) -> int:
    """How many of its outputs an attempt says that it has published."""
    return sum(each.version is not None for each in completed.outcome.outputs)


def total(figures: Sequence[int | None]) -> int | None:
    """The sum of what is known; None if nothing is."""
    known = [each for each in figures if each is not None]
    return sum(known) if known else None


def fingerprint_of(code: str | None, inputs: Sequence[InputMaterial] | None) -> str | None:
    """What is recorded of the code and the data that a partition is made of; None if it is not known."""
    if code is None or inputs is None:
        return None
    return input_fingerprint(code, [(each.table_id or each.table, each.digest) for each in inputs])


def part_key(of: OfAttempt, number: int) -> str:
    """The key of what is told of an output: the first has the attempt's own."""
    return f"part:{of.attempt_id}:{number}" if number else f"part:{of.attempt_id}"


def _span(said: Completed) -> int:
    return max(0, said.completed_at_ms - said.started_at_ms)


def _text(text: str | None) -> str | None:
    return None if text is None else text.replace("\0", "")[:_LONGEST_TEXT]


def _few(keys: list[str]) -> tuple[str, ...] | None:
    """Keys as far as an event may name them; which they were all is known from the plan."""
    return tuple(keys[:_MOST_KEYS]) or None
