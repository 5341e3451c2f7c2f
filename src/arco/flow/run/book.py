"""The book of runs: takes plans, gives tasks to workers, hears how they end, and forgets nothing.

Whatever it tells anybody is in the ledger before (law 1). What is only in memory is how far signs of life
reach and who waits for what; a restart reads all else back and goes on. There is one book in a workspace.

Cost: a task without tables takes two durable creates one after the other, one when it is given out and one
when it ends, both shared with whatever is told meanwhile. Nothing is scanned and nothing is polled: the end
of a task makes those behind it ready and wakes whoever waits.
"""

from collections.abc import Callable, Sequence

from arco.core.errors import Invalid, NotFound, Unavailable
from arco.core.ids import new_ulid
from arco.flow.run.complete import Completion
from arco.flow.run.desk import Desk, Figures, nobody_listens
from arco.flow.run.dispatch import Dispatch
from arco.flow.run.events import LONGEST_LABEL, run_cancelled
from arco.flow.run.live import LiveRun
from arco.flow.run.logs import Logs
from arco.flow.run.materials import Materials
from arco.flow.run.missing import no_run
from arco.flow.run.plan_store import PlanStore
from arco.flow.run.ports import Facts, Fences, RunReader, Tell, Versions
from arco.flow.run.prepare import Preparation
from arco.flow.run.reaper import Reaper
from arco.flow.run.recovery import Recovery
from arco.flow.run.refused import not_over
from arco.flow.run.retry import Retries
from arco.flow.run.settle import Settling
from arco.flow.run.submit import Submission
from arco.flow.run.task_state import attempt_of
from arco.flow.run.untold import Untold
from arco.flow.run.wire import (
    ENDING_MS,
    LEASE_MS,
    Beat,
    Completed,
    Leased,
    Offer,
    Pulse,
    RunView,
    RunWish,
)
from arco.flow.state import State, StateReader
from arco.storage.store import Store

LONGEST_WAIT_MS = (
    10_000  # less than a lease: who waits for work gives signs of life by asking again
)
LONGEST_LOOK_MS = 30_000


class RunBook:
    """A `Coordinator` over one workspace; `store` is that of role flow. Call `begin` before all else.

    `tell` hears of trouble that no caller is told of.
    """

    def __init__(
        self,
        store: Store,
        *,
        facts: Facts,
        fences: Fences,
        versions: Versions,
        states: StateReader,
        runs: RunReader,
        tell: Tell = nobody_listens,
    ) -> None:
        self._store = store
        self._facts = facts
        self._fences = fences
        self._versions = versions
        self._states = states
        self._runs = runs
        self._tell = tell
        self._logs = Logs(store)
        self._plans = PlanStore(store)
        self._is_open = False
        self._is_readable = False
        self._why_closed = "it is not open yet"
        self._keeper = new_ulid(store.runtime)
        self._inside: set[str] = set()
        self._put_together()

    def _put_together(self) -> None:
        """All parts, around an empty desk."""
        facts, fences = self._facts, self._fences
        self._desk = desk = Desk(self._store.runtime, self._tell)
        desk.keeper, desk.inside = self._keeper, self._inside
        materials = Materials(self._states, self._versions, desk.tasks)
        self._recovery = Recovery(desk, self._store, self._plans, self._runs)
        self._retries = Retries(desk, self._plans, self._recovery)
        self._settling = Settling(desk, facts, materials)
        settle = self._settling.soon
        preparation = Preparation(desk, self._store, fences, materials)
        untold = Untold(desk, facts, preparation, materials)
        self._completion = Completion(
            desk, facts, self._logs, materials, settle=settle, untold=untold
        )
        self._reaper = Reaper(desk, facts, settle, self._completion.due, untold)
        self._submission = Submission(
            desk,
            self._plans,
            recovery=self._recovery,
            facts=facts,
            fences=fences,
            materials=materials,
        )
        self._dispatch = Dispatch(
            desk,
            self._store,
            facts,
            preparation,
            materials,
            settle=settle,
            expire=self._reaper.expire,
        )

    @property
    def figures(self) -> Figures:
        """Counts for whoever watches over the service."""
        return self._desk.figures

    @property
    def at_work(self) -> int:
        """How many attempts are under way."""
        return len(self._desk.leases.live)

    async def begin(self) -> None:
        """Go on with the runs that are not over; nothing is answered before.

        Should it fail, it has done nothing and can be called again; also after `close`, when somebody else
        may have kept the book meanwhile.
        """
        self._put_together()
        desk = self._desk
        unfinished = await self._recovery.unfinished()
        for aside in unfinished.aside:
            await self._facts.append([*aside.facts(desk.clock.now_ms())])
            desk.figures.set_aside += 1
            self._tell("going on with a run", aside.problem, run=aside.stored.run_id)
        for found in unfinished.runs:
            for key, pause in self._recovery.adopt(found):
                desk.alarms.set(pause, self._due(found.run, key))
        for lease in desk.leases.live.values():
            left = lease.until_ms - desk.clock.elapsed_ms()
            desk.alarms.set(max(left, 0), self._expiry(lease.attempt_id))
        for run in [*desk.runs.values()]:
            self._reaper.look_at(run)
            self._settling.soon(run)
        desk.alarms.begin()
        self._is_open = True

    async def close(self, why: str = "it was closed") -> None:
        """Stop; attempts under way go on, and a book that is opened within their leases hears of them."""
        self._is_open = False
        self._why_closed = why
        self._settling.close()
        self._desk.alarms.close()

    def let_read(self) -> None:
        """Tell how runs stand though another process may keep the book: as the ledger knows them."""
        self._is_readable = True

    async def has_dead(self) -> bool:
        """Whether there are runs to be ended by `end_dead`, unless another process keeps the book."""
        unfinished = await self._recovery.unfinished()
        dead = (self._recovery.is_gone(each.run) for each in unfinished.runs)
        return bool(unfinished.aside) or any(dead)

    async def end_dead(self, within_ms: int) -> None:
        """End the runs whose process is gone, by now or by whoever begins next, and close.

        For whoever keeps the book no longer than that. Nothing is given out, and all other runs stay as
        they are, with the leases that they have.
        """
        await self.begin()
        try:
            desk = self._desk
            ends = desk.clock.elapsed_ms() + within_ms
            for run in [each for each in desk.runs.values() if self._recovery.is_gone(each)]:
                while not run.state.is_over and (left := ends - desk.clock.elapsed_ms()) > 0:
                    await self.look(run.run_id, run.state.number, round(left))
        finally:
            await self.close()
            self._put_together()  # what it has read is soon no longer true

    def excuse(self, why: str) -> None:
        """What callers are told while it is not open."""
        self._why_closed = why

    def host(self, worker: str) -> None:
        """A worker lives in this very process: who opens the book after it need not wait for its leases."""
        self._inside.add(worker)

    async def state(self, tables: Sequence[str], files_of: Sequence[str] = ()) -> State:
        return await self._states.state(tables, files_of)

    async def submit(self, wish: RunWish) -> RunView:
        self._check_open()
        run = await self._desk.through(self._submit(wish))
        return run.view(run.state.number)

    async def lease(self, offer: Offer) -> Leased:
        self._check_open()
        if not 0 < len(offer.worker) <= LONGEST_LABEL:
            raise Invalid(f"the name of a worker has 1 to {LONGEST_LABEL} characters")
        if any(len(pool) > LONGEST_LABEL for pool in offer.pools):
            raise Invalid(f"the name of a pool has at most {LONGEST_LABEL} characters")
        desk = self._desk
        ends = desk.clock.elapsed_ms() + min(offer.wait_ms, LONGEST_WAIT_MS)
        while True:
            desk.heard(offer.worker)
            if offer.run_id is not None:
                run = await self._run(offer.run_id)
                if run.plan.project != offer.project:
                    raise Invalid(f"run {run.run_id} is one of project {run.plan.project!r}")
                if run.state.is_over:
                    return Leased(is_over=True)
            chosen = self._dispatch.choose(offer)
            if chosen:
                tasks = await desk.through(self._dispatch.give(offer, chosen))
                if tasks:
                    return Leased(tasks=tasks)
                continue  # they were done already, or their runs have been stopped
            left = ends - desk.clock.elapsed_ms()
            if left <= 0:
                return Leased()
            await desk.wait_for_work(offer, left)

    async def beat(self, beat: Beat) -> Pulse:
        self._check_open()
        desk = self._desk
        desk.heard(beat.worker)
        known = desk.attempts.get(beat.attempt_id)
        if known is None:
            raise NotFound(f"nobody knows attempt {beat.attempt_id}")
        await self._logs.write(known[0], beat.attempt_id, beat.log, beat.log_part)
        lease, now_ms = desk.leases.live.get(beat.attempt_id), desk.clock.now_ms()
        run = desk.find(known[0])
        if lease is None or run is None or lease.worker != beat.worker:
            return Pulse(lease_until_ms=now_ms, is_lost=True)
        lease.until_ms = desk.clock.elapsed_ms() + LEASE_MS
        lease.progress = beat.progress
        self._dispatch.note(lease)
        before = run.state.number
        run.state.progressed(lease.key, beat.progress)
        if run.state.number != before:
            run.ring()
        return Pulse(lease_until_ms=now_ms + LEASE_MS, should_cancel=run.state.is_stopped)

    async def watch(
        self, worker: str, attempt_ids: tuple[str, ...], wait_ms: int = 0
    ) -> tuple[str, ...]:
        self._check_open()
        desk = self._desk
        desk.heard(worker)
        stopped = self._stopped(worker, attempt_ids)
        if stopped or not wait_ms:
            return stopped
        event = desk.tasks.event()
        desk.leases.watchers.add(event)
        ends = desk.clock.elapsed_ms() + min(wait_ms, LONGEST_LOOK_MS)
        try:
            while not stopped and (left := ends - desk.clock.elapsed_ms()) > 0:
                event.clear()
                await desk.wait(event, left)
                stopped = self._stopped(worker, attempt_ids)
        finally:
            desk.leases.watchers.discard(event)
        return stopped

    async def complete(self, completed: Completed) -> None:
        self._check_open()
        self._desk.heard(completed.worker)
        run, key, attempt = await self._attempt(completed)
        await self._desk.through(self._completion.take(run, key, attempt, completed))

    async def look(self, run_id: str, since: int = 0, wait_ms: int = 0) -> RunView:
        if not self._is_readable:
            self._check_open()
        desk = self._desk
        run = await self._run(run_id)
        event = desk.tasks.event()
        run.watchers.add(event)
        ends = desk.clock.elapsed_ms() + min(wait_ms, LONGEST_LOOK_MS)
        try:
            while run.state.number <= since and not run.state.is_over:
                if wait_ms and run.trouble is not None:
                    raise run.trouble  # waiting would be no help
                left = ends - desk.clock.elapsed_ms()
                if left <= 0:
                    break
                event.clear()
                await desk.wait(event, left)
        finally:
            run.watchers.discard(event)
        return run.view(since)

    async def cancel(self, run_id: str, by: str | None = None) -> RunView:
        self._check_open()
        run = await self._run(run_id)
        if not run.state.is_over and not run.state.is_cancelled:
            await self._desk.through(self._cancel(run, by))
        return run.view(run.state.number)

    async def retry(self, run_id: str, worker: str = "") -> RunView:
        self._check_open()
        run = await self._run(run_id)
        ends = self._desk.clock.elapsed_ms() + ENDING_MS
        while run.state.is_stopped and not run.state.is_over:  # its end is being told
            if self._desk.clock.elapsed_ms() >= ends:
                break
            await self.look(run_id, run.state.number, ENDING_MS)
        if not run.state.is_over:
            raise not_over(run_id)
        again = await self._desk.through(self._retry(run, worker))
        return again.view(again.state.number)

    async def _submit(self, wish: RunWish) -> LiveRun:
        run, begins = await self._submission.take(wish)
        if begins:
            self._reaper.look_at(run)
            self._settling.soon(run)
        return run

    async def _retry(self, run: LiveRun, worker: str) -> LiveRun:
        first = (*run.stored.wish.after, run.run_id)[0]
        async with self._desk.turns.of(f"retry/{first}"):
            return await self._submit(await self._retries.wish(run, worker))

    async def _cancel(self, run: LiveRun, by: str | None) -> None:
        await self._facts.append([run_cancelled(run.run_id, (by or "")[:LONGEST_LABEL])])
        if run.state.is_over:
            return
        run.state.cancel()
        self._desk.leases.ring()
        run.ring()
        self._settling.soon(run)

    def _stopped(self, worker: str, attempt_ids: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(each for each in attempt_ids if self._is_stopped(worker, each))

    def _is_stopped(self, worker: str, attempt_id: str) -> bool:
        lease = self._desk.leases.live.get(attempt_id)
        run = None if lease is None else self._desk.find(lease.run_id)
        return lease is None or run is None or lease.worker != worker or run.state.is_stopped

    async def _run(self, run_id: str) -> LiveRun:
        """A run, read back if it is over for long."""
        found = self._desk.find(run_id)
        if found is None:
            found = await self._recovery.archived(run_id)
        if found is None:
            raise no_run(f"there is no run {run_id}")
        return found

    async def _attempt(self, completed: Completed) -> tuple[LiveRun, str, int]:
        known = self._desk.attempts.get(completed.attempt_id)
        if known is not None:
            return await self._run(known[0]), known[1], known[2]
        if completed.run_id and completed.key:
            run = await self._run(completed.run_id)
            task = run.state.tasks.get(completed.key)
            most = 0 if task is None else task.attempt
            attempt = attempt_of(completed.attempt_id, run.run_id, completed.key, most)
            if attempt is not None:
                return run, completed.key, attempt
        raise NotFound(f"nobody knows attempt {completed.attempt_id}")

    def _due(self, run: LiveRun, key: str) -> Callable[[], None]:
        return lambda: self._completion.due(run, key)

    def _expiry(self, attempt_id: str) -> Callable[[], None]:
        return lambda: self._reaper.expire(attempt_id)

    def _check_open(self) -> None:
        if not self._is_open:
            raise Unavailable(f"the book of runs cannot be asked now: {self._why_closed}")
