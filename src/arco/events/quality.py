"""Quality: what a check of a table or partition found."""

from typing import Literal

from arco.events.field import Id, Message, Moment, Text
from arco.events.partition_name import MayNamePartition, partition_of
from arco.events.told import EventKind, Projection, Row, Told, kind
from arco.fold.tier2 import EXECUTIONS_DOMAIN, OCCURRED, QUALITY_RESULTS

CheckType = Literal[
    "FRESHNESS",
    "ROW_COUNT",
    "NULL_CHECK",
    "UNIQUE_CHECK",
    "RANGE_CHECK",
    "CUSTOM_SQL",
    "SCHEMA_MATCH",
]


class _OfCheck(MayNamePartition, frozen=True, kw_only=True):
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
    checked_at: Moment | None = None


class QualityCheckPassed(_OfCheck, frozen=True, kw_only=True):
    """A check found nothing wrong, or was skipped."""

    status: Literal["PASSED", "SKIPPED"] = "PASSED"


class QualityCheckFailed(_OfCheck, frozen=True, kw_only=True):
    """A check found something wrong, or something to warn of."""

    status: Literal["FAILED", "WARNING"] = "FAILED"


def _result(told: Told, said: QualityCheckPassed | QualityCheckFailed) -> tuple[Row]:
    """One row for each idempotency key: the same result told twice is one result (P18)."""
    partition = partition_of(said.table_id, said)
    row = (
        told.key,
        said.table_id,
        None if partition is None else partition.partition_id,
        said.check_name,
        said.check_type,
        said.status,
        said.severity,
        said.blocking,
        said.expected_value,
        said.actual_value,
        said.message,
        said.execution_id or told.execution_id,
        said.task_id,
        told.when(said.checked_at),
        told.order(),
        told.occurred,
    )
    return (row,)


_COLUMNS = (
    *("result_id", "table_id", "partition_id", "check_name", "check_type", "status", "severity"),
    *("blocking", "expected_value", "actual_value", "message", "execution_id", "task_id"),
    *("checked_at", "_told", OCCURRED),
)

KINDS: tuple[EventKind, ...] = (
    kind(
        "quality_check_passed",
        EXECUTIONS_DOMAIN,
        QualityCheckPassed,
        Projection(QUALITY_RESULTS, _COLUMNS, _result),
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
    kind(
        "quality_check_failed",
        EXECUTIONS_DOMAIN,
        QualityCheckFailed,
        Projection(QUALITY_RESULTS, _COLUMNS, _result),
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
