"""The main loop of the Spark child, which compacts events for the process that has started it.

It reads notifications on stdin and writes messages to stdout (`spark_child`). When its stdin ends, it
ends. It needs the compactor's role and no other.
"""

import os
import sys
from contextlib import suppress
from typing import BinaryIO, NoReturn

from arco.core.runtime import Runtime, system_runtime
from arco.core.tasks import run
from arco.server.compaction import CompactionSession, open_compaction, open_compactor_store
from arco.server.reporting import error_fields
from arco.server.settings import CompactionSettings
from arco.server.spark_child import (
    ChildMessage,
    CyclePublished,
    Notification,
    SparkReady,
    WorkFailed,
    encode,
    read_notification,
)
from arco.server.workspace_address import WorkspaceAddress

_STOP_TIMEOUT_MS = 3_500


def run_worker(address: WorkspaceAddress, settings: CompactionSettings) -> NoReturn:
    """Compact until stdin ends, then end the process."""
    notifications, messages = sys.stdin.buffer, _take_stdout()
    worker = _Worker(address, settings, system_runtime(), messages)
    code = run(worker.work(notifications))
    # Threads may still wait for a JVM that has exited: do not wait for them.
    os._exit(code)


def _take_stdout() -> BinaryIO:
    """Stdout for messages alone: whatever the JVM or a library prints goes to stderr from now on."""
    own_stdout = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return own_stdout


class _Worker:
    """Compacts and reads notifications, until compaction fails or stdin ends."""

    def __init__(
        self,
        address: WorkspaceAddress,
        settings: CompactionSettings,
        runtime: Runtime,
        messages: BinaryIO,
    ) -> None:
        self._address = address
        self._settings = settings
        self._runtime = runtime
        self._messages = messages
        self._session: CompactionSession | None = None
        self._stopped = runtime.tasks.event()
        self._exit_code = 0

    async def work(self, notifications: BinaryIO) -> int:
        """The exit code, once it has stopped."""
        tasks = self._runtime.tasks
        tasks.spawn(self._read_until_end(notifications))
        compacting = tasks.spawn(self._compact())
        await self._stopped.wait()
        compacting.cancel()
        with suppress(BaseException):  # its outcome no longer matters
            await tasks.deadline(_STOP_TIMEOUT_MS, compacting.wait())
        return self._exit_code

    async def _read_until_end(self, stream: BinaryIO) -> None:
        def read_next() -> Notification | None:
            return read_notification(stream)

        try:
            while (notification := await self._runtime.tasks.in_thread(read_next)) is not None:
                if self._session is not None:  # otherwise it is going to read the whole ledger
                    self._session.tier2.notify(
                        notification.domain, notification.stream, notification.decoded_segments()
                    )
        finally:
            self._stopped.set()

    async def _compact(self) -> None:
        began_ms = self._runtime.clock.elapsed_ms()
        try:
            store = await open_compactor_store(self._address, self._runtime)
            async with open_compaction(
                self._address,
                self._settings,
                store,
                failed=self._failed,
                report=lambda cycle: self._send(CyclePublished(cycle)),
            ) as session:
                self._session = session
                self._send(SparkReady(round(self._runtime.clock.elapsed_ms() - began_ms)))
                await session.tier2.run()
        except Exception as problem:
            self._failed("Spark", problem)
            self._stop(1)

    def _failed(self, what: str, problem: Exception) -> None:
        self._send(WorkFailed(what, **error_fields(problem), domains=self._failed_domains()))
        if self._session is not None and self._session.engine.is_lost:
            self._stop(1)  # the session cannot be used any more

    def _failed_domains(self) -> tuple[str, ...]:
        """The domains whose last cycle has failed."""
        domains = {} if self._session is None else self._session.tier2.domains
        return tuple(name for name, each in domains.items() if each.cycles.failures)

    def _send(self, message: ChildMessage) -> None:
        with suppress(OSError):  # the parent has exited, and stdin is about to end
            self._messages.write(encode(message))
            self._messages.flush()

    def _stop(self, exit_code: int) -> None:
        self._exit_code = exit_code
        self._stopped.set()
