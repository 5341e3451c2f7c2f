"""Tasks: the steps of an execution, attempt by attempt.

A later attempt outranks an earlier one whatever their clocks say. A cancel outranks all attempts, and only
a success that was published outranks a cancel. Who names the table and partition that a task fills tells of
the partition's status too.
"""

from datetime import datetime
from typing import Literal

from arco.events.field import Count, Id, Ids, Keys, Message, Metrics, Moment, texts
from arco.events.partition_row import FAILED, RUNNING, partition_row, partition_rows
from arco.events.task_row import CANCELLED_FOR_GOOD, PUBLISHED, TASK_COLUMNS, OfTask, task_row
from arco.events.told import EventKind, Projection, Row, Told, kind, us
from arco.fold.tier2 import EXECUTIONS_DOMAIN, TASKS


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


def _dispatched(told: Told, said: TaskDispatched) -> tuple[Row]:
    return (task_row(told, said, "DISPATCHED"),)


def _started(told: Told, said: TaskStarted) -> tuple[Row]:
    order = told.order(said.attempt)
    started = (told.when(said.started_at), said.worker, order)
    return (task_row(told, said, "RUNNING") + started,)


def _completed(told: Told, said: TaskCompleted) -> tuple[Row]:
    status = task_row(told, said, said.status, sticky=_sticky(said))
    began = said.started_at
    outcome = (
        told.when(said.completed_at),
        said.duration_ms,
        said.error_message,
        *((None, None, None) if began is None else _began(told, said, began)),
        said.input_tables,
        said.output_tables,
        said.input_partitions,
        said.output_partitions,
        said.rows_read,
        said.rows_written,
        said.bytes_read,
        said.bytes_written,
        None if said.metrics is None else texts(said.metrics),
        status[_STATUS_ORDER],
    )
    return (status + outcome,)


def _began(told: Told, said: TaskCompleted, began: datetime) -> Row:
    """Who ends an attempt and says when it began knows better than who said so before."""
    return (us(began), said.worker, told.order(said.attempt, 1))


def _sticky(said: TaskCompleted) -> int:
    if said.status == "CANCELLED":
        return CANCELLED_FOR_GOOD
    return PUBLISHED if said.status == "SUCCESS" and said.published_version is not None else 0


def _lost(told: Told, said: TaskLost) -> tuple[Row]:
    return ((*task_row(told, said, FAILED, "LOST"), told.occurred, said.reason),)


def _retried(told: Told, said: TaskRetryScheduled) -> tuple[Row]:
    return ((*task_row(told, said, "RETRY_WAIT"), said.reason),)


def _cancelled(told: Told, said: TaskCancelled) -> tuple[Row]:
    row = task_row(told, said, "CANCELLED", sticky=CANCELLED_FOR_GOOD)
    return ((*row, told.occurred, said.reason),)


def _running_partition(told: Told, said: TaskStarted) -> tuple[Row, ...]:
    return partition_row(told, said.table_id, said, RUNNING, said.execution_id)


def _ended_partition(told: Told, said: TaskCompleted) -> tuple[Row, ...]:
    """Of a success it is the partition's own event that tells, as only that knows what was published."""
    if said.status == "SUCCESS":
        return ()
    error = said.error_message
    return partition_row(told, said.table_id, said, FAILED, said.execution_id, error=error)


def _failed_partition(told: Told, said: TaskLost | TaskCancelled) -> tuple[Row, ...]:
    return partition_row(told, said.table_id, said, FAILED, said.execution_id, error=said.reason)


_STATUS_ORDER = TASK_COLUMNS.index("_status")
_ENDED = ("completed_at", "error_message")
_TASK = {"execution_id": "run-7", "task_id": "load"}
_PLACE = {"table_id": "tbl-orders", "partition_values": {"date": "2026-05-01"}}

KINDS: tuple[EventKind, ...] = (
    kind(
        "task_dispatched",
        EXECUTIONS_DOMAIN,
        TaskDispatched,
        Projection(TASKS, TASK_COLUMNS, _dispatched),
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
        Projection(TASKS, (*TASK_COLUMNS, "started_at", "worker", "_started"), _started),
        partition_rows(_running_partition),
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
        Projection(
            TASKS,
            (
                *(*TASK_COLUMNS, "completed_at", "duration_ms", "error_message", "started_at"),
                *("worker", "_started", "input_tables", "output_tables", "input_partitions"),
                *("output_partitions", "rows_read", "rows_written", "bytes_read"),
                *("bytes_written", "metrics", "_outcome"),
            ),
            _completed,
        ),
        partition_rows(_ended_partition),
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
        Projection(TASKS, (*TASK_COLUMNS, *_ENDED), _lost),
        partition_rows(_failed_partition),
        example={**_TASK, "attempt": 1, "reason": "lease_expired", **_PLACE},
    ),
    kind(
        "task_retry_scheduled",
        EXECUTIONS_DOMAIN,
        TaskRetryScheduled,
        Projection(TASKS, (*TASK_COLUMNS, "error_message"), _retried),
        example={**_TASK, "attempt": 2, "not_before": "2026-05-01T10:01:00Z"},
    ),
    kind(
        "task_cancelled",
        EXECUTIONS_DOMAIN,
        TaskCancelled,
        Projection(TASKS, (*TASK_COLUMNS, *_ENDED), _cancelled),
        partition_rows(_failed_partition),
        example={**_TASK, "attempt": 2, "reason": "cancelled by user:ann"},
    ),
)
