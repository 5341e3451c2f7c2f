"""Giving tasks out: choose what is ready, prepare it, tell the ledger, and only then the worker.

While a task is being given out it is reserved: it holds its slot and its partitions, and is otherwise what
it was. If anything goes wrong before the ledger knows, it goes back to the ready ones.
"""

from collections.abc import Callable, Container, Iterator, Sequence

from arco.core.errors import ArcoError, Unavailable
from arco.flow.run.code_match import makers_for, planned_code, takes_pool
from arco.flow.run.desk import Desk
from arco.flow.run.ending import Ended, first_missing, standing
from arco.flow.run.lease import Lease, lease_key
from arco.flow.run.live import LiveRun
from arco.flow.run.made import found_done
from arco.flow.run.materials import Materials
from arco.flow.run.ports import Fact, Facts
from arco.flow.run.prepare import (
    Chosen,
    Found,
    Hopeless,
    Needless,
    NotNow,
    Preparation,
    Prepared,
    Result,
)
from arco.flow.run.task_state import Ending
from arco.flow.run.wire import LEASE_MS, Completed, LeasedTask, Offer, Outcome, TaskStatus
from arco.storage.store import Store

_NEEDLESS = "its rows are there: another run, or an earlier try, has made them"


class Dispatch:
    """Gives tasks to workers; `settle` hears of runs that may have something to tell or to end."""

    def __init__(
        self,
        desk: Desk,
        store: Store,
        facts: Facts,
        preparation: Preparation,
        materials: Materials,
        *,
        settle: Callable[[LiveRun], None],
        expire: Callable[[str], None],
    ) -> None:
        self._desk = desk
        self._store = store
        self._facts = facts
        self._preparation = preparation
        self._materials = materials
        self._settle = settle
        self._expire = expire

    def choose(self, offer: Offer) -> list[Chosen]:
        """Ready tasks for a worker that has their code, reserved; the oldest run first, in plan order."""
        chosen: list[Chosen] = []
        for run in self.runs_for(offer):
            makers = makers_for(run, offer)
            for pool in run.queue.pools():
                if not takes_pool(offer, pool):
                    continue
                while len(chosen) < offer.slots:
                    key = self._next(run, pool, makers)
                    if key is None:
                        break
                    chosen.append(Chosen(run, key))
            if len(chosen) >= offer.slots:
                break
        return chosen

    async def give(self, offer: Offer, chosen: Sequence[Chosen]) -> tuple[LeasedTask, ...]:
        """Give out what was chosen, as far as there is still something to do."""
        try:
            results = await self._preparation.prepare(chosen)
            results = [each for each in results if not self._is_stopped(each)]
            now_ms = self._desk.clock.now_ms()
            facts = [fact for each in results for fact in self._facts_of(each, offer, now_ms)]
            if facts:
                await self._facts.append(facts)
        except BaseException:
            self._take_back(chosen)
            raise
        leased = [self._applied(each, offer, now_ms) for each in results]
        self._take_back([each for each in chosen if each.key in each.run.reserved])
        for run in {id(each.run): each.run for each in chosen}.values():
            run.ring()
            self._settle(run)
        given = tuple(each for each in leased if each is not None)
        problems = [each.error for each in results if isinstance(each, NotNow)]
        if problems and not given and not facts:
            raise _unavailable(problems[0])
        return given

    def runs_for(self, offer: Offer) -> Iterator[LiveRun]:
        """The runs that a worker may work on, the oldest first."""
        if offer.run_id is not None:
            named = self._desk.runs.get(offer.run_id)
            runs = [] if named is None else [named]
        else:
            runs = [*self._desk.runs.values()]
        for run in runs:
            if run.is_for(offer.worker, offer.project) and not run.state.is_stopped:
                yield run

    def _next(self, run: LiveRun, pool: str, makers: Container[str]) -> str | None:
        """The next task of a pool and makers that can begin; those that meet a lock are parked."""
        desk = self._desk
        while desk.pools.has_room((run.plan.project, pool), run.most(pool)):
            key = run.queue.take(pool, makers)
            if key is None:
                return None
            if run.state.tasks[key].status is not TaskStatus.READY or key in run.reserved:
                desk.requeue(desk.locks.pass_on(run.wants(key)))
                continue
            gate = desk.locks.gate(run.wants(key))
            if gate is None:
                desk.reserve(run, key)
                return key
            desk.locks.park(gate, (run.run_id, key))
        return None

    def _is_stopped(self, result: Result) -> bool:
        """Whether a run was stopped while its task was prepared; what was found done is true anyway."""
        return isinstance(result, Prepared) and result.chosen.run.state.is_stopped

    def _take_back(self, chosen: Sequence[Chosen]) -> None:
        for each in chosen:
            run, key = each.run, each.key
            run.reserved.discard(key)
            self._desk.free(self._desk.pool_of(run, key), run.run_id, key)
            if run.state.tasks[key].status is TaskStatus.READY:
                self._desk.ready(run, [key])

    def _facts_of(self, result: Result, offer: Offer, now_ms: int) -> Iterator[Fact]:
        if isinstance(result, NotNow):
            return
        chosen = result.chosen
        run, key = chosen.run, chosen.key
        of = run.of_attempt(key, chosen.attempt)
        if isinstance(result, Hopeless):
            yield from _failed(result, offer.worker, now_ms).facts()
            return
        if isinstance(result, Found):
            yield from found_done(result.found, now_ms)
            return
        for each in result.found:
            yield from each.told(now_ms)
        if isinstance(result, Needless):
            yield from standing(of, result.stands, now_ms)
            yield of.needless(now_ms)
        else:
            where = first_missing(run.written(key), {each.table for each in result.stands})
            times = (now_ms, now_ms + LEASE_MS)
            yield from of.dispatched(where, run.maker(key).pool, offer.worker, times)

    def _applied(self, result: Result, offer: Offer, now_ms: int) -> LeasedTask | None:
        """What is durable now."""
        if isinstance(result, NotNow):
            return None
        chosen = result.chosen
        run, key = chosen.run, chosen.key
        if not isinstance(result, Hopeless):
            self._materials.found(result.found)
        if isinstance(result, Prepared):
            if run.state.tasks[key].is_ended:
                return None  # an attempt that was given up has told meanwhile that it is done
            return self._leased(result, offer, now_ms)
        if isinstance(result, Found):
            ending = Ending(TaskStatus.SUCCESS, completed_at_ms=now_ms)
        elif isinstance(result, Needless):
            ending = Ending(TaskStatus.SUCCESS, completed_at_ms=now_ms, note=_NEEDLESS)
        else:
            ending = Ending(TaskStatus.FAILED, str(result.error), completed_at_ms=now_ms)
        self._desk.end(run, key, ending)
        return None

    def _leased(self, result: Prepared, offer: Offer, now_ms: int) -> LeasedTask:
        desk, run, key = self._desk, result.chosen.run, result.chosen.key
        attempt, attempt_id = result.chosen.attempt, result.chosen.attempt_id
        lease = Lease(
            run.run_id,
            key,
            attempt,
            attempt_id,
            offer.worker,
            desk.pool_of(run, key),
            run.wants(key),
            run.written(key),
            desk.clock.elapsed_ms() + LEASE_MS,
            result.inputs,
            result.stands,
        )
        run.reserved.discard(key)
        desk.hold(lease)
        run.state.dispatched(key, attempt, offer.worker, now_ms)
        desk.alarms.set(LEASE_MS, lambda: self._expire(attempt_id))
        if result.outputs:
            self.note(lease)
        task, maker = run.state.tasks[key].task, run.maker(key)
        return LeasedTask(
            run_id=run.run_id,
            key=key,
            maker=maker.name,
            partition=task.partition,
            attempt=attempt,
            attempt_id=attempt_id,
            lease_until_ms=now_ms + LEASE_MS,
            reason=task.reason.value,
            now_ms=run.plan.now_ms,
            timeout_ms=maker.timeout_ms,
            dynamic=run.plan.dynamic,
            params=run.stored.wish.params,
            inputs=result.inputs,
            outputs=result.outputs,
            code=planned_code(maker),
        )

    def note(self, lease: Lease) -> None:
        """Write the hint of a lease beside the caller; losing it costs a restart some knowledge."""
        key, body = lease_key(lease.attempt_id), lease.stored(self._desk.clock.now_ms())
        self._desk.beside("noting a lease", self._store.put_hint(key, body), task=lease.key)


def _failed(result: Hopeless, worker: str, now_ms: int) -> Ended:
    """An attempt that ended before it began."""
    run, key = result.chosen.run, result.chosen.key
    error = str(result.error)
    completed = Completed(
        attempt_id=result.chosen.attempt_id,
        worker=worker,
        started_at_ms=now_ms,
        completed_at_ms=now_ms,
        outcome=Outcome(status=TaskStatus.FAILED, error=error),
    )
    of = run.of_attempt(key, result.chosen.attempt)
    return Ended(of, completed, TaskStatus.FAILED, error, (), run.written(key))


def _unavailable(problem: ArcoError) -> ArcoError:
    """A worker asks again later, whatever it was."""
    if isinstance(problem, Unavailable):
        return problem
    unavailable = Unavailable(f"a task could not be given out: {problem}")
    unavailable.__cause__ = problem
    return unavailable
