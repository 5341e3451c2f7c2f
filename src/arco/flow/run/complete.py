"""The end of attempts: told once, whoever says it how often, and acted on once it is durable.

A worker that has lost its task is refused, unless it has published: then what it says is the truth, and
whoever has the task now is to stop (P35).
"""

from collections.abc import Callable
from dataclasses import replace

from arco.core.errors import ArcoError, Fenced, Invalid, Unavailable, Unknown
from arco.flow.run.code_match import planned_code
from arco.flow.run.desk import Desk
from arco.flow.run.ending import (
    Ended,
    Written,
    fingerprint_of,
    is_all_published,
    published_outputs,
    total,
)
from arco.flow.run.lease import Lease, inputs_given
from arco.flow.run.live import LiveRun
from arco.flow.run.logs import Logs
from arco.flow.run.materials import Materials
from arco.flow.run.ports import Fact, Facts
from arco.flow.run.task_state import ENDED, Ending, attempt_id_of
from arco.flow.run.untold import Looked, Untold
from arco.flow.run.wire import Completed, InputMaterial, TaskStatus

_DOUBTFUL = (TaskStatus.FAILED, TaskStatus.CANCELLED)  # it may have published all the same
_LOOKING = "looking for what an attempt has published"
_STOPPED = "it was stopped by its worker"


class Completion:
    """Takes the ends of attempts."""

    def __init__(
        self,
        desk: Desk,
        facts: Facts,
        logs: Logs,
        materials: Materials,
        *,
        settle: Callable[[LiveRun], None],
        untold: Untold,
    ) -> None:
        self._desk = desk
        self._facts = facts
        self._logs = logs
        self._materials = materials
        self._settle = settle
        self._untold = untold

    async def take(self, run: LiveRun, key: str, attempt: int, completed: Completed) -> None:
        """An attempt is over; durable on return."""
        if completed.outcome.status not in ENDED or (
            completed.outcome.status is TaskStatus.SKIPPED
        ):
            raise Invalid(f"no attempt ends as {completed.outcome.status.value}")
        writing = None
        if completed.log:
            log, part = completed.log, completed.log_part
            writing = self._desk.tasks.spawn(
                self._logs.write(run.run_id, completed.attempt_id, log, part)
            )
        try:
            async with self._desk.turns.of(f"{run.run_id}/{key}"):
                await self._take(run, key, attempt, completed)
        finally:
            if writing is not None:
                await writing.wait()  # what cannot be stored the worker says again, end and all

    async def _take(self, run: LiveRun, key: str, attempt: int, completed: Completed) -> None:
        told = run.state.tasks[key].closed.get(attempt)
        if told is not None and published_outputs(completed) <= told:
            return  # what it has published since it was given up is news
        lease = self._desk.leases.live.get(completed.attempt_id)
        if lease is not None and lease.worker == completed.worker:
            await self._current(run, lease, completed)
        else:
            await self._late(run, key, attempt, completed)

    async def _current(self, run: LiveRun, lease: Lease, completed: Completed) -> None:
        """The attempt has its task still."""
        wrong_code = _wrong_code(run, lease.key, completed)
        status, error = _meant(run, completed)
        if wrong_code is not None:
            status, error = TaskStatus.FAILED, wrong_code
        stands = lease.stands
        if status in _DOUBTFUL and wrong_code is None:
            looked = await self._look(run, lease)
            if looked.is_done:
                self._close(run, lease.key, lease.attempt, completed)
                self._settle(run)
                return
            stands = looked.stands
        pause = None
        given_back = completed.outcome.status is TaskStatus.CANCELLED
        if status is TaskStatus.FAILED and completed.outcome.may_retry and wrong_code is None:
            rng = self._desk.runtime.rng
            pause = run.state.retry_after(lease.key, lost=given_back, rng=rng)
        failures = 0
        if pause is not None:
            pause = max(pause, completed.outcome.pause_ms)
            failures = run.state.tasks[lease.key].failures + (not given_back)
        ended = replace(
            self._ended(run, lease.key, lease.attempt, completed),
            status=status,
            error=error,
            stands=stands,
            failures=failures,
        )
        facts = [*ended.facts()]
        if pause is not None:
            facts.append(self._retried(run, lease, pause, error))
        await self._facts.append(facts)
        self._published(run, completed, ended.inputs)
        self._close(run, lease.key, lease.attempt, completed)
        self._desk.drop(lease.attempt_id)
        if pause is None:
            self._desk.end(run, lease.key, _ending(completed, status, error))
        else:
            run.state.put_off(lease.key, failed=not given_back, error=error)
            self._desk.alarms.set(pause, lambda: self.due(run, lease.key))
        run.ring()
        self._settle(run)

    async def _look(self, run: LiveRun, lease: Lease) -> Looked:
        """What it has published; the worker says its end again while nobody can tell, whatever it is."""
        try:
            return await self._untold.look(run, lease)
        except (Unavailable, Unknown):
            raise
        except ArcoError as problem:
            self._desk.met(lease, _LOOKING, problem)
            raise Unavailable(f"{_LOOKING} is not possible now: {problem}") from problem

    def _retried(self, run: LiveRun, lease: Lease, pause: float, error: str | None) -> Fact:
        following = run.of_attempt(lease.key, lease.attempt + 1)
        return following.retried(self._desk.clock.now_ms() + round(pause), error)

    async def _late(self, run: LiveRun, key: str, attempt: int, completed: Completed) -> None:
        """The attempt has lost its task; only what readers can see of it counts."""
        ended = self._ended(run, key, attempt, completed)
        if not is_all_published(completed):
            published = [*ended.publications()]
            if published:
                await self._facts.append(published)
                self._published(run, completed, ended.inputs)
            raise Fenced("the task was given to somebody else, or is over")
        await self._facts.append([*ended.facts()])
        self._published(run, completed, ended.inputs)
        self._close(run, key, attempt, completed)
        newest = attempt_id_of(run.run_id, key, run.state.tasks[key].attempt)
        if newest in self._desk.leases.live:
            self._desk.drop(newest)
            self._desk.leases.ring()
        self._desk.end(run, key, _ending(completed, TaskStatus.SUCCESS, None))
        run.ring()
        self._settle(run)

    def due(self, run: LiveRun, key: str) -> None:
        """The pause before another attempt is over."""
        self._desk.ready(run, run.state.due(key))
        run.ring()

    def _ended(self, run: LiveRun, key: str, attempt: int, completed: Completed) -> Ended:
        """What is told of an attempt that was a success, unless something else is said of it."""
        ids = {each.table: each.table_id for each in completed.outcome.outputs}
        written = tuple(
            Written(each.table, ids.get(each.table) or each.table_id, each.partition)
            for each in run.written(key)
        )
        of = run.of_attempt(key, attempt)
        return Ended(
            of, completed, TaskStatus.SUCCESS, None, self._given(run, key, completed), written
        )

    def _given(
        self, run: LiveRun, key: str, completed: Completed
    ) -> tuple[InputMaterial, ...] | None:
        """What the attempt was given to read; its own word counts where the book has forgotten it."""
        lease = self._desk.leases.live.get(completed.attempt_id)
        if lease is not None and lease.inputs is not None:
            return lease.inputs
        return inputs_given(run.plan, run.state.tasks[key].task, completed.inputs)

    def _published(
        self, run: LiveRun, completed: Completed, inputs: tuple[InputMaterial, ...] | None
    ) -> None:
        made_of = fingerprint_of(completed.outcome.code_fingerprint, inputs)
        for done in completed.outcome.outputs:
            if done.version is not None:
                if done.table_id is not None:
                    run.table_ids[done.table] = done.table_id
                self._materials.published(
                    done.table, done.table_id, done.partition, completed.attempt_id, made_of
                )

    def _close(self, run: LiveRun, key: str, attempt: int, completed: Completed) -> None:
        run.state.tasks[key].closed[attempt] = published_outputs(completed)


def _wrong_code(run: LiveRun, key: str, completed: Completed) -> str | None:
    """Why a success is none: the worker ran other code than the task was planned with.

    A worker checks that before it begins; this is for one that does not. What it has published is recorded
    with the code that made it, so the next plan makes it again.
    """
    planned, ran = planned_code(run.maker(key)), completed.outcome.code_fingerprint
    if completed.outcome.status is not TaskStatus.SUCCESS or planned is None or ran == planned.code:
        return None
    return (
        f"worker {completed.worker} ran other code than planned: the task was planned with "
        f"{planned.code[:12]} and the worker ran {(ran or 'unknown code')[:12]}. Update and restart the "
        "worker, then run it again."
    )


def _meant(run: LiveRun, completed: Completed) -> tuple[TaskStatus, str | None]:
    """What the end of an attempt means for its task: a stop that nobody has asked for is a failure."""
    outcome = completed.outcome
    if outcome.status is TaskStatus.CANCELLED and not run.state.is_cancelled:
        return TaskStatus.FAILED, outcome.error or _STOPPED
    return outcome.status, outcome.error


def _ending(completed: Completed, status: TaskStatus, error: str | None) -> Ending:
    outcome = completed.outcome
    return Ending(
        status,
        error,
        completed.started_at_ms,
        completed.completed_at_ms,
        total([each.rows for each in outcome.outputs]),
        outcome.checks,
        outcome.warnings,
    )
