"""Events of partitions and of the values of dynamic partition dimensions, and their rows.

Rows of partitions are also made by events of the tasks that write them. The newest status wins, but a
planned partition never hides its outcome. A cancelled attempt does not fail a partition: it is PENDING
again. The published data are merged separately, by the published version.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple, TypeVar

from arco.events.partition_key import (
    OptionalPartitionPayload,
    PartitionName,
    PartitionPayload,
    resolve_partition,
)
from arco.events.payload import Attempt, Count, Id, Message, Payload, Timestamp
from arco.events.projection import (
    EventBatch,
    EventKind,
    ProjectedRows,
    Projection,
    Values,
    event_kind,
)
from arco.fold.tier2 import EXECUTIONS_DOMAIN, ORDER, PARTITION_VALUES, PARTITIONS

PENDING, RUNNING, COMPLETE, FAILED = "PENDING", "RUNNING", "COMPLETE", "FAILED"
PRESENT, REMOVED = "PRESENT", "REMOVED"  # statuses of partition values

_DATA = (
    *("row_count", "size_bytes", "materialization_id", "input_fingerprint", "code_fingerprint"),
    *("last_successful_run", "last_successful_execution_id"),
)

P = TypeVar("P")


class PartitionUpdate(NamedTuple):
    """A partition of a table, and what an event reports about it."""

    table_id: str
    partition: PartitionName
    execution_id: str | None
    error_message: str | None
    is_released: bool = False  # by a cancelled attempt


def partition_updates(
    table_id: str | None,
    payload: OptionalPartitionPayload,
    execution_id: str | None,
    error: str | None = None,
    *,
    is_released: bool = False,
) -> tuple[PartitionUpdate, ...]:
    """The partition that a payload names, if it names one."""
    if table_id is None:
        return ()
    name = resolve_partition(table_id, payload)
    if name is None:
        return ()
    return (PartitionUpdate(table_id, name, execution_id, error, is_released),)


def partition_rows(
    batch: EventBatch[P],
    status: str,
    partitions: Callable[[P], Iterable[PartitionUpdate]],
    extra: Mapping[str, Values] | None = None,
    *,
    is_planned: bool = True,
) -> ProjectedRows:
    """A row for each partition that events name, with `extra` columns if each names exactly one.

    With `is_planned`, PENDING only plans a partition and never hides an earlier status.
    """
    exploded = batch.explode(partitions)
    names = [each.partition for each in exploded.payloads]
    order = exploded.order(rank=0 if status == PENDING and is_planned else 1)
    key = {"_named": order, "partition_key": [each.key for each in names]}
    columns = {
        **exploded.only_where([each.key is not None for each in names], key),
        "partition_values": [each.values for each in names],
        **exploded.fields("table_id", "error_message"),
        "partition_id": [each.partition_id for each in names],
        "status": [PENDING if each.is_released else status for each in exploded.payloads],
        "last_execution_id": exploded.execution_ids(),
        "created_at": exploded.occurred_us,
        "updated_at": exploded.occurred_us,
        "_status": order,
    }
    return ProjectedRows(exploded, {**columns, **(extra or {})})


class PartitionCreated(PartitionPayload, frozen=True, kw_only=True):
    """A table has a partition, or is about to have one."""

    execution_id: Id | None = None
    created_at: Timestamp | None = None


class PartitionCompleted(PartitionPayload, frozen=True, kw_only=True):
    """The data of a partition was published."""

    status: Literal["COMPLETE"] = "COMPLETE"
    row_count: Count | None = None
    size_bytes: Count | None = None
    duration_ms: Count | None = None
    # The published version, which outranks every clock; null: the earlier data is unchanged and complete.
    version: Count | None = 0
    materialization_id: Id | None = None
    input_fingerprint: Id | None = None
    code_fingerprint: Id | None = None
    execution_id: Id | None = None
    task_id: Id | None = None
    attempt: Attempt | None = None
    completed_at: Timestamp | None = None


class PartitionFailed(PartitionPayload, frozen=True, kw_only=True):
    """The data of a partition could not be made or published; the earlier data is still there."""

    error: Message | None = None
    execution_id: Id | None = None
    task_id: Id | None = None
    attempt: Attempt | None = None


class PartitionCleared(PartitionPayload, frozen=True, kw_only=True):
    """The rows of a partition were removed, as if it had never been made."""

    version: Count  # the version that removed them
    execution_id: Id | None = None


def _created(batch: EventBatch[PartitionCreated]) -> ProjectedRows:
    return partition_rows(batch, PENDING, _updates, {"created_at": batch.times("created_at")})


def _completed(batch: EventBatch[PartitionCompleted]) -> ProjectedRows:
    data = {
        **batch.fields(*_DATA[:-2]),
        "last_successful_run": batch.times("completed_at"),
        "last_successful_execution_id": batch.execution_ids(),
        "_data": batch.order(causal=[version or 0 for version in batch.field("version")]),
    }
    published = [version is not None for version in batch.field("version")]
    return partition_rows(batch, COMPLETE, _updates, batch.only_where(published, data))


def _cleared(batch: EventBatch[PartitionCleared]) -> ProjectedRows:
    data = {
        **dict.fromkeys(_DATA, batch.repeat(None)),
        "_data": batch.order(causal=batch.field("version")),
    }
    return partition_rows(batch, PENDING, _updates, data, is_planned=False)


def _failed(batch: EventBatch[PartitionFailed]) -> ProjectedRows:
    return partition_rows(
        batch,
        FAILED,
        lambda payload: partition_updates(
            payload.table_id, payload, payload.execution_id, payload.error
        ),
    )


def _updates(
    payload: PartitionCreated | PartitionCompleted | PartitionCleared,
) -> tuple[PartitionUpdate, ...]:
    return partition_updates(payload.table_id, payload, payload.execution_id)


class PartitionValueAdded(Payload, frozen=True, kw_only=True):
    """A value was added to a dynamic partition dimension."""

    dimension: Id
    value: Id
    execution_id: Id | None = None
    added_at: Timestamp | None = None


class PartitionValueRemoved(Payload, frozen=True, kw_only=True):
    """A value was removed from a dynamic partition dimension; data made for it stays."""

    dimension: Id
    value: Id
    execution_id: Id | None = None
    removed_at: Timestamp | None = None


def _value_added(batch: EventBatch[PartitionValueAdded]) -> ProjectedRows:
    return _value_rows(batch, PRESENT, "added_at")


def _value_removed(batch: EventBatch[PartitionValueRemoved]) -> ProjectedRows:
    return _value_rows(batch, REMOVED, "removed_at")


def _value_rows(
    batch: EventBatch[PartitionValueAdded] | EventBatch[PartitionValueRemoved],
    status: str,
    time_field: str,
) -> ProjectedRows:
    return ProjectedRows(
        batch,
        {
            **batch.fields("dimension", "value"),
            "status": batch.repeat(status),
            time_field: batch.times(time_field),
            "execution_id": batch.execution_ids(),
            ORDER: batch.order(),
        },
    )


KINDS: tuple[EventKind, ...] = (
    event_kind(
        "partition_created",
        EXECUTIONS_DOMAIN,
        PartitionCreated,
        Projection(PARTITIONS, _created),
        example={"table_id": "tbl-orders", "partition_values": {"date": "2026-05-01"}},
    ),
    event_kind(
        "partition_completed",
        EXECUTIONS_DOMAIN,
        PartitionCompleted,
        Projection(PARTITIONS, _completed),
        example={
            "table_id": "tbl-orders",
            "partition_values": {"date": "2026-05-01"},
            "status": "COMPLETE",
            "row_count": 150_000,
            "size_bytes": 45_000_000,
            "duration_ms": 12_500,
            "version": 12,
            "execution_id": "run-7",
            "task_id": "load",
            "attempt": 1,
        },
    ),
    event_kind(
        "partition_cleared",
        EXECUTIONS_DOMAIN,
        PartitionCleared,
        Projection(PARTITIONS, _cleared),
        example={"table_id": "tbl-orders", "partition_key": "date=2026-05-02", "version": 13},
    ),
    event_kind(
        "partition_failed",
        EXECUTIONS_DOMAIN,
        PartitionFailed,
        Projection(PARTITIONS, _failed),
        example={
            "table_id": "tbl-orders",
            "partition_key": "date=2026-05-02",
            "error": "check orders_not_empty failed",
            "execution_id": "run-8",
        },
    ),
    event_kind(
        "partition_value_added",
        EXECUTIONS_DOMAIN,
        PartitionValueAdded,
        Projection(PARTITION_VALUES, _value_added),
        example={"dimension": "customer", "value": "acme"},
    ),
    event_kind(
        "partition_value_removed",
        EXECUTIONS_DOMAIN,
        PartitionValueRemoved,
        Projection(PARTITION_VALUES, _value_removed),
        example={"dimension": "customer", "value": "acme"},
    ),
)
