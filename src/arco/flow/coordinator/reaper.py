"""Takes tasks back from workers that stopped reporting, and gives up runs whose only worker did.

A lease expires when no heartbeat came for as long as it lasts, by elapsed time. Its attempt is recorded as
lost and the task is retried if it may be; its partitions are fenced first (P35), and rows that the attempt
appended without reporting it are recorded.
"""

from collections.abc import Callable

from arco.flow.coordinator.active_run import ActiveRun
from arco.flow.coordinator.attempt_events import first_unpublished
from arco.flow.coordinator.completion import UnreportedOutputs
from arco.flow.coordinator.leases import TaskLease
from arco.flow.coordinator.messages import ANY_WORKER, LEASE_MS, TaskStatus
from arco.flow.coordinator.ports import EventWriter, RunEvent
from arco.flow.coordinator.run_state import TaskResult
from arco.flow.coordinator.state import CoordinatorState

LEASE_EXPIRED = "lease_expired"
WORKER_GONE = "its worker stopped reporting"

_EXPIRING = "expiring a lease"
_RETRY_MS = 1_000


class LeaseReaper:
    """Ends expired leases and runs of silent workers, called by timers."""

    def __init__(
        self,
        state: CoordinatorState,
        events: EventWriter,
        finalize: Callable[[ActiveRun], None],
        end_retry_wait: Callable[[ActiveRun, str], None],
        unreported: UnreportedOutputs,
    ) -> None:
        self._state = state
        self._events = events
        self._finalize = finalize
        self._end_retry_wait = end_retry_wait
        self._unreported = unreported

    def expire(self, attempt_id: str) -> None:
        """End a lease if it has expired; a heartbeat may have extended it."""
        lease = self._state.leases.live.get(attempt_id)
        if lease is None:
            return
        remaining_ms = lease.until_ms - self._state.clock.elapsed_ms()
        if remaining_ms > 0:
            self._state.timers.schedule(remaining_ms, lambda: self.expire(attempt_id))
        else:
            self._state.spawn(_EXPIRING, self._expire(lease), run=lease.run_id, task=lease.key)

    def check_worker(self, run: ActiveRun) -> None:
        """Give up a run whose only worker is silent; schedules the next check itself."""
        if run.worker == ANY_WORKER or run.state.is_over or run.state.abandoned is not None:
            return
        remaining_ms = LEASE_MS - self._state.silence_ms(run.worker)
        if remaining_ms > 0:
            self._state.timers.schedule(remaining_ms, lambda: self.check_worker(run))
            return
        run.state.abandon(WORKER_GONE)
        run.notify()
        self._state.leases.notify()
        self._finalize(run)

    async def _expire(self, lease: TaskLease) -> None:
        run = self._state.find(lease.run_id)
        if run is None:
            return
        async with self._state.keyed_lock.hold(f"{lease.run_id}/{lease.key}"):
            if self._state.leases.live.get(lease.attempt_id) is not lease:
                return
            if lease.until_ms > self._state.clock.elapsed_ms():
                self.expire(lease.attempt_id)
                return
            try:
                await self._end_attempt(run, lease)
            except Exception as error:
                # The ledger must have the end before another worker gets the task.
                self._state.timers.schedule(_RETRY_MS, lambda: self.expire(lease.attempt_id))
                self._state.report_lease_error(lease, _EXPIRING, error)

    async def _end_attempt(self, run: ActiveRun, lease: TaskLease) -> None:
        # A report that arrives meanwhile is late: the lease ends here.
        state = self._state
        recorded = await self._unreported.record(run, lease)
        if recorded.is_done:
            state.counters.lost += 1
            state.leases.notify()
            self._finalize(run)
            return
        delay = run.state.retry_delay(lease.key, lost=True, rng=state.runtime.rng)
        kept_tables = {each.table for each in recorded.kept_outputs}
        await self._events.append(
            self._lost_events(run, lease, kept_tables, retried=delay is not None)
        )
        state.counters.lost += 1
        state.locks.mark_unfenced(lease.locks)
        state.release_lease(lease.attempt_id)
        state.leases.notify()
        if delay is not None:
            run.state.schedule_retry(lease.key, failed=False, error=LEASE_EXPIRED)
            self._end_retry_wait(run, lease.key)
        else:
            status = TaskStatus.CANCELLED if run.state.is_cancelled else TaskStatus.FAILED
            now_ms = state.clock.now_ms()
            state.end_task(
                run, lease.key, TaskResult(status, LEASE_EXPIRED, completed_at_ms=now_ms)
            )
        run.notify()
        self._finalize(run)

    def _lost_events(
        self, run: ActiveRun, lease: TaskLease, kept_tables: set[str], *, retried: bool
    ) -> list[RunEvent]:
        attempt = run.attempt(lease.key, lease.attempt)
        partition = first_unpublished(lease.outputs, kept_tables)
        if run.state.is_cancelled:
            return [attempt.cancelled(partition, LEASE_EXPIRED)]
        events = [attempt.lost(partition, lease.worker, LEASE_EXPIRED)]
        if retried:
            next_attempt = run.attempt(lease.key, lease.attempt + 1)
            events.append(next_attempt.retry_scheduled(self._state.clock.now_ms(), LEASE_EXPIRED))
        return events
