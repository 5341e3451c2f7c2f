"""The supervisor of the Spark child: starts it when there are events to compact, and ends it when idle.

A child costs memory and takes seconds to start, so none runs before the first event nor after a long idle
time. One that exits by itself is restarted with a growing pause, until one has published something.
While no child runs, the supervisor checks from time to time whether other processes have written events.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from arco.api.health_monitor import (
    CompactionFailure,
    CompactionState,
    CompactionStatus,
    FixedCompactionStatus,
)
from arco.api.http.telemetry import Log
from arco.api.metrics import Metrics
from arco.compactor.backlog import has_backlog
from arco.core.background import background, repeat
from arco.core.backoff import ExponentialBackoff
from arco.core.environment import compaction_environment
from arco.core.imports import is_spark_installed
from arco.core.runtime import Runtime
from arco.core.tasks import Task
from arco.fold.tier2 import TIER2
from arco.ledger.segment import Segment
from arco.ledger.writer import SegmentListener, ignore_segment
from arco.server.reporting import failure_reporter
from arco.server.settings import CompactionSettings, SparkSettings
from arco.server.spark_child import (
    ChildMessage,
    ChildProcess,
    CyclePublished,
    Notification,
    SegmentBytes,
    SparkReady,
    WorkFailed,
    worker_command,
)
from arco.server.workspace_address import WorkspaceAddress
from arco.storage.store import Store

_LEDGER_CHECK_MS = 20 * 60_000
_LEDGER_CHECK_RETRY_MS = 30_000
_RESTART_BACKOFF = ExponentialBackoff(1_000, 5 * 60_000)
_BATCH_MS = 20  # notifications of a burst are sent together
_BATCH_BYTES = 256 * 1024  # of segments in one batch; Spark reads larger ones from the store

_REASONS: dict[CompactionState, str] = {
    "waiting": "there is nothing to compact, so Spark is not running; the next event starts it",
    "starting": "Spark takes some seconds to start",
    "restarting": "Spark has ended or did not start, and is tried again; the log has the reason",
}


@dataclass(frozen=True)
class ChildPolicy:
    """How long a child may idle (None: for ever), and how long it may take to start."""

    idle_ms: float | None = None
    start_timeout_ms: float = 10 * 60_000


@dataclass(frozen=True)
class ChildExited:
    """A child has exited unasked; the next is started after `restart_ms`."""

    restart_ms: float


@dataclass
class _Child:
    """A running child, and when a message was last exchanged with it."""

    process: ChildProcess
    active_ms: float
    was_asked: bool = False  # to exit


class SparkSupervisor:
    """Runs one child after the other.

    `is_behind` says whether the ledger holds events that are not published. `report` receives the
    messages of children, `failed` the errors of the supervisor itself.
    """

    def __init__(
        self,
        start: Callable[[], ChildProcess],
        runtime: Runtime,
        *,
        policy: ChildPolicy,
        has_backlog: Callable[[], Awaitable[bool]],
        report: Callable[[ChildMessage | ChildExited], None],
        failed: Callable[[str, Exception], None],
    ) -> None:
        self._start = start
        self._runtime = runtime
        self._policy = policy
        self._is_behind = has_backlog
        self._report = report
        self._failed = failed
        self._batch: dict[tuple[str, str], list[SegmentBytes]] = {}
        self._batch_bytes = 0
        self._notified = runtime.tasks.event()
        self._child: _Child | None = None
        self.exits = 0  # in a row, without a message of success between them
        self.is_up = False  # Spark runs
        # By domain, for those that have published nothing since.
        self.failures: dict[str, CompactionFailure] = {}

    @property
    def state(self) -> CompactionState:
        """The state of compaction for the health of the server."""
        if self.is_up:
            return "running"
        if self.exits:
            return "restarting"
        return "waiting" if self._child is None else "starting"

    @property
    def reason(self) -> str | None:
        """Why it is in that state."""
        return _REASONS.get(self.state)

    def memory(self) -> Mapping[str, int]:
        """The memory of the child and of all below it, in bytes, by kind; empty without a child."""
        return {} if self._child is None else self._child.process.memory()

    def notify(self, domain: str, stream: str, segment: Segment | None = None, /) -> None:
        """Record that a stream has new segments; a small segment is sent along."""
        segments = self._batch.setdefault((domain, stream), [])
        if segment is not None and self.is_up:
            self._batch_bytes += len(segment.raw)
            if self._batch_bytes <= _BATCH_BYTES:
                segments.append(SegmentBytes(segment.seq, segment.raw))
        self._notified.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Supervise beside a block; the child ends with it."""
        tasks = self._runtime.tasks
        watch_ledger = partial(
            repeat,
            self._runtime,
            self._check_ledger,
            every_ms=_LEDGER_CHECK_MS,
            retry_ms=_LEDGER_CHECK_RETRY_MS,
            failed=self._ledger_check_failed,
        )
        try:
            async with background(tasks, self._supervise), background(tasks, watch_ledger):
                yield
        finally:
            child, self._child, self.is_up = self._child, None, False
            if child is not None:
                await tasks.in_thread(child.process.end)

    async def _supervise(self) -> None:
        while True:
            await self._notified.wait()
            try:
                was_asked = await self._run_child()
            except Exception as problem:
                self._failed("starting Spark", problem)
                was_asked = False
            if was_asked:
                continue
            self.exits += 1
            restart_ms = _RESTART_BACKOFF.pause_ms(self.exits, self._runtime.rng)
            self._report(ChildExited(restart_ms))
            await self._runtime.clock.sleep(restart_ms)
            self._notified.set()  # the work that it was started for is still to be done

    async def _run_child(self) -> bool:
        """From the start of a child to its exit; whether it was asked to exit."""
        tasks = self._runtime.tasks
        process = await tasks.in_thread(self._start)
        # A new child reads the whole ledger, so notifications until now need not be sent.
        self._notified.clear()
        child = self._child = _Child(process, self._runtime.clock.elapsed_ms())
        sending = tasks.spawn(self._send_notifications(child))
        idling = tasks.spawn(self._end_when_idle(child, sending))
        starting = tasks.spawn(self._end_when_late(child))
        try:
            while (message := await tasks.in_thread(process.receive)) is not None:
                child.active_ms = self._runtime.clock.elapsed_ms()
                self._take(message)
        finally:
            self.is_up = False
            for each in (sending, idling, starting):
                each.cancel()
        await tasks.in_thread(process.end)
        self._child = None
        return child.was_asked

    def _take(self, message: ChildMessage) -> None:
        if isinstance(message, WorkFailed):
            for domain in message.domains:
                self.failures[domain] = CompactionFailure(message.error, message.detail)
        else:
            self.exits, self.is_up = 0, True
        if isinstance(message, CyclePublished):
            self.failures.pop(message.cycle.domain, None)
        self._report(message)

    async def _send_notifications(self, child: _Child) -> None:
        while True:
            await self._notified.wait()
            self._notified.clear()
            batch = [Notification(*key, tuple(segments)) for key, segments in self._batch.items()]
            self._batch.clear()
            self._batch_bytes = 0
            child.active_ms = self._runtime.clock.elapsed_ms()
            await self._runtime.tasks.in_thread(partial(child.process.notify, batch))
            await self._runtime.clock.sleep(_BATCH_MS)

    async def _end_when_late(self, child: _Child) -> None:
        """Give up a child that does not start: a cluster may have no resources, a JVM may hang."""
        await self._runtime.clock.sleep(self._policy.start_timeout_ms)
        if not self.is_up:
            self._take(WorkFailed("Spark", "TimeoutError", "it did not start in time"))
            child.process.finish()

    async def _end_when_idle(self, child: _Child, sending: Task[None]) -> None:
        """Ask the child to exit when idle; later notifications are for the next one."""
        if self._policy.idle_ms is None:
            return
        while not await self._is_idle(child, self._policy.idle_ms):
            pass
        sending.cancel()
        child.was_asked = True
        child.process.finish()

    async def _is_idle(self, child: _Child, idle_ms: float) -> bool:
        """Whether no message came for so long although Spark is up and the ledger is compacted."""
        while (ms := child.active_ms + idle_ms - self._runtime.clock.elapsed_ms()) > 0:
            await self._runtime.clock.sleep(ms)
        before_ms = child.active_ms
        if self.is_up and not await self._is_needed():
            return child.active_ms == before_ms
        child.active_ms = self._runtime.clock.elapsed_ms()
        return False

    async def _is_needed(self) -> bool:
        """Whether there is something to compact, or the ledger cannot be read."""
        try:
            return await self._is_behind()
        except Exception as problem:
            self._ledger_check_failed(problem)
            return True

    async def _check_ledger(self) -> None:
        """While there is no child, start one if other processes have written events."""
        if self._child is None and await self._is_behind():
            self._notified.set()

    def _ledger_check_failed(self, problem: Exception) -> None:
        self._failed("looking at the ledger", problem)


@dataclass(frozen=True)
class EventCompaction:
    """The compaction of a server's events; without a supervisor they wait in the ledger."""

    supervisor: SparkSupervisor | None
    status: CompactionStatus

    @property
    def notify(self) -> SegmentListener:
        """Receives every new segment."""
        return ignore_segment if self.supervisor is None else self.supervisor.notify

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Compact events beside a block."""
        if self.supervisor is None:
            yield
            return
        async with self.supervisor.running():
            yield


def make_event_compaction(
    address: WorkspaceAddress,
    settings: CompactionSettings,
    store: Store,
    *,
    log: Log,
    metrics: Metrics,
    policy: ChildPolicy,
    nice: int = 0,
    log_spark_output: bool = False,
) -> EventCompaction:
    """The compaction of a workspace's events in a Spark child, if Spark can be used."""
    reason = _why_off(address, settings.spark)
    if reason is not None:
        return EventCompaction(None, FixedCompactionStatus("off", reason))
    flags = [*address.arguments(), *settings.arguments(), "--nice", str(nice)]
    command = worker_command(flags)

    def start() -> ChildProcess:
        environment = compaction_environment(os.environ, address.address().scheme)
        return ChildProcess(command, environment=environment, inherit_stderr=log_spark_output)

    async def is_any_behind() -> bool:
        spans = settings.rows.spans()
        return any([await has_backlog(store, domain, spans) for domain in TIER2])

    supervisor = SparkSupervisor(
        start,
        store.runtime,
        policy=policy,
        has_backlog=is_any_behind,
        report=ChildReporter(log, metrics).report,
        failed=failure_reporter(log, metrics),
    )
    metrics.compaction.watch(lambda: supervisor.is_up)
    metrics.health.watch_spark(supervisor.memory)
    return EventCompaction(supervisor, supervisor)


class ChildReporter:
    """Records the messages of children as log lines and metrics: one line for each cycle."""

    def __init__(self, log: Log, metrics: Metrics) -> None:
        self._log = log
        self._metrics = metrics

    def report(self, message: ChildMessage | ChildExited) -> None:
        """Log and count one message."""
        match message:
            case SparkReady():
                self._log.info("Spark is up", ms=message.ms)
            case CyclePublished():
                self._report_cycle(message)
            case WorkFailed():
                self._metrics.background_failed(message.what)
                detail = {"detail": message.detail} if message.detail else {}
                self._log.error(f"{message.what} failed", error=message.error, **detail)
            case ChildExited():
                self._metrics.compaction.restarted()
                after_s = round(message.restart_ms / 1000, 1)
                self._log.warning("Spark has ended, and is started again", after_s=after_s)

    def _report_cycle(self, published: CyclePublished) -> None:
        cycle = published.cycle
        counts = {
            "events": cycle.counts.events,
            "late": cycle.counts.late,
            "quarantined": cycle.counts.quarantined,
            "files": cycle.files,
        }
        self._metrics.compaction.record_cycle(
            cycle.domain,
            cycle.kind,
            **counts,
            size_bytes=cycle.size_bytes,
            phases_ms=cycle.phases_ms,
            lag_ms=cycle.lag_ms,
        )
        self._log.info(
            "cycle",
            domain=cycle.domain,
            kind=cycle.kind,
            manifest=cycle.manifest,
            **counts,
            bytes=cycle.size_bytes,
            **{f"{phase}_ms": ms for phase, ms in cycle.phases_ms.items()},
            lag_ms=cycle.lag_ms,
        )


def _why_off(address: WorkspaceAddress, spark: SparkSettings) -> str | None:
    """Why events are left in the ledger; None if they are compacted."""
    if spark.no_spark:
        reason = "Arco was started with --no-spark"
    elif not is_spark_installed():
        reason = "Spark is not installed"
    elif address.address().scheme == "memory":
        reason = "a store in memory is seen by its own process alone"
    else:
        return None
    return f"{reason}: events wait in the ledger, and fresh reads show them"
