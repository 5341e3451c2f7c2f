"""The reaper: takes tasks back from workers that are silent, and gives up runs that nobody works on.

A lease is over when nothing was heard for as long as it lasts, by elapsed time. The attempt is lost then,
which is told, and the task is tried again if it may be; its partitions are fenced before (P35). Where
making it again would append its rows twice, it is looked first whether they are there. A run that one
worker alone works on is given up when that worker is silent for as long.
"""

from collections.abc import Callable

from arco.flow.run.desk import Desk
from arco.flow.run.ending import first_missing
from arco.flow.run.lease import Lease
from arco.flow.run.live import LiveRun
from arco.flow.run.ports import Fact, Facts
from arco.flow.run.task_state import Ending
from arco.flow.run.untold import Untold
from arco.flow.run.wire import ANYBODY, LEASE_MS, TaskStatus

LEASE_OVER = "lease_expired"
GONE = "its runner is gone"

_WHAT = "taking a task back"
_AGAIN_MS = 1_000


class Reaper:
    """Looks after leases and silent workers, woken by alarms."""

    def __init__(
        self,
        desk: Desk,
        facts: Facts,
        settle: Callable[[LiveRun], None],
        due: Callable[[LiveRun, str], None],
        untold: Untold,
    ) -> None:
        self._desk = desk
        self._facts = facts
        self._settle = settle
        self._due = due
        self._untold = untold

    def expire(self, attempt_id: str) -> None:
        """A lease may be over: a sign of life has perhaps made it longer."""
        lease = self._desk.leases.live.get(attempt_id)
        if lease is None:
            return
        left = lease.until_ms - self._desk.clock.elapsed_ms()
        if left > 0:
            self._desk.alarms.set(left, lambda: self.expire(attempt_id))
        else:
            self._desk.beside(_WHAT, self._lose(lease), run=lease.run_id, task=lease.key)

    def look_at(self, run: LiveRun) -> None:
        """Whether the one who works on a run is still there; looks again by itself."""
        if run.worker == ANYBODY or run.state.is_over or run.state.abandoned is not None:
            return
        left = LEASE_MS - self._desk.silent_for_ms(run.worker)
        if left > 0:
            self._desk.alarms.set(left, lambda: self.look_at(run))
            return
        run.state.abandon(GONE)
        run.ring()
        self._desk.leases.ring()
        self._settle(run)

    async def _lose(self, lease: Lease) -> None:
        run = self._desk.find(lease.run_id)
        if run is None:
            return
        async with self._desk.turns.of(f"{lease.run_id}/{lease.key}"):
            if self._desk.leases.live.get(lease.attempt_id) is not lease:
                return
            if lease.until_ms > self._desk.clock.elapsed_ms():
                self.expire(lease.attempt_id)
                return
            try:
                await self._lost(run, lease)
            except Exception as problem:
                # The ledger must know before the task is given to anybody else.
                self._desk.alarms.set(_AGAIN_MS, lambda: self.expire(lease.attempt_id))
                self._desk.met(lease, _WHAT, problem)

    async def _lost(self, run: LiveRun, lease: Lease) -> None:
        # Its word, should it come while this is told, is late: the lease ends here.
        desk = self._desk
        looked = await self._untold.look(run, lease)
        if looked.is_done:
            desk.figures.lost += 1
            desk.leases.ring()
            self._settle(run)
            return
        pause = run.state.retry_after(lease.key, lost=True, rng=desk.runtime.rng)
        there = {each.table for each in looked.stands}
        await self._facts.append(self._told(run, lease, there, retried=pause is not None))
        desk.figures.lost += 1
        desk.locks.unsettle(lease.wants)
        desk.drop(lease.attempt_id)
        desk.leases.ring()
        if pause is not None:
            run.state.put_off(lease.key, failed=False, error=LEASE_OVER)
            self._due(run, lease.key)
        else:
            status = TaskStatus.CANCELLED if run.state.is_cancelled else TaskStatus.FAILED
            now_ms = desk.clock.now_ms()
            desk.end(run, lease.key, Ending(status, LEASE_OVER, completed_at_ms=now_ms))
        run.ring()
        self._settle(run)

    def _told(self, run: LiveRun, lease: Lease, there: set[str], *, retried: bool) -> list[Fact]:
        of = run.of_attempt(lease.key, lease.attempt)
        where = first_missing(lease.written, there)
        if run.state.is_cancelled:
            return [of.cancelled(where, LEASE_OVER)]
        facts = [of.lost(where, lease.worker, LEASE_OVER)]
        if retried:
            following = run.of_attempt(lease.key, lease.attempt + 1)
            facts.append(following.retried(self._desk.clock.now_ms(), LEASE_OVER))
        return facts
