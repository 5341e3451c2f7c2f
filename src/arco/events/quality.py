"""Quality: what a check of a table or partition found."""

from typing import Literal, TypeVar

from arco.events.field import Id, Message, Moment, Text
from arco.events.partition_name import MayNamePartition, partition_of
from arco.events.told import EventKind, Projection, Rows, Told, kind
from arco.fold.tier2 import EXECUTIONS_DOMAIN, QUALITY_RESULTS

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


R = TypeVar("R", bound=_OfCheck)


def _result(told: Told[R]) -> Rows:
    """One row for each idempotency key: the same result told twice is one result (P18)."""
    partitions = [partition_of(said.table_id, said) for said in told.said]
    return Rows(
        told,
        {
            **told.fields("table_id", "check_name", "check_type", "status", "severity"),
            **told.fields("blocking", "expected_value", "actual_value", "message", "task_id"),
            "result_id": [line.idempotency_key for line in told.lines],
            "partition_id": [None if each is None else each.partition_id for each in partitions],
            "execution_id": told.execution_ids(),
            "checked_at": told.when("checked_at"),
            "_told": told.order(),
        },
    )


KINDS: tuple[EventKind, ...] = (
    kind(
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
    kind(
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
