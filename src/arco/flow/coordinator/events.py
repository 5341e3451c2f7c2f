"""Events of runs and attempts, as pure functions: each event gets the key that makes it idempotent.

An event that ends a task and names a table and partition marks that partition as failed. So the end of a
task that never started names none: its partition stays as it was.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
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
from arco.flow.coordinator.messages import RunRequest, RunStatus, TaskStatus
from arco.flow.coordinator.ports import RunEvent
from arco.flow.coordinator.run_state import attempt_id_of
from arco.flow.plan.plan import Plan

MAX_LABEL_CHARS = 255

_LOCAL_USER = "user:local"
_MAX_MESSAGE_CHARS = 60_000
_TASKS_PER_EVENT = 2_000


def run_event(name: str, key: str, run_id: str, payload: Payload) -> RunEvent:
    """An event under a key, which is hashed if it is too long."""
    if len(key) > MAX_LABEL_CHARS:
        key = f"{key.partition(':')[0]}:{sha256(key.encode()).hexdigest()}"
    return RunEvent(name, key, payload, run_id)


def caused_by(caller: str | None, events: Iterable[RunEvent]) -> list[RunEvent]:
    """Events with the principal whose request caused them.

    Without identities, the API tells callers apart by their address: `user:local@127.0.0.1`.
    """
    principal = (
        _LOCAL_USER if caller is not None and caller.startswith(f"{_LOCAL_USER}@") else caller
    )
    return [replace(each, caller=principal) for each in events]


def limit_message(text: str | None) -> str | None:
    """A text without NUL characters, cut to the length that an event may have."""
    if text is None:
        return None
    clean = text.replace("\0", "")
    return clean if len(clean) <= _MAX_MESSAGE_CHARS else f"{clean[:_MAX_MESSAGE_CHARS]} ..."


def run_submitted(
    run_id: str, request: RunRequest, table_ids: Mapping[str, str], at_ms: int
) -> Iterator[RunEvent]:
    """A run was requested, planned and started; `table_ids` has the existing tables by name."""
    plan = request.plan
    requested = ExecutionRequested(
        execution_id=run_id,
        pipeline_id=plan.project,
        trigger_type=cast("TriggerType", request.trigger_type),
        triggered_by=request.triggered_by,
        run_key=request.run_key,
        plan_id=plan.plan_id,
    )
    yield run_event("execution_requested", f"req:{request.run_key}", run_id, requested)
    for number, planned in enumerate(_planned(run_id, plan, table_ids)):
        suffix = f":{number}" if number else ""
        yield run_event("execution_planned", f"plan:{run_id}{suffix}", run_id, planned)
    started = ExecutionStarted(
        execution_id=run_id,
        pipeline_id=plan.project,
        pipeline_name=plan.project,
        started_at=utc(at_ms),
    )
    yield run_event("execution_started", f"start:{run_id}", run_id, started)


def _planned(run_id: str, plan: Plan, table_ids: Mapping[str, str]) -> Iterator[ExecutionPlanned]:
    """The tasks of a plan, split so that each event stays short."""
    first_table = {maker.name: maker.targets[0].table for maker in plan.makers if maker.targets}
    for start in range(0, max(len(plan.tasks), 1), _TASKS_PER_EVENT):
        tasks = plan.tasks[start : start + _TASKS_PER_EVENT]
        yield ExecutionPlanned(
            execution_id=run_id,
            plan_id=plan.plan_id,
            tasks=tuple(
                PlannedTaskPayload(
                    task_id=task.key,
                    task_name=task.maker,
                    table_id=table_ids.get(first_table.get(task.maker, "")),
                    partition_key=task.partition,
                )
                for task in tasks
            ),
            deps=tuple(
                Dependency(upstream=dep, downstream=task.key) for task in tasks for dep in task.deps
            ),
        )


def run_ended(
    run_id: str, status: RunStatus, error: str | None, *, requested_at_ms: int, at_ms: int
) -> RunEvent:
    """A run has ended."""
    payload = ExecutionCompleted(
        execution_id=run_id,
        status=cast("Literal['SUCCESS', 'FAILED', 'CANCELLED']", status.value),
        completed_at=utc(at_ms),
        duration_ms=max(0, at_ms - requested_at_ms),
        error_message=limit_message(error),
    )
    return run_event("execution_completed", f"end:{run_id}", run_id, payload)


def cancel_requested(run_id: str, by: str | None) -> RunEvent:
    """A user wants a run to stop."""
    payload = CancelRequested(execution_id=run_id, requested_by=by or None)
    return run_event("cancel_requested", f"cancel:{run_id}", run_id, payload)


class PartitionRef(TypedDict, total=False):
    """The partition that an event of an attempt names."""

    table_id: str
    partition_key: str


class _AttemptFields(TypedDict):
    execution_id: str
    task_id: str
    task_name: str
    attempt: int
    attempt_id: str


class AttemptEvents:
    """The events of one attempt at a task."""

    def __init__(self, run_id: str, key: str, maker: str, attempt: int) -> None:
        attempt_id = attempt_id_of(run_id, key, attempt)
        self.run_id = run_id
        self.key = key
        self.attempt = attempt
        self.attempt_id = attempt_id
        self.fields = _AttemptFields(
            execution_id=run_id,
            task_id=key,
            task_name=maker,
            attempt=attempt,
            attempt_id=attempt_id,
        )

    def dispatched(
        self, partition: PartitionRef, pool: str, worker: str, *, at_ms: int, lease_until_ms: int
    ) -> Iterator[RunEvent]:
        """The attempt was leased to a worker, which starts it."""
        dispatched = TaskDispatched(
            **self.fields, **partition, pool=pool, worker=worker, lease_until=utc(lease_until_ms)
        )
        key = f"disp:{self.run_id}:{self.key}:{self.attempt}"
        yield run_event("task_dispatched", key, self.run_id, dispatched)
        started = TaskStarted(**self.fields, **partition, worker=worker, started_at=utc(at_ms))
        yield run_event("task_started", f"run:{self.attempt_id}", self.run_id, started)

    def lost(self, partition: PartitionRef, worker: str, reason: str) -> RunEvent:
        """The lease expired without a heartbeat of the worker."""
        payload = TaskLost(**self.fields, **partition, worker=worker, reason=reason)
        return run_event("task_lost", f"lost:{self.attempt_id}", self.run_id, payload)

    def cancelled(self, partition: PartitionRef, reason: str) -> RunEvent:
        """The attempt was stopped because its run was cancelled."""
        payload = TaskCancelled(**self.fields, **partition, reason=reason)
        key = f"cancelled:{self.run_id}:{self.key}"
        return run_event("task_cancelled", key, self.run_id, payload)

    def retry_scheduled(self, not_before_ms: int, reason: str | None) -> RunEvent:
        """This attempt will be made after another one failed."""
        payload = TaskRetryScheduled(
            **self.fields, not_before=utc(not_before_ms), reason=limit_message(reason)
        )
        key = f"retry:{self.run_id}:{self.key}:{self.attempt}"
        return run_event("task_retry_scheduled", key, self.run_id, payload)

    def redundant(self, at_ms: int) -> RunEvent:
        """The outputs of the task exist already, so the task succeeded without running."""
        payload = TaskCompleted(**self.fields, status="SUCCESS", completed_at=utc(at_ms))
        return run_event("task_completed", f"done:{self.attempt_id}", self.run_id, payload)

    def never_started(self, status: TaskStatus, reason: str, at_ms: int) -> RunEvent:
        """The task will not run in this run."""
        if status is TaskStatus.CANCELLED:
            return self.cancelled(PartitionRef(), reason)
        payload = TaskCompleted(
            **self.fields,
            status=cast("Literal['SKIPPED', 'BLOCKED']", status.value),
            completed_at=utc(at_ms),
            error_message=limit_message(reason),
        )
        return run_event("task_completed", f"done:{self.run_id}:{self.key}", self.run_id, payload)
