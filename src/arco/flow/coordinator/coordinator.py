"""The run coordinator: starts runs, leases tasks to workers, and records how they end.

Whatever it answers is in the ledger before (law 1). Only lease times and waiting callers are in memory
alone; a restart reads all else back. A workspace has one coordinator at a time.

Cost: a task without tables takes two durable creates, one when it is dispatched and one when it ends,
both shared with concurrent events. Nothing is scanned or polled: the end of a task makes its downstream
tasks ready and wakes waiting workers.
"""

from collections.abc import Callable, Sequence

from arco.core.errors import ArcoError, Invalid, NotFound, Unavailable
from arco.core.ids import new_ulid
from arco.flow.coordinator.active_run import ActiveRun
from arco.flow.coordinator.attempt_logs import AttemptLogStore
from arco.flow.coordinator.completion import CompletionHandler, UnreportedOutputs
from arco.flow.coordinator.data_versions import DataVersions
from arco.flow.coordinator.dispatch import TaskDispatcher, find_code_waits, lacks_code
from arco.flow.coordinator.events import MAX_LABEL_CHARS, cancel_requested, caused_by
from arco.flow.coordinator.finalizer import RunFinalizer
from arco.flow.coordinator.messages import (
    LEASE_MS,
    RUN_END_WAIT_MS,
    AttemptReport,
    Heartbeat,
    HeartbeatResponse,
    LeaseRequest,
    LeaseResponse,
    RunRequest,
    RunView,
)
from arco.flow.coordinator.plan_store import PlanStore
from arco.flow.coordinator.ports import (
    CoordinatedElsewhere,
    ErrorReporter,
    EventWriter,
    Fences,
    RunReader,
    run_not_found,
    run_not_over,
)
from arco.flow.coordinator.preparation import TaskPreparer
from arco.flow.coordinator.reaper import LeaseReaper
from arco.flow.coordinator.recovery import RunRecovery
from arco.flow.coordinator.run_state import attempt_number
from arco.flow.coordinator.state import CoordinatorCounters, CoordinatorState, ignore_error
from arco.flow.coordinator.submission import RunRetries, RunSubmission
from arco.flow.plan.plan import Plan
from arco.flow.plan.table_state import PlanningState, SourceVersions, StateReader
from arco.storage.store import Store

_MAX_LEASE_WAIT_MS = 10_000  # less than a lease: the next request shows that the worker is alive
_MAX_WAIT_MS = 30_000


class RunCoordinator:
    """A `Coordinator` over one workspace; `store` has the role flow. Call `begin` first.

    `on_error` gets the errors that no caller gets. Calls that read old runs or the state of tables take the
    `caller` in whose share of the SQL processes they do so; None stands for Arco itself.
    """

    def __init__(
        self,
        store: Store,
        *,
        events: EventWriter,
        fences: Fences,
        versions: SourceVersions,
        states: StateReader,
        runs: RunReader,
        on_error: ErrorReporter = ignore_error,
    ) -> None:
        self._store = store
        self._events = events
        self._fences = fences
        self._sources = versions
        self._states = states
        self._runs = runs
        self._report_error = on_error
        self._logs = AttemptLogStore(store)
        self._plans = PlanStore(store)
        self._is_open = False
        self._is_readable = False
        self._closed_problem: ArcoError = Unavailable("it is not open yet")
        self._process = new_ulid(store.runtime)
        self._local_workers: set[str] = set()
        self._reset()

    def _reset(self) -> None:
        """Build all parts around an empty state."""
        store, events, plans = self._store, self._events, self._plans
        self._state = state = CoordinatorState(
            store.runtime,
            self._report_error,
            process=self._process,
            local_workers=self._local_workers,
        )
        versions = DataVersions(self._states, self._sources, state.tasks)
        self._recovery = recovery = RunRecovery(state, store, plans, self._runs)
        self._retries = RunRetries(plans, recovery)
        self._finalizer = RunFinalizer(state, events, versions)
        finalize = self._finalizer.schedule
        preparer = TaskPreparer(state, store, self._fences, versions)
        unreported = UnreportedOutputs(state, events, preparer, versions)
        self._completion = CompletionHandler(
            state, events, self._logs, versions, finalize=finalize, unreported=unreported
        )
        self._reaper = LeaseReaper(
            state, events, finalize, self._completion.end_retry_wait, unreported
        )
        self._submission = RunSubmission(
            state, plans, recovery=recovery, events=events, fences=self._fences, versions=versions
        )
        self._dispatcher = TaskDispatcher(
            state,
            store,
            events,
            preparer,
            versions,
            finalize=finalize,
            expire=self._reaper.expire,
        )

    @property
    def figures(self) -> CoordinatorCounters:
        """Counts for metrics."""
        return self._state.counters

    @property
    def at_work(self) -> int:
        """How many attempts are active."""
        return len(self._state.leases.live)

    async def begin(self) -> None:
        """Resume the runs that have not ended, and accept calls.

        If it fails it has changed nothing and can be called again; also after `close`, when another process
        may have been the coordinator meanwhile.
        """
        self._reset()
        state = self._state
        unfinished = await self._recovery.unfinished()
        for unreadable in unfinished.unreadable:
            await self._events.append([*unreadable.events(state.clock.now_ms())])
            state.counters.set_aside += 1
            run_id = unreadable.stored.run_id
            self._report_error("resuming a run", unreadable.error, run=run_id)
        for recovered in unfinished.runs:
            for key, delay in self._recovery.resume(recovered):
                state.timers.schedule(delay, self._retry_timer(recovered.run, key))
        for lease in state.leases.live.values():
            remaining_ms = lease.until_ms - state.clock.elapsed_ms()
            state.timers.schedule(max(remaining_ms, 0), self._expiry_timer(lease.attempt_id))
        for run in [*state.runs.values()]:
            self._reaper.check_worker(run)
            self._finalizer.schedule(run)
        state.timers.start()
        self._is_open = True

    async def close(self, why: str = "it was closed") -> None:
        """Stop; active attempts go on, and report to a coordinator that opens within their leases."""
        self._is_open = False
        self._closed_problem = Unavailable(why)
        self._finalizer.close()
        self._state.timers.close()

    def allow_reads(self) -> None:
        """Answer `get_run` from the ledger while another process may be the coordinator."""
        self._is_readable = True

    async def has_orphaned_runs(self) -> bool:
        """Whether `end_orphaned_runs` has something to end, unless another process is the coordinator."""
        unfinished = await self._recovery.unfinished()
        orphaned = (self._recovery.is_orphaned(each.run) for each in unfinished.runs)
        return bool(unfinished.unreadable) or any(orphaned)

    async def end_orphaned_runs(self, within_ms: int) -> None:
        """End the runs whose process is gone, and close.

        For a process that is the coordinator only for that. It leases nothing, and all other runs keep
        their state and leases. What it cannot end in time is left to the next coordinator.
        """
        await self.begin()
        try:
            state = self._state
            ends = state.clock.elapsed_ms() + within_ms
            for run in [each for each in state.runs.values() if self._recovery.is_orphaned(each)]:
                while (
                    not run.state.is_over and (remaining_ms := ends - state.clock.elapsed_ms()) > 0
                ):
                    await self.get_run(run.run_id, run.state.number, round(remaining_ms))
        finally:
            await self.close()
            self._reset()  # what it has read is soon outdated

    def set_closed_problem(self, problem: ArcoError) -> None:
        """The problem that callers get while it is not open."""
        self._closed_problem = problem

    def host(self, worker: str) -> None:
        """Register a worker of this process: the next coordinator need not wait for its leases."""
        self._local_workers.add(worker)

    async def state(
        self, tables: Sequence[str], files_of: Sequence[str] = (), *, caller: str | None = None
    ) -> PlanningState:
        return await self._states.state(tables, files_of, caller=caller)

    async def submit(self, request: RunRequest, /, *, caller: str | None = None) -> RunView:
        self._check_open()
        run = await self._state.shield(self._submit(request, caller))
        return run.view(run.state.number)

    async def lease(self, request: LeaseRequest, /, *, caller: str | None = None) -> LeaseResponse:
        self._check_open()
        _check_lease_request(request)
        state = self._state
        ends = state.clock.elapsed_ms() + min(request.wait_ms, _MAX_LEASE_WAIT_MS)
        while True:
            state.record_request(request)
            if request.run_id is not None:
                run = await self._run(request.run_id)
                if run.plan.project != request.project:
                    raise Invalid(f"run {run.run_id} is one of project {run.plan.project!r}")
                if run.state.is_over:
                    return LeaseResponse(is_over=True)
            selected = self._dispatcher.select(request)
            if selected:
                tasks = await state.shield(self._dispatcher.dispatch(request, selected, caller))
                if tasks:
                    return LeaseResponse(tasks=tasks)
                continue  # their outputs existed, or their runs were stopped
            lacking = {
                run.run_id for run in self._dispatcher.runs_for(request) if lacks_code(run, request)
            }
            if other_code := state.new_code_mismatches(request.worker, lacking):
                return LeaseResponse(other_code=other_code)
            remaining_ms = ends - state.clock.elapsed_ms()
            if remaining_ms <= 0:
                return LeaseResponse()
            await state.wait_for_work(request, remaining_ms)

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatResponse:
        self._check_open()
        state = self._state
        state.record_contact(heartbeat.worker)
        attempt = state.attempts.get(heartbeat.attempt_id)
        if attempt is None:
            raise _attempt_not_found(heartbeat.attempt_id)
        run_id = attempt[0]
        await self._logs.write(run_id, heartbeat.attempt_id, heartbeat.log, heartbeat.log_part)
        lease, now_ms = state.leases.live.get(heartbeat.attempt_id), state.clock.now_ms()
        run = state.find(run_id)
        if lease is None or run is None or lease.worker != heartbeat.worker:
            return HeartbeatResponse(lease_until_ms=now_ms, is_lost=True)
        lease.until_ms = state.clock.elapsed_ms() + LEASE_MS
        lease.progress = heartbeat.progress
        self._dispatcher.store_hint(lease)
        before = run.state.number
        run.state.record_progress(lease.key, heartbeat.progress)
        if run.state.number != before:
            run.notify()
        return HeartbeatResponse(
            lease_until_ms=now_ms + LEASE_MS, should_cancel=run.state.is_stopped
        )

    async def watch(
        self, worker: str, attempt_ids: tuple[str, ...], wait_ms: int = 0
    ) -> tuple[str, ...]:
        self._check_open()
        state = self._state
        state.record_contact(worker)
        stopped = self._stopped(worker, attempt_ids)
        if stopped or not wait_ms:
            return stopped
        event = state.tasks.event()
        state.leases.watchers.add(event)
        ends = state.clock.elapsed_ms() + min(wait_ms, _MAX_WAIT_MS)
        try:
            while not stopped and (remaining_ms := ends - state.clock.elapsed_ms()) > 0:
                event.clear()
                await state.wait(event, remaining_ms)
                stopped = self._stopped(worker, attempt_ids)
        finally:
            state.leases.watchers.discard(event)
        return stopped

    async def complete(self, report: AttemptReport, /, *, caller: str | None = None) -> None:
        self._check_open()
        self._state.record_contact(report.worker)
        run, key, attempt = await self._attempt(report)
        await self._state.shield(self._completion.complete(run, key, attempt, report, caller))

    async def get_run(
        self, run_id: str, since: int = 0, wait_ms: int = 0, *, caller: str | None = None
    ) -> RunView:
        if not self._is_readable:
            self._check_open()
        state = self._state
        run = await self._run(run_id, caller)
        event = state.tasks.event()
        run.watchers.add(event)
        ends = state.clock.elapsed_ms() + min(wait_ms, _MAX_WAIT_MS)
        try:
            while run.state.number <= since and not run.state.is_over:
                if wait_ms and run.store_error is not None:
                    raise run.store_error  # waiting would not help
                remaining_ms = ends - state.clock.elapsed_ms()
                if remaining_ms <= 0:
                    break
                event.clear()
                await state.wait(event, remaining_ms)
        finally:
            run.watchers.discard(event)
        return run.view(since, tuple(find_code_waits(run, state.connected_workers())))

    async def cancel(
        self, run_id: str, by: str | None = None, *, caller: str | None = None
    ) -> RunView:
        self._check_open()
        run = await self._run(run_id, caller)
        if not run.state.is_over and not run.state.is_cancelled:
            await self._state.shield(self._cancel(run, by, caller))
        return run.view(run.state.number)

    async def retry(
        self,
        run_id: str,
        worker: str = "",
        plan: Plan | None = None,
        *,
        caller: str | None = None,
    ) -> RunView:
        self._check_open()
        run = await self._run(run_id, caller)
        ends = self._state.clock.elapsed_ms() + RUN_END_WAIT_MS
        while run.state.is_stopped and not run.state.is_over:  # its end is being recorded
            if self._state.clock.elapsed_ms() >= ends:
                break
            await self.get_run(run_id, run.state.number, RUN_END_WAIT_MS, caller=caller)
        if not run.state.is_over:
            raise run_not_over(run_id)
        retry = await self._state.shield(self._retry(run, worker, plan, caller))
        return retry.view(retry.state.number)

    async def _submit(self, request: RunRequest, caller: str | None) -> ActiveRun:
        run, starts = await self._submission.submit(request, caller=caller)
        if starts:
            self._reaper.check_worker(run)
            self._finalizer.schedule(run)
        return run

    async def _retry(
        self, run: ActiveRun, worker: str, plan: Plan | None, caller: str | None
    ) -> ActiveRun:
        first = (*run.stored.request.after, run.run_id)[0]
        async with self._state.keyed_lock.hold(f"retry/{first}"):
            request = await self._retries.request(run, worker, plan, caller=caller)
            return await self._submit(request, caller)

    async def _cancel(self, run: ActiveRun, by: str | None, caller: str | None) -> None:
        requested = cancel_requested(run.run_id, (by or "")[:MAX_LABEL_CHARS])
        await self._events.append(caused_by(caller, [requested]))
        if run.state.is_over:
            return
        run.state.cancel()
        self._state.leases.notify()
        run.notify()
        self._finalizer.schedule(run)

    def _stopped(self, worker: str, attempt_ids: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(each for each in attempt_ids if self._is_stopped(worker, each))

    def _is_stopped(self, worker: str, attempt_id: str) -> bool:
        lease = self._state.leases.live.get(attempt_id)
        run = None if lease is None else self._state.find(lease.run_id)
        return lease is None or run is None or lease.worker != worker or run.state.is_stopped

    async def _run(self, run_id: str, caller: str | None = None) -> ActiveRun:
        """A run, from memory or from the ledger."""
        run = await self._recovery.find(run_id, caller=caller)
        if run is None:
            raise run_not_found(f"there is no run {run_id}")
        return run

    async def _attempt(self, report: AttemptReport) -> tuple[ActiveRun, str, int]:
        attempt = self._state.attempts.get(report.attempt_id)
        if attempt is not None:
            return await self._run(attempt[0]), attempt[1], attempt[2]
        if report.run_id and report.key:
            run = await self._run(report.run_id)
            task = run.state.tasks.get(report.key)
            count = 0 if task is None else task.attempt
            number = attempt_number(report.attempt_id, run.run_id, report.key, count)
            if number is not None:
                return run, report.key, number
        raise _attempt_not_found(report.attempt_id)

    def _retry_timer(self, run: ActiveRun, key: str) -> Callable[[], None]:
        return lambda: self._completion.end_retry_wait(run, key)

    def _expiry_timer(self, attempt_id: str) -> Callable[[], None]:
        return lambda: self._reaper.expire(attempt_id)

    def _check_open(self) -> None:
        if not self._is_open:
            problem = self._closed_problem
            elsewhere = isinstance(problem, CoordinatedElsewhere)
            error = CoordinatedElsewhere if elsewhere else Unavailable
            raise error(f"the coordinator is not available now: {problem}")


def _attempt_not_found(attempt_id: str) -> NotFound:
    return NotFound(f"there is no attempt {attempt_id}")


def _check_lease_request(request: LeaseRequest) -> None:
    if not 0 < len(request.worker) <= MAX_LABEL_CHARS:
        raise Invalid(f"the name of a worker has 1 to {MAX_LABEL_CHARS} characters")
    if any(len(pool) > MAX_LABEL_CHARS for pool in request.pools):
        raise Invalid(f"the name of a pool has at most {MAX_LABEL_CHARS} characters")
