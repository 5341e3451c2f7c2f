"""Commits: that a table of Iceberg changed, told by the API itself once a commit is in effect."""

from typing import Annotated

from msgspec import Meta

from arco.core import json
from arco.events.field import Moment, Payload
from arco.events.statistics import version_order
from arco.events.told import EventKind, Projection, Rows, Told, kind
from arco.fold.tier2 import EXECUTIONS_DOMAIN, TABLE_COMMITS, TABLE_STATS

NAME = "iceberg_committed"
VERSION = 1
DOMAIN = EXECUTIONS_DOMAIN

Figure = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # as the writer of a snapshot told it


class IcebergCommitted(Payload, frozen=True, kw_only=True):
    """A table or view of Iceberg changed."""

    table_id: str
    pointer_number: Annotated[int, Meta(ge=0, le=2**53)]
    operation: str
    actor: str
    engine: str | None = None
    update_source: str
    metadata_location: str
    previous_location: str | None = None
    snapshot_id: str | None = None  # as text: such ids do not fit into a float
    snapshot_operation: str | None = None
    row_count: Figure | None = None
    size_bytes: Figure | None = None
    file_count: Figure | None = None
    added_rows: Figure | None = None
    added_bytes: Figure | None = None
    changed: tuple[str, ...] = ()
    transaction: str | None = None
    run_id: str | None = None  # of the pipeline that made the commit
    task_id: str | None = None
    attempt_id: str | None = None
    committed_at: Moment


def _commit(told: Told[IcebergCommitted]) -> Rows:
    return Rows(
        told,
        {
            **told.fields("table_id", "pointer_number", "operation", "actor", "engine"),
            **told.fields("update_source", "snapshot_id", "metadata_location", "added_rows"),
            **told.fields("added_bytes"),
            "commit_id": [line.event_id for line in told.lines],
            "changed": [json.encode(said.changed).decode() for said in told.said],
            "committed_at": told.when("committed_at"),
            "_told": told.order(),
        },
    )


def _statistics(told: Told[IcebergCommitted]) -> Rows:
    """A commit of a table without a snapshot says when it changed, and nothing of what is in it."""
    counts = {
        **told.fields("row_count", "size_bytes", "file_count", "snapshot_id"),
        "source": told.all("iceberg"),
        "_told": version_order(told, told.field("pointer_number")),
    }
    columns = {**told.fields("table_id"), "last_modified_at": told.when("committed_at")}
    has_snapshot = [said.snapshot_id is not None for said in told.said]
    return Rows(told, {**columns, **told.where(has_snapshot, counts)})


KINDS: tuple[EventKind, ...] = (
    kind(
        NAME,
        DOMAIN,
        IcebergCommitted,
        Projection(TABLE_COMMITS, _commit),
        Projection(TABLE_STATS, _statistics),
        example={
            "table_id": "01a1e0f6-9113-7475-bb94-e3fac6dcb4cd",
            "pointer_number": 1,
            "operation": "commit",
            "actor": "user:local",
            "engine": "PyIceberg/0.12.0",
            "update_source": "iceberg_rest",
            "metadata_location": "s3://lake/orders/metadata/00001-8f2c.metadata.json",
            "previous_location": "s3://lake/orders/metadata/00000-11d0.metadata.json",
            "snapshot_id": "5780644538497694492",
            "snapshot_operation": "append",
            "row_count": 2,
            "size_bytes": 941,
            "file_count": 1,
            "added_rows": 2,
            "added_bytes": 941,
            "changed": ["add-snapshot", "set-snapshot-ref"],
            "committed_at": "2026-05-01T10:00:00Z",
        },
        ours=True,
    ),
)
ICEBERG_COMMITTED = KINDS[0].type
