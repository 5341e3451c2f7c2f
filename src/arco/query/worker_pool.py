"""Processes: a worker as its engine sees it. All of this blocks, and is called in threads."""

import os
import subprocess
import sys
import weakref
from collections import Counter, OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, cast

from arco.core import json
from arco.core.errors import Corrupt, Invalid, TooManyQueries, Unavailable
from arco.core.runtime import Runtime
from arco.core.tasks import Event, Tasks
from arco.ledger.envelope import RowCount
from arco.query.limits import QueryLimits
from arco.query.protocol import (
    ArrowResult,
    Configure,
    CorruptFile,
    ExpandedCounts,
    ExpandSegments,
    FindMissing,
    FoldTail,
    MissingKeys,
    PlanQuery,
    PutRows,
    PutStateFile,
    QueryRejected,
    QueryScans,
    RunQuery,
    WorkerReply,
    WorkerRequest,
    read_frame,
    write_message,
)

# What allocators reserve ahead would count as used, and the limit of memory would mean nothing.
_SETTINGS = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MIMALLOC_ARENA_RESERVE": "0"}


class WorkerDied(Exception):
    """The worker ended before it had replied."""


class WorkerProcess:
    """One worker."""

    def __init__(self, limits: QueryLimits) -> None:
        # Its environment is empty but for where our code lies: it shall hold no credentials.
        path = os.pathsep.join(each for each in sys.path if each)
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "arco.query.worker_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": path, **_SETTINGS},
            cwd="/",
            start_new_session=True,  # an interrupt at the terminal is for us alone
        )
        self._asked = cast("BinaryIO", self._child.stdin)
        self._said = cast("BinaryIO", self._child.stdout)
        # Whoever forgets to close an engine leaves no process behind.
        self._end = weakref.finalize(self, _end, self._child)
        try:
            self.ask(Configure(limits=limits))
        except WorkerDied as problem:
            self.kill()
            raise Unavailable("the process that answers queries could not start") from problem

    def ask(self, message: WorkerRequest, data: bytes | None = None) -> tuple[WorkerReply, bytes]:
        """Its reply, and the data that the reply announces; `Died` if it is gone."""
        try:
            write_message(self._asked, message, data)
            said: WorkerReply = json.decode(read_frame(self._said), WorkerReply)  # type: ignore[arg-type]
            return said, read_frame(self._said) if isinstance(said, ArrowResult) else b""
        except (EOFError, OSError, ValueError) as problem:
            raise WorkerDied from problem

    def is_well(self) -> bool:
        """Whether it still replies."""
        try:
            self.ask(FindMissing(keys=()))
        except WorkerDied:
            return False
        return True

    def kill(self) -> None:
        """End it, whatever it does; a thread that waits for its reply gets `Died`."""
        self._end()


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(OSError):  # what was still to be sent has nobody to read it
                pipe.close()


_TOO_MUCH = (
    "the query needs more memory than is allowed, or is nested too deeply: select less, or split it"
)


class WorkerClient:
    """Asks one worker. `is_sound` tells whether it can be asked by others afterwards."""

    def __init__(self, tasks: Tasks, limits: QueryLimits, process: WorkerProcess) -> None:
        self._tasks = tasks
        self._limits = limits
        self._process = process
        self.is_sound = True

    async def needs(self, sql: str) -> QueryScans:
        """What a query reads."""
        said, _ = await self._compute(PlanQuery(sql=sql))
        return said if isinstance(said, QueryScans) else QueryScans(scans=())

    async def lacks(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """What must be sent."""
        said, _ = await self._hand(FindMissing(keys=keys))
        return said.keys if isinstance(said, MissingKeys) else ()

    async def send(self, message: PutStateFile | PutRows, data: bytes) -> None:
        """Send data."""
        await self._hand(message, data)

    async def expand(self, message: ExpandSegments, data: bytes) -> tuple[RowCount, ...]:
        """Send segments of the ledger; how many rows each of them makes."""
        said, _ = await self._hand(message, data)
        return said.counts if isinstance(said, ExpandedCounts) else ()

    async def run(self, message: RunQuery | FoldTail) -> bytes:
        """The result as a stream of Arrow."""
        _, data = await self._compute(message)
        return data

    async def _compute(self, message: PlanQuery | RunQuery | FoldTail) -> tuple[object, bytes]:
        """Ask for something that may take as much as the query wants."""
        try:
            return await self._tasks.deadline(self._limits.run_ms, self._ask(message))
        except TimeoutError as problem:
            seconds = self._limits.run_ms / 1000
            raise Invalid(f"the query took longer than {seconds:g} s: select less") from problem
        except WorkerDied as problem:
            raise Invalid(_TOO_MUCH) from problem

    async def _hand(
        self,
        message: FindMissing | PutStateFile | PutRows | ExpandSegments,
        data: bytes | None = None,
    ) -> tuple[object, bytes]:
        """Hand something over, which does not depend on the query's text."""
        try:
            return await self._ask(message, data)
        except WorkerDied as problem:
            raise Unavailable(
                "the tables that the query reads do not fit into the memory of its process, or it was ended"
            ) from problem

    async def _ask(self, message: WorkerRequest, data: bytes | None = None) -> tuple[object, bytes]:
        self.is_sound = False
        said, result = await self._tasks.in_thread(lambda: self._process.ask(message, data))
        self.is_sound = True
        if isinstance(said, QueryRejected):
            raise Invalid(said.reason)
        if isinstance(said, CorruptFile):
            raise Corrupt(said.reason)
        return said, result


_RETRY_AFTER_MS = 1_000


@dataclass(eq=False)
class _Waiter:
    """A query that waits for a process; `has_turn` once one is reserved for it."""

    woken: Event
    has_turn: bool = False


class WorkerPool:
    """Starts processes when they are needed, and keeps those that have done well.

    A `caller` is who asks; None stands for Arco itself, which may use all of them.
    """

    def __init__(self, runtime: Runtime, limits: QueryLimits) -> None:
        self._runtime = runtime
        self._limits = limits
        self._share = max(1, limits.workers // 2)
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
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

    async def take(self, caller: str | None = None) -> WorkerProcess:
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

    def give(self, process: WorkerProcess, caller: str | None = None, *, good: bool) -> None:
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

    async def _start(self) -> WorkerProcess:
        if self._closed:
            raise Unavailable("queries are not answered any more: the process is ending")
        while self._idle:
            process = self._idle.pop()
            if await self._runtime.tasks.in_thread(process.is_well):
                return process
            process.kill()  # another process has ended it, and no query is to blame
        return await self._runtime.tasks.in_thread(lambda: WorkerProcess(self._limits))

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
