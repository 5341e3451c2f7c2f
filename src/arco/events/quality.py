"""Events of quality checks of tables and partitions."""

from typing import Literal, TypeVar

from arco.events.partition_key import OptionalPartitionPayload, resolve_partition
from arco.events.payload import CheckType, Id, Message, Text, Timestamp
from arco.events.projection import EventBatch, EventKind, ProjectedRows, Projection, event_kind
from arco.fold.tier2 import EXECUTIONS_DOMAIN, ORDER, QUALITY_RESULTS


class _OfCheck(OptionalPartitionPayload, frozen=True, kw_only=True):
    table_id: Id
    check_name: Id
    check_type: CheckType
    severity: Id | None = None
    blocking: bool | None = None
    expected_value: Text | None = None
    actual_value: Text | None = None
    message: Message | None = None
    execution_id: Id | None = None
    task_id: Id | None = None
    checked_at: Timestamp | None = None


class QualityCheckPassed(_OfCheck, frozen=True, kw_only=True):
    """A quality check passed or was skipped."""

    status: Literal["PASSED", "SKIPPED"] = "PASSED"


class QualityCheckFailed(_OfCheck, frozen=True, kw_only=True):
    """A quality check failed or gave a warning."""

    status: Literal["FAILED", "WARNING"] = "FAILED"


R = TypeVar("R", bound=_OfCheck)


def _result(batch: EventBatch[R]) -> ProjectedRows:
    """One row for each idempotency key: a result that is sent twice is one result (P18)."""
    partitions = [resolve_partition(payload.table_id, payload) for payload in batch.payloads]
    return ProjectedRows(
        batch,
        {
            **batch.fields("table_id", "check_name", "check_type", "status", "severity"),
            **batch.fields("blocking", "expected_value", "actual_value", "message", "task_id"),
            "result_id": [line.idempotency_key for line in batch.lines],
            "partition_id": [None if each is None else each.partition_id for each in partitions],
            "execution_id": batch.execution_ids(),
            "checked_at": batch.times("checked_at"),
            ORDER: batch.order(),
        },
    )


KINDS: tuple[EventKind, ...] = (
    event_kind(
        "quality_check_passed",
        EXECUTIONS_DOMAIN,
        QualityCheckPassed,
        Projection(QUALITY_RESULTS, _result),
        example={
            "table_id": "tbl-orders",
            "partition_values": {"date": "2026-05-01"},
            "check_name": "orders_not_empty",
            "check_type": "ROW_COUNT",
            "expected_value": ">= 1",
            "actual_value": "150000",
            "execution_id": "run-7",
            "task_id": "load",
        },
    ),
    event_kind(
        "quality_check_failed",
        EXECUTIONS_DOMAIN,
        QualityCheckFailed,
        Projection(QUALITY_RESULTS, _result),
        example={
            "table_id": "tbl-orders",
            "check_name": "customer_id_known",
            "check_type": "NULL_CHECK",
            "severity": "error",
            "blocking": True,
            "expected_value": "0",
            "actual_value": "17",
            "message": "17 orders have no customer",
            "execution_id": "run-7",
        },
    ),
)
