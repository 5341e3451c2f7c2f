"""The state of one task of a run, and when a failed attempt at it is made again."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from arco.core.rng import Rng
from arco.flow.plan.plan import Maker, PlannedTask, RetryPolicy
from arco.flow.run.wire import CheckOutcome, Progress, TaskStatus, TaskView

ENDED = frozenset(
    {
        TaskStatus.SUCCESS,
        TaskStatus.FAILED,
        TaskStatus.SKIPPED,
        TaskStatus.BLOCKED,
        TaskStatus.CANCELLED,
    }
)
AT_WORK = frozenset({TaskStatus.DISPATCHED, TaskStatus.RUNNING})

LOSSES = 3  # how many attempts more than its retries a task may have, as workers may be lost

_ID_CHARS = 32


def attempt_id_of(run_id: str, key: str, attempt: int) -> str:
    """The id of an attempt, which anybody can work out."""
    return sha256(f"{run_id}/{key}/{attempt}".encode()).hexdigest()[:_ID_CHARS]


def attempt_ids_of(run_id: str, key: str, most: int) -> Iterator[str]:
    """The ids of the first so many attempts at a task."""
    return (attempt_id_of(run_id, key, attempt) for attempt in range(1, most + 1))


def attempt_of(attempt_id: str, run_id: str, key: str, most: int) -> int | None:
    """The number of an attempt at a task; None if it is none of the first so many."""
    ids = enumerate(attempt_ids_of(run_id, key, most), 1)
    return next((number for number, each in ids if each == attempt_id), None)


def most_attempts(retry: RetryPolicy) -> int:
    """How many attempts there may be in all, lost ones included."""
    return 1 + retry.times + LOSSES


def pause_ms(retry: RetryPolicy, failures: int, rng: Rng) -> float:
    """How long to wait after failure number `failures`, the first of which is 1."""
    pause = retry.delay_ms * retry.factor ** (failures - 1)
    if retry.max_ms is not None:
        pause = min(pause, retry.max_ms)
    if retry.jitter:
        pause *= 1 + retry.jitter * (2 * rng.random() - 1)
    return max(pause, 0.0)


@dataclass(frozen=True)
class Ending:
    """How a task or an attempt at it ended, as people see it."""

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
    """One task. `waits_for` has the edges that are not satisfied yet: facts, not a count of them."""

    task: PlannedTask
    maker: Maker
    place: int  # in the plan, whose order is the order of equals
    waits_for: set[str]
    status: TaskStatus = TaskStatus.PENDING
    attempt: int = 0  # the newest that was dispatched
    failures: int = 0  # attempts that ended badly; lost ones are not among them
    number: int = 1  # of the run's last change that concerns it
    worker: str | None = None
    progress: Progress | None = None
    previous_error: str | None = None  # of the attempt before the one that is made again
    ending: Ending = field(default=Ending(TaskStatus.PENDING))
    # Attempts whose end was told by their workers, and how many outputs they had published by then.
    closed: dict[int, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return self.task.key

    @property
    def is_ended(self) -> bool:
        return self.status in ENDED

    def view(self) -> TaskView:
        """As people see it."""
        end = self.ending
        return TaskView(
            key=self.task.key,
            status=self.status,
            attempt=self.attempt,
            reason=self.task.reason.value,
            worker=self.worker,
            progress=self.progress,
            started_at_ms=end.started_at_ms,
            completed_at_ms=end.completed_at_ms,
            rows_written=end.rows_written,
            error=end.error,
            checks=end.checks,
            warnings=end.warnings,
            note=end.note,
            previous_error=self.previous_error,
        )
