"""Dispatches ready tasks to workers: selects, prepares, records in the ledger, and only then leases them.

While a task is being dispatched it is reserved: it holds its slot and its locks, and stays ready
otherwise. If anything fails before the ledger has the dispatch, it goes back to the queue.

A maker of a plan names the fingerprints of its code and checks; a worker gets only tasks whose planned
code it has loaded.
"""

from collections.abc import Callable, Container, Iterator, Sequence

from arco.core.errors import ArcoError, Unavailable
from arco.flow.coordinator.active_run import ActiveRun
from arco.flow.coordinator.attempt_events import (
    AttemptEnd,
    finished_task_events,
    first_unpublished,
    kept_output_events,
)
from arco.flow.coordinator.data_versions import DataVersions
from arco.flow.coordinator.events import caused_by
from arco.flow.coordinator.leases import TaskLease, lease_key
from arco.flow.coordinator.messages import (
    LEASE_MS,
    AttemptOutcome,
    AttemptReport,
    CodeVersion,
    CodeWait,
    LeasedTask,
    LeaseRequest,
    TaskStatus,
    WorkerCode,
)
from arco.flow.coordinator.ports import EventWriter, RunEvent
from arco.flow.coordinator.preparation import (
    DeferredTask,
    FailedTask,
    FinishedTask,
    PreparationResult,
    PreparedTask,
    RedundantTask,
    SelectedTask,
    TaskPreparer,
)
from arco.flow.coordinator.run_state import TaskResult
from arco.flow.coordinator.state import CoordinatorState
from arco.flow.plan.plan import Maker
from arco.storage.store import Store

_REDUNDANT = "its rows exist already: another run, or an earlier attempt, has published them"


class TaskDispatcher:
    """Leases tasks to workers; calls `finalize` for runs that may have more to record."""

    def __init__(
        self,
        state: CoordinatorState,
        store: Store,
        events: EventWriter,
        preparer: TaskPreparer,
        versions: DataVersions,
        *,
        finalize: Callable[[ActiveRun], None],
        expire: Callable[[str], None],
    ) -> None:
        self._state = state
        self._store = store
        self._events = events
        self._preparer = preparer
        self._versions = versions
        self._finalize = finalize
        self._expire = expire

    def select(self, request: LeaseRequest) -> list[SelectedTask]:
        """Reserve ready tasks whose code the worker has; the oldest run first, in plan order."""
        selected: list[SelectedTask] = []
        for run in self.runs_for(request):
            makers = frozenset(each.name for each in run.plan.makers if _has_code(request, each))
            for pool in run.queue.pools():
                if not _takes_pool(request, pool):
                    continue
                while len(selected) < request.slots:
                    key = self._next(run, pool, makers)
                    if key is None:
                        break
                    selected.append(SelectedTask(run, key))
            if len(selected) >= request.slots:
                break
        return selected

    async def dispatch(
        self, request: LeaseRequest, selected: Sequence[SelectedTask], caller: str | None = None
    ) -> tuple[LeasedTask, ...]:
        """Lease the selected tasks, without those that turn out to need no attempt."""
        try:
            results = await self._preparer.prepare(selected)
            results = [each for each in results if not _is_stopped(each)]
            now_ms = self._state.clock.now_ms()
            events = [event for each in results for event in _events(each, request, now_ms)]
            if events:
                await self._events.append(caused_by(caller, events))
        except BaseException:
            self._unreserve(selected)
            raise
        applied = [self._apply(each, request, now_ms) for each in results]
        self._unreserve([each for each in selected if each.key in each.run.reserved])
        for run in {id(each.run): each.run for each in selected}.values():
            run.notify()
            self._finalize(run)
        leased = tuple(each for each in applied if each is not None)
        errors = [each.error for each in results if isinstance(each, DeferredTask)]
        if errors and not leased and not events:
            raise _unavailable(errors[0])
        return leased

    def runs_for(self, request: LeaseRequest) -> Iterator[ActiveRun]:
        """The runs whose tasks a worker may execute, the oldest first."""
        if request.run_id is not None:
            named = self._state.runs.get(request.run_id)
            runs = [] if named is None else [named]
        else:
            runs = [*self._state.runs.values()]
        for run in runs:
            if run.accepts(request.worker, request.project) and not run.state.is_stopped:
                yield run

    def store_hint(self, lease: TaskLease) -> None:
        """Store the hint of a lease in the background; without it a restart knows less."""
        key, body = lease_key(lease.attempt_id), lease.hint(self._state.clock.now_ms())
        self._state.spawn("storing a lease hint", self._store.put_hint(key, body), task=lease.key)

    def _next(self, run: ActiveRun, pool: str, makers: Container[str]) -> str | None:
        """Reserve the next task of a pool that can start; tasks that meet a lock wait for it."""
        state, slots = self._state, run.plan.pools.get(pool)
        while state.pools.has_free((run.plan.project, pool), slots):
            key = run.queue.take(pool, makers)
            if key is None:
                return None
            if not is_ready(run, key):
                state.requeue(state.locks.wake_next(run.locks(key)))
                continue
            lock_key = state.locks.find_held(run.locks(key))
            if lock_key is None:
                state.reserve(run, key)
                return key
            state.locks.wait(lock_key, (run.run_id, key))
        return None

    def _unreserve(self, selected: Sequence[SelectedTask]) -> None:
        for task in selected:
            run, key = task.run, task.key
            run.reserved.discard(key)
            self._state.release(run.pool(key), run.run_id, key)
            if run.state.tasks[key].status is TaskStatus.READY:
                self._state.enqueue(run, [key])

    def _apply(
        self, result: PreparationResult, request: LeaseRequest, now_ms: int
    ) -> LeasedTask | None:
        """Change the state by what is durable now."""
        if isinstance(result, DeferredTask):
            return None
        run, key = result.task.run, result.task.key
        if not isinstance(result, FailedTask):
            self._versions.record_outputs(result.published)
        if isinstance(result, PreparedTask):
            if run.state.tasks[key].is_ended:
                return None  # an abandoned attempt has reported its success meanwhile
            return self._lease(result, request, now_ms)
        if isinstance(result, FinishedTask):
            ended = TaskResult(TaskStatus.SUCCESS, completed_at_ms=now_ms)
        elif isinstance(result, RedundantTask):
            ended = TaskResult(TaskStatus.SUCCESS, completed_at_ms=now_ms, note=_REDUNDANT)
        else:
            ended = TaskResult(TaskStatus.FAILED, str(result.error), completed_at_ms=now_ms)
        self._state.end_task(run, key, ended)
        return None

    def _lease(self, result: PreparedTask, request: LeaseRequest, now_ms: int) -> LeasedTask:
        state, run, key = self._state, result.task.run, result.task.key
        attempt, attempt_id = result.task.attempt, result.task.attempt_id
        lease = TaskLease(
            run.run_id,
            key,
            attempt,
            attempt_id,
            request.worker,
            run.pool(key),
            run.locks(key),
            run.outputs(key),
            state.clock.elapsed_ms() + LEASE_MS,
            result.inputs,
            result.kept_outputs,
        )
        run.reserved.discard(key)
        state.add_lease(lease)
        run.state.dispatch(key, attempt, request.worker, now_ms)
        state.timers.schedule(LEASE_MS, lambda: self._expire(attempt_id))
        if result.outputs:
            self.store_hint(lease)
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
            params=run.stored.request.params,
            inputs=result.inputs,
            outputs=result.outputs,
            code=planned_code(maker),
        )


def planned_code(maker: Maker) -> CodeVersion | None:
    """The code that tasks of a maker were planned with; None if the plan names none."""
    if maker.code_fingerprint is None:
        return None
    return CodeVersion(code=maker.code_fingerprint, checks=maker.checks_fingerprint)


def is_ready(run: ActiveRun, key: str) -> bool:
    """Whether a task is ready and not being dispatched."""
    return run.state.tasks[key].status is TaskStatus.READY and key not in run.reserved


def lacks_code(run: ActiveRun, request: LeaseRequest) -> bool:
    """Whether a run has ready tasks that a worker would get if it had their code."""
    makers = {each.name: each for each in run.plan.makers}
    return any(
        _takes_pool(request, pool)
        and not _has_code(request, makers[maker])
        and any(is_ready(run, key) for key in keys)
        for pool, maker, keys in run.queue.waiting()
    )


def find_code_waits(run: ActiveRun, connected: Sequence[LeaseRequest]) -> Iterator[CodeWait]:
    """The ready tasks, by maker, whose code none of the connected workers has."""
    if run.state.is_over or run.state.is_stopped:
        return
    workers = [each for each in connected if run.accepts(each.worker, each.project)]
    makers = {each.name: each for each in run.plan.makers}
    for pool, name, keys in run.queue.waiting():
        planned = planned_code(makers[name])
        ready = sum(is_ready(run, key) for key in keys)
        takers = [each for each in workers if _takes_pool(each, pool)]
        if planned is None or not ready or any(_has_code(each, makers[name]) for each in takers):
            continue
        loaded = (WorkerCode(worker=each.worker, code=each.code.get(name)) for each in takers)
        yield CodeWait(maker=name, tasks=ready, planned=planned, workers=tuple(loaded))


def _has_code(request: LeaseRequest, maker: Maker) -> bool:
    planned = planned_code(maker)
    return planned is None or request.code.get(maker.name) == planned


def _takes_pool(request: LeaseRequest, pool: str) -> bool:
    return not request.pools or pool in request.pools


def _is_stopped(result: PreparationResult) -> bool:
    """Whether a run was stopped while its task was prepared; outputs that exist are recorded anyway."""
    return isinstance(result, PreparedTask) and result.task.run.state.is_stopped


def _events(result: PreparationResult, request: LeaseRequest, now_ms: int) -> Iterator[RunEvent]:
    if isinstance(result, DeferredTask):
        return
    if isinstance(result, FailedTask):
        yield from _failed_attempt(result, request.worker, now_ms).events()
        return
    if isinstance(result, FinishedTask):
        yield from finished_task_events(result.published, now_ms)
        return
    run, key = result.task.run, result.task.key
    attempt = run.attempt(key, result.task.attempt)
    for output in result.published:
        yield from output.events(now_ms)
    if isinstance(result, RedundantTask):
        yield from kept_output_events(attempt, result.kept_outputs, now_ms)
        yield attempt.redundant(now_ms)
    else:
        kept_tables = {each.table for each in result.kept_outputs}
        yield from attempt.dispatched(
            first_unpublished(run.outputs(key), kept_tables),
            run.maker(key).pool,
            request.worker,
            at_ms=now_ms,
            lease_until_ms=now_ms + LEASE_MS,
        )


def _failed_attempt(result: FailedTask, worker: str, now_ms: int) -> AttemptEnd:
    """An attempt that failed before it started."""
    run, key, error = result.task.run, result.task.key, str(result.error)
    report = AttemptReport(
        attempt_id=result.task.attempt_id,
        worker=worker,
        started_at_ms=now_ms,
        completed_at_ms=now_ms,
        outcome=AttemptOutcome(status=TaskStatus.FAILED, error=error),
    )
    attempt = run.attempt(key, result.task.attempt)
    return AttemptEnd(attempt, report, TaskStatus.FAILED, error, (), run.outputs(key))


def _unavailable(error: ArcoError) -> ArcoError:
    """The worker asks again later, whatever the error was."""
    if isinstance(error, Unavailable):
        return error
    unavailable = Unavailable(f"a task could not be dispatched: {error}")
    unavailable.__cause__ = error
    return unavailable
