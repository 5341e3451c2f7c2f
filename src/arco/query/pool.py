"""The pool: a few workers, each answering one query at a time; who finds none free waits."""

from collections import deque

from arco.core.errors import Unavailable
from arco.core.runtime import Runtime
from arco.core.tasks import Event
from arco.query.limits import Limits
from arco.query.process import Process

_RETRY_AFTER_MS = 1_000


class Pool:
    """Starts workers when they are needed, and keeps those that have done well."""

    def __init__(self, runtime: Runtime, limits: Limits) -> None:
        self._runtime = runtime
        self._limits = limits
        self._idle: list[Process] = []
        self._busy: set[Process] = set()
        self._taken = 0
        self._waiting: deque[Event] = deque()
        self._closed = False

    async def take(self) -> Process:
        """A worker of one's own, until it is given back; `Unavailable` if all stay busy."""
        try:
            await self._runtime.tasks.deadline(self._limits.wait_ms, self._turn())
        except TimeoutError as problem:
            raise Unavailable(
                "too many queries are being answered: try again",
                retry_after_ms=_RETRY_AFTER_MS,
            ) from problem
        try:
            process = await self._start()
        except BaseException:
            self._free()
            raise
        self._busy.add(process)
        return process

    def give(self, process: Process, *, good: bool) -> None:
        """Give a worker back; one that may be in the middle of something ends."""
        self._busy.discard(process)
        if good and not self._closed:
            self._idle.append(process)
        else:
            process.kill()
        self._free()

    def close(self) -> None:
        """End all workers; queries under way fail."""
        self._closed = True
        for process in (*self._idle, *self._busy):
            process.kill()
        self._idle.clear()

    async def _start(self) -> Process:
        if self._closed:
            raise Unavailable("queries are not answered any more: the process is ending")
        while self._idle:
            process = self._idle.pop()
            if await self._runtime.tasks.in_thread(process.is_well):
                return process
            process.kill()  # somebody else has ended it, and no query is to blame
        return await self._runtime.tasks.in_thread(lambda: Process(self._limits))

    async def _turn(self) -> None:
        while self._taken >= self._limits.workers:
            bell = self._runtime.tasks.event()
            self._waiting.append(bell)
            try:
                await bell.wait()
            except BaseException:
                if bell.is_set():
                    self._ring()  # it was our turn, and we cannot take it
                else:
                    self._waiting.remove(bell)
                raise
        self._taken += 1

    def _free(self) -> None:
        self._taken -= 1
        self._ring()

    def _ring(self) -> None:
        if self._waiting:
            self._waiting.popleft().set()
