"""Events of runs, from what is known to what is told: pure, and each under the key that makes it one.

Whoever names a table and partition with the end of a task tells that these are bad now. So a task that
never began names none: its partition is what it was.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Literal, TypedDict, cast

from arco.core.clock import utc
from arco.events.execution import (
    CancelRequested,
    Dependency,
    ExecutionCompleted,
    ExecutionPlanned,
    ExecutionRequested,
    ExecutionStarted,
    PlannedTaskPayload,
    TriggerType,
)
from arco.events.payload import Payload
from arco.events.task import (
    TaskCancelled,
    TaskCompleted,
    TaskDispatched,
    TaskLost,
    TaskRetryScheduled,
    TaskStarted,
)
from arco.flow.plan.plan import Plan
from arco.flow.run.ports import Fact
from arco.flow.run.task_state import attempt_id_of
from arco.flow.run.wire import RunStatus, RunWish, TaskStatus

LONGEST_LABEL = 255

_LONGEST_MESSAGE = 60_000
_TASKS_AN_EVENT = 2_000


def fact(name: str, key: str, run_id: str, payload: Payload) -> Fact:
    """An event under a key, which is hashed if it is too long for one."""
    if len(key) > LONGEST_LABEL:
        key = f"{key.partition(':')[0]}:{sha256(key.encode()).hexdigest()}"
    return Fact(name, key, payload, run_id)


def message(text: str | None) -> str | None:
    """A text as events may have it."""
    if text is None:
        return None
    clean = text.replace("\0", "")
    return clean if len(clean) <= _LONGEST_MESSAGE else f"{clean[:_LONGEST_MESSAGE]} ..."


def submitted(
    run_id: str, wish: RunWish, table_ids: Mapping[str, str], at_ms: int
) -> Iterator[Fact]:
    """A run is wanted, planned and begun; `table_ids` has the tables that are there, by name."""
    plan = wish.plan
    wanted = ExecutionRequested(
        execution_id=run_id,
        pipeline_id=plan.project,
        trigger_type=cast("TriggerType", wish.trigger_type),
        triggered_by=wish.triggered_by,
        run_key=wish.run_key,
        plan_id=plan.plan_id,
    )
    yield fact("execution_requested", f"req:{wish.run_key}", run_id, wanted)
    for number, planned in enumerate(_planned(run_id, plan, table_ids)):
        suffix = f":{number}" if number else ""
        yield fact("execution_planned", f"plan:{run_id}{suffix}", run_id, planned)
    started = ExecutionStarted(
        execution_id=run_id,
        pipeline_id=plan.project,
        pipeline_name=plan.project,
        started_at=utc(at_ms),
    )
    yield fact("execution_started", f"start:{run_id}", run_id, started)


def _planned(run_id: str, plan: Plan, table_ids: Mapping[str, str]) -> Iterator[ExecutionPlanned]:
    """The tasks of a plan, in as many events as keep each of them short."""
    first = {maker.name: maker.targets[0].table for maker in plan.makers if maker.targets}
    for start in range(0, max(len(plan.tasks), 1), _TASKS_AN_EVENT):
        part = plan.tasks[start : start + _TASKS_AN_EVENT]
        yield ExecutionPlanned(
            execution_id=run_id,
            plan_id=plan.plan_id,
            tasks=tuple(
                PlannedTaskPayload(
                    task_id=task.key,
                    task_name=task.maker,
                    table_id=table_ids.get(first.get(task.maker, "")),
                    partition_key=task.partition,
                )
                for task in part
            ),
            deps=tuple(
                Dependency(upstream=dep, downstream=task.key) for task in part for dep in task.deps
            ),
        )


def run_ended(run_id: str, status: RunStatus, error: str | None, times: tuple[int, int]) -> Fact:
    """A run is over; `times` are those of its wish and its end."""
    began, at = times
    payload = ExecutionCompleted(
        execution_id=run_id,
        status=cast("Literal['SUCCESS', 'FAILED', 'CANCELLED']", status.value),
        completed_at=utc(at),
        duration_ms=max(0, at - began),
        error_message=message(error),
    )
    return fact("execution_completed", f"end:{run_id}", run_id, payload)


def run_cancelled(run_id: str, by: str | None) -> Fact:
    """Somebody wants a run to stop."""
    payload = CancelRequested(execution_id=run_id, requested_by=by or None)
    return fact("cancel_requested", f"cancel:{run_id}", run_id, payload)


class Where(TypedDict, total=False):
    """The partition that an attempt is about."""

    table_id: str
    partition_key: str


class _Names(TypedDict):
    execution_id: str
    task_id: str
    task_name: str
    attempt: int
    attempt_id: str


class OfAttempt:
    """What all events of one attempt at a task say of it."""

    def __init__(self, run_id: str, key: str, maker: str, attempt: int) -> None:
        attempt_id = attempt_id_of(run_id, key, attempt)
        self.run_id = run_id
        self.key = key
        self.attempt = attempt
        self.attempt_id = attempt_id
        self.names = _Names(
            execution_id=run_id,
            task_id=key,
            task_name=maker,
            attempt=attempt,
            attempt_id=attempt_id,
        )

    def dispatched(
        self, where: Where, pool: str, worker: str, times: tuple[int, int]
    ) -> Iterator[Fact]:
        """The attempt was given to a worker, which begins with it; `times`: now, and its lease's end."""
        now, until = times
        given = TaskDispatched(
            **self.names, **where, pool=pool, worker=worker, lease_until=utc(until)
        )
        key = f"disp:{self.run_id}:{self.key}:{self.attempt}"
        yield fact("task_dispatched", key, self.run_id, given)
        begun = TaskStarted(**self.names, **where, worker=worker, started_at=utc(now))
        yield fact("task_started", f"run:{self.attempt_id}", self.run_id, begun)

    def lost(self, where: Where, worker: str, reason: str) -> Fact:
        """Nothing was heard of its worker for too long."""
        payload = TaskLost(**self.names, **where, worker=worker, reason=reason)
        return fact("task_lost", f"lost:{self.attempt_id}", self.run_id, payload)

    def cancelled(self, where: Where, reason: str) -> Fact:
        """It was stopped because its run was."""
        payload = TaskCancelled(**self.names, **where, reason=reason)
        key = f"cancelled:{self.run_id}:{self.key}"
        return fact("task_cancelled", key, self.run_id, payload)

    def retried(self, not_before_ms: int, reason: str | None) -> Fact:
        """There will be another attempt: this one."""
        payload = TaskRetryScheduled(
            **self.names, not_before=utc(not_before_ms), reason=message(reason)
        )
        key = f"retry:{self.run_id}:{self.key}:{self.attempt}"
        return fact("task_retry_scheduled", key, self.run_id, payload)

    def needless(self, at_ms: int) -> Fact:
        """Another run has made meanwhile what the task would have made."""
        payload = TaskCompleted(**self.names, status="SUCCESS", completed_at=utc(at_ms))
        return fact("task_completed", f"done:{self.attempt_id}", self.run_id, payload)

    def never_began(self, status: TaskStatus, why: str, at_ms: int) -> Fact:
        """The task will not be made in this run."""
        if status is TaskStatus.CANCELLED:
            return self.cancelled(Where(), why)
        payload = TaskCompleted(
            **self.names,
            status=cast("Literal['SKIPPED', 'BLOCKED']", status.value),
            completed_at=utc(at_ms),
            error_message=message(why),
        )
        return fact("task_completed", f"done:{self.run_id}:{self.key}", self.run_id, payload)
