"""Executions: runs of a pipeline, from the wish for one to its end."""

from typing import Literal

from arco.events.field import Count, Id, Message, Moment, Payload
from arco.events.partition_name import MayNamePartition
from arco.events.partition_row import PENDING, partition_row, partition_rows
from arco.events.task_row import RANKS as TASK_RANKS
from arco.events.task_row import partition_key
from arco.events.told import EventKind, Projection, Row, Told, kind
from arco.fold.tier2 import EXECUTIONS, EXECUTIONS_DOMAIN, OCCURRED, TASKS

TriggerType = Literal["SCHEDULED", "MANUAL", "EVENT", "BACKFILL"]

_RANKS = {"PENDING": 1, "RUNNING": 2, "FAILED": 3, "CANCELLED": 4, "SUCCESS": 5}
_KNOWN = ("pipeline_id", "pipeline_name", "trigger_type", "triggered_by", "run_key", "plan_id")


class _OfExecution(Payload, frozen=True, kw_only=True):
    """What every event of an execution may say of it; a fact that is known is known for good."""

    execution_id: Id
    pipeline_id: Id | None = None
    pipeline_name: Id | None = None
    trigger_type: TriggerType | None = None
    triggered_by: Id | None = None
    run_key: Id | None = None
    plan_id: Id | None = None
    generation: Count = 0  # decides before the status and before any clock


class ExecutionRequested(_OfExecution, frozen=True, kw_only=True):
    """Somebody or something wants a pipeline to run."""

    run_key: Id
    trigger_type: TriggerType


class PlannedTask(MayNamePartition, frozen=True, kw_only=True):
    """A task of a plan."""

    task_id: Id
    task_name: Id | None = None
    table_id: Id | None = None


class Dependency(Payload, frozen=True, kw_only=True):
    """`downstream` waits for `upstream`; both are ids of tasks of the plan."""

    upstream: Id
    downstream: Id


class ExecutionPlanned(_OfExecution, frozen=True, kw_only=True):
    """It was decided which tasks an execution has, and which of them waits for which."""

    plan_id: Id
    tasks: tuple[PlannedTask, ...] = ()
    deps: tuple[Dependency, ...] = ()


class ExecutionStarted(_OfExecution, frozen=True, kw_only=True):
    """An execution began to run."""

    pipeline_id: Id
    started_at: Moment | None = None


class ExecutionCompleted(_OfExecution, frozen=True, kw_only=True):
    """An execution is over, for better or worse."""

    status: Literal["SUCCESS", "FAILED", "CANCELLED"]
    started_at: Moment | None = None
    completed_at: Moment | None = None
    duration_ms: Count | None = None
    error_message: Message | None = None


class CancelRequested(_OfExecution, frozen=True, kw_only=True):
    """Somebody wants an execution to stop; only its success outranks that."""

    requested_by: Id | None = None
    reason: Message | None = None


def _known(said: _OfExecution) -> Row:
    return (
        said.execution_id,
        said.pipeline_id,
        said.pipeline_name,
        said.trigger_type,
        said.triggered_by,
        said.run_key,
        said.plan_id,
    )


def _order(told: Told, said: _OfExecution, status: str) -> bytes:
    return told.order(causal=said.generation, rank=_RANKS[status])


def _pending(told: Told, said: _OfExecution) -> tuple[Row]:
    return ((*_known(said), "PENDING", _order(told, said, "PENDING"), told.occurred),)


def _started(told: Told, said: ExecutionStarted) -> tuple[Row]:
    order = _order(told, said, "RUNNING")
    return ((*_known(said), "RUNNING", told.when(said.started_at), order, told.occurred),)


def _completed(told: Told, said: ExecutionCompleted) -> tuple[Row]:
    began = None if said.started_at is None else told.when(said.started_at)
    ended = told.when(said.completed_at)
    order = _order(told, said, said.status)
    outcome = (said.status, began, ended, said.duration_ms, said.error_message)
    return ((*_known(said), *outcome, order, told.occurred),)


def _cancelled(told: Told, said: CancelRequested) -> tuple[Row]:
    order = _order(told, said, "CANCELLED")
    return ((*_known(said), "CANCELLED", said.reason, order, told.occurred),)


def _planned_tasks(told: Told, said: ExecutionPlanned) -> list[Row]:
    order = told.order(rank=TASK_RANKS["PENDING"])  # no attempt yet, so below the first
    return [
        (
            said.execution_id,
            task.task_id,
            task.task_name,
            task.table_id,
            partition_key(task.table_id, task),
            "PENDING",
            0,
            order,
            told.occurred,
        )
        for task in said.tasks
    ]


def _planned_partitions(told: Told, said: ExecutionPlanned) -> list[Row]:
    """Should two tasks fill one partition, it is named as the first says: one event has one order."""
    rows: dict[Row, Row] = {}
    for task in said.tasks:
        for row in partition_row(told, task.table_id, task, PENDING, said.execution_id):
            rows.setdefault(row[:2], row)
    return list(rows.values())


def _projection(*names: str) -> tuple[str, ...]:
    return ("execution_id", *_KNOWN, *names, "_status", OCCURRED)


KINDS: tuple[EventKind, ...] = (
    kind(
        "execution_requested",
        EXECUTIONS_DOMAIN,
        ExecutionRequested,
        Projection(EXECUTIONS, _projection("status"), _pending),
        example={
            "execution_id": "run-7",
            "run_key": "orders_daily:2026-05-01",
            "trigger_type": "SCHEDULED",
            "triggered_by": "schedule:orders_daily",
            "pipeline_id": "orders_daily",
        },
    ),
    kind(
        "execution_planned",
        EXECUTIONS_DOMAIN,
        ExecutionPlanned,
        Projection(EXECUTIONS, _projection("status"), _pending),
        Projection(
            TASKS,
            (
                *("execution_id", "task_id", "task_name", "table_id", "partition_key"),
                *("status", "attempt", "_status", OCCURRED),
            ),
            _planned_tasks,
        ),
        partition_rows(_planned_partitions),
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
    kind(
        "execution_started",
        EXECUTIONS_DOMAIN,
        ExecutionStarted,
        Projection(EXECUTIONS, _projection("status", "started_at"), _started),
        example={
            "execution_id": "run-7",
            "pipeline_id": "orders_daily",
            "pipeline_name": "Orders, daily",
            "trigger_type": "SCHEDULED",
            "triggered_by": "schedule:orders_daily",
        },
    ),
    kind(
        "execution_completed",
        EXECUTIONS_DOMAIN,
        ExecutionCompleted,
        Projection(
            EXECUTIONS,
            _projection("status", "started_at", "completed_at", "duration_ms", "error_message"),
            _completed,
        ),
        example={
            "execution_id": "run-7",
            "status": "FAILED",
            "duration_ms": 93_000,
            "error_message": "task report failed",
        },
    ),
    kind(
        "cancel_requested",
        EXECUTIONS_DOMAIN,
        CancelRequested,
        Projection(EXECUTIONS, _projection("status", "error_message"), _cancelled),
        example={
            "execution_id": "run-7",
            "requested_by": "user:ann",
            "reason": "the input was wrong",
        },
    ),
)
