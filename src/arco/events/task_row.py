"""Rows of tasks: which status outranks which, and what all events of a task have in common."""

from collections.abc import Sequence
from typing import TypeVar

from arco.events.field import Attempt, Id
from arco.events.partition_name import MayNamePartition, partition_of
from arco.events.told import Told, Values

# Of one attempt. That a worker was lost is a guess, which what the worker itself says outranks.
RANKS = {"PENDING": 1, "RETRY_WAIT": 1, "READY": 2, "DISPATCHED": 3, "RUNNING": 4}
RANKS |= {"LOST": 5, "FAILED": 6, "SKIPPED": 6, "BLOCKED": 6, "CANCELLED": 7, "SUCCESS": 8}

CANCELLED_FOR_GOOD, PUBLISHED = 1, 2  # these two outrank every attempt, the second the first (P19)


class OfTask(MayNamePartition, frozen=True, kw_only=True):
    """What every event of a task may say of it."""

    execution_id: Id
    task_id: Id
    task_name: Id | None = None
    table_id: Id | None = None
    attempt: Attempt = 1
    attempt_id: Id | None = None


T = TypeVar("T", bound=OfTask)


def task_columns(
    told: Told[T], statuses: Sequence[str], rank: str | None = None, sticky: Sequence[int] | int = 0
) -> dict[str, Values]:
    """What all events of tasks say of theirs; `rank` names another status, if it is not its own rank."""
    attempts = told.field("attempt")
    ranks = [RANKS[rank or status] for status in statuses]
    return {
        **told.fields("execution_id", "task_id", "task_name", "table_id"),
        "partition_key": [partition_key(said.table_id, said) for said in told.said],
        "retry_count": [attempt - 1 for attempt in attempts],
        "status": statuses,
        "attempt": attempts,
        "_status": told.order(attempts, ranks, sticky),
    }


def partition_key(table_id: str | None, named: MayNamePartition) -> str | None:
    """The key of the partition that a task fills, if it is said."""
    if named.partition_values is None and named.partition_key is None:
        return None
    found = partition_of(table_id or "", named)
    return None if found is None else found.key
