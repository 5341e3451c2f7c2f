"""Executions: runs of a pipeline, from the wish for one to its end."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeVar

from arco.events.field import Count, Id, Message, Moment, Payload
from arco.events.partition_name import MayNamePartition
from arco.events.partition_row import PENDING, Named, named, partition_rows
from arco.events.task_row import RANKS as TASK_RANKS
from arco.events.task_row import partition_key
from arco.events.told import EventKind, Projection, Rows, Told, Values, kind, us_or_none
from arco.fold.tier2 import EXECUTIONS, EXECUTIONS_DOMAIN, PARTITIONS, TASKS
from arco.ledger.envelope import RowCount

TriggerType = Literal["SCHEDULED", "MANUAL", "EVENT", "BACKFILL"]

_RANKS = {"PENDING": 1, "RUNNING": 2, "FAILED": 3, "CANCELLED": 4, "SUCCESS": 5}


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


E = TypeVar("E", bound=_OfExecution)


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


def _columns(told: Told[E], statuses: Sequence[str], **also: Values) -> dict[str, Values]:
    ranks = [_RANKS[status] for status in statuses]
    return {
        **told.fields("execution_id", "pipeline_id", "pipeline_name", "trigger_type"),
        **told.fields("triggered_by", "run_key", "plan_id"),
        "status": statuses,
        "_status": told.order(told.field("generation"), ranks),
        **also,
    }


def _pending(told: Told[E]) -> Rows:
    return Rows(told, _columns(told, told.all("PENDING")))


def _started(told: Told[ExecutionStarted]) -> Rows:
    return Rows(told, _columns(told, told.all("RUNNING"), started_at=told.when("started_at")))


def _completed(told: Told[ExecutionCompleted]) -> Rows:
    began = [us_or_none(moment) for moment in told.field("started_at")]
    outcome = told.fields("duration_ms", "error_message")
    columns = _columns(
        told,
        told.field("status"),
        started_at=began,
        completed_at=told.when("completed_at"),
        **outcome,
    )
    return Rows(told, columns)


def _cancelled(told: Told[CancelRequested]) -> Rows:
    return Rows(told, _columns(told, told.all("CANCELLED"), error_message=told.field("reason")))


class _Planned(NamedTuple):
    execution_id: str
    task: PlannedTask


def _planned_tasks(told: Told[ExecutionPlanned]) -> Rows:
    planned = told.spread(lambda said: [_Planned(said.execution_id, task) for task in said.tasks])
    tasks = [each.task for each in planned.said]
    return Rows(
        planned,
        {
            **planned.fields("execution_id"),
            "task_id": [task.task_id for task in tasks],
            "task_name": [task.task_name for task in tasks],
            "table_id": [task.table_id for task in tasks],
            "partition_key": [partition_key(task.table_id, task) for task in tasks],
            "status": planned.all("PENDING"),
            "attempt": planned.all(0),
            "_status": planned.order(rank=TASK_RANKS["PENDING"]),  # below the first attempt
        },
    )


def _count_planned(planned: ExecutionPlanned) -> RowCount:
    return RowCount(len(planned.tasks), len(planned.tasks) * len(planned.execution_id))


def _planned_partitions(told: Told[ExecutionPlanned]) -> Rows:
    return partition_rows(told, PENDING, _partitions)


def _partitions(said: ExecutionPlanned) -> Iterable[Named]:
    """Should two tasks fill one partition, it is named as the first says: one event has one order."""
    found: dict[tuple[str, str], Named] = {}
    for task in said.tasks:
        for each in named(task.table_id, task, said.execution_id):
            found.setdefault((each.table_id, each.partition.partition_id), each)
    return found.values()


KINDS: tuple[EventKind, ...] = (
    kind(
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
    kind(
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
    kind(
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
    kind(
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
    kind(
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
