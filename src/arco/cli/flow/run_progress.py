"""The progress of a run: the status of all its tasks, and a line for each change.

The lines are printed where stdout is no terminal; `run_screen` draws the progress on one.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

from arco.cli.flow.text_format import count_of, first_line, format_duration
from arco.cli.rendering import one_line
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
class TaskChange:
    """A task that has changed: as it was, and as it is."""

    task: PlannedTask
    before: TaskView | None
    after: TaskView


@dataclass
class RunProgress:
    """One run."""

    plan: Plan
    run: RunView | None = None
    views: dict[str, TaskView] = field(default_factory=dict)
    local: dict[str, Progress] = field(default_factory=dict)  # of tasks of this process

    def __post_init__(self) -> None:
        self._planned = {task.key: task for task in self.plan.tasks}

    def update(self, view: RunView) -> list[TaskChange]:
        """Apply what the coordinator answered; the tasks that changed."""
        changes = [
            TaskChange(self._planned[each.key], self.views.get(each.key), each)
            for each in view.changed
            if each.key in self._planned
        ]
        self.views.update({change.after.key: change.after for change in changes})
        self.run = view
        return changes

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.run is not None and self.run.status.is_over

    def counts(self) -> dict[TaskStatus, int]:
        """How many tasks have which status, in the order in which they are shown."""
        counted = Counter(self.status(task.key) for task in self.plan.tasks)
        return {status: counted[status] for status in ORDER if counted[status]}

    def status(self, key: str) -> TaskStatus:
        """The status of a task; one that the coordinator has not sent yet is pending."""
        view = self.views.get(key)
        return TaskStatus.PENDING if view is None else view.status

    def running(self) -> list[TaskView]:
        """The tasks that a worker works on, the oldest first."""
        running = (each for each in self.views.values() if each.status in ACTIVE_STATUSES)
        return sorted(running, key=lambda each: (each.started_at_ms or 0, each.key))

    def progress(self, view: TaskView) -> Progress | None:
        """The progress of a task, the newest that is known."""
        return self.local.get(view.key) or view.progress

    def ended(self) -> int:
        """How many tasks have ended."""
        return sum(each.status in ENDED_STATUSES for each in self.views.values())

    def tasks_of(self, maker: str) -> Iterator[tuple[PlannedTask, TaskView]]:
        """The tasks of an asset that the coordinator has sent, as planned and as they are."""
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
    """Whether a blocked task was stopped by its own check, not by that of a table it reads."""
    return any(each.severity == "error" for each in failed_checks(view))


_WORDS = {
    TaskStatus.SUCCESS: "done",
    TaskStatus.FAILED: "FAILED",
    TaskStatus.BLOCKED: "BLOCKED",
    TaskStatus.SKIPPED: "skipped",
    TaskStatus.CANCELLED: "cancelled",
    TaskStatus.RETRY_WAIT: "again",
}


class ProgressLines:
    """Prints a line when a task starts and when it ends."""

    def __init__(self, progress: RunProgress, print_line: Callable[[str], None]) -> None:
        self._progress = progress
        self._print = print_line

    def update(self, view: RunView) -> None:
        """Print what has changed."""
        for change in self._progress.update(view):
            for line in change_lines(change):
                self._print(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        """Nothing to close."""


def change_lines(change: TaskChange) -> list[str]:
    """The lines of a change: none, unless a task has started, ended, or waits for a retry."""
    before, after = change.before, change.after
    earlier_status = None if before is None else before.status
    if after.status == earlier_status and (before is None or before.attempt == after.attempt):
        return []
    if after.status in ACTIVE_STATUSES:
        if (
            earlier_status in ACTIVE_STATUSES
            and before is not None
            and before.attempt == after.attempt
        ):
            return []
        return [f"{'start':<9} {one_line(after.key)}  {_why_started(change)}".rstrip()]
    if after.status in ENDED_STATUSES or after.status is TaskStatus.RETRY_WAIT:
        ended = f"{_WORDS[after.status]:<9} {one_line(after.key)}  {outcome(after)}"
        return [ended.rstrip(), *_checks(after)]
    return []


def outcome(view: TaskView) -> str:
    """The outcome of a task, in a few words."""
    match view.status:
        case TaskStatus.SUCCESS:
            return ", ".join(_achieved(view))
        case TaskStatus.BLOCKED if is_own_block(view):
            return "nothing was published: a check failed"
        case TaskStatus.BLOCKED:
            return one_line(first_line(view.error)) or "a check of what it reads failed"
        case TaskStatus.SKIPPED:
            return one_line(first_line(view.error)) or "what it reads was not made"
        case TaskStatus.CANCELLED:
            return ""
    return one_line(first_line(view.error))


def check_line(check: CheckOutcome) -> str:
    """What a check found."""
    finding = check.message or ", ".join(_expected(check)) or "it did not hold"
    return one_line(f"{check.name}: {finding}")


def _achieved(view: TaskView) -> list[str]:
    parts = []
    if view.rows_written is not None:
        parts.append(count_of(view.rows_written, "row"))
    if view.checks:
        passed = sum(each.passed for each in view.checks)
        all_passed = passed == len(view.checks)
        checks = count_of(len(view.checks), "check")
        parts.append(f"{checks} passed" if all_passed else f"{passed} of {checks} passed")
    if (ms := took_ms(view)) is not None:
        parts.append(format_duration(ms))
    if view.note is not None:
        parts.append(one_line(view.note))
    return parts


def _why_started(change: TaskChange) -> str:
    attempt = change.after.attempt
    if attempt > 1:
        why = one_line(first_line(change.after.previous_error))
        return f"attempt {attempt}" + (f"; attempt {attempt - 1} failed: {why}" if why else "")
    return change.task.reason.lower()


def _checks(view: TaskView) -> list[str]:
    """The checks that block, then the warnings of the worker, which may have more than those of checks."""
    failed = failed_checks(view)
    warned = list(view.warnings) or [check_line(each) for each in failed if not _blocks(each)]
    return [f"{'':<9}   {check_line(each)}" for each in failed if _blocks(each)] + [
        f"{'warning':<9}   {one_line(each)}" for each in warned
    ]


def _blocks(check: CheckOutcome) -> bool:
    return check.severity == "error"


def _expected(check: CheckOutcome) -> list[str]:
    parts = [] if check.expected is None else [f"expected {check.expected}"]
    return parts if check.actual is None else [*parts, f"found {check.actual}"]
