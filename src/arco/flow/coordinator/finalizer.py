"""Records what follows from the state of a run, in the background, until nothing more follows.

Tasks downstream of one that did not succeed never start, a stopped run starts nothing more, and a run whose
tasks have all ended is over. All of it follows from the state alone, so a restart records what is missing.
"""

from arco.core.backoff import ExponentialBackoff
from arco.core.errors import StoreFull
from arco.flow.coordinator.active_run import ActiveRun
from arco.flow.coordinator.data_versions import DataVersions
from arco.flow.coordinator.events import run_ended
from arco.flow.coordinator.ports import EventWriter
from arco.flow.coordinator.run_state import TaskResult, UnstartableTask
from arco.flow.coordinator.state import CoordinatorState

_FINALIZING = "finalizing a run"
_BACKOFF = ExponentialBackoff(100, 10_000)


class RunFinalizer:
    """Ends tasks that cannot start and runs that are done, one step at a time for each run."""

    def __init__(
        self, state: CoordinatorState, events: EventWriter, versions: DataVersions
    ) -> None:
        self._state = state
        self._events = events
        self._versions = versions
        self._closed = False

    def close(self) -> None:
        """Record nothing more: the process ends."""
        self._closed = True

    def schedule(self, run: ActiveRun) -> None:
        """A run has changed: record what follows, in the background."""
        state = run.state
        if run.is_finalizing:
            run.finalize_again = True
        elif not state.is_over and (state.is_done or state.is_stopped or state.has_failed):
            run.is_finalizing = True
            self._state.spawn(_FINALIZING, self._finalize(run), run=run.run_id)

    async def _finalize(self, run: ActiveRun) -> None:
        failures, reported = 0, None
        try:
            while not self._closed:
                run.finalize_again = False
                try:
                    changed = await self._step(run)
                except Exception as error:
                    # No caller waits for this, and the ledger has to have it: retry without a limit.
                    if type(error) is not reported:
                        self._state.report_error(_FINALIZING, error, run=run.run_id)
                        reported = type(error)
                    if isinstance(error, StoreFull):
                        run.store_error = error
                        run.notify()
                    failures += 1
                    await _BACKOFF.sleep(failures, self._state.runtime)
                    continue
                run.store_error = None
                failures, reported = 0, None
                if not changed and not run.finalize_again:
                    return
        finally:
            run.is_finalizing = False

    async def _step(self, run: ActiveRun) -> bool:
        """Record one consequence; whether there was one."""
        state = run.state
        if state.is_over:
            return False
        unstartable = state.unstartable(run.reserved.__contains__)
        if unstartable:
            await self._end_unstartable(run, unstartable)
            return True
        if not state.is_stopped:
            state.clear_failed()
        if not state.is_done or run.reserved:
            return False
        await self._end_run(run)
        return True

    async def _end_unstartable(self, run: ActiveRun, tasks: list[UnstartableTask]) -> None:
        now_ms = self._state.clock.now_ms()
        await self._events.append(
            [
                run.attempt(each.key, run.state.tasks[each.key].attempt + 1).never_started(
                    each.status, each.reason, now_ms
                )
                for each in tasks
            ]
        )
        now_ms = self._state.clock.now_ms()
        for task in tasks:
            if task.key not in run.reserved:
                result = TaskResult(task.status, task.reason, completed_at_ms=now_ms)
                self._state.end_task(run, task.key, result)
        run.notify()

    async def _end_run(self, run: ActiveRun) -> None:
        status, error = run.state.final_status()
        now_ms = self._state.clock.now_ms()
        requested_at_ms = run.stored.requested_at_ms
        event = run_ended(run.run_id, status, error, requested_at_ms=requested_at_ms, at_ms=now_ms)
        await self._events.append([event])
        run.state.end_run(status, error, now_ms)
        self._state.close_run(run)
        active = (each.versions for each in self._state.runs.values())
        self._versions.forget([each for each in active if each])
