"""Why an attempt was stopped, and what that makes of its outcome.

What was published is the truth, whatever else happened: a success stays one.
"""

from enum import StrEnum

import msgspec

from arco.flow.duration import print_duration
from arco.flow.run.wire import LeasedTask, Outcome, TaskStatus


class Stop(StrEnum):
    """Why an attempt is to stop."""

    CANCELLED = "cancelled"  # somebody does not want it any more
    TIMED_OUT = "timed out"
    LOST = "lost"  # the task is somebody else's by now
    WORKER_STOPPED = "worker stopped"


def ended(task: LeasedTask, outcome: Outcome, stop: Stop | None) -> Outcome:
    """What to tell of an attempt that was perhaps stopped."""
    if stop is None or outcome.status is TaskStatus.SUCCESS:
        return outcome
    if stop is Stop.CANCELLED:
        return msgspec.structs.replace(outcome, status=TaskStatus.CANCELLED, may_retry=False)
    if stop is Stop.WORKER_STOPPED:  # nobody's fault: the book gives it to somebody else
        return msgspec.structs.replace(
            outcome, status=TaskStatus.CANCELLED, may_retry=True, error=_reason(task, stop)
        )
    return msgspec.structs.replace(outcome, status=TaskStatus.FAILED, error=_reason(task, stop))


def unfinished(task: LeasedTask, stop: Stop) -> Outcome:
    """The outcome of an attempt that would not stop in time, unless it turns out to have published."""
    return ended(task, Outcome(status=TaskStatus.CANCELLED), stop)


def broken(problem: Exception) -> Outcome:
    """The outcome of an attempt whose executor itself has failed."""
    said = f"{type(problem).__name__}: {problem}"
    return Outcome(status=TaskStatus.FAILED, error=f"the executor has failed: {said}")


def is_published(outcome: Outcome) -> bool:
    """Whether any of its data can be seen."""
    return any(each.version is not None for each in outcome.outputs)


def without_extras(outcome: Outcome) -> Outcome:
    """What matters of an outcome, for a book of runs that would not take all of it."""
    return msgspec.structs.replace(
        outcome,
        error=outcome.error and outcome.error[:4_000],
        code_parts={},
        column_changes=(),
        outputs=tuple(msgspec.structs.replace(each, columns=()) for each in outcome.outputs),
        checks=(),
        lineage=(),
        metrics={},
        warnings=(),
    )


def _reason(task: LeasedTask, stop: Stop) -> str:
    if stop is Stop.TIMED_OUT:
        return f"timed out after {print_duration(task.timeout_ms or 0)}"
    if stop is Stop.WORKER_STOPPED:
        return "the worker was stopped"
    return "the attempt has lost its lease"
