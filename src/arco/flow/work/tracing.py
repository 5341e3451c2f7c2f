"""Spans of attempts, through the API of OpenTelemetry alone: without its SDK they go nowhere.

A span lasts from the moment a worker has a task until the book of runs has its end. It is current in the
thread that carries the task out, so that whatever the task traces by itself stands below it. It carries no
words of an error, which may hold data.
"""

from contextlib import AbstractContextManager

from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode

from arco.flow.run.wire import LeasedTask, TaskStatus

_GOOD = frozenset({TaskStatus.SUCCESS, TaskStatus.CANCELLED})


class Tracing:
    """The spans of one worker."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("arco.flow", tracer_provider=provider)

    def start(self, task: LeasedTask, worker: str) -> Span:
        """The span of an attempt."""
        span = self._tracer.start_span(f"task {task.maker}")
        if span.is_recording():
            span.set_attributes(
                {
                    "arco.run_id": task.run_id,
                    "arco.task": task.key,
                    "arco.attempt": task.attempt,
                    "arco.attempt_id": task.attempt_id,
                    "arco.worker": worker,
                }
            )
        return span

    def end(self, span: Span, status: TaskStatus | None) -> None:
        """Say how it ended; None if the task was lost, and somebody else's by then."""
        if span.is_recording():
            told = "LOST" if status is None else status.value
            span.set_attribute("arco.status", told)
            if status not in _GOOD:
                span.set_status(Status(StatusCode.ERROR, told))
        span.end()


def within(span: Span) -> AbstractContextManager[object]:
    """A block of a thread in which the span is the current one."""
    return trace.use_span(
        span, end_on_exit=False, record_exception=False, set_status_on_exception=False
    )
