"""Partitions: that there is one, and whether its data were published."""

from typing import Literal

from arco.events.field import Attempt, Count, Id, Message, Moment
from arco.events.partition_name import NamesPartition
from arco.events.partition_row import COMPLETE, FAILED, PENDING, Named, named, partition_rows
from arco.events.told import EventKind, Projection, Rows, Told, kind
from arco.fold.tier2 import EXECUTIONS_DOMAIN, PARTITIONS

_DATA = (
    *("row_count", "size_bytes", "materialization_id", "input_fingerprint", "code_fingerprint"),
    *("last_successful_run", "last_successful_execution_id"),
)


class PartitionCreated(NamesPartition, frozen=True, kw_only=True):
    """A table has a partition, or is about to have it."""

    execution_id: Id | None = None
    created_at: Moment | None = None


class PartitionCompleted(NamesPartition, frozen=True, kw_only=True):
    """The data of a partition were published."""

    status: Literal["COMPLETE"] = "COMPLETE"
    row_count: Count | None = None
    size_bytes: Count | None = None
    duration_ms: Count | None = None
    # The published one, which decides before any clock; null: the data are those of before, and all there.
    version: Count | None = 0
    materialization_id: Id | None = None
    input_fingerprint: Id | None = None
    code_fingerprint: Id | None = None
    execution_id: Id | None = None
    task_id: Id | None = None
    attempt: Attempt | None = None
    completed_at: Moment | None = None


class PartitionFailed(NamesPartition, frozen=True, kw_only=True):
    """The data of a partition could not be made or published; those of before are still there."""

    error: Message | None = None
    execution_id: Id | None = None
    task_id: Id | None = None
    attempt: Attempt | None = None


class PartitionCleared(NamesPartition, frozen=True, kw_only=True):
    """The rows of a partition were removed: it is as if it had never been made."""

    version: Count  # that removed them
    execution_id: Id | None = None


def _created(told: Told[PartitionCreated]) -> Rows:
    return partition_rows(told, PENDING, _named, {"created_at": told.when("created_at")})


def _completed(told: Told[PartitionCompleted]) -> Rows:
    data = {
        **told.fields(*_DATA[:-2]),
        "last_successful_run": told.when("completed_at"),
        "last_successful_execution_id": told.execution_ids(),
        "_data": told.order(causal=[version or 0 for version in told.field("version")]),
    }
    published = [version is not None for version in told.field("version")]
    return partition_rows(told, COMPLETE, _named, told.where(published, data))


def _cleared(told: Told[PartitionCleared]) -> Rows:
    data = {
        **dict.fromkeys(_DATA, told.all(None)),
        "_data": told.order(causal=told.field("version")),
    }
    return partition_rows(told, PENDING, _named, data, is_planned=False)


def _failed(told: Told[PartitionFailed]) -> Rows:
    return partition_rows(
        told, FAILED, lambda said: named(said.table_id, said, said.execution_id, said.error)
    )


def _named(said: PartitionCreated | PartitionCompleted | PartitionCleared) -> tuple[Named, ...]:
    return named(said.table_id, said, said.execution_id)


KINDS: tuple[EventKind, ...] = (
    kind(
        "partition_created",
        EXECUTIONS_DOMAIN,
        PartitionCreated,
        Projection(PARTITIONS, _created),
        example={"table_id": "tbl-orders", "partition_values": {"date": "2026-05-01"}},
    ),
    kind(
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
    kind(
        "partition_cleared",
        EXECUTIONS_DOMAIN,
        PartitionCleared,
        Projection(PARTITIONS, _cleared),
        example={"table_id": "tbl-orders", "partition_key": "date=2026-05-02", "version": 13},
    ),
    kind(
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
)
