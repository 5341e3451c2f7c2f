"""Worker processes as the engine sees them: one process, the exchange of one query, and the pool.

Each worker answers one query at a time. A caller uses at most half of the processes, so that another caller
finds one. A query without a process waits, for a bounded time and in a bounded queue; a process that
becomes free goes to the waiting callers in turn.
"""

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
from arco.core.tasks import AsyncEvent, Task, Tasks
from arco.ledger.envelope import RowVolume
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

# Memory that allocators reserve in advance would count as used and make the memory limit useless.
_ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MIMALLOC_ARENA_RESERVE": "0"}
_START_WORKER = (
    "from arco.core.imports import hide_pandas; hide_pandas(); "
    "from arco.query.worker import main; main()"
)
_RETRY_AFTER_MS = 1_000
_TOO_MUCH = (
    "the query needs more memory than is allowed, or is nested too deeply: select less, or split it"
)


class WorkerDied(Exception):
    """The worker process ended before it replied."""


class WorkerProcess:
    """One worker process. Its methods block and are called in threads."""

    def __init__(self, limits: QueryLimits) -> None:
        # The environment holds the code path only: a worker has no credentials.
        path = os.pathsep.join(each for each in sys.path if each)
        self._child = subprocess.Popen(  # noqa: S603 - all of it is constant
            [sys.executable, "-P", "-c", _START_WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": path, **_ENVIRONMENT},
            cwd="/",
            start_new_session=True,  # an interrupt at the terminal does not reach the worker
        )
        self._requests = cast("BinaryIO", self._child.stdin)
        self._replies = cast("BinaryIO", self._child.stdout)
        # An engine that is never closed leaves no process behind.
        self._end = weakref.finalize(self, _end, self._child)
        try:
            self.ask(Configure(limits=limits))
        except WorkerDied as problem:
            self.kill()
            raise Unavailable("the process that answers queries could not start") from problem

    def ask(self, request: WorkerRequest, data: bytes | None = None) -> tuple[WorkerReply, bytes]:
        """The reply, and the data that it announces; `WorkerDied` if the process has ended."""
        try:
            write_message(self._requests, request, data)
            reply: WorkerReply = json.decode(read_frame(self._replies), WorkerReply)  # type: ignore[arg-type]
            return reply, read_frame(self._replies) if isinstance(reply, ArrowResult) else b""
        except (EOFError, OSError, ValueError) as problem:
            raise WorkerDied from problem

    def is_alive(self) -> bool:
        """Whether it still replies."""
        try:
            self.ask(FindMissing(keys=()))
        except WorkerDied:
            return False
        return True

    def kill(self) -> None:
        """End the process; a thread that waits for its reply gets `WorkerDied`."""
        self._end()


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(OSError):  # unsent data has no reader
                pipe.close()


class WorkerClient:
    """The exchange of one query with a worker, in threads and within its time.

    `is_idle` says whether the worker has replied to every request, so that another query may use it.
    """

    def __init__(self, tasks: Tasks, limits: QueryLimits, process: WorkerProcess) -> None:
        self._tasks = tasks
        self._limits = limits
        self._process = process
        self.is_idle = True

    async def plan(self, sql: str) -> QueryScans:
        """The tables that a query reads."""
        reply, _ = await self._compute(PlanQuery(sql=sql))
        return reply if isinstance(reply, QueryScans) else QueryScans(scans=())

    async def find_missing(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """The keys whose data the worker does not hold."""
        reply, _ = await self._transfer(FindMissing(keys=keys))
        return reply.keys if isinstance(reply, MissingKeys) else ()

    async def send(self, request: PutStateFile | PutRows, data: bytes) -> None:
        """Send data."""
        await self._transfer(request, data)

    async def expand(self, request: ExpandSegments, data: bytes) -> tuple[RowVolume, ...]:
        """Send ledger segments; the rows that each of them makes."""
        reply, _ = await self._transfer(request, data)
        return reply.counts if isinstance(reply, ExpandedCounts) else ()

    async def run(self, request: RunQuery | FoldTail) -> bytes:
        """The result as an Arrow stream."""
        _, data = await self._compute(request)
        return data

    async def _compute(self, request: PlanQuery | RunQuery | FoldTail) -> tuple[object, bytes]:
        """A request whose cost depends on the query: a failure is the fault of the query."""
        try:
            return await self._tasks.deadline(self._limits.run_ms, self._ask(request))
        except TimeoutError as problem:
            seconds = self._limits.run_ms / 1000
            raise Invalid(f"the query took longer than {seconds:g} s: select less") from problem
        except WorkerDied as problem:
            raise Invalid(_TOO_MUCH) from problem

    async def _transfer(
        self,
        request: FindMissing | PutStateFile | PutRows | ExpandSegments,
        data: bytes | None = None,
    ) -> tuple[object, bytes]:
        """A request whose cost does not depend on the text of the query."""
        try:
            return await self._ask(request, data)
        except WorkerDied as problem:
            raise Unavailable(
                "the tables of the query do not fit into the memory of its process, or it was ended"
            ) from problem

    async def _ask(self, request: WorkerRequest, data: bytes | None = None) -> tuple[object, bytes]:
        self.is_idle = False
        reply, result = await self._tasks.in_thread(lambda: self._process.ask(request, data))
        self.is_idle = True
        if isinstance(reply, QueryRejected):
            raise Invalid(reply.reason)
        if isinstance(reply, CorruptFile):
            raise Corrupt(reply.reason)
        return reply, result


@dataclass(eq=False)
class _Waiter:
    """A query that waits for a process; `has_turn` once a process is reserved for it."""

    woken: AsyncEvent
    has_turn: bool = False


class WorkerPool:
    """Starts worker processes on demand and reuses those that have completed their query.

    The caller None stands for Arco itself, which may use all processes.
    """

    def __init__(self, runtime: Runtime, limits: QueryLimits) -> None:
        self._runtime = runtime
        self._limits = limits
        self._share = max(1, limits.workers // 2)
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._reserved = Counter[str | None]()  # processes, by caller
        # By caller; the caller whose turn is next comes first.
        self._waiting: OrderedDict[str | None, deque[_Waiter]] = OrderedDict()
        self._closed = False

    @property
    def queued(self) -> int:
        """The number of queries that wait for a process."""
        return sum(map(len, self._waiting.values()))

    @property
    def busy(self) -> int:
        """The number of processes that answer a query."""
        return self._reserved.total()

    async def take(self, caller: str | None = None) -> WorkerProcess:
        """Reserve a process; `TooManyQueries` if too many queries wait or all processes stay busy."""
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

    def give_back(
        self, process: WorkerProcess, caller: str | None = None, *, reusable: bool
    ) -> None:
        """Release a process; one that may still be busy is ended."""
        self._busy.discard(process)
        if reusable and not self._closed:
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
        """A process that replies; one that is ready only after its query was cancelled is ended."""
        tasks = self._runtime.tasks
        starting = tasks.spawn(self._find_or_start())
        try:
            return await starting.wait()
        except BaseException:
            tasks.spawn(_end_when_started(starting))
            raise

    async def _find_or_start(self) -> WorkerProcess:
        if self._closed:
            raise Unavailable("the server is shutting down and answers no more queries")
        while self._idle:
            process = self._idle.pop()
            if await self._runtime.tasks.in_thread(process.is_alive):
                return process
            process.kill()  # ended from outside, not by a query
        return await self._runtime.tasks.in_thread(lambda: WorkerProcess(self._limits))

    async def _turn(self, caller: str | None) -> None:
        """Reserve a process for a caller, at once or when its turn comes."""
        if self._may_start(caller):
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

    def _may_start(self, caller: str | None) -> bool:
        share = self._limits.workers if caller is None else self._share
        return self.busy < self._limits.workers and self._reserved[caller] < share

    def _enqueue(self, caller: str | None) -> _Waiter:
        limits, waiting = self._limits, self._waiting.get(caller, ())
        if caller is not None and len(waiting) >= limits.caller_queue:
            raise _too_many(f"{len(waiting)} queries of this caller already wait")
        if (queued := self.queued) >= limits.queue:
            raise _too_many(f"{queued} queries already wait")
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
        """Reserve free processes for waiting callers, in turn."""
        while ready := [caller for caller in self._waiting if self._may_start(caller)]:
            caller = ready[0]
            waiter = self._waiting[caller].popleft()
            if self._waiting[caller]:
                self._waiting.move_to_end(caller)
            else:
                del self._waiting[caller]
            self._reserved[caller] += 1
            waiter.has_turn = True
            waiter.woken.set()


async def _end_when_started(starting: Task[WorkerProcess]) -> None:
    with suppress(Exception):  # it did not start, which its query reports unless it was cancelled
        (await starting.wait()).kill()


def _too_many(reason: str) -> TooManyQueries:
    return TooManyQueries(f"{reason}: try again later", retry_after_ms=_RETRY_AFTER_MS)
