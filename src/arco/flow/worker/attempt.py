"""One attempt at a task: executed in a thread, with heartbeats, until the coordinator has its end.

An attempt that ends within a moment costs one thread and nothing else. Others send a heartbeat every few
seconds, which extends the lease, and wait for a call that says to stop. An attempt that cannot reach the
coordinator for as long as its lease lasts considers the task lost, as the coordinator does by then.

Its OpenTelemetry span lasts until the coordinator has the end, and is current in the thread of the task, so
that spans of user code are its children. It has no error text, which may contain data. Without the SDK of
OpenTelemetry spans go nowhere.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field

from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode

from arco.core.errors import ArcoError, Unavailable, Unknown
from arco.core.runtime import Runtime
from arco.core.tasks import Task
from arco.flow.coordinator.messages import (
    HEARTBEAT_MS,
    LEASE_MS,
    AttemptOutcome,
    LeasedTask,
    TaskStatus,
)
from arco.flow.coordinator.ports import TaskCoordinator
from arco.flow.worker.outcome import (
    StopReason,
    abandoned_outcome,
    executor_failure,
    has_published,
    stopped_outcome,
)
from arco.flow.worker.ports import Executor
from arco.flow.worker.reporter import AttemptLog, AttemptReporter

_SHORT_ATTEMPT_MS = 250  # an attempt that ends within this needs no heartbeat
_WATCH_MS = 25_000
_UNAVAILABLE_PAUSE_MS = 1_000
_NO_ERROR = frozenset({TaskStatus.SUCCESS, TaskStatus.CANCELLED})


class AttemptTracing:
    """The spans of the attempts of one worker."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("arco.flow", tracer_provider=provider)

    def start(self, task: LeasedTask, worker: str) -> Span:
        """Start the span of an attempt."""
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
        """End a span with the reported status; None if the task was lost."""
        if span.is_recording():
            status_text = "LOST" if status is None else status.value
            span.set_attribute("arco.status", status_text)
            if status not in _NO_ERROR:
                span.set_status(Status(StatusCode.ERROR, status_text))
        span.end()


@dataclass(frozen=True, kw_only=True)
class WorkerTiming:
    """How often an attempt sends heartbeats, and how long it may take to stop.

    `shutdown_ms` is how long if its worker is about to exit.
    """

    heartbeat_ms: float = HEARTBEAT_MS
    lease_ms: float = LEASE_MS
    grace_ms: float = 10_000
    shutdown_ms: float = 1_500


@dataclass(frozen=True)
class WorkerContext:
    """What all attempts of a worker share."""

    coordinator: TaskCoordinator
    executor: Executor
    runtime: Runtime
    worker: str
    timing: WorkerTiming = WorkerTiming()
    tracing: AttemptTracing = field(default_factory=AttemptTracing)


class AttemptExecution:
    """A leased task while it is executed; `on_abandoned` is called if it does not stop in time."""

    def __init__(
        self,
        context: WorkerContext,
        task: LeasedTask,
        on_abandoned: Callable[[], None] = lambda: None,
    ) -> None:
        self.task = task
        self.is_abandoned = False  # its thread did not stop, and the worker no longer waits for it
        self._on_abandoned = on_abandoned
        self._context = context
        self._clock = context.runtime.clock
        self._tasks = context.runtime.tasks
        self._log = AttemptLog()
        self._reporter = AttemptReporter(
            context.coordinator, context.runtime, context.worker, task, self._log
        )
        self._started_ms = self._leased_ms = self._clock.elapsed_ms()
        self._stop: StopReason | None = None
        self._stopped_ms = 0.0
        self._grace_ms = context.timing.grace_ms
        self._wake = context.runtime.tasks.event()
        self._is_executed = False  # only the report is left
        self._is_reported = False
        self._reported_status: TaskStatus | None = None
        self._interrupting: Task[None] | None = None  # a reference keeps it from being collected

    async def run(self) -> None:
        """Execute the task, and return once the coordinator has its end or must not get it."""
        tracing = self._context.tracing
        span = tracing.start(self.task, self._context.worker)
        supervision = self._tasks.spawn(self._supervise())
        try:
            outcome = await self._tasks.in_thread(lambda: self._execute(span))
            self._is_executed = True
            if self._is_reported:
                await supervision.wait()  # the report that it was abandoned comes first
            if not self._is_reported or has_published(outcome):
                await self._report_outcome(outcome)
        finally:
            supervision.cancel()
            tracing.end(span, self._reported_status)

    def stop(self, reason: StopReason) -> None:
        """Stop it; the first reason counts, unless the task turns out to be lost."""
        if self._stop is None:
            self._stopped_ms = self._clock.elapsed_ms()
            self._log.stop()
            self._interrupting = self._tasks.spawn(self._interrupt())
        if self._stop is None or reason is StopReason.LOST:
            self._stop = reason
        if reason is StopReason.WORKER_STOPPED:
            self.hurry()
        self._wake.set()

    def hurry(self) -> None:
        """The worker is about to exit: an attempt that is stopped has little time left."""
        self._grace_ms = self._context.timing.shutdown_ms
        self._stopped_ms = max(self._stopped_ms, self._clock.elapsed_ms() - self._grace_ms)
        self._wake.set()

    async def give_back(self) -> None:
        """Return the task to the coordinator without having started it."""
        await self._report(abandoned_outcome(self.task, StopReason.WORKER_STOPPED))

    def _execute(self, span: Span) -> AttemptOutcome:
        try:
            with _use_span(span):
                return self._context.executor.execute(self.task, self._log)
        except Exception as error:
            return executor_failure(error)

    async def _interrupt(self) -> None:
        attempt_id = self.task.attempt_id
        try:
            await self._tasks.in_thread(lambda: self._context.executor.interrupt(attempt_id))
        except Exception as error:
            self._log.log(f"it could not be interrupted: {type(error).__name__}: {error}")

    async def _supervise(self) -> None:
        """Send heartbeats and apply timeouts until the attempt is over."""
        await self._clock.sleep(min(_SHORT_ATTEMPT_MS, self._time_left_ms()))
        watching = self._tasks.spawn(self._watch())
        next_heartbeat_ms = self._started_ms + self._context.timing.heartbeat_ms
        try:
            while not self._is_reported:
                now = self._clock.elapsed_ms()
                if not self._is_executed:
                    self._check_limits(now)
                    if self._stop is not None and now >= self._grace_ends_ms:
                        return await self._abandon(self._stop)
                if now >= next_heartbeat_ms and self._stop is not StopReason.LOST:
                    next_heartbeat_ms = now + await self._send_heartbeat()
                self._wake.clear()
                with suppress(TimeoutError):
                    pause_ms = self._pause_ms(next_heartbeat_ms)
                    await self._tasks.deadline(pause_ms, self._wake.wait())
        finally:
            watching.cancel()

    def _check_limits(self, now: float) -> None:
        if self._time_left_ms() <= 0:
            self.stop(StopReason.TIMED_OUT)
        if now >= self._leased_ms + self._context.timing.lease_ms:
            self.stop(StopReason.LOST)

    @property
    def _grace_ends_ms(self) -> float:
        return self._stopped_ms + self._grace_ms

    def _time_left_ms(self) -> float:
        if self.task.timeout_ms is None:
            return float("inf")
        return self._started_ms + self.task.timeout_ms - self._clock.elapsed_ms()

    def _pause_ms(self, next_heartbeat_ms: float) -> float:
        """The time until the next action is due."""
        now, timing = self._clock.elapsed_ms(), self._context.timing
        is_lost = self._stop is StopReason.LOST
        if self._is_executed:
            due = now + timing.heartbeat_ms if is_lost else next_heartbeat_ms
        elif self._stop is None:
            lease_ends_ms = self._leased_ms + timing.lease_ms
            due = min(next_heartbeat_ms, lease_ends_ms, now + self._time_left_ms())
        else:
            due = self._grace_ends_ms if is_lost else min(next_heartbeat_ms, self._grace_ends_ms)
        return max(due - now, 1.0)

    async def _send_heartbeat(self) -> float:
        """Send a heartbeat; the time until the next."""
        heartbeat_ms, sent_ms = self._context.timing.heartbeat_ms, self._clock.elapsed_ms()
        retry_ms = min(heartbeat_ms / 5, 1_000)
        try:
            response = await self._tasks.deadline(heartbeat_ms, self._reporter.heartbeat())
        except (Unavailable, Unknown, TimeoutError):
            return retry_ms
        except ArcoError:
            self.stop(StopReason.LOST)  # the attempt is unknown, or another worker has the task
            return heartbeat_ms
        except Exception as error:  # a bug of Arco: retried for as long as the lease lasts
            self._log.log(f"it could not send a heartbeat: {type(error).__name__}: {error}")
            return retry_ms
        self._leased_ms = sent_ms
        if response.is_lost:
            self.stop(StopReason.LOST)
        elif response.should_cancel:
            self.stop(StopReason.CANCELLED)
        return heartbeat_ms

    async def _watch(self) -> None:
        """Wait for the coordinator to stop the attempt, which is faster than the next heartbeat."""
        attempt_id, context = self.task.attempt_id, self._context
        while self._stop is None:
            try:
                stopped = await context.coordinator.watch(context.worker, (attempt_id,), _WATCH_MS)
            except (Unavailable, Unknown):
                await self._clock.sleep(_UNAVAILABLE_PAUSE_MS)
                continue
            except ArcoError:
                return  # the next heartbeat gets the same error
            if attempt_id in stopped:
                self.stop(StopReason.CANCELLED)

    async def _abandon(self, reason: StopReason) -> None:
        """Report an attempt that does not stop. Its thread goes on; what it publishes is reported then."""
        self._is_reported = True
        try:
            if reason is not StopReason.LOST:
                await self._report(abandoned_outcome(self.task, reason))
        finally:
            self.is_abandoned = True
            self._on_abandoned()

    async def _report_outcome(self, outcome: AttemptOutcome) -> None:
        """Report the end of the attempt; of a lost one only if it has published."""
        if self._stop is StopReason.LOST and not has_published(outcome):
            return
        await self._report(stopped_outcome(self.task, outcome, self._stop))

    async def _report(self, outcome: AttemptOutcome) -> None:
        if await self._reporter.complete(outcome):
            self._reported_status = outcome.status


def _use_span(span: Span) -> AbstractContextManager[object]:
    """A block of a thread in which the span is the current one."""
    return trace.use_span(
        span, end_on_exit=False, record_exception=False, set_status_on_exception=False
    )
