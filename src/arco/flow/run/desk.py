"""The desk: what all parts of the book of runs have in common, and the moves that need no waiting.

Nothing here speaks to a store or a ledger. Whoever calls has told the ledger before.
"""

from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from arco.core.runtime import Runtime
from arco.core.tasks import Event, Task
from arco.flow.run.alarms import Alarms
from arco.flow.run.lease import Lease, Leases
from arco.flow.run.live import LiveRun
from arco.flow.run.locks import Locks
from arco.flow.run.pools import Pools
from arco.flow.run.ports import Tell
from arco.flow.run.task_state import Ending, attempt_ids_of
from arco.flow.run.turns import Turns
from arco.flow.run.wire import ANYBODY, LEASE_MS, Offer, TaskStatus

T = TypeVar("T")

_WEIGHT_KEPT = 50_000
_MOST_BESIDE = 100


def nobody_listens(_what: str, _problem: Exception, /, **_whose: str) -> None:
    """For whoever has no log."""


@dataclass
class Figures:
    """Counts for whoever watches over the service."""

    ended: dict[TaskStatus, int] = field(default_factory=dict)  # tasks, by how they ended
    lost: int = 0  # attempts whose lease was over
    set_aside: int = 0  # runs whose plans cannot be read


class Desk:
    """All live runs, and all that attempts hold; `tell` hears of trouble that no caller is told of."""

    def __init__(self, runtime: Runtime, tell: Tell = nobody_listens) -> None:
        self.tell = tell
        self.keeper = ""  # the process that keeps the book, by a name that no other has
        self.inside: set[str] = set()  # workers that live in it
        self.runtime = runtime
        self.clock = runtime.clock
        self.tasks = runtime.tasks
        self.runs: dict[str, LiveRun] = {}  # the oldest first
        self.over: OrderedDict[str, LiveRun] = (
            OrderedDict()
        )  # for late words, as long as there is room
        self._over_weight = 0
        self.attempts: dict[
            str, tuple[str, str, int]
        ] = {}  # run, task and number, by the attempt's id
        self.leases = Leases()
        self.pools = Pools()
        self.locks = Locks()
        self.turns = Turns(runtime.tasks)
        self.alarms = Alarms(runtime, tell)
        self.figures = Figures()
        self._offers: dict[Event, Offer] = {}  # of workers that wait
        self._last_offers: dict[str, Offer] = {}  # by worker
        self._other_code: dict[str, set[str]] = {}  # runs that a worker knows it lacks the code of
        self._heard_ms: dict[str, float] = {}
        self._beside: list[Task[Any]] = []

    def find(self, run_id: str) -> LiveRun | None:
        """A run that is in memory."""
        return self.runs.get(run_id) or self.over.get(run_id)

    def close_run(self, run: LiveRun) -> None:
        """A run is over: keep it for late words, and let go of older ones."""
        self.runs.pop(run.run_id, None)
        self.over[run.run_id] = run
        self._over_weight += run.weight
        run.known = None
        tables = {target.table for maker in run.plan.makers for target in maker.targets}
        self.requeue(self.locks.unpark(tables))
        while self._over_weight > _WEIGHT_KEPT and len(self.over) > 1:
            _, gone = self.over.popitem(last=False)
            self._over_weight -= gone.weight
            for attempt_id in gone.attempt_ids():
                self.attempts.pop(attempt_id, None)
        self.forget_silent()
        self.wake(run)
        run.ring()

    def know_attempts(self, run: LiveRun) -> None:
        """Attempts of a run that was read from the store."""
        for key, task in run.state.tasks.items():
            for number, each in enumerate(attempt_ids_of(run.run_id, key, task.attempt), 1):
                self.attempts[each] = run.run_id, key, number

    # Who is there.

    def heard(self, worker: str) -> None:
        """A worker gave a sign of life."""
        if worker != ANYBODY:
            self._heard_ms[worker] = self.clock.elapsed_ms()

    def silent_for_ms(self, worker: str) -> float:
        """How long nothing was heard of a worker."""
        return self.clock.elapsed_ms() - self._heard_ms.get(worker, float("-inf"))

    def forget_silent(self) -> None:
        """Forget workers that are long gone."""
        gone = [each for each in self._heard_ms if self.silent_for_ms(each) > 100 * LEASE_MS]
        for worker in gone:
            del self._heard_ms[worker]
            self._last_offers.pop(worker, None)
            self._other_code.pop(worker, None)

    def offered(self, offer: Offer) -> None:
        """A worker asks for tasks."""
        self.heard(offer.worker)
        self._last_offers[offer.worker] = offer

    def connected(self) -> tuple[Offer, ...]:
        """The last offer of each worker that was heard of within the time of a lease."""
        return tuple(
            offer
            for worker, offer in self._last_offers.items()
            if self.silent_for_ms(worker) <= LEASE_MS
        )

    def newly_lacked(self, worker: str, run_ids: set[str]) -> tuple[str, ...]:
        """Those of the runs whose code a worker lacks that it was not told of yet; it is by now."""
        known = self._other_code.get(worker, set())
        self._other_code[worker] = run_ids
        return tuple(sorted(run_ids - known))

    # Who waits, and what goes on beside.

    def beside(self, what: str, work: Coroutine[Any, Any, Any], **whose: str) -> None:
        """Do something that nobody waits for, and that ends by itself; should it fail, it is told of."""
        task = self.tasks.spawn(self._telling(what, work, **whose))
        if len(self._beside) > _MOST_BESIDE:
            self._beside = [each for each in self._beside if not each.done()]
        self._beside.append(task)  # held, or it might be collected on its way

    async def _telling(self, what: str, work: Coroutine[Any, Any, Any], **whose: str) -> None:
        try:
            await work
        except Exception as problem:
            self.tell(what, problem, **whose)

    def met(self, lease: Lease, what: str, problem: Exception) -> None:
        """The end of an attempt cannot be told, and is tried again: told of once for each kind of error."""
        if type(problem) is not type(lease.trouble):
            self.tell(what, problem, run=lease.run_id, task=lease.key)
        lease.trouble = problem

    async def through(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of what goes on to its end though its caller may go away."""
        return await self.tasks.spawn(work).wait()

    async def wait_for_work(self, offer: Offer, ms: float) -> None:
        """Return when there may be something for a worker, or after so long."""
        event = self.tasks.event()
        self._offers[event] = offer
        try:
            await self.wait(event, ms)
        finally:
            del self._offers[event]

    async def wait(self, event: Event, ms: float) -> None:
        """Return when an event is set, or after so long."""
        with suppress(TimeoutError):
            await self.tasks.deadline(ms, event.wait())

    def wake(self, run: LiveRun) -> None:
        """A run has something to do, or is over."""
        for event, offer in self._offers.items():
            if offer.run_id in (None, run.run_id) and run.is_for(offer.worker, offer.project):
                event.set()

    # What moves.

    def ready(self, run: LiveRun, keys: Sequence[str]) -> None:
        """Tasks can be given out."""
        for key in keys:
            task = run.state.tasks[key]
            run.queue.put(task.maker.pool, task.maker.name, task.place, key)
        if keys:
            self.wake(run)

    def end(self, run: LiveRun, key: str, ending: Ending) -> None:
        """A task ended: it is counted, and those behind it may begin. What changes nothing is no end."""
        before = run.state.tasks[key].status
        ready = run.state.ended(key, ending)
        if run.state.tasks[key].status is not before:
            self.figures.ended[ending.status] = self.figures.ended.get(ending.status, 0) + 1
        self.ready(run, ready)

    def hold(self, lease: Lease) -> None:
        """An attempt is under way."""
        self.leases.live[lease.attempt_id] = lease
        self.attempts[lease.attempt_id] = lease.run_id, lease.key, lease.attempt

    def reserve(self, run: LiveRun, key: str) -> None:
        """A task is being given out: it holds all that an attempt does."""
        run.reserved.add(key)
        self.pools.take(self.pool_of(run, key))
        self.locks.take(run.wants(key), (run.run_id, key))

    def drop(self, attempt_id: str) -> None:
        """An attempt is over."""
        lease = self.leases.live.pop(attempt_id, None)
        if lease is not None:
            self.free(lease.pool, lease.run_id, lease.key)

    def free(self, pool: tuple[str, str], run_id: str, key: str) -> None:
        """What an attempt has held is for others again."""
        self.pools.give(pool)
        run = self.find(run_id)
        if run is not None:
            self.requeue(self.locks.give(run.wants(key), (run_id, key)))
        for other in self.runs.values():
            if other.plan.project == pool[0] and pool[1] in other.plan.pools:
                self.wake(other)

    def requeue(self, freed: Iterable[tuple[str, str]]) -> None:
        """Tasks that have waited for a lock may try again; whether they still want to is seen then."""
        for run_id, key in freed:
            run = self.runs.get(run_id)
            if run is not None:
                self.ready(run, [key])

    def pool_of(self, run: LiveRun, key: str) -> tuple[str, str]:
        """The pool that a task takes its slot from."""
        return run.plan.project, run.maker(key).pool
