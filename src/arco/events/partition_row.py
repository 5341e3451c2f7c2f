"""Rows of partitions, which are made by events of partitions and by those of the tasks that fill them.

The status goes by time, but that a partition is planned never hides what became of it. How the data came
out is kept apart from that, by the version that was published.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from arco.events.partition_name import MayNamePartition, partition_of
from arco.events.told import Projection, Row, Told
from arco.fold.tier2 import OCCURRED, PARTITIONS

PENDING, RUNNING, COMPLETE, FAILED = "PENDING", "RUNNING", "COMPLETE", "FAILED"

PARTITION_COLUMNS = (
    *("table_id", "partition_id", "partition_key", "partition_values", "status", "error_message"),
    *("last_execution_id", "created_at", "updated_at", "_named", "_status", OCCURRED),
)
P_contra = TypeVar("P_contra", contravariant=True)


def partition_row(
    told: Told,
    table_id: str | None,
    named: MayNamePartition,
    status: str,
    execution_id: str | None,
    *,
    error: str | None = None,
    created: int | None = None,
) -> tuple[Row, ...]:
    """The row of the partition that a payload names, if it names one."""
    if table_id is None:
        return ()
    found = partition_of(table_id, named)
    if found is None:
        return ()
    at = told.occurred
    order = told.order(rank=0 if status == PENDING else 1)
    row = (
        table_id,
        found.partition_id,
        found.key,
        found.values,
        status,
        error,
        execution_id or told.execution_id,
        at if created is None else created,
        at,
        None if found.key is None else order,
        order,
        at,
    )
    return (row,)


def partition_rows(rows: Callable[[Told, P_contra], Iterable[Row]]) -> Projection[P_contra]:
    """A projection that makes such rows."""
    return Projection(PARTITIONS, PARTITION_COLUMNS, rows)
