"""Reports one attempt to the coordinator: heartbeats, its log, and how it ended.

Executors log from their own threads, and the worker sends from its loop. Lines are sent in numbered
chunks; a chunk stays the same until it is acknowledged, so that one that is sent again is recognised by
its number. Whatever user code logs, the coordinator gets the heartbeats and the end: what cannot be sent
is left out, and the log says so.
"""

from collections import deque
from collections.abc import Callable, Coroutine
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import msgspec

from arco.core.backoff import ExponentialBackoff
from arco.core.errors import ArcoError, Fenced, Invalid, NotFound, Unavailable, Unknown
from arco.core.runtime import Runtime
from arco.flow.coordinator.leases import digest_inputs
from arco.flow.coordinator.messages import (
    AttemptOutcome,
    AttemptReport,
    Heartbeat,
    HeartbeatResponse,
    LeasedTask,
    Progress,
    TaskStatus,
)
from arco.flow.coordinator.ports import TaskCoordinator
from arco.flow.worker.outcome import escape_outcome, escape_text, essential_outcome

T = TypeVar("T")

MAX_PENDING_CHARS = 1_000_000
MAX_CHUNK_CHARS = 256_000  # the rest goes with the next chunk

_BACKOFF = ExponentialBackoff(200, 2_000)
_MAX_CHUNKS = (
    MAX_PENDING_CHARS // MAX_CHUNK_CHARS + 2
)  # sent before the end, while code keeps logging
_ERROR_STATUSES = frozenset({TaskStatus.FAILED, TaskStatus.BLOCKED})
_REJECTIONS = (Invalid, TypeError, ValueError)  # by the coordinator, or by the JSON encoder


class LogChunk(NamedTuple):
    """Lines that are sent together; without a number there are none."""

    number: int | None = None
    text: str = ""


class AttemptLog:
    """The `AttemptContext` of one attempt. Lines to send are bounded; those dropped are counted."""

    def __init__(self) -> None:
        self.latest = Progress()
        self._lock = Lock()
        self._lines: deque[str] = deque()
        self._pending_chars = 0
        self._dropped = 0
        self._next_number = 0
        self._unacknowledged = LogChunk()
        self._stopped = False

    def log(self, line: str) -> None:
        escaped = escape_text(line)
        text = escaped if escaped.endswith("\n") else f"{escaped}\n"
        with self._lock:
            if self._pending_chars + len(text) > MAX_PENDING_CHARS:
                self._dropped += 1
                return
            self._pending_chars += len(text)
            self._lines.append(text)

    def progress(self, progress: Progress) -> None:
        self.latest = msgspec.structs.replace(progress, message=escape_text(progress.message))

    def is_stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """Make the executor start nothing more."""
        self._stopped = True

    @property
    def fills_a_chunk(self) -> bool:
        """Whether a line that is logged now would not go with the next chunk."""
        with self._lock:
            is_pending = self._unacknowledged.number is not None
            return is_pending or self._pending_chars >= MAX_CHUNK_CHARS

    def take(self, max_chars: int = MAX_CHUNK_CHARS) -> LogChunk:
        """The next chunk to send; the same again until it is acknowledged."""
        with self._lock:
            if self._unacknowledged.number is None and (text := self._take_lines(max_chars)):
                self._unacknowledged = LogChunk(self._next_number, text)
                self._next_number += 1
            return self._unacknowledged

    def acknowledge(self, chunk: LogChunk) -> None:
        """The coordinator has a chunk."""
        with self._lock:
            if chunk.number == self._unacknowledged.number:
                self._unacknowledged = LogChunk()

    def reject(self, chunk: LogChunk, reason: str) -> None:
        """The coordinator rejected a chunk: replace it by a line that says so."""
        self.latest = Progress()
        with self._lock:
            if chunk.number is not None and chunk.number == self._unacknowledged.number:
                text = f"... {len(chunk.text)} characters were left out: {escape_text(reason)}\n"
                self._unacknowledged = LogChunk(chunk.number, text)

    def _take_lines(self, max_chars: int) -> str:
        lines: list[str] = []
        chars = 0
        while self._lines and chars < max_chars:
            lines.append(self._lines.popleft())
            chars += len(lines[-1])
        self._pending_chars -= chars
        if self._dropped and not self._lines:
            lines.append(f"... {self._dropped} lines were left out: too many at once\n")
            self._dropped = 0
        return "".join(lines)


class AttemptReporter:
    """Calls the coordinator for one attempt."""

    def __init__(
        self,
        coordinator: TaskCoordinator,
        runtime: Runtime,
        worker: str,
        task: LeasedTask,
        log: AttemptLog,
    ) -> None:
        self._coordinator = coordinator
        self._runtime = runtime
        self._worker = worker
        self._task = task
        self._log = log
        self._started_at_ms = runtime.clock.now_ms()

    async def heartbeat(self) -> HeartbeatResponse:
        """Send a heartbeat with the lines that were logged since the last."""
        chunk, attempt_id = self._log.take(), self._task.attempt_id
        heartbeat = Heartbeat(
            attempt_id=attempt_id,
            worker=self._worker,
            progress=self._log.latest,
            log=chunk.text,
            log_part=chunk.number,
        )
        try:
            response = await self._coordinator.heartbeat(heartbeat)
        except _REJECTIONS as error:
            self._log.reject(chunk, _describe(error))
            return await self._coordinator.heartbeat(
                Heartbeat(attempt_id=attempt_id, worker=self._worker)
            )
        self._log.acknowledge(chunk)
        return response

    async def complete(self, outcome: AttemptOutcome) -> bool:
        """Report the end until the coordinator has it; False if the task was lost to another worker.

        It retries without a limit while the coordinator is unavailable, so that no work is lost.
        """
        at_ms = self._runtime.clock.now_ms()
        await self._send_lines()
        if outcome.error and outcome.status in _ERROR_STATUSES:
            self._log.log(outcome.error)  # readers of the log look for the error at its end
        try:
            return await self._complete(outcome, at_ms)
        except _REJECTIONS as error:
            await self._send_lines()
            self._log.log(
                "... the coordinator rejected the report: its checks, lineage, metrics, warnings and "
                f"columns were left out: {_describe(error)}"
            )
            return await self._complete(essential_outcome(outcome), at_ms)

    async def _complete(self, outcome: AttemptOutcome, at_ms: int) -> bool:
        chunk = self._log.take()
        report = AttemptReport(
            attempt_id=self._task.attempt_id,
            worker=self._worker,
            started_at_ms=self._started_at_ms,
            completed_at_ms=at_ms,
            outcome=escape_outcome(outcome),
            log=chunk.text,
            log_part=chunk.number,
            run_id=self._task.run_id,
            key=self._task.key,
            inputs=digest_inputs(self._task.inputs),
        )
        try:
            await self._retry(lambda: self._coordinator.complete(report))
        except (Fenced, NotFound):
            return False
        self._log.acknowledge(chunk)
        return True

    async def _send_lines(self) -> None:
        """Send chunks until a line that is logged now goes with the end itself."""
        for _ in range(_MAX_CHUNKS):
            if not self._log.fills_a_chunk:
                return
            try:
                await self._retry(self.heartbeat)
            except ArcoError:
                return  # the end matters more, and may be accepted all the same

    async def _retry(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        failures = 0
        while True:
            try:
                return await call()
            except (Unavailable, Unknown):
                failures += 1
                await _BACKOFF.sleep(failures, self._runtime)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
