"""The in-memory state that all parts of the coordinator share, and the changes to it that need no I/O.

Nothing here reads a store or writes events: the caller has appended to the ledger before.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from arco.core.keyed_lock import KeyedLock
from arco.core.runtime import Runtime
from arco.core.tasks import AsyncEvent, Task
from arco.flow.coordinator.active_run import ActiveRun
from arco.flow.coordinator.leases import ActiveLeases, PartitionLocks, PoolSlots, TaskLease
from arco.flow.coordinator.messages import ANY_WORKER, LEASE_MS, LeaseRequest, TaskStatus
from arco.flow.coordinator.ports import ErrorReporter
from arco.flow.coordinator.run_state import TaskResult, attempt_ids_of

T = TypeVar("T")

_MAX_ENDED_WEIGHT = 50_000
_MAX_BACKGROUND = 100
_MAX_TIMER_MS = 3_600_000


def ignore_error(_what: str, _problem: Exception, /, **_labels: str) -> None:
    """An `ErrorReporter` that drops errors."""


@dataclass
class CoordinatorCounters:
    """Counts for metrics."""

    ended: dict[TaskStatus, int] = field(default_factory=dict)  # tasks, by how they ended
    lost: int = 0  # attempts whose lease expired
    set_aside: int = 0  # runs whose plans cannot be read


class Timers:
    """Calls that are due after a delay, by elapsed time; one task waits for the next of them.

    A timer is never cancelled: the call checks whether there is still something to do, so that extending
    a lease costs nothing. A call that raises is reported and does not stop the others.
    """

    def __init__(self, runtime: Runtime, report_error: ErrorReporter) -> None:
        self._report_error = report_error
        self._clock = runtime.clock
        self._tasks = runtime.tasks
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._earlier = runtime.tasks.event()  # a timer is due before all others
        self._loop: Task[None] | None = None

    def start(self) -> None:
        self._loop = self._tasks.spawn(self._run())

    def close(self) -> None:
        if self._loop is not None:
            self._loop.cancel()

    def schedule(self, in_ms: float, call: Callable[[], None]) -> None:
        """Call once the delay has passed."""
        self._count += 1
        due = self._clock.elapsed_ms() + in_ms
        if not self._queue or due < self._queue[0][0]:
            self._earlier.set()
        heapq.heappush(self._queue, (due, self._count, call))

    async def _run(self) -> None:
        while True:
            self._earlier.clear()
            now = self._clock.elapsed_ms()
            while self._queue and self._queue[0][0] <= now:
                self._call(heapq.heappop(self._queue)[2])
            if self._earlier.is_set():
                continue
            wait = self._queue[0][0] - now if self._queue else _MAX_TIMER_MS
            with suppress(TimeoutError):
                await self._tasks.deadline(min(wait, _MAX_TIMER_MS), self._earlier.wait())

    def _call(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            self._report_error("a timer of the coordinator", error)


class CoordinatorState:
    """All runs in memory and all that attempts hold.

    `process` names this coordinator process uniquely, `local_workers` are the workers inside it.
    """

    def __init__(
        self,
        runtime: Runtime,
        report_error: ErrorReporter = ignore_error,
        *,
        process: str = "",
        local_workers: set[str] | None = None,
    ) -> None:
        self.report_error = report_error
        self.process = process
        self.local_workers = set[str]() if local_workers is None else local_workers
        self.runtime = runtime
        self.clock = runtime.clock
        self.tasks = runtime.tasks
        self.runs: dict[str, ActiveRun] = {}  # oldest first
        self.ended_runs: OrderedDict[str, ActiveRun] = (
            OrderedDict()
        )  # a bounded number, for late reports
        self._ended_weight = 0
        self.attempts: dict[str, tuple[str, str, int]] = {}  # run, task and number, by attempt id
        self.leases = ActiveLeases()
        self.pools = PoolSlots()
        self.locks = PartitionLocks()
        self.keyed_lock = KeyedLock(
            runtime.tasks
        )  # one change at a time for each task, run key and retry
        self.timers = Timers(runtime, report_error)
        self.counters = CoordinatorCounters()
        self._waiting: dict[AsyncEvent, LeaseRequest] = {}
        self._requests: dict[str, LeaseRequest] = {}  # the last of each worker
        self._other_code: dict[
            str, set[str]
        ] = {}  # runs reported to a worker as lacking their code
        self._contact_ms: dict[str, float] = {}
        self._background: list[Task[Any]] = []

    def find(self, run_id: str) -> ActiveRun | None:
        """A run that is in memory."""
        return self.runs.get(run_id) or self.ended_runs.get(run_id)

    def close_run(self, run: ActiveRun) -> None:
        """Move a run that has ended to the ended runs, and drop the oldest of these."""
        self.runs.pop(run.run_id, None)
        self.ended_runs[run.run_id] = run
        self._ended_weight += run.weight
        run.versions = None
        tables = {target.table for maker in run.plan.makers for target in maker.targets}
        self.requeue(self.locks.wake(tables))
        while self._ended_weight > _MAX_ENDED_WEIGHT and len(self.ended_runs) > 1:
            _, dropped = self.ended_runs.popitem(last=False)
            self._ended_weight -= dropped.weight
            for attempt_id in dropped.attempt_ids():
                self.attempts.pop(attempt_id, None)
        self._forget_silent_workers()
        self.wake(run)
        run.notify()

    def add_attempts(self, run: ActiveRun) -> None:
        """Index the attempts of a run that was read from the store."""
        for key, task in run.state.tasks.items():
            for number, each in enumerate(attempt_ids_of(run.run_id, key, task.attempt), 1):
                self.attempts[each] = run.run_id, key, number

    # Workers and their requests.

    def record_contact(self, worker: str) -> None:
        """A worker called."""
        if worker != ANY_WORKER:
            self._contact_ms[worker] = self.clock.elapsed_ms()

    def silence_ms(self, worker: str) -> float:
        """The time since a worker last called."""
        return self.clock.elapsed_ms() - self._contact_ms.get(worker, float("-inf"))

    def _forget_silent_workers(self) -> None:
        silent = [each for each in self._contact_ms if self.silence_ms(each) > 100 * LEASE_MS]
        for worker in silent:
            del self._contact_ms[worker]
            self._requests.pop(worker, None)
            self._other_code.pop(worker, None)

    def record_request(self, request: LeaseRequest) -> None:
        """A worker asks for tasks."""
        self.record_contact(request.worker)
        self._requests[request.worker] = request

    def connected_workers(self) -> tuple[LeaseRequest, ...]:
        """The last request of each worker that called within the time of a lease."""
        return tuple(
            request
            for worker, request in self._requests.items()
            if self.silence_ms(worker) <= LEASE_MS
        )

    def new_code_mismatches(self, worker: str, run_ids: set[str]) -> tuple[str, ...]:
        """Those of the runs whose code a worker lacks that were not reported to it before."""
        reported = self._other_code.get(worker, set())
        self._other_code[worker] = run_ids
        return tuple(sorted(run_ids - reported))

    # Waiting and background work.

    def spawn(self, what: str, work: Coroutine[Any, Any, Any], **labels: str) -> None:
        """Run work in the background; an error is reported."""
        task = self.tasks.spawn(self._report(what, work, **labels))
        if len(self._background) > _MAX_BACKGROUND:
            self._background = [each for each in self._background if not each.done()]
        self._background.append(task)  # a reference keeps it from being garbage-collected

    async def _report(self, what: str, work: Coroutine[Any, Any, Any], **labels: str) -> None:
        try:
            await work
        except Exception as error:
            self.report_error(what, error, **labels)

    def report_lease_error(self, lease: TaskLease, what: str, error: Exception) -> None:
        """The end of an attempt cannot be recorded and will be retried: report each kind of error once."""
        if type(error) is not type(lease.reported_error):
            self.report_error(what, error, run=lease.run_id, task=lease.key)
        lease.reported_error = error

    async def shield(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work that runs to its end even if its caller is cancelled."""
        return await self.tasks.spawn(work).wait()

    async def wait_for_work(self, request: LeaseRequest, ms: float) -> None:
        """Return when there may be a task for a worker, or after a time."""
        event = self.tasks.event()
        self._waiting[event] = request
        try:
            await self.wait(event, ms)
        finally:
            del self._waiting[event]

    async def wait(self, event: AsyncEvent, ms: float) -> None:
        """Return when an event is set, or after a time."""
        with suppress(TimeoutError):
            await self.tasks.deadline(ms, event.wait())

    def wake(self, run: ActiveRun) -> None:
        """A run has ready tasks, or has ended: wake the workers that wait for it."""
        for event, request in self._waiting.items():
            if request.run_id in (None, run.run_id) and run.accepts(
                request.worker, request.project
            ):
                event.set()

    # Tasks and attempts.

    def enqueue(self, run: ActiveRun, keys: Sequence[str]) -> None:
        """Tasks are ready to be dispatched."""
        for key in keys:
            task = run.state.tasks[key]
            run.queue.put(task.maker.pool, task.maker.name, task.index, key)
        if keys:
            self.wake(run)

    def end_task(self, run: ActiveRun, key: str, result: TaskResult) -> None:
        """End a task, count it if that changed its status, and queue the tasks that became ready."""
        before = run.state.tasks[key].status
        ready = run.state.end_task(key, result)
        if run.state.tasks[key].status is not before:
            ended = self.counters.ended
            ended[result.status] = ended.get(result.status, 0) + 1
        self.enqueue(run, ready)

    def add_lease(self, lease: TaskLease) -> None:
        """An attempt is active."""
        self.leases.live[lease.attempt_id] = lease
        self.attempts[lease.attempt_id] = lease.run_id, lease.key, lease.attempt

    def reserve(self, run: ActiveRun, key: str) -> None:
        """A task is being dispatched: it takes all that an attempt holds."""
        run.reserved.add(key)
        self.pools.take(run.pool(key))
        self.locks.take(run.locks(key), (run.run_id, key))

    def release_lease(self, attempt_id: str) -> None:
        """An attempt has ended."""
        lease = self.leases.live.pop(attempt_id, None)
        if lease is not None:
            self.release(lease.pool, lease.run_id, lease.key)

    def release(self, pool: tuple[str, str], run_id: str, key: str) -> None:
        """Free the slot and the locks of an attempt."""
        self.pools.release(pool)
        run = self.find(run_id)
        if run is not None:
            self.requeue(self.locks.release(run.locks(key), (run_id, key)))
        for other in self.runs.values():
            if other.plan.project == pool[0] and pool[1] in other.plan.pools:
                self.wake(other)

    def requeue(self, freed: Iterable[tuple[str, str]]) -> None:
        """Queue tasks again that waited for a lock; their status is checked when they are taken."""
        for run_id, key in freed:
            run = self.runs.get(run_id)
            if run is not None:
                self.enqueue(run, [key])
