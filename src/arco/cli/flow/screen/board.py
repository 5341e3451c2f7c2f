"""The board: how all tasks of a run stand, kept up to date by what the book of runs tells."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from arco.flow.coordinator.messages import CheckOutcome, Progress, RunView, TaskStatus, TaskView
from arco.flow.coordinator.run_state import ACTIVE_STATUSES, ENDED_STATUSES
from arco.flow.plan.plan import Plan, PlannedTask

ORDER = (
    TaskStatus.SUCCESS,
    TaskStatus.RUNNING,
    TaskStatus.DISPATCHED,
    TaskStatus.READY,
    TaskStatus.PENDING,
    TaskStatus.RETRY_WAIT,
    TaskStatus.FAILED,
    TaskStatus.BLOCKED,
    TaskStatus.SKIPPED,
    TaskStatus.CANCELLED,
)


@dataclass(frozen=True)
class Step:
    """A task that has changed: how it stood, and how it stands."""

    task: PlannedTask
    before: TaskView | None
    now: TaskView


@dataclass
class Board:
    """One run."""

    plan: Plan
    run: RunView | None = None
    views: dict[str, TaskView] = field(default_factory=dict)
    heard: dict[str, Progress] = field(default_factory=dict)  # of tasks in this very process

    def __post_init__(self) -> None:
        self._planned = {task.key: task for task in self.plan.tasks}

    def take(self, view: RunView) -> list[Step]:
        """Note what was told, and say what is new."""
        steps = [
            Step(self._planned[each.key], self.views.get(each.key), each)
            for each in view.changed
            if each.key in self._planned
        ]
        self.views.update({step.now.key: step.now for step in steps})
        self.run = view
        return steps

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.run is not None and self.run.status.is_over

    def counts(self) -> dict[TaskStatus, int]:
        """How many tasks stand how, in the order in which people want to know."""
        found = Counter(self.status(task.key) for task in self.plan.tasks)
        return {status: found[status] for status in ORDER if found[status]}

    def status(self, key: str) -> TaskStatus:
        """How a task stands; one that nothing was told of waits."""
        view = self.views.get(key)
        return TaskStatus.PENDING if view is None else view.status

    def in_work(self) -> list[TaskView]:
        """The tasks that somebody works on, the oldest first."""
        found = (each for each in self.views.values() if each.status in ACTIVE_STATUSES)
        return sorted(found, key=lambda each: (each.started_at_ms or 0, each.key))

    def progress(self, view: TaskView) -> Progress | None:
        """How far a task is, by whoever knows best."""
        return self.heard.get(view.key) or view.progress

    def ended(self) -> int:
        """How many tasks nothing more will happen to."""
        return sum(each.status in ENDED_STATUSES for each in self.views.values())

    def of(self, maker: str) -> Iterator[tuple[PlannedTask, TaskView]]:
        """The tasks of an asset or task of the project that something is known of."""
        for task in self.plan.tasks:
            if task.maker == maker and task.key in self.views:
                yield task, self.views[task.key]


def took_ms(view: TaskView) -> int | None:
    """How long the last attempt at a task took."""
    if view.started_at_ms is None or view.completed_at_ms is None:
        return None
    return max(0, view.completed_at_ms - view.started_at_ms)


def failed_checks(view: TaskView) -> list[CheckOutcome]:
    """The checks that found something, those that block first."""
    failed = [each for each in view.checks if not each.passed]
    return sorted(failed, key=lambda each: each.severity != "error")


def is_own_block(view: TaskView) -> bool:
    """Whether a blocked task was stopped by a check of its own, and not by that of another."""
    return any(each.severity == "error" for each in failed_checks(view))
