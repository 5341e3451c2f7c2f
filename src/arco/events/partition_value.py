"""Values of dynamic dimensions: partitions that no calendar and no list in the code knows of.

A value is there from when it was added until it was removed, and again if it is added later: whoever spoke
last counts.
"""

from arco.events.field import Id, Moment, Payload
from arco.events.told import EventKind, Projection, Rows, Told, kind
from arco.fold.tier2 import EXECUTIONS_DOMAIN, PARTITION_VALUES

PRESENT, REMOVED = "PRESENT", "REMOVED"


class PartitionValueAdded(Payload, frozen=True, kw_only=True):
    """A dynamic dimension has a value from now on."""

    dimension: Id
    value: Id
    execution_id: Id | None = None
    added_at: Moment | None = None


class PartitionValueRemoved(Payload, frozen=True, kw_only=True):
    """A dynamic dimension no longer has a value; data that were made for it stay."""

    dimension: Id
    value: Id
    execution_id: Id | None = None
    removed_at: Moment | None = None


def _added(told: Told[PartitionValueAdded]) -> Rows:
    return _rows(told, PRESENT, "added_at")


def _removed(told: Told[PartitionValueRemoved]) -> Rows:
    return _rows(told, REMOVED, "removed_at")


def _rows(
    told: Told[PartitionValueAdded] | Told[PartitionValueRemoved], status: str, moment: str
) -> Rows:
    return Rows(
        told,
        {
            **told.fields("dimension", "value"),
            "status": told.all(status),
            moment: told.when(moment),
            "execution_id": told.execution_ids(),
            "_told": told.order(),
        },
    )


KINDS: tuple[EventKind, ...] = (
    kind(
        "partition_value_added",
        EXECUTIONS_DOMAIN,
        PartitionValueAdded,
        Projection(PARTITION_VALUES, _added),
        example={"dimension": "customer", "value": "acme"},
    ),
    kind(
        "partition_value_removed",
        EXECUTIONS_DOMAIN,
        PartitionValueRemoved,
        Projection(PARTITION_VALUES, _removed),
        example={"dimension": "customer", "value": "acme"},
    ),
)
