"""Rows of tasks: which status outranks which, and what all events of a task have in common."""

from arco.events.field import Attempt, Id
from arco.events.partition_name import MayNamePartition, partition_of
from arco.events.told import Row, Told
from arco.fold.tier2 import OCCURRED

# Of one attempt. That a worker was lost is a guess, which what the worker itself says outranks.
RANKS = {"PENDING": 1, "RETRY_WAIT": 1, "READY": 2, "DISPATCHED": 3, "RUNNING": 4}
RANKS |= {"LOST": 5, "FAILED": 6, "SKIPPED": 6, "BLOCKED": 6, "CANCELLED": 7, "SUCCESS": 8}

CANCELLED_FOR_GOOD, PUBLISHED = 1, 2  # these two outrank every attempt, the second the first (P19)

TASK_COLUMNS = (
    *("execution_id", "task_id", "task_name", "table_id", "partition_key", "retry_count"),
    *("status", "attempt", "_status", OCCURRED),
)


class OfTask(MayNamePartition, frozen=True, kw_only=True):
    """What every event of a task may say of it."""

    execution_id: Id
    task_id: Id
    task_name: Id | None = None
    table_id: Id | None = None
    attempt: Attempt = 1
    attempt_id: Id | None = None


def task_row(
    told: Told, said: OfTask, status: str, rank: str | None = None, sticky: int = 0
) -> Row:
    """Values for `TASK_COLUMNS`."""
    attempt = said.attempt
    return (
        said.execution_id,
        said.task_id,
        said.task_name,
        said.table_id,
        partition_key(said.table_id, said),
        attempt - 1,
        status,
        attempt,
        told.order(attempt, RANKS[rank or status], sticky),
        told.occurred,
    )


def partition_key(table_id: str | None, named: MayNamePartition) -> str | None:
    """The key of the partition that a task fills, if it is said."""
    if named.partition_values is None and named.partition_key is None:
        return None
    found = partition_of(table_id or "", named)
    return None if found is None else found.key
