"""The state of one run: a machine without any way to the world, moved by facts that are durable.

Whoever moves it asks first what follows from something (`retry_after`, `doomed`, `verdict`), tells the
ledger, and only then moves it. A task is ready when the last of its edges is satisfied; nobody scans for
it. What stops a task for good stops all that wait for it: BLOCKED if it was a check, SKIPPED otherwise.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from msgspec import structs

from arco.core.rng import Rng
from arco.flow.plan.plan import Maker, Plan
from arco.flow.run.ports import StoredTask
from arco.flow.run.task_state import (
    AT_WORK,
    ENDED,
    Ending,
    TaskState,
    most_attempts,
    pause_ms,
)
from arco.flow.run.wire import CheckOutcome, Progress, RunStatus, TaskStatus, TaskView

_SHOWN_CHARS = 500


@dataclass(frozen=True)
class Doomed:
    """A task that has not begun and must not any more."""

    key: str
    status: TaskStatus
    why: str


class RunState:
    """All tasks of a run. Methods that move it return the keys of tasks that have become ready."""

    def __init__(self, plan: Plan) -> None:
        makers = {maker.name: maker for maker in plan.makers}
        self.tasks = {
            task.key: TaskState(task, makers[task.maker], place, set(task.deps))
            for place, task in enumerate(plan.tasks)
        }
        self.status = RunStatus.RUNNING
        self.error: str | None = None
        self.completed_at_ms: int | None = None
        self.is_cancelled = False
        self.abandoned: str | None = None  # why nobody goes on with it, if nobody does
        self.number = 1
        self._waiting: dict[str, list[str]] = {}
        for task in plan.tasks:
            for dep in task.deps:
                self._waiting.setdefault(dep, []).append(task.key)
        self._open = len(self.tasks)
        self._counts = Counter({TaskStatus.PENDING: self._open}) if self._open else Counter()
        self._changed = OrderedDict.fromkeys(self.tasks)  # the last changed last
        self._fallen: dict[str, None] = {}  # ended badly, and those behind them not yet told

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more may begin."""
        return self.is_cancelled or self.abandoned is not None or self.is_over

    @property
    def is_over(self) -> bool:
        """Whether its end was told."""
        return self.status.is_over

    @property
    def is_done(self) -> bool:
        """Whether all its tasks have ended."""
        return not self._open

    @property
    def has_fallen(self) -> bool:
        """Whether there may be tasks behind one that ended badly."""
        return bool(self._fallen)

    def retry_after(self, key: str, *, lost: bool, rng: Rng) -> float | None:
        """How long after the end of its newest attempt a task is tried again; None if it is not."""
        task = self.tasks[key]
        again = task.maker.retry
        if self.is_stopped or task.attempt >= most_attempts(again):
            return None
        if lost:
            return 0.0
        failures = task.failures + 1
        return None if failures > again.times else pause_ms(again, failures, rng)

    def doomed(self, keep: Callable[[str], bool]) -> list[Doomed]:
        """Tasks that will never begin, but for those that are to be kept as they begin right now."""
        if self.is_stopped:
            return [each for each in self._stopped() if not keep(each.key)]
        found: dict[str, Doomed] = {}
        todo = list(self._fallen)
        while todo:
            key = todo.pop()
            cause = found[key].status if key in found else self.tasks[key].status
            status = TaskStatus.BLOCKED if cause is TaskStatus.BLOCKED else TaskStatus.SKIPPED
            for behind in self._waiting.get(key, ()):
                if behind not in found and self.tasks[behind].status is TaskStatus.PENDING:
                    found[behind] = Doomed(behind, status, f"{key} was not made")
                    todo.append(behind)
        return [found[key] for key in sorted(found, key=lambda key: self.tasks[key].place)]

    def verdict(self) -> tuple[RunStatus, str | None]:
        """How a run ends whose tasks have all ended."""
        if self._counts[TaskStatus.SUCCESS] == len(self.tasks):
            return RunStatus.SUCCESS, None
        if self.is_cancelled:
            return RunStatus.CANCELLED, None
        if self.abandoned is not None:
            return RunStatus.FAILED, self.abandoned
        bad = [
            each
            for each in self.tasks.values()
            if each.status in (TaskStatus.FAILED, TaskStatus.BLOCKED, TaskStatus.CANCELLED)
        ]
        first = next((each for each in bad if each.ending.error), bad[0] if bad else None)
        if first is None:
            return RunStatus.FAILED, None
        what = "was blocked by a check" if first.status is TaskStatus.BLOCKED else "failed"
        said = f": {first.ending.error[:_SHOWN_CHARS]}" if first.ending.error else ""
        return RunStatus.FAILED, f"{first.key} {what}{said}"

    def counts(self) -> dict[str, int]:
        """How many tasks have which status."""
        return {status.value: self._counts[status] for status in TaskStatus if self._counts[status]}

    def changed_since(self, number: int) -> tuple[TaskView, ...]:
        """Tasks that changed after a number, the last changed first."""
        return tuple(self._views_since(number))

    def begin(self) -> list[str]:
        """The tasks that wait for nothing."""
        return self._ready(self.tasks)

    def restore(self, stored: Iterable[StoredTask]) -> None:
        """The tasks as the ledger knows them; to be called before anything else, and then `begin`."""
        for each in stored:
            task = self.tasks.get(each.key)
            if task is None or each.status in (TaskStatus.PENDING, TaskStatus.READY):
                continue
            waits = each.status is TaskStatus.RETRY_WAIT  # for the attempt that is named
            task.attempt = each.attempt - 1 if waits else each.attempt
            task.failures = each.failures
            task.worker = each.worker
            task.ending = Ending(
                each.status,
                each.error,
                each.started_at_ms,
                each.completed_at_ms,
                each.rows_written,
                _named(each, task.maker),
            )
            self._becomes(task, each.status)
            if each.status is TaskStatus.SUCCESS:
                for behind in self._waiting.get(each.key, ()):
                    self.tasks[behind].waits_for.discard(each.key)
            elif task.is_ended:
                self._fallen[each.key] = None

    def dispatched(self, key: str, attempt: int, worker: str, at_ms: int) -> None:
        """An attempt was given to a worker, which began with it."""
        task = self.tasks[key]
        task.attempt = max(task.attempt, attempt)
        task.worker, task.progress = worker, None
        task.ending = Ending(TaskStatus.RUNNING, started_at_ms=at_ms)
        self._becomes(task, TaskStatus.RUNNING)

    def progressed(self, key: str, progress: Progress) -> None:
        """A worker tells how far it is."""
        task = self.tasks[key]
        if task.status in AT_WORK and task.progress != progress:
            task.progress = progress
            self._touch(task)

    def put_off(self, key: str, *, failed: bool, error: str | None) -> None:
        """There will be another attempt, not yet."""
        task = self.tasks[key]
        task.failures += failed
        task.previous_error = error
        task.ending = replace(task.ending, error=error)
        self._becomes(task, TaskStatus.RETRY_WAIT)

    def due(self, key: str) -> list[str]:
        """The pause before another attempt is over."""
        task = self.tasks[key]
        if task.status is not TaskStatus.RETRY_WAIT:
            return []
        self._becomes(task, TaskStatus.READY)
        return [key]

    def ended(self, key: str, ending: Ending) -> list[str]:
        """A task ended. A success outranks every other end, which all stand for good."""
        task = self.tasks[key]
        if task.is_ended and ending.status is not TaskStatus.SUCCESS:
            return []
        if task.status is TaskStatus.SUCCESS:
            return []
        task.ending, task.progress = ending, None
        self._becomes(task, ending.status)
        if ending.status is not TaskStatus.SUCCESS:
            self._fallen[key] = None
            return []
        self._fallen.pop(key, None)
        behind = self._waiting.get(key, ())
        for each in behind:
            self.tasks[each].waits_for.discard(key)
        return self._ready(behind)

    def over(self, status: RunStatus, error: str | None, at_ms: int | None) -> None:
        """The end of the run was told."""
        self.status, self.error, self.completed_at_ms = status, error, at_ms
        self.number += 1

    def cancel(self) -> None:
        """It is to stop for good."""
        self.is_cancelled = True
        self.number += 1

    def abandon(self, why: str) -> None:
        """Nobody goes on with it."""
        self.abandoned = why
        self.number += 1

    def forget_fallen(self) -> None:
        """All that stands behind those that ended badly was told of."""
        self._fallen.clear()

    def _stopped(self) -> Iterator[Doomed]:
        for task in self.tasks.values():
            if task.is_ended or task.status in AT_WORK:
                continue
            if self.is_cancelled:
                yield Doomed(task.key, TaskStatus.CANCELLED, "the run was cancelled")
            else:
                yield Doomed(task.key, TaskStatus.SKIPPED, self.abandoned or "the run is over")

    def _ready(self, keys: Iterable[str]) -> list[str]:
        found = []
        for key in keys:
            task = self.tasks[key]
            if task.status is TaskStatus.PENDING and not task.waits_for:
                self._becomes(task, TaskStatus.READY)
                found.append(key)
        return found

    def _becomes(self, task: TaskState, status: TaskStatus) -> None:
        self._open += (task.status in ENDED) - (status in ENDED)
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


def _named(stored: StoredTask, maker: Maker) -> tuple[CheckOutcome, ...]:
    """The checks of a task with the names of their tables, as far as its outputs tell them."""
    if len(stored.outputs) != len(maker.targets):
        return stored.checks
    names = {
        table_id: target.table
        for table_id, target in zip(stored.outputs, maker.targets, strict=True)
    }
    return tuple(
        structs.replace(each, table=names.get(each.table, each.table)) for each in stored.checks
    )
