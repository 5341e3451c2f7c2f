"""Events of tasks: the steps of an execution, attempt by attempt, and their rows.

A later attempt outranks an earlier one whatever their clocks are. A cancel outranks all attempts, and only
a published success outranks a cancel. An event that names the table and partition of a task also sets the
status of the partition.
"""

from collections.abc import Sequence
from typing import Literal, TypeVar

from arco.events.partition import FAILED, RUNNING, partition_rows, partition_updates
from arco.events.partition_key import OptionalPartitionPayload, resolve_partition
from arco.events.payload import (
    Attempt,
    Count,
    Id,
    Ids,
    Keys,
    Message,
    Metrics,
    Timestamp,
    metrics_as_text,
)
from arco.events.projection import (
    Columns,
    EventBatch,
    EventKind,
    ProjectedRows,
    Projection,
    Values,
    event_kind,
    to_micros_or_none,
)
from arco.fold.tier2 import EXECUTIONS_DOMAIN, PARTITIONS, TASKS

# Within one attempt. LOST is a guess, so the worker's own report outranks it.
RANKS = {"PENDING": 1, "RETRY_WAIT": 1, "READY": 2, "DISPATCHED": 3, "RUNNING": 4}
RANKS |= {"LOST": 5, "FAILED": 6, "SKIPPED": 6, "BLOCKED": 6, "CANCELLED": 7, "SUCCESS": 8}

CANCELLED_FOR_GOOD, PUBLISHED = 1, 2  # both outrank every attempt, PUBLISHED also a cancel (P19)


class TaskPayload(OptionalPartitionPayload, frozen=True, kw_only=True):
    """The fields of every event of a task."""

    execution_id: Id
    task_id: Id
    task_name: Id | None = None
    table_id: Id | None = None
    attempt: Attempt = 1
    attempt_id: Id | None = None


T = TypeVar("T", bound=TaskPayload)


def _task_columns(
    batch: EventBatch[T],
    statuses: Sequence[str],
    rank: str | None = None,
    sticky: Sequence[int] | int = 0,
) -> dict[str, Values]:
    """The columns that every event of a task sets; `rank` names another status whose rank counts."""
    attempts = batch.field("attempt")
    ranks = [RANKS[rank or status] for status in statuses]
    return {
        **batch.fields("execution_id", "task_id", "task_name", "table_id"),
        "partition_key": [partition_key(payload.table_id, payload) for payload in batch.payloads],
        "retry_count": [attempt - 1 for attempt in attempts],
        "status": statuses,
        "attempt": attempts,
        "_status": batch.order(attempts, ranks, sticky),
    }


def partition_key(table_id: str | None, payload: OptionalPartitionPayload) -> str | None:
    """The key of the partition that a task writes, if the payload names it."""
    if payload.partition_values is None and payload.partition_key is None:
        return None
    name = resolve_partition(table_id or "", payload)
    return None if name is None else name.key


class TaskDispatched(TaskPayload, frozen=True, kw_only=True):
    """An attempt of a task was given to a worker."""

    pool: Id | None = None
    worker: Id | None = None
    lease_until: Timestamp | None = None


class TaskStarted(TaskPayload, frozen=True, kw_only=True):
    """A worker started an attempt of a task."""

    worker: Id | None = None
    started_at: Timestamp | None = None


class TaskCompleted(TaskPayload, frozen=True, kw_only=True):
    """An attempt of a task ended."""

    status: Literal["SUCCESS", "FAILED", "SKIPPED", "BLOCKED", "CANCELLED"]
    published_version: Count | None = None  # with a version, a success outranks a cancel
    worker: Id | None = None
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = None
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


class TaskLost(TaskPayload, frozen=True, kw_only=True):
    """A worker stopped reporting; a report of the worker itself outranks this event."""

    reason: Message | None = None
    worker: Id | None = None


class TaskRetryScheduled(TaskPayload, frozen=True, kw_only=True):
    """Another attempt of a task was scheduled: number `attempt`."""

    not_before: Timestamp | None = None
    reason: Message | None = None


class TaskCancelled(TaskPayload, frozen=True, kw_only=True):
    """A task was stopped because its execution was cancelled."""

    reason: Message | None = None


F = TypeVar("F", TaskLost, TaskCancelled)


def _dispatched(batch: EventBatch[TaskDispatched]) -> ProjectedRows:
    return ProjectedRows(batch, _task_columns(batch, batch.repeat("DISPATCHED")))


def _started(batch: EventBatch[TaskStarted]) -> ProjectedRows:
    started = {
        **batch.fields("worker"),
        "started_at": batch.times("started_at"),
        "_started": batch.order(batch.field("attempt")),
    }
    return ProjectedRows(batch, {**_task_columns(batch, batch.repeat("RUNNING")), **started})


def _completed(batch: EventBatch[TaskCompleted]) -> ProjectedRows:
    sticky = [_sticky(payload) for payload in batch.payloads]
    columns = _task_columns(batch, batch.field("status"), sticky=sticky)
    outcome = {
        **batch.fields("duration_ms", "error_message", "input_tables", "output_tables"),
        **batch.fields("input_partitions", "output_partitions", "rows_read", "rows_written"),
        **batch.fields("bytes_read", "bytes_written"),
        "completed_at": batch.times("completed_at"),
        "metrics": [
            None if each is None else metrics_as_text(each) for each in batch.field("metrics")
        ],
        "_outcome": columns["_status"],
    }
    return ProjectedRows(batch, {**columns, **outcome, **_reported_start(batch)})


def _reported_start(batch: EventBatch[TaskCompleted]) -> Columns:
    """The start that the end of an attempt reports outranks an earlier report."""
    starts = batch.field("started_at")
    columns = {
        **batch.fields("worker"),
        "started_at": [to_micros_or_none(time) for time in starts],
        "_started": batch.order(batch.field("attempt"), 1),
    }
    return batch.only_where([time is not None for time in starts], columns)


def _sticky(payload: TaskCompleted) -> int:
    if payload.status == "CANCELLED":
        return CANCELLED_FOR_GOOD
    return PUBLISHED if payload.status == "SUCCESS" and payload.published_version is not None else 0


def _lost(batch: EventBatch[TaskLost]) -> ProjectedRows:
    return ProjectedRows(
        batch, {**_task_columns(batch, batch.repeat(FAILED), "LOST"), **_ended(batch)}
    )


def _retried(batch: EventBatch[TaskRetryScheduled]) -> ProjectedRows:
    reason = {"error_message": batch.field("reason")}
    return ProjectedRows(batch, {**_task_columns(batch, batch.repeat("RETRY_WAIT")), **reason})


def _cancelled(batch: EventBatch[TaskCancelled]) -> ProjectedRows:
    columns = _task_columns(batch, batch.repeat("CANCELLED"), sticky=CANCELLED_FOR_GOOD)
    return ProjectedRows(batch, {**columns, **_ended(batch)})


def _ended(batch: EventBatch[F]) -> Columns:
    return {"completed_at": batch.occurred_us, "error_message": batch.field("reason")}


def _running_partition(batch: EventBatch[TaskStarted]) -> ProjectedRows:
    return partition_rows(
        batch,
        RUNNING,
        lambda payload: partition_updates(payload.table_id, payload, payload.execution_id),
    )


def _ended_partition(batch: EventBatch[TaskCompleted]) -> ProjectedRows:
    """A success sets nothing: only the event of the partition knows what was published."""
    return partition_rows(
        batch,
        FAILED,
        lambda payload: (
            ()
            if payload.status == "SUCCESS"
            else partition_updates(
                *(payload.table_id, payload, payload.execution_id, payload.error_message),
                is_released=payload.status == "CANCELLED",
            )
        ),
    )


def _unfinished_partition(batch: EventBatch[F]) -> ProjectedRows:
    return partition_rows(
        batch,
        FAILED,
        lambda payload: partition_updates(
            *(payload.table_id, payload, payload.execution_id, payload.reason),
            is_released=isinstance(payload, TaskCancelled),
        ),
    )


_TASK = {"execution_id": "run-7", "task_id": "load"}
_PARTITION = {"table_id": "tbl-orders", "partition_values": {"date": "2026-05-01"}}

KINDS: tuple[EventKind, ...] = (
    event_kind(
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
    event_kind(
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
            **_PARTITION,
        },
    ),
    event_kind(
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
            **_PARTITION,
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
    event_kind(
        "task_lost",
        EXECUTIONS_DOMAIN,
        TaskLost,
        Projection(TASKS, _lost),
        Projection(PARTITIONS, _unfinished_partition),
        example={**_TASK, "attempt": 1, "reason": "lease_expired", **_PARTITION},
    ),
    event_kind(
        "task_retry_scheduled",
        EXECUTIONS_DOMAIN,
        TaskRetryScheduled,
        Projection(TASKS, _retried),
        example={**_TASK, "attempt": 2, "not_before": "2026-05-01T10:01:00Z"},
    ),
    event_kind(
        "task_cancelled",
        EXECUTIONS_DOMAIN,
        TaskCancelled,
        Projection(TASKS, _cancelled),
        Projection(PARTITIONS, _unfinished_partition),
        example={**_TASK, "attempt": 2, "reason": "cancelled by user:ann"},
    ),
)
