"""Resumes runs after a restart, from the ledger and their stored plans.

Every attempt that was active gets a full lease from now, whatever wall clocks say: its worker may still
be executing it, and its report counts. Without a report it is lost like any other; at once, if its worker
lived in the previous coordinator process. A run whose plan cannot be read ends with that error; all
others go on.
"""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from arco.core.errors import ArcoError, Corrupt, Invalid
from arco.flow.coordinator.active_run import ActiveRun
from arco.flow.coordinator.events import AttemptEvents, PartitionRef, run_ended
from arco.flow.coordinator.leases import LeaseHint, TaskLease, find_lease_hint, restore_inputs
from arco.flow.coordinator.messages import LEASE_MS, Progress, RunStatus, TaskStatus
from arco.flow.coordinator.plan_store import PlanStore, StoredPlan, check_plan
from arco.flow.coordinator.ports import RunEvent, RunReader, StoredRun
from arco.flow.coordinator.run_state import (
    ACTIVE_STATUSES,
    ENDED_STATUSES,
    RunState,
    TaskState,
    attempt_id_of,
    retry_delay_ms,
)
from arco.flow.coordinator.state import CoordinatorState
from arco.flow.plan.keys import read_key
from arco.storage.store import Store

T = TypeVar("T")

_CONCURRENT_READS = 32


@dataclass(frozen=True)
class RecoveredRun:
    """A run that has not ended, and the lease hints of its active tasks."""

    run: ActiveRun
    leases: dict[str, LeaseHint | None]


@dataclass(frozen=True)
class UnreadableRun:
    """A run that cannot be resumed."""

    stored: StoredRun
    error: ArcoError

    def events(self, now_ms: int) -> Iterator[RunEvent]:
        """Its end, and that of all its tasks; what they have published stays published."""
        run_id, reason = self.stored.run_id, f"its plan cannot be read: {self.error}"
        for task in self.stored.tasks:
            if task.status in ENDED_STATUSES:
                continue
            maker = read_key(task.key).maker
            attempt = AttemptEvents(run_id, task.key, maker, max(task.attempt, 1))
            if task.status in ACTIVE_STATUSES:
                yield attempt.lost(PartitionRef(), task.worker or "", reason)
            else:
                yield attempt.never_started(TaskStatus.SKIPPED, reason, now_ms)
        yield run_ended(run_id, RunStatus.FAILED, reason, requested_at_ms=now_ms, at_ms=now_ms)


@dataclass(frozen=True)
class UnfinishedRuns:
    """All runs of this coordinator that have not ended, the oldest first."""

    runs: list[RecoveredRun]
    unreadable: list[UnreadableRun]


class RunRecovery:
    """Reads runs back."""

    def __init__(
        self, state: CoordinatorState, store: Store, plans: PlanStore, reader: RunReader
    ) -> None:
        self._state = state
        self._store = store
        self._plans = plans
        self._reader = reader

    async def unfinished(self) -> UnfinishedRuns:
        """All runs that have not ended; executions of other programs have no plan and are ignored."""
        stored_runs = await self._reader.unfinished()
        plans = await self._gather(self._plan, [each.run_id for each in stored_runs])
        runs: list[ActiveRun] = []
        unreadable: list[UnreadableRun] = []
        for stored, plan in zip(stored_runs, plans, strict=True):
            if isinstance(plan, ArcoError):
                unreadable.append(UnreadableRun(stored, plan))
            elif plan is not None:
                runs.append(_restore(plan, stored))
        runs.sort(key=lambda run: (run.stored.requested_at_ms, run.run_id))
        recovered = [RecoveredRun(run, await self._lease_hints(run)) for run in runs]
        return UnfinishedRuns(recovered, unreadable)

    async def find(self, run_id: str, *, caller: str | None = None) -> ActiveRun | None:
        """A run, from memory or from the ledger; None if there is none that can be read."""
        return self._state.find(run_id) or await self._read(run_id, caller)

    async def _read(self, run_id: str, caller: str | None) -> ActiveRun | None:
        stored = await self._reader.run(run_id, caller=caller)
        plan = None if stored is None else await self._plan(run_id)
        if stored is None or plan is None or isinstance(plan, ArcoError):
            return None
        return _restore(plan, stored)

    def resume(self, recovered: RecoveredRun) -> list[tuple[str, float]]:
        """Go on with a run; the tasks to retry, and their delays."""
        state, run = self._state, recovered.run
        state.runs[run.run_id] = run
        state.add_attempts(run)
        if not self.is_orphaned(run):
            state.record_contact(run.worker)
        for key, hint in recovered.leases.items():
            self._add_lease(run, run.state.tasks[key], hint)
        state.enqueue(run, run.state.start())
        return [
            (task.key, self._retry_delay_ms(task))
            for task in run.state.tasks.values()
            if task.status is TaskStatus.RETRY_WAIT
        ]

    def is_orphaned(self, run: ActiveRun) -> bool:
        """Whether its only worker lived in an earlier coordinator process."""
        return run.stored.keeper not in ("", self._state.process)

    async def _plan(self, run_id: str) -> StoredPlan | ArcoError | None:
        """The plan of a run, or why it cannot be read; None for an execution of another program."""
        try:
            plan = await self._plans.find(run_id)
            if plan is not None:
                check_plan(plan.request.plan)
        except (Corrupt, Invalid) as error:
            return error
        return plan

    async def _lease_hints(self, run: ActiveRun) -> dict[str, LeaseHint | None]:
        """The hints of the attempts that were active, by task key."""
        active = [task for task in run.state.tasks.values() if task.status in ACTIVE_STATUSES]
        ids = [attempt_id_of(run.run_id, task.key, task.attempt) for task in active]
        hints = await self._gather(lambda each: find_lease_hint(self._store, each), ids)
        return {task.key: hint for task, hint in zip(active, hints, strict=True)}

    async def _gather(
        self, read: Callable[[str], Coroutine[Any, Any, T]], names: list[str]
    ) -> list[T]:
        """Concurrent reads, a bounded number at a time."""
        results: list[T] = []
        for start in range(0, len(names), _CONCURRENT_READS):
            batch = names[start : start + _CONCURRENT_READS]
            results += await self._state.tasks.gather(*map(read, batch))
        return results

    def _retry_delay_ms(self, task: TaskState) -> float:
        """The full delay after its last failure; a task without failures was lost or given back."""
        if not task.failures:
            return 0.0
        return retry_delay_ms(task.maker.retry, task.failures, self._state.runtime.rng)

    def _add_lease(self, run: ActiveRun, task: TaskState, hint: LeaseHint | None) -> None:
        state, key = self._state, task.key
        lease = TaskLease(
            run.run_id,
            key,
            task.attempt,
            attempt_id_of(run.run_id, key, task.attempt),
            task.worker or (hint.worker if hint is not None else ""),
            run.pool(key),
            run.locks(key),
            run.outputs(key),
            state.clock.elapsed_ms() + (0 if self.is_orphaned(run) else LEASE_MS),
            restore_inputs(run.plan, task.task, None if hint is None else hint.inputs),
            progress=Progress() if hint is None else hint.progress,
        )
        state.pools.take(lease.pool)
        state.locks.take(lease.locks, (run.run_id, key))
        state.add_lease(lease)


def _restore(plan: StoredPlan, stored: StoredRun) -> ActiveRun:
    state = RunState(plan.request.plan)
    state.restore(stored.tasks)
    state.is_cancelled = stored.status is RunStatus.CANCELLED
    if stored.is_over:
        state.end_run(stored.status, stored.error, stored.completed_at_ms)
    table_ids = {table: base.table_id for table, base in plan.bases.items()}
    return ActiveRun(plan, state, table_ids=table_ids)
