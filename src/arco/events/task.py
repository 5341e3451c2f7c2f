"""Tasks: the steps of an execution, attempt by attempt.

A later attempt outranks an earlier one whatever their clocks say. A cancel outranks all attempts, and only
a success that was published outranks a cancel. Who names the table and partition that a task fills tells of
the partition's status too.
"""

from typing import Literal, TypeVar

from arco.events.field import Count, Id, Ids, Keys, Message, Metrics, Moment, texts
from arco.events.partition_row import FAILED, RUNNING, named, partition_rows
from arco.events.task_row import CANCELLED_FOR_GOOD, PUBLISHED, OfTask, task_columns
from arco.events.told import Columns, EventKind, Projection, Rows, Told, kind, us_or_none
from arco.fold.tier2 import EXECUTIONS_DOMAIN, PARTITIONS, TASKS


class TaskDispatched(OfTask, frozen=True, kw_only=True):
    """An attempt at a task was given to somebody to run."""

    pool: Id | None = None
    worker: Id | None = None
    lease_until: Moment | None = None


class TaskStarted(OfTask, frozen=True, kw_only=True):
    """A worker began with an attempt at a task."""

    worker: Id | None = None
    started_at: Moment | None = None


class TaskCompleted(OfTask, frozen=True, kw_only=True):
    """An attempt at a task is over, for better or worse."""

    status: Literal["SUCCESS", "FAILED", "SKIPPED", "BLOCKED", "CANCELLED"]
    published_version: Count | None = None  # with it, a success outranks a cancel
    worker: Id | None = None
    started_at: Moment | None = None
    completed_at: Moment | None = None
    duration_ms: Count | None = None
    error_message: Message | None = None
    input_tables: Ids | None = None
    output_tables: Ids | None = None
    input_partitions: Keys | None = None
    output_partitions: Keys | None = None
    rows_read: Count | None = None
    rows_written: Count | None = None
    bytes_read: Count | None = None
    bytes_written: Count | None = None
    metrics: Metrics | None = None


class TaskLost(OfTask, frozen=True, kw_only=True):
    """Nothing was heard of a worker for too long; what the worker itself says outranks that."""

    reason: Message | None = None
    worker: Id | None = None


class TaskRetryScheduled(OfTask, frozen=True, kw_only=True):
    """There will be another attempt at a task: number `attempt`."""

    not_before: Moment | None = None
    reason: Message | None = None


class TaskCancelled(OfTask, frozen=True, kw_only=True):
    """A task was stopped because its execution was cancelled."""

    reason: Message | None = None


F = TypeVar("F", TaskLost, TaskCancelled)


def _dispatched(told: Told[TaskDispatched]) -> Rows:
    return Rows(told, task_columns(told, told.all("DISPATCHED")))


def _started(told: Told[TaskStarted]) -> Rows:
    began = {
        **told.fields("worker"),
        "started_at": told.when("started_at"),
        "_started": told.order(told.field("attempt")),
    }
    return Rows(told, {**task_columns(told, told.all("RUNNING")), **began})


def _completed(told: Told[TaskCompleted]) -> Rows:
    sticky = [_sticky(said) for said in told.said]
    columns = task_columns(told, told.field("status"), sticky=sticky)
    outcome = {
        **told.fields("duration_ms", "error_message", "input_tables", "output_tables"),
        **told.fields("input_partitions", "output_partitions", "rows_read", "rows_written"),
        **told.fields("bytes_read", "bytes_written"),
        "completed_at": told.when("completed_at"),
        "metrics": [None if each is None else texts(each) for each in told.field("metrics")],
        "_outcome": columns["_status"],
    }
    return Rows(told, {**columns, **outcome, **_began(told)})


def _began(told: Told[TaskCompleted]) -> Columns:
    """Who ends an attempt and says when it began knows better than who said so before."""
    began = told.field("started_at")
    columns = {
        **told.fields("worker"),
        "started_at": [us_or_none(moment) for moment in began],
        "_started": told.order(told.field("attempt"), 1),
    }
    return told.where([moment is not None for moment in began], columns)


def _sticky(said: TaskCompleted) -> int:
    if said.status == "CANCELLED":
        return CANCELLED_FOR_GOOD
    return PUBLISHED if said.status == "SUCCESS" and said.published_version is not None else 0


def _lost(told: Told[TaskLost]) -> Rows:
    return Rows(told, {**task_columns(told, told.all(FAILED), "LOST"), **_ended(told)})


def _retried(told: Told[TaskRetryScheduled]) -> Rows:
    reason = {"error_message": told.field("reason")}
    return Rows(told, {**task_columns(told, told.all("RETRY_WAIT")), **reason})


def _cancelled(told: Told[TaskCancelled]) -> Rows:
    columns = task_columns(told, told.all("CANCELLED"), sticky=CANCELLED_FOR_GOOD)
    return Rows(told, {**columns, **_ended(told)})


def _ended(told: Told[F]) -> Columns:
    return {"completed_at": told.occurred, "error_message": told.field("reason")}


def _running_partition(told: Told[TaskStarted]) -> Rows:
    return partition_rows(told, RUNNING, lambda said: named(said.table_id, said, said.execution_id))


def _ended_partition(told: Told[TaskCompleted]) -> Rows:
    """Of a success it is the partition's own event that tells, as only that knows what was published."""
    return partition_rows(
        told,
        FAILED,
        lambda said: (
            ()
            if said.status == "SUCCESS"
            else named(
                *(said.table_id, said, said.execution_id, said.error_message),
                is_left=said.status == "CANCELLED",
            )
        ),
    )


def _given_up_partition(told: Told[F]) -> Rows:
    return partition_rows(
        told,
        FAILED,
        lambda said: named(
            *(said.table_id, said, said.execution_id, said.reason),
            is_left=isinstance(said, TaskCancelled),
        ),
    )


_TASK = {"execution_id": "run-7", "task_id": "load"}
_PLACE = {"table_id": "tbl-orders", "partition_values": {"date": "2026-05-01"}}

KINDS: tuple[EventKind, ...] = (
    kind(
        "task_dispatched",
        EXECUTIONS_DOMAIN,
        TaskDispatched,
        Projection(TASKS, _dispatched),
        example={
            **_TASK,
            "attempt": 1,
            "attempt_id": "a-1",
            "pool": "default",
            "lease_until": "2026-05-01T10:00:15Z",
        },
    ),
    kind(
        "task_started",
        EXECUTIONS_DOMAIN,
        TaskStarted,
        Projection(TASKS, _started),
        Projection(PARTITIONS, _running_partition),
        example={
            **_TASK,
            "task_name": "load_orders",
            "attempt": 1,
            "worker": "worker-3",
            **_PLACE,
        },
    ),
    kind(
        "task_completed",
        EXECUTIONS_DOMAIN,
        TaskCompleted,
        Projection(TASKS, _completed),
        Projection(PARTITIONS, _ended_partition),
        example={
            **_TASK,
            "task_name": "load_orders",
            "status": "SUCCESS",
            "attempt": 1,
            "duration_ms": 12_500,
            **_PLACE,
            "published_version": 12,
            "input_tables": ["tbl-raw-orders"],
            "output_tables": ["tbl-orders"],
            "output_partitions": ["date=2026-05-01"],
            "rows_read": 150_200,
            "rows_written": 150_000,
            "bytes_read": 61_000_000,
            "bytes_written": 45_000_000,
            "metrics": {"shuffle_bytes": 1_048_576, "engine": "spark"},
        },
    ),
    kind(
        "task_lost",
        EXECUTIONS_DOMAIN,
        TaskLost,
        Projection(TASKS, _lost),
        Projection(PARTITIONS, _given_up_partition),
        example={**_TASK, "attempt": 1, "reason": "lease_expired", **_PLACE},
    ),
    kind(
        "task_retry_scheduled",
        EXECUTIONS_DOMAIN,
        TaskRetryScheduled,
        Projection(TASKS, _retried),
        example={**_TASK, "attempt": 2, "not_before": "2026-05-01T10:01:00Z"},
    ),
    kind(
        "task_cancelled",
        EXECUTIONS_DOMAIN,
        TaskCancelled,
        Projection(TASKS, _cancelled),
        Projection(PARTITIONS, _given_up_partition),
        example={**_TASK, "attempt": 2, "reason": "cancelled by user:ann"},
    ),
)
