"""After a restart: the runs whose end was not told, as the ledger and their stored plans tell them.

Every attempt that was under way gets a full lease from now, whatever wall clocks say: its worker may be at
it still, and what it says counts. If nothing is heard of it, it is lost as any other; at once, if its
worker has lived in the process that kept the book before. A run whose plan cannot be read is set aside: it
ends, with the reason, and all others go on.
"""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from arco.core.errors import ArcoError, Corrupt, Invalid
from arco.flow.plan.keys import read_key
from arco.flow.run.desk import Desk
from arco.flow.run.events import OfAttempt, Where, run_ended
from arco.flow.run.lease import Lease, StoredLease, find_lease, inputs_given
from arco.flow.run.live import LiveRun, check_plan
from arco.flow.run.plan_store import PlanStore, StoredPlan
from arco.flow.run.ports import Fact, RunReader, StoredRun
from arco.flow.run.run_state import RunState
from arco.flow.run.task_state import AT_WORK, ENDED, TaskState, attempt_id_of, pause_ms
from arco.flow.run.wire import LEASE_MS, Progress, RunStatus, TaskStatus
from arco.storage.store import Store

T = TypeVar("T")

_AT_ONCE = 32


@dataclass(frozen=True)
class Found:
    """A run that is not over, and what is stored of its attempts under way."""

    run: LiveRun
    leases: dict[str, StoredLease | None]


@dataclass(frozen=True)
class SetAside:
    """A run that nobody can go on with."""

    stored: StoredRun
    problem: ArcoError

    def facts(self, now_ms: int) -> Iterator[Fact]:
        """Its end, and that of all its tasks; what they have published stays published."""
        run_id, why = self.stored.run_id, f"its plan cannot be read: {self.problem}"
        for task in self.stored.tasks:
            if task.status in ENDED:
                continue
            of = OfAttempt(run_id, task.key, read_key(task.key).maker, max(task.attempt, 1))
            if task.status in AT_WORK:
                yield of.lost(Where(), task.worker or "", why)
            else:
                yield of.never_began(TaskStatus.SKIPPED, why, now_ms)
        yield run_ended(run_id, RunStatus.FAILED, why, (now_ms, now_ms))


@dataclass(frozen=True)
class Unfinished:
    """All runs of ours that are not over, the oldest first."""

    runs: list[Found]
    aside: list[SetAside]


class Recovery:
    """Reads runs back."""

    def __init__(self, desk: Desk, store: Store, plans: PlanStore, reader: RunReader) -> None:
        self._desk = desk
        self._store = store
        self._plans = plans
        self._reader = reader

    async def unfinished(self) -> Unfinished:
        """All runs of ours that are not over; those of others are left alone."""
        stored = await self._reader.unfinished()
        plans = await self._all(self._plan, [each.run_id for each in stored])
        runs: list[LiveRun] = []
        aside: list[SetAside] = []
        for each, plan in zip(stored, plans, strict=True):
            if isinstance(plan, ArcoError):
                aside.append(SetAside(each, plan))
            elif plan is not None:
                runs.append(_restored(plan, each))
        runs.sort(key=lambda run: (run.stored.requested_at_ms, run.run_id))
        return Unfinished([Found(run, await self._leases(run)) for run in runs], aside)

    async def _plan(self, run_id: str) -> StoredPlan | ArcoError | None:
        """The plan of a run, or why nobody can read it; None if it is not one of ours."""
        try:
            plan = await self._plans.find(run_id)
            if plan is not None:
                check_plan(plan.wish.plan)
        except (Corrupt, Invalid) as problem:
            return problem
        return plan

    async def _leases(self, run: LiveRun) -> dict[str, StoredLease | None]:
        """What is stored of the attempts that were under way, by the keys of their tasks."""
        at_work = [task for task in run.state.tasks.values() if task.status in AT_WORK]
        ids = [attempt_id_of(run.run_id, task.key, task.attempt) for task in at_work]
        found = await self._all(lambda each: find_lease(self._store, each), ids)
        return {task.key: lease for task, lease in zip(at_work, found, strict=True)}

    async def _all(self, ask: Callable[[str], Coroutine[Any, Any, T]], names: list[str]) -> list[T]:
        """Several questions at once, but not any number of them."""
        found: list[T] = []
        for start in range(0, len(names), _AT_ONCE):
            part = names[start : start + _AT_ONCE]
            found += await self._desk.tasks.gather(*map(ask, part))
        return found

    async def archived(self, run_id: str) -> LiveRun | None:
        """A run of ours that is over, or of which nothing was told; None if there is none to be read."""
        stored = await self._reader.run(run_id)
        plan = None if stored is None else await self._plan(run_id)
        if stored is None or plan is None or isinstance(plan, ArcoError):
            return None
        return _restored(plan, stored)

    def adopt(self, found: Found) -> list[tuple[str, float]]:
        """Go on with a run: its attempts hold what they held. The tasks to try again, and when."""
        desk, run = self._desk, found.run
        desk.runs[run.run_id] = run
        desk.know_attempts(run)
        if not self.is_gone(run):
            desk.heard(run.worker)
        for key, lease in found.leases.items():
            self._hold(run, run.state.tasks[key], lease)
        desk.ready(run, run.state.begin())
        return [
            (task.key, self._pause_ms(task))
            for task in run.state.tasks.values()
            if task.status is TaskStatus.RETRY_WAIT
        ]

    def _pause_ms(self, task: TaskState) -> float:
        """The pause after its last failure, from now on; whoever has none was only lost or given back."""
        if not task.failures:
            return 0.0
        return pause_ms(task.maker.retry, task.failures, self._desk.runtime.rng)

    def _hold(self, run: LiveRun, task: TaskState, hint: StoredLease | None) -> None:
        desk, key = self._desk, task.key
        lease = Lease(
            run.run_id,
            key,
            task.attempt,
            attempt_id_of(run.run_id, key, task.attempt),
            task.worker or (hint.worker if hint is not None else ""),
            desk.pool_of(run, key),
            run.wants(key),
            run.written(key),
            desk.clock.elapsed_ms() + (0 if self.is_gone(run) else LEASE_MS),
            inputs_given(run.plan, task.task, None if hint is None else hint.inputs),
            progress=Progress() if hint is None else hint.progress,
        )
        desk.pools.take(lease.pool)
        desk.locks.take(lease.wants, lease.task)
        desk.hold(lease)

    def is_gone(self, run: LiveRun) -> bool:
        """Whether its worker has died with the process that kept the book."""
        return run.stored.keeper not in ("", self._desk.keeper)


def _restored(plan: StoredPlan, stored: StoredRun) -> LiveRun:
    state = RunState(plan.wish.plan)
    state.restore(stored.tasks)
    state.is_cancelled = stored.status is RunStatus.CANCELLED
    if stored.is_over:
        state.over(stored.status, stored.error, stored.completed_at_ms)
    tables = {table: base.table_id for table, base in plan.bases.items()}
    return LiveRun(plan, state, table_ids=tables)
