"""Events of executions: runs of a pipeline, from the request to the end."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeVar

from arco.events.partition import PENDING, PartitionUpdate, partition_rows, partition_updates
from arco.events.partition_key import OptionalPartitionPayload
from arco.events.payload import Count, Id, Message, Payload, Timestamp
from arco.events.projection import (
    EventBatch,
    EventKind,
    ProjectedRows,
    Projection,
    Values,
    event_kind,
    to_micros_or_none,
)
from arco.events.task import RANKS as TASK_RANKS
from arco.events.task import partition_key
from arco.fold.tier2 import EXECUTIONS, EXECUTIONS_DOMAIN, PARTITIONS, TASKS
from arco.ledger.envelope import RowVolume

TriggerType = Literal["SCHEDULED", "MANUAL", "EVENT", "BACKFILL"]

_RANKS = {"PENDING": 1, "RUNNING": 2, "FAILED": 3, "CANCELLED": 4, "SUCCESS": 5}


class _ExecutionPayload(Payload, frozen=True, kw_only=True):
    """The fields that every event of an execution may set; once set, they never change."""

    execution_id: Id
    pipeline_id: Id | None = None
    pipeline_name: Id | None = None
    trigger_type: TriggerType | None = None
    triggered_by: Id | None = None
    run_key: Id | None = None
    plan_id: Id | None = None
    generation: Count = 0  # outranks statuses and clocks


E = TypeVar("E", bound=_ExecutionPayload)


class ExecutionRequested(_ExecutionPayload, frozen=True, kw_only=True):
    """A run of a pipeline was requested."""

    run_key: Id
    trigger_type: TriggerType


class PlannedTaskPayload(OptionalPartitionPayload, frozen=True, kw_only=True):
    """A task of a plan."""

    task_id: Id
    task_name: Id | None = None
    table_id: Id | None = None


class Dependency(Payload, frozen=True, kw_only=True):
    """`downstream` waits for `upstream`; both are ids of tasks of the plan."""

    upstream: Id
    downstream: Id


class ExecutionPlanned(_ExecutionPayload, frozen=True, kw_only=True):
    """The tasks of an execution and their dependencies were planned."""

    plan_id: Id
    tasks: tuple[PlannedTaskPayload, ...] = ()
    deps: tuple[Dependency, ...] = ()


class ExecutionStarted(_ExecutionPayload, frozen=True, kw_only=True):
    """An execution started."""

    pipeline_id: Id
    started_at: Timestamp | None = None


class ExecutionCompleted(_ExecutionPayload, frozen=True, kw_only=True):
    """An execution ended."""

    status: Literal["SUCCESS", "FAILED", "CANCELLED"]
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    duration_ms: Count | None = None
    error_message: Message | None = None


class CancelRequested(_ExecutionPayload, frozen=True, kw_only=True):
    """A cancel of an execution was requested; only a success outranks it."""

    requested_by: Id | None = None
    reason: Message | None = None


def _columns(batch: EventBatch[E], statuses: Sequence[str], **also: Values) -> dict[str, Values]:
    ranks = [_RANKS[status] for status in statuses]
    return {
        **batch.fields("execution_id", "pipeline_id", "pipeline_name", "trigger_type"),
        **batch.fields("triggered_by", "run_key", "plan_id"),
        "status": statuses,
        "_status": batch.order(batch.field("generation"), ranks),
        **also,
    }


def _pending(batch: EventBatch[E]) -> ProjectedRows:
    return ProjectedRows(batch, _columns(batch, batch.repeat("PENDING")))


def _started(batch: EventBatch[ExecutionStarted]) -> ProjectedRows:
    return ProjectedRows(
        batch, _columns(batch, batch.repeat("RUNNING"), started_at=batch.times("started_at"))
    )


def _completed(batch: EventBatch[ExecutionCompleted]) -> ProjectedRows:
    started_us = [to_micros_or_none(moment) for moment in batch.field("started_at")]
    outcome = batch.fields("duration_ms", "error_message")
    columns = _columns(
        batch,
        batch.field("status"),
        started_at=started_us,
        completed_at=batch.times("completed_at"),
        **outcome,
    )
    return ProjectedRows(batch, columns)


def _cancelled(batch: EventBatch[CancelRequested]) -> ProjectedRows:
    return ProjectedRows(
        batch, _columns(batch, batch.repeat("CANCELLED"), error_message=batch.field("reason"))
    )


class _Planned(NamedTuple):
    execution_id: str
    task: PlannedTaskPayload


def _planned_tasks(batch: EventBatch[ExecutionPlanned]) -> ProjectedRows:
    planned = batch.explode(
        lambda payload: [_Planned(payload.execution_id, task) for task in payload.tasks]
    )
    tasks = [each.task for each in planned.payloads]
    return ProjectedRows(
        planned,
        {
            **planned.fields("execution_id"),
            "task_id": [task.task_id for task in tasks],
            "task_name": [task.task_name for task in tasks],
            "table_id": [task.table_id for task in tasks],
            "partition_key": [partition_key(task.table_id, task) for task in tasks],
            "status": planned.repeat("PENDING"),
            "attempt": planned.repeat(0),
            "_status": planned.order(rank=TASK_RANKS["PENDING"]),  # below the first attempt
        },
    )


def _count_planned(planned: ExecutionPlanned) -> RowVolume:
    return RowVolume(len(planned.tasks), len(planned.tasks) * len(planned.execution_id))


def _planned_partitions(batch: EventBatch[ExecutionPlanned]) -> ProjectedRows:
    return partition_rows(batch, PENDING, _partitions)


def _partitions(payload: ExecutionPlanned) -> Iterable[PartitionUpdate]:
    """If two tasks write one partition, the first one names it: one event has one order."""
    updates: dict[tuple[str, str], PartitionUpdate] = {}
    for task in payload.tasks:
        for each in partition_updates(task.table_id, task, payload.execution_id):
            updates.setdefault((each.table_id, each.partition.partition_id), each)
    return updates.values()


KINDS: tuple[EventKind, ...] = (
    event_kind(
        "execution_requested",
        EXECUTIONS_DOMAIN,
        ExecutionRequested,
        Projection(EXECUTIONS, _pending),
        example={
            "execution_id": "run-7",
            "run_key": "orders_daily:2026-05-01",
            "trigger_type": "SCHEDULED",
            "triggered_by": "schedule:orders_daily",
            "pipeline_id": "orders_daily",
        },
    ),
    event_kind(
        "execution_planned",
        EXECUTIONS_DOMAIN,
        ExecutionPlanned,
        Projection(EXECUTIONS, _pending),
        Projection(TASKS, _planned_tasks, _count_planned),
        Projection(PARTITIONS, _planned_partitions, _count_planned),
        example={
            "execution_id": "run-7",
            "plan_id": "plan-7",
            "tasks": [
                {
                    "task_id": "load",
                    "task_name": "load_orders",
                    "table_id": "tbl-orders",
                    "partition_values": {"date": "2026-05-01"},
                },
                {"task_id": "report"},
            ],
            "deps": [{"upstream": "load", "downstream": "report"}],
        },
    ),
    event_kind(
        "execution_started",
        EXECUTIONS_DOMAIN,
        ExecutionStarted,
        Projection(EXECUTIONS, _started),
        example={
            "execution_id": "run-7",
            "pipeline_id": "orders_daily",
            "pipeline_name": "Orders, daily",
            "trigger_type": "SCHEDULED",
            "triggered_by": "schedule:orders_daily",
        },
    ),
    event_kind(
        "execution_completed",
        EXECUTIONS_DOMAIN,
        ExecutionCompleted,
        Projection(EXECUTIONS, _completed),
        example={
            "execution_id": "run-7",
            "status": "FAILED",
            "duration_ms": 93_000,
            "error_message": "task report failed",
        },
    ),
    event_kind(
        "cancel_requested",
        EXECUTIONS_DOMAIN,
        CancelRequested,
        Projection(EXECUTIONS, _cancelled),
        example={
            "execution_id": "run-7",
            "requested_by": "user:ann",
            "reason": "the input was wrong",
        },
    ),
)
