"""The pool: a few SQL processes, each answering one query at a time, shared fairly between callers.

A caller uses at most half of the processes, so that another finds one. Who finds none waits, for a bounded
time and in a bounded queue; a process that becomes free goes to the callers in turn.
"""

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass

from arco.core.errors import TooManyQueries, Unavailable
from arco.core.runtime import Runtime
from arco.core.tasks import Event
from arco.query.limits import Limits
from arco.query.process import Process

_RETRY_AFTER_MS = 1_000


@dataclass(eq=False)
class _Waiter:
    """A query that waits for a process; `has_turn` once one is reserved for it."""

    woken: Event
    has_turn: bool = False


class Pool:
    """Starts processes when they are needed, and keeps those that have done well.

    A `caller` is who asks; None stands for Arco itself, which may use all of them.
    """

    def __init__(self, runtime: Runtime, limits: Limits) -> None:
        self._runtime = runtime
        self._limits = limits
        self._share = max(1, limits.workers // 2)
        self._idle: list[Process] = []
        self._busy: set[Process] = set()
        self._reserved = Counter[str | None]()  # processes, by caller
        self._waiting: OrderedDict[str | None, deque[_Waiter]] = (
            OrderedDict()
        )  # the next caller first
        self._closed = False

    @property
    def queued(self) -> int:
        """How many queries wait for a process."""
        return sum(map(len, self._waiting.values()))

    @property
    def busy(self) -> int:
        """How many processes answer a query."""
        return self._reserved.total()

    async def take(self, caller: str | None = None) -> Process:
        """A process until it is given back; `TooManyQueries` if too many wait, or all stay busy."""
        try:
            await self._runtime.tasks.deadline(self._limits.wait_ms, self._turn(caller))
        except TimeoutError as problem:
            raise _too_many(
                f"no SQL process was free for this caller within {self._limits.wait_ms} ms"
            ) from problem
        try:
            process = await self._start()
        except BaseException:
            self._release(caller)
            raise
        self._busy.add(process)
        return process

    def give(self, process: Process, caller: str | None = None, *, good: bool) -> None:
        """Give a process back; one that may be in the middle of something ends."""
        self._busy.discard(process)
        if good and not self._closed:
            self._idle.append(process)
        else:
            process.kill()
        self._release(caller)

    def close(self) -> None:
        """End all processes; queries under way fail."""
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
            process.kill()  # another process has ended it, and no query is to blame
        return await self._runtime.tasks.in_thread(lambda: Process(self._limits))

    async def _turn(self, caller: str | None) -> None:
        """Reserve a process for a caller, at once or after those who were first."""
        if self._may_begin(caller):
            self._reserved[caller] += 1
            return
        waiter = self._enqueue(caller)
        try:
            await waiter.woken.wait()
        except BaseException:
            if waiter.has_turn:
                self._release(caller)
            else:
                self._leave(caller, waiter)
            raise

    def _may_begin(self, caller: str | None) -> bool:
        share = self._limits.workers if caller is None else self._share
        return self.busy < self._limits.workers and self._reserved[caller] < share

    def _enqueue(self, caller: str | None) -> _Waiter:
        limits, own = self._limits, self._waiting.get(caller, ())
        if caller is not None and len(own) >= limits.caller_queue:
            raise _too_many(f"{len(own)} queries of this caller wait already")
        if (queued := self.queued) >= limits.queue:
            raise _too_many(f"{queued} queries wait already")
        waiter = _Waiter(self._runtime.tasks.event())
        self._waiting.setdefault(caller, deque()).append(waiter)
        return waiter

    def _leave(self, caller: str | None, waiter: _Waiter) -> None:
        self._waiting[caller].remove(waiter)
        if not self._waiting[caller]:
            del self._waiting[caller]

    def _release(self, caller: str | None) -> None:
        self._reserved[caller] -= 1
        if not self._reserved[caller]:
            del self._reserved[caller]
        self._wake()

    def _wake(self) -> None:
        """Hand free processes to the callers that may have one, in turn."""
        while ready := [caller for caller in self._waiting if self._may_begin(caller)]:
            caller = ready[0]
            waiter = self._waiting[caller].popleft()
            if self._waiting[caller]:
                self._waiting.move_to_end(caller)
            else:
                del self._waiting[caller]
            self._reserved[caller] += 1
            waiter.has_turn = True
            waiter.woken.set()


def _too_many(reason: str) -> TooManyQueries:
    return TooManyQueries(f"{reason}: try again later", retry_after_ms=_RETRY_AFTER_MS)
