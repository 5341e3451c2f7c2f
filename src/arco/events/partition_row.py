"""Rows of partitions, which are made by events of partitions and by those of the tasks that fill them.

The status goes by time, but that a partition is planned never hides what became of it. An attempt that was
cancelled says nothing against a partition: it is left to somebody else, PENDING. How the data came out is
kept apart from that, by the version that was published.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from arco.events.partition_name import MayNamePartition, Partition, partition_of
from arco.events.told import Rows, Told, Values

PENDING, RUNNING, COMPLETE, FAILED = "PENDING", "RUNNING", "COMPLETE", "FAILED"

P = TypeVar("P")


class Named(NamedTuple):
    """A partition of a table, and what is told of it."""

    table_id: str
    partition: Partition
    execution_id: str | None
    error_message: str | None
    is_left: bool = False  # by an attempt that was cancelled


def named(
    table_id: str | None,
    by: MayNamePartition,
    execution_id: str | None,
    error: str | None = None,
    *,
    is_left: bool = False,
) -> tuple[Named, ...]:
    """The partition that a payload names, if it names one."""
    if table_id is None:
        return ()
    found = partition_of(table_id, by)
    return () if found is None else (Named(table_id, found, execution_id, error, is_left),)


def partition_rows(
    told: Told[P],
    status: str,
    partitions: Callable[[P], Iterable[Named]],
    also: Mapping[str, Values] | None = None,
    *,
    is_planned: bool = True,
) -> Rows:
    """A row for each partition that events name; `also` is what more they say, if each names one.

    `is_planned`: PENDING only says that a partition is planned, and hides nothing.
    """
    of = told.spread(partitions)
    names = [each.partition for each in of.said]
    order = of.order(rank=0 if status == PENDING and is_planned else 1)
    key = {"_named": order, "partition_key": [each.key for each in names]}
    columns = {
        **of.where([each.key is not None for each in names], key),
        "partition_values": [each.values for each in names],
        **of.fields("table_id", "error_message"),
        "partition_id": [each.partition_id for each in names],
        "status": [PENDING if each.is_left else status for each in of.said],
        "last_execution_id": of.execution_ids(),
        "created_at": of.occurred,
        "updated_at": of.occurred,
        "_status": order,
    }
    return Rows(of, {**columns, **(also or {})})
