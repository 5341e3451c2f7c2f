"""The state machine of one run and its tasks; it performs no I/O and is driven by events that are durable.

The caller first asks what follows from something (`retry_delay`, `unstartable`, `final_status`), appends it
to the ledger, and only then changes the state. A task becomes ready with the last of its dependencies, so
nothing scans for ready tasks. A task that ends without success stops all that depend on it: they end as
BLOCKED after a failed check, and as SKIPPED otherwise.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256

from msgspec import structs

from arco.core.runtime import Rng
from arco.flow.coordinator.messages import CheckOutcome, Progress, RunStatus, TaskStatus, TaskView
from arco.flow.coordinator.ports import StoredTask
from arco.flow.plan.plan import Maker, Plan, PlannedTask, RetryPolicy

ENDED_STATUSES = frozenset(
    {
        TaskStatus.SUCCESS,
        TaskStatus.FAILED,
        TaskStatus.SKIPPED,
        TaskStatus.BLOCKED,
        TaskStatus.CANCELLED,
    }
)
ACTIVE_STATUSES = frozenset({TaskStatus.DISPATCHED, TaskStatus.RUNNING})

_MAX_LOST_ATTEMPTS = 3  # allowed in addition to the retries of a task
_ATTEMPT_ID_CHARS = 32
_ERROR_CHARS = 500


def attempt_id_of(run_id: str, key: str, attempt: int) -> str:
    """The id of an attempt, a function of its run, task and number."""
    return sha256(f"{run_id}/{key}/{attempt}".encode()).hexdigest()[:_ATTEMPT_ID_CHARS]


def attempt_ids_of(run_id: str, key: str, count: int) -> Iterator[str]:
    """The ids of the first attempts at a task."""
    return (attempt_id_of(run_id, key, attempt) for attempt in range(1, count + 1))


def attempt_number(attempt_id: str, run_id: str, key: str, count: int) -> int | None:
    """The number of an attempt; None if it is none of the first `count` attempts at the task."""
    ids = enumerate(attempt_ids_of(run_id, key, count), 1)
    return next((number for number, each in ids if each == attempt_id), None)


def max_attempts(retry: RetryPolicy) -> int:
    """How many attempts a task may have, lost ones included."""
    return 1 + retry.times + _MAX_LOST_ATTEMPTS


def retry_delay_ms(retry: RetryPolicy, failures: int, rng: Rng) -> float:
    """The delay after failure number `failures`, counted from 1, by the user's retry policy.

    Not `core.backoff`: the user chooses the factor, and jitter goes both ways.
    """
    delay = retry.delay_ms * retry.factor ** (failures - 1)
    if retry.max_ms is not None:
        delay = min(delay, retry.max_ms)
    if retry.jitter:
        delay *= 1 + retry.jitter * (2 * rng.random() - 1)
    return max(delay, 0.0)


@dataclass(frozen=True)
class TaskResult:
    """The state of a task, or of its last attempt, as clients see it."""

    status: TaskStatus
    error: str | None = None
    started_at_ms: int | None = None
    completed_at_ms: int | None = None
    rows_written: int | None = None
    checks: tuple[CheckOutcome, ...] = ()
    warnings: tuple[str, ...] = ()
    note: str | None = None


@dataclass
class TaskState:
    """One task. `waits_for` has the dependencies that have not succeeded yet."""

    task: PlannedTask
    maker: Maker
    index: int  # in the plan, which orders ready tasks
    waits_for: set[str]
    status: TaskStatus = TaskStatus.PENDING
    attempt: int = 0  # the newest that was dispatched
    failures: int = 0  # failed attempts, without lost ones
    number: int = 1  # of the run's last change that concerns it
    worker: str | None = None
    progress: Progress | None = None
    previous_error: str | None = None  # of the attempt before the one that is retried
    result: TaskResult = field(default=TaskResult(TaskStatus.PENDING))
    # Attempts whose workers have reported, and how many outputs they had published by then.
    reported: dict[int, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return self.task.key

    @property
    def is_ended(self) -> bool:
        return self.status in ENDED_STATUSES

    def view(self) -> TaskView:
        """The task as clients see it."""
        result = self.result
        return TaskView(
            key=self.task.key,
            status=self.status,
            attempt=self.attempt,
            reason=self.task.reason.value,
            worker=self.worker,
            progress=self.progress,
            started_at_ms=result.started_at_ms,
            completed_at_ms=result.completed_at_ms,
            rows_written=result.rows_written,
            error=result.error,
            checks=result.checks,
            warnings=result.warnings,
            note=result.note,
            previous_error=self.previous_error,
        )


@dataclass(frozen=True)
class UnstartableTask:
    """A task that has not started and must not start any more."""

    key: str
    status: TaskStatus
    reason: str


class RunState:
    """All tasks of a run. Methods that change it return the keys of tasks that became ready."""

    def __init__(self, plan: Plan) -> None:
        makers = {maker.name: maker for maker in plan.makers}
        self.tasks = {
            task.key: TaskState(task, makers[task.maker], index, set(task.deps))
            for index, task in enumerate(plan.tasks)
        }
        self.status = RunStatus.RUNNING
        self.error: str | None = None
        self.completed_at_ms: int | None = None
        self.is_cancelled = False
        self.abandoned: str | None = None  # why the run was given up, if it was
        self.number = 1
        self._downstream: dict[str, list[str]] = {}
        for task in plan.tasks:
            for dep in task.deps:
                self._downstream.setdefault(dep, []).append(task.key)
        self._open = len(self.tasks)
        self._counts = Counter({TaskStatus.PENDING: self._open}) if self._open else Counter()
        self._changed = OrderedDict.fromkeys(self.tasks)  # in the order of their last changes
        self._failed: dict[str, None] = {}  # tasks whose downstream tasks have not been ended yet

    @property
    def is_stopped(self) -> bool:
        """Whether no more tasks may start."""
        return self.is_cancelled or self.abandoned is not None or self.is_over

    @property
    def is_over(self) -> bool:
        """Whether the end of the run is recorded."""
        return self.status.is_over

    @property
    def is_done(self) -> bool:
        """Whether all its tasks have ended."""
        return not self._open

    @property
    def has_failed(self) -> bool:
        """Whether there may be tasks downstream of one that did not succeed."""
        return bool(self._failed)

    def retry_delay(self, key: str, *, lost: bool, rng: Rng) -> float | None:
        """The delay before a task is retried after its newest attempt ended; None if it is not."""
        task = self.tasks[key]
        retry = task.maker.retry
        if self.is_stopped or task.attempt >= max_attempts(retry):
            return None
        if lost:
            return 0.0
        failures = task.failures + 1
        return None if failures > retry.times else retry_delay_ms(retry, failures, rng)

    def unstartable(self, keep: Callable[[str], bool]) -> list[UnstartableTask]:
        """Tasks that will never start, without those to keep because they are being dispatched."""
        if self.is_stopped:
            return [each for each in self._stopped() if not keep(each.key)]
        unstartable: dict[str, UnstartableTask] = {}
        todo = list(self._failed)
        while todo:
            key = todo.pop()
            cause = unstartable[key].status if key in unstartable else self.tasks[key].status
            status = TaskStatus.BLOCKED if cause is TaskStatus.BLOCKED else TaskStatus.SKIPPED
            for downstream in self._downstream.get(key, ()):
                is_pending = self.tasks[downstream].status is TaskStatus.PENDING
                if downstream not in unstartable and is_pending:
                    unstartable[downstream] = UnstartableTask(
                        downstream, status, f"{key} was not made"
                    )
                    todo.append(downstream)
        return [
            unstartable[key] for key in sorted(unstartable, key=lambda key: self.tasks[key].index)
        ]

    def final_status(self) -> tuple[RunStatus, str | None]:
        """The status and error of a run whose tasks have all ended."""
        if self._counts[TaskStatus.SUCCESS] == len(self.tasks):
            return RunStatus.SUCCESS, None
        if self.is_cancelled:
            return RunStatus.CANCELLED, None
        if self.abandoned is not None:
            return RunStatus.FAILED, self.abandoned
        failed = [
            each
            for each in self.tasks.values()
            if each.status in (TaskStatus.FAILED, TaskStatus.BLOCKED, TaskStatus.CANCELLED)
        ]
        first = next((each for each in failed if each.result.error), failed[0] if failed else None)
        if first is None:
            return RunStatus.FAILED, None
        what = "was blocked by a check" if first.status is TaskStatus.BLOCKED else "failed"
        detail = f": {first.result.error[:_ERROR_CHARS]}" if first.result.error else ""
        return RunStatus.FAILED, f"{first.key} {what}{detail}"

    def counts(self) -> dict[str, int]:
        """How many tasks have which status."""
        return {status.value: self._counts[status] for status in TaskStatus if self._counts[status]}

    def changed_since(self, number: int) -> tuple[TaskView, ...]:
        """Tasks that changed after a number, the last changed first."""
        return tuple(self._views_since(number))

    def start(self) -> list[str]:
        """Make the tasks without dependencies ready."""
        return self._make_ready(self.tasks)

    def restore(self, stored: Iterable[StoredTask]) -> None:
        """Take over the tasks as the ledger has them; call it first, and then `start`."""
        for stored_task in stored:
            task = self.tasks.get(stored_task.key)
            if task is None or stored_task.status in (TaskStatus.PENDING, TaskStatus.READY):
                continue
            waits = stored_task.status is TaskStatus.RETRY_WAIT  # the ledger names the next attempt
            task.attempt = stored_task.attempt - 1 if waits else stored_task.attempt
            task.failures = stored_task.failures
            task.worker = stored_task.worker
            task.result = TaskResult(
                stored_task.status,
                stored_task.error,
                stored_task.started_at_ms,
                stored_task.completed_at_ms,
                stored_task.rows_written,
                _checks_by_name(stored_task, task.maker),
            )
            self._set_status(task, stored_task.status)
            if stored_task.status is TaskStatus.SUCCESS:
                for downstream in self._downstream.get(stored_task.key, ()):
                    self.tasks[downstream].waits_for.discard(stored_task.key)
            elif task.is_ended:
                self._failed[stored_task.key] = None

    def dispatch(self, key: str, attempt: int, worker: str, at_ms: int) -> None:
        """An attempt was leased to a worker, which starts it."""
        task = self.tasks[key]
        task.attempt = max(task.attempt, attempt)
        task.worker, task.progress = worker, None
        task.result = TaskResult(TaskStatus.RUNNING, started_at_ms=at_ms)
        self._set_status(task, TaskStatus.RUNNING)

    def record_progress(self, key: str, progress: Progress) -> None:
        """A worker reported the progress of an attempt."""
        task = self.tasks[key]
        if task.status in ACTIVE_STATUSES and task.progress != progress:
            task.progress = progress
            self._touch(task)

    def schedule_retry(self, key: str, *, failed: bool, error: str | None) -> None:
        """There will be another attempt after a delay."""
        task = self.tasks[key]
        task.failures += failed
        task.previous_error = error
        task.result = replace(task.result, error=error)
        self._set_status(task, TaskStatus.RETRY_WAIT)

    def end_retry_wait(self, key: str) -> list[str]:
        """The delay before another attempt has passed."""
        task = self.tasks[key]
        if task.status is not TaskStatus.RETRY_WAIT:
            return []
        self._set_status(task, TaskStatus.READY)
        return [key]

    def end_task(self, key: str, result: TaskResult) -> list[str]:
        """A task ended. A success overrides any other end; nothing else changes an ended task."""
        task = self.tasks[key]
        if task.is_ended and result.status is not TaskStatus.SUCCESS:
            return []
        if task.status is TaskStatus.SUCCESS:
            return []
        task.result, task.progress = result, None
        self._set_status(task, result.status)
        if result.status is not TaskStatus.SUCCESS:
            self._failed[key] = None
            return []
        self._failed.pop(key, None)
        downstream = self._downstream.get(key, ())
        for each in downstream:
            self.tasks[each].waits_for.discard(key)
        return self._make_ready(downstream)

    def end_run(self, status: RunStatus, error: str | None, at_ms: int | None) -> None:
        """The end of the run is recorded."""
        self.status, self.error, self.completed_at_ms = status, error, at_ms
        self.number += 1

    def cancel(self) -> None:
        """Stop the run for good."""
        self.is_cancelled = True
        self.number += 1

    def abandon(self, reason: str) -> None:
        """Stop the run because its only worker is gone."""
        self.abandoned = reason
        self.number += 1

    def clear_failed(self) -> None:
        """All tasks downstream of those that did not succeed have been ended."""
        self._failed.clear()

    def _stopped(self) -> Iterator[UnstartableTask]:
        for task in self.tasks.values():
            if task.is_ended or task.status in ACTIVE_STATUSES:
                continue
            if self.is_cancelled:
                yield UnstartableTask(task.key, TaskStatus.CANCELLED, "the run was cancelled")
            else:
                reason = self.abandoned or "the run is over"
                yield UnstartableTask(task.key, TaskStatus.SKIPPED, reason)

    def _make_ready(self, keys: Iterable[str]) -> list[str]:
        ready = []
        for key in keys:
            task = self.tasks[key]
            if task.status is TaskStatus.PENDING and not task.waits_for:
                self._set_status(task, TaskStatus.READY)
                ready.append(key)
        return ready

    def _set_status(self, task: TaskState, status: TaskStatus) -> None:
        self._open += (task.status in ENDED_STATUSES) - (status in ENDED_STATUSES)
        self._counts[task.status] -= 1
        self._counts[status] += 1
        task.status = status
        self._touch(task)

    def _touch(self, task: TaskState) -> None:
        self.number += 1
        task.number = self.number
        self._changed.move_to_end(task.key)

    def _views_since(self, number: int) -> Iterator[TaskView]:
        for key in reversed(self._changed):
            task = self.tasks[key]
            if task.number <= number:
                return
            yield task.view()


def _checks_by_name(stored: StoredTask, maker: Maker) -> tuple[CheckOutcome, ...]:
    """The checks of a task with the names of their tables, if its outputs identify them."""
    if len(stored.outputs) != len(maker.targets):
        return stored.checks
    names = {
        table_id: target.table
        for table_id, target in zip(stored.outputs, maker.targets, strict=True)
    }
    return tuple(
        structs.replace(each, table=names.get(each.table, each.table)) for each in stored.checks
    )
