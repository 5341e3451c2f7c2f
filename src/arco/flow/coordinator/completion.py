"""The ends of attempts: recorded once, however often they are reported, and applied once they are durable.

A worker that has lost its task is rejected, unless it has published: then its report is the truth, and
the worker that has the task now must stop (P35).

An attempt may have published its rows and died before it could report it. A later run of the same
partition does not know that task and would append the rows again. So before a failed end is recorded, the
chains of the task's tables are read: what was published is recorded, and the rest is fenced.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from arco.core.errors import ArcoError, Fenced, Invalid, NotFound, Unavailable, Unknown
from arco.flow.coordinator.active_run import ActiveRun
from arco.flow.coordinator.attempt_events import (
    AttemptEnd,
    OutputPartition,
    count_published,
    fingerprint_inputs,
    finished_task_events,
    is_all_published,
    sum_present,
)
from arco.flow.coordinator.attempt_logs import AttemptLogStore
from arco.flow.coordinator.data_versions import DataVersions
from arco.flow.coordinator.dispatch import planned_code
from arco.flow.coordinator.events import caused_by
from arco.flow.coordinator.leases import TaskLease, restore_inputs
from arco.flow.coordinator.messages import AttemptReport, TaskInput, TaskStatus
from arco.flow.coordinator.ports import EventWriter
from arco.flow.coordinator.preparation import SelectedTask, TaskPreparer, appends_rows
from arco.flow.coordinator.run_state import ENDED_STATUSES, TaskResult, attempt_id_of
from arco.flow.coordinator.state import CoordinatorState

_MAY_HAVE_PUBLISHED = (TaskStatus.FAILED, TaskStatus.CANCELLED)
_FINDING = "finding what an attempt has published"
_STOPPED = "its worker stopped it"


@dataclass(frozen=True)
class RecordedOutputs:
    """Whether the task has succeeded after all, and if not which of its outputs are published."""

    is_done: bool = False
    kept_outputs: tuple[OutputPartition, ...] = ()


class UnreportedOutputs:
    """Finds and records outputs that attempts published without reporting it."""

    def __init__(
        self,
        state: CoordinatorState,
        events: EventWriter,
        preparer: TaskPreparer,
        versions: DataVersions,
    ) -> None:
        self._state = state
        self._events = events
        self._preparer = preparer
        self._versions = versions

    async def record(self, run: ActiveRun, lease: TaskLease) -> RecordedOutputs:
        """Record what a task that appends rows has published; if that is all, end the task.

        Call it in the turn of the task. An `ArcoError` means that it is unknown: call it again.
        """
        if not appends_rows(run.maker(lease.key)):
            return RecordedOutputs(kept_outputs=lease.kept_outputs)
        try:
            published = await self._preparer.find_published(SelectedTask(run, lease.key))
        except (NotFound, Invalid):  # its table was dropped, or replaced by another one
            published = ()
        outputs = (*lease.kept_outputs, *(each.output for each in published))
        by_table = {each.table: each for each in outputs}
        now_ms = self._state.clock.now_ms()
        is_done = bool(published) and len(published) == len(run.maker(lease.key).targets)
        if is_done:
            await self._events.append([*finished_task_events(published, now_ms)])
        elif published:
            await self._events.append(
                [event for each in published for event in each.events(now_ms)]
            )
        self._versions.record_outputs(published)
        if is_done:
            self._state.release_lease(lease.attempt_id)
            result = TaskResult(TaskStatus.SUCCESS, completed_at_ms=now_ms)
            self._state.end_task(run, lease.key, result)
            run.notify()
        return RecordedOutputs(is_done, tuple(by_table.values()))


class CompletionHandler:
    """Handles the reports of attempts."""

    def __init__(
        self,
        state: CoordinatorState,
        events: EventWriter,
        logs: AttemptLogStore,
        versions: DataVersions,
        *,
        finalize: Callable[[ActiveRun], None],
        unreported: UnreportedOutputs,
    ) -> None:
        self._state = state
        self._events = events
        self._logs = logs
        self._versions = versions
        self._finalize = finalize
        self._unreported = unreported

    async def complete(
        self,
        run: ActiveRun,
        key: str,
        attempt: int,
        report: AttemptReport,
        caller: str | None = None,
    ) -> None:
        """Record the end of an attempt, durably on return; `caller` reports it."""
        status = report.outcome.status
        if status not in ENDED_STATUSES or status is TaskStatus.SKIPPED:
            raise Invalid(f"no attempt ends as {status.value}")
        writing = None
        if report.log:
            writing = self._state.tasks.spawn(
                self._logs.write(run.run_id, report.attempt_id, report.log, report.log_part)
            )
        try:
            async with self._state.keyed_lock.hold(f"{run.run_id}/{key}"):
                await self._complete(run, key, attempt, report, caller)
        finally:
            if writing is not None:
                await writing.wait()  # if the log cannot be stored, the worker repeats the report

    def end_retry_wait(self, run: ActiveRun, key: str) -> None:
        """The delay before another attempt has passed."""
        self._state.enqueue(run, run.state.end_retry_wait(key))
        run.notify()

    async def _complete(
        self, run: ActiveRun, key: str, attempt: int, report: AttemptReport, caller: str | None
    ) -> None:
        reported = run.state.tasks[key].reported.get(attempt)
        if reported is not None and count_published(report) <= reported:
            return  # repeated; an attempt that was abandoned may have published more since
        lease = self._state.leases.live.get(report.attempt_id)
        if lease is not None and lease.worker == report.worker:
            await self._complete_active(run, lease, report, caller)
        else:
            await self._complete_late(run, key, attempt, report, caller)

    async def _complete_active(
        self, run: ActiveRun, lease: TaskLease, report: AttemptReport, caller: str | None
    ) -> None:
        """The attempt still has the lease of its task."""
        key, attempt = lease.key, lease.attempt
        wrong_code = _wrong_code(run, key, report)
        status, error = _task_status(run, report)
        if wrong_code is not None:
            status, error = TaskStatus.FAILED, wrong_code
        kept_outputs = lease.kept_outputs
        if status in _MAY_HAVE_PUBLISHED and wrong_code is None:
            recorded = await self._record_unreported(run, lease)
            if recorded.is_done:
                self._mark_reported(run, key, attempt, report)
                self._finalize(run)
                return
            kept_outputs = recorded.kept_outputs
        delay = None
        given_back = report.outcome.status is TaskStatus.CANCELLED
        if status is TaskStatus.FAILED and report.outcome.may_retry and wrong_code is None:
            rng = self._state.runtime.rng
            delay = run.state.retry_delay(key, lost=given_back, rng=rng)
        failures = 0
        if delay is not None:
            delay = max(delay, report.outcome.pause_ms)
            failures = run.state.tasks[key].failures + (not given_back)
        end = replace(
            self._success(run, key, attempt, report),
            status=status,
            error=error,
            kept_outputs=kept_outputs,
            failures=failures,
        )
        events = [*end.events()]
        if delay is not None:
            next_attempt = run.attempt(key, attempt + 1)
            at_ms = self._state.clock.now_ms() + round(delay)
            events.append(next_attempt.retry_scheduled(at_ms, error))
        await self._events.append(caused_by(caller, events))
        self._record_versions(run, report, end.inputs)
        self._mark_reported(run, key, attempt, report)
        self._state.release_lease(lease.attempt_id)
        if delay is None:
            self._state.end_task(run, key, _result(report, status, error))
        else:
            run.state.schedule_retry(key, failed=not given_back, error=error)
            self._state.timers.schedule(delay, lambda: self.end_retry_wait(run, key))
        run.notify()
        self._finalize(run)

    async def _record_unreported(self, run: ActiveRun, lease: TaskLease) -> RecordedOutputs:
        """Any error becomes one that makes the worker repeat its report."""
        try:
            return await self._unreported.record(run, lease)
        except (Unavailable, Unknown):
            raise
        except ArcoError as error:
            self._state.report_lease_error(lease, _FINDING, error)
            raise Unavailable(f"{_FINDING} is not possible now: {error}") from error

    async def _complete_late(
        self, run: ActiveRun, key: str, attempt: int, report: AttemptReport, caller: str | None
    ) -> None:
        """The attempt has lost its task; only what it has published counts."""
        end = self._success(run, key, attempt, report)
        if not is_all_published(report):
            publications = [*end.publications()]
            if publications:
                await self._events.append(caused_by(caller, publications))
                self._record_versions(run, report, end.inputs)
            raise Fenced("the task was leased to another worker, or has ended")
        await self._events.append(caused_by(caller, end.events()))
        self._record_versions(run, report, end.inputs)
        self._mark_reported(run, key, attempt, report)
        newest = attempt_id_of(run.run_id, key, run.state.tasks[key].attempt)
        if newest in self._state.leases.live:
            self._state.release_lease(newest)
            self._state.leases.notify()
        self._state.end_task(run, key, _result(report, TaskStatus.SUCCESS, None))
        run.notify()
        self._finalize(run)

    def _success(self, run: ActiveRun, key: str, attempt: int, report: AttemptReport) -> AttemptEnd:
        """The end of an attempt, as a success unless the caller replaces its status."""
        ids = {each.table: each.table_id for each in report.outcome.outputs}
        outputs = tuple(
            OutputPartition(each.table, ids.get(each.table) or each.table_id, each.partition)
            for each in run.outputs(key)
        )
        inputs = self._inputs(run, key, report)
        return AttemptEnd(
            run.attempt(key, attempt), report, TaskStatus.SUCCESS, None, inputs, outputs
        )

    def _inputs(
        self, run: ActiveRun, key: str, report: AttemptReport
    ) -> tuple[TaskInput, ...] | None:
        """The inputs of the attempt, from its lease, or else from its own report."""
        lease = self._state.leases.live.get(report.attempt_id)
        if lease is not None and lease.inputs is not None:
            return lease.inputs
        return restore_inputs(run.plan, run.state.tasks[key].task, report.inputs)

    def _record_versions(
        self, run: ActiveRun, report: AttemptReport, inputs: tuple[TaskInput, ...] | None
    ) -> None:
        fingerprint = fingerprint_inputs(report.outcome.code_fingerprint, inputs)
        for output in report.outcome.outputs:
            if output.version is not None:
                if output.table_id is not None:
                    run.table_ids[output.table] = output.table_id
                self._versions.record(
                    output.table, output.table_id, output.partition, report.attempt_id, fingerprint
                )

    def _mark_reported(self, run: ActiveRun, key: str, attempt: int, report: AttemptReport) -> None:
        run.state.tasks[key].reported[attempt] = count_published(report)


def _wrong_code(run: ActiveRun, key: str, report: AttemptReport) -> str | None:
    """The error of a reported success whose worker ran other code than planned.

    Current workers check that before they start. What was published is recorded with the code that ran, so
    the next plan makes it again.
    """
    planned, code = planned_code(run.maker(key)), report.outcome.code_fingerprint
    if report.outcome.status is not TaskStatus.SUCCESS or planned is None or code == planned.code:
        return None
    return (
        f"worker {report.worker} ran other code than planned: the task was planned with "
        f"{planned.code[:12]} and the worker ran {(code or 'unknown code')[:12]}. Update and restart the "
        "worker, then run it again."
    )


def _task_status(run: ActiveRun, report: AttemptReport) -> tuple[TaskStatus, str | None]:
    """What the end of an attempt means for its task: a stop without a cancelled run is a failure."""
    outcome = report.outcome
    if outcome.status is TaskStatus.CANCELLED and not run.state.is_cancelled:
        return TaskStatus.FAILED, outcome.error or _STOPPED
    return outcome.status, outcome.error


def _result(report: AttemptReport, status: TaskStatus, error: str | None) -> TaskResult:
    outcome = report.outcome
    return TaskResult(
        status,
        error,
        report.started_at_ms,
        report.completed_at_ms,
        sum_present([each.rows for each in outcome.outputs]),
        outcome.checks,
        outcome.warnings,
    )
