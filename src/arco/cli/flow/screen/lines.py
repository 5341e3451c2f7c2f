"""Progress where nobody watches a terminal: one line when a task starts and one when it ends."""

from collections.abc import Callable
from typing import Self

from arco.cli.flow.screen.board import (
    Board,
    Step,
    failed_checks,
    is_own_block,
    took_ms,
)
from arco.cli.flow.screen.words import counted, duration, first_line
from arco.cli.rendering import one_line
from arco.flow.run.task_state import AT_WORK, ENDED
from arco.flow.run.wire import CheckOutcome, RunView, TaskStatus, TaskView

_WORDS = {
    TaskStatus.SUCCESS: "done",
    TaskStatus.FAILED: "FAILED",
    TaskStatus.BLOCKED: "BLOCKED",
    TaskStatus.SKIPPED: "skipped",
    TaskStatus.CANCELLED: "cancelled",
    TaskStatus.RETRY_WAIT: "again",
}


class Lines:
    """Prints what happens as it happens."""

    def __init__(self, board: Board, say: Callable[[str], None]) -> None:
        self._board = board
        self._say = say

    def take(self, view: RunView) -> None:
        """Tell what is new."""
        for step in self._board.take(view):
            for line in lines_of(step):
                self._say(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        """Nothing is left to be put away."""


def lines_of(step: Step) -> list[str]:
    """What to say of a change: nothing, unless a task has started or ended, or waits for another try."""
    before, now = step.before, step.now
    was = None if before is None else before.status
    if now.status == was and (before is None or before.attempt == now.attempt):
        return []
    if now.status in AT_WORK:
        if was in AT_WORK and before is not None and before.attempt == now.attempt:
            return []
        return [f"{'start':<9} {one_line(now.key)}  {_why_started(step)}".rstrip()]
    if now.status in ENDED or now.status is TaskStatus.RETRY_WAIT:
        ended = f"{_WORDS[now.status]:<9} {one_line(now.key)}  {outcome(now)}"
        return [ended.rstrip(), *_checks(now)]
    return []


def outcome(view: TaskView) -> str:
    """How a task ended, in a few words."""
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


def check_line(found: CheckOutcome) -> str:
    """What a check found."""
    said = found.message or ", ".join(_expected(found)) or "it did not hold"
    return one_line(f"{found.name}: {said}")


def _achieved(view: TaskView) -> list[str]:
    said = []
    if view.rows_written is not None:
        said.append(counted(view.rows_written, "row"))
    if view.checks:
        passed = sum(each.passed for each in view.checks)
        all_passed = passed == len(view.checks)
        checks = counted(len(view.checks), "check")
        said.append(f"{checks} passed" if all_passed else f"{passed} of {checks} passed")
    if (ms := took_ms(view)) is not None:
        said.append(duration(ms))
    if view.note is not None:
        said.append(one_line(view.note))
    return said


def _why_started(step: Step) -> str:
    attempt = step.now.attempt
    if attempt > 1:
        why = one_line(first_line(step.now.previous_error))
        return f"attempt {attempt}" + (f"; attempt {attempt - 1} failed: {why}" if why else "")
    return step.task.reason.lower()


def _checks(view: TaskView) -> list[str]:
    """The checks that block, then the warnings: by the words of the worker, who knows of others too."""
    failed = failed_checks(view)
    warned = list(view.warnings) or [check_line(each) for each in failed if not _blocks(each)]
    return [f"{'':<9}   {check_line(each)}" for each in failed if _blocks(each)] + [
        f"{'warning':<9}   {one_line(each)}" for each in warned
    ]


def _blocks(found: CheckOutcome) -> bool:
    return found.severity == "error"


def _expected(found: CheckOutcome) -> list[str]:
    said = [] if found.expected is None else [f"expected {found.expected}"]
    return said if found.actual is None else [*said, f"found {found.actual}"]
