"""Outcomes of attempts: how a stop changes them, and how they are made fit for JSON.

What was published is the truth whatever else happened: a success stays one. Texts and numbers of user
code may not fit into JSON, such as file names that are not UTF-8 and numbers of numpy or pandas.
"""

from enum import StrEnum
from math import isfinite
from numbers import Integral
from typing import SupportsFloat

import msgspec

from arco.core import json
from arco.core.duration import print_duration
from arco.flow.coordinator.messages import AttemptOutcome, LeasedTask, TaskStatus


class StopReason(StrEnum):
    """Why an attempt is stopped."""

    CANCELLED = "cancelled"
    TIMED_OUT = "timed out"
    LOST = "lost"  # its lease expired, or another worker has the task
    WORKER_STOPPED = "worker stopped"


def stopped_outcome(
    task: LeasedTask, outcome: AttemptOutcome, stop: StopReason | None
) -> AttemptOutcome:
    """The outcome to report for an attempt that may have been stopped."""
    if stop is None or outcome.status is TaskStatus.SUCCESS:
        return outcome
    if stop is StopReason.CANCELLED:
        return msgspec.structs.replace(outcome, status=TaskStatus.CANCELLED, may_retry=False)
    if stop is StopReason.WORKER_STOPPED:  # the coordinator gives the task to another worker
        return msgspec.structs.replace(
            outcome, status=TaskStatus.CANCELLED, may_retry=True, error="the worker was stopped"
        )
    error = "the attempt has lost its lease"
    if stop is StopReason.TIMED_OUT:
        error = f"timed out after {print_duration(task.timeout_ms or 0)}"
    return msgspec.structs.replace(outcome, status=TaskStatus.FAILED, error=error)


def abandoned_outcome(task: LeasedTask, stop: StopReason) -> AttemptOutcome:
    """The outcome of an attempt that did not stop in time, unless it publishes later."""
    return stopped_outcome(task, AttemptOutcome(status=TaskStatus.CANCELLED), stop)


def executor_failure(error: Exception) -> AttemptOutcome:
    """The outcome of an attempt whose executor raised."""
    return AttemptOutcome(
        status=TaskStatus.FAILED,
        error=f"the executor has failed: {type(error).__name__}: {error}",
    )


def has_published(outcome: AttemptOutcome) -> bool:
    """Whether any output was published."""
    return any(each.version is not None for each in outcome.outputs)


def essential_outcome(outcome: AttemptOutcome) -> AttemptOutcome:
    """The outcome without what is optional, for a coordinator that rejected all of it."""
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


def escape_text(text: str) -> str:
    """The text with escapes for what UTF-8 cannot encode."""
    return text.encode(errors="backslashreplace").decode()


def to_number(value: SupportsFloat) -> float:
    """The value as an int or float of Python; `ValueError` if it is no number."""
    if isinstance(value, Integral):
        return int(value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{value!r} is no number") from error


def to_metric(value: SupportsFloat) -> float | str:
    """A number that JSON can encode; others, such as nan, as their names."""
    number = to_number(value)
    return number if isinstance(number, int) or isfinite(number) else str(number)


def escape_outcome(outcome: AttemptOutcome) -> AttemptOutcome:
    """The outcome with all its texts escaped, if any needs it."""
    try:
        json.encode(outcome)
    except UnicodeEncodeError:
        return msgspec.convert(_escape(msgspec.to_builtins(outcome)), AttemptOutcome)
    return outcome


def _escape(value: object) -> object:
    match value:
        case str():
            return escape_text(value)
        case dict():
            return {_escape(name): _escape(each) for name, each in value.items()}
        case list() | tuple():
            return [_escape(each) for each in value]
    return value
