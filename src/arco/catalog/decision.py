"""Decisions: the complete rows that a request writes, with ids and times, so that replay decides nothing.

A decision is made against a `DecisionView`: a snapshot, with the rows of earlier requests of the same group
on top. A refusal is an error that is raised while deciding; it depends on that view only.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec
from msgspec import UNSET

from arco.catalog.bucket import Bucket
from arco.catalog.ddl import Amendment, Description
from arco.catalog.lookup import CommittedObject, Lookup
from arco.catalog.model import (
    TABLE_OF,
    AnyRow,
    CatalogRow,
    ColumnRow,
    DescribedRow,
    LifecycleRow,
    ObjectKind,
    ObjectRow,
    SchemaRow,
    TableFormat,
    TableRow,
)
from arco.catalog.name import check_comment, check_owner, check_properties, check_tags
from arco.catalog.state_file import DecidedRows
from arco.core.errors import AlreadyExists, Conflict, NotFound, PreconditionFailed, Unavailable
from arco.core.hashing import sha256_hex
from arco.fold.table import StateTable

L = TypeVar("L", bound=LifecycleRow)
R = TypeVar("R", bound=AnyRow)

AnyObject = CatalogRow | SchemaRow | TableRow

DEFAULT_RETENTION = timedelta(days=7)


@dataclass(frozen=True)
class WorkspaceRules:
    """The settings of a workspace that decisions depend on.

    Dropped objects can be undropped within `retention`. No table may be located in `own_roots`. External
    tables are located below one of the `declared` locations; None allows any. Tables of `routed_formats`
    are changed through the chain of their format, which updates the catalog afterwards.
    """

    retention: timedelta = DEFAULT_RETENTION
    own_roots: tuple[str, ...] = ()
    routed_formats: frozenset[TableFormat] = frozenset()
    declared: tuple[str, ...] | None = None


@dataclass(frozen=True)
class DecisionContext:
    """The caller, the time of the decision, and the id for a new object."""

    actor: str
    at: datetime
    new_id: str
    rules: WorkspaceRules = WorkspaceRules()


@dataclass(frozen=True)
class Decision:
    """The rows that a request writes, and the object as they leave it."""

    operation: str
    object: AnyObject
    name: str  # the dotted name with all levels, at the time of the decision
    rows: tuple[AnyRow, ...]
    columns: tuple[ColumnRow, ...] = ()
    at: datetime | None = None  # the time of a decision that leaves the object unchanged

    @property
    def kind(self) -> ObjectKind:
        return kind_of(self.object)

    @property
    def object_id(self) -> str:
        return id_of(self.object)


def id_of(row: AnyObject) -> str:
    """The id of an object."""
    if isinstance(row, CatalogRow):
        return row.catalog_id
    return row.schema_id if isinstance(row, SchemaRow) else row.table_id


def kind_of(row: AnyObject) -> ObjectKind:
    """The kind of an object."""
    if isinstance(row, CatalogRow):
        return ObjectKind.CATALOG
    return ObjectKind.SCHEMA if isinstance(row, SchemaRow) else row.kind


def object_row(row: AnyObject) -> ObjectRow:
    """The row that locates an object by its id."""
    if isinstance(row, CatalogRow):
        parent, bucket_key = None, ""
    elif isinstance(row, SchemaRow):
        parent, bucket_key = row.parent_id or row.catalog_id, ""
    else:
        parent, bucket_key = row.schema_id, row.schema_id
    return ObjectRow(
        id=id_of(row),
        kind=kind_of(row),
        parent_id=parent,
        bucket_key=bucket_key,
    )


def version_of(current: CommittedObject) -> str:
    """A text that identifies one version of one object; the objects of a group share the commit."""
    return f"{current.commit}-{sha256_hex(id_of(current.row).encode())[:8]}"


def refuse_stale(expected: int | str | None, current: CommittedObject) -> None:
    """`PreconditionFailed` if the current version is not the one that the request expects."""
    if isinstance(expected, int) and current.commit != expected:
        raise PreconditionFailed(
            f"the object was changed by commit {current.commit}, and the request expects {expected}"
        )
    if isinstance(expected, str) and version_of(current) != expected:
        raise PreconditionFailed(
            f"the object is at version {version_of(current)}, and the request expects {expected}"
        )


def refuse_routed(table_format: TableFormat | None, context: DecisionContext) -> None:
    """`Unavailable` if tables of this format are changed through their own chain: not a refusal."""
    if table_format in context.rules.routed_formats:
        raise Unavailable(
            f"a table of format {table_format} is changed through its own chain; retry"
        )


async def refuse_undrop(view: Lookup, row: AnyObject, context: DecisionContext) -> None:
    """Raise if an object is not dropped, was dropped too long ago, or its container is dropped."""
    container = await view.container(row)
    if container is not None and not await view.is_live(container.row):
        refusal = Conflict("the catalog or schema of this object was dropped")
        refusal.add_note("Undrop that first.")
        raise refusal
    if row.dropped_at is None:
        needless = AlreadyExists("the object was not dropped")
        needless.add_note("There is nothing to do.")
        raise needless
    if row.dropped_at < context.at - context.rules.retention:
        raise NotFound(
            f"the object was dropped at {row.dropped_at.isoformat()}, longer ago than dropped objects "
            "are kept"
        )


def description_fields(request: Description, context: DecisionContext) -> dict[str, object]:
    """The descriptive fields of a new object; its creator owns it unless the request names an owner."""
    return {
        "comment": None if request.comment is None else check_comment(request.comment),
        "properties": check_properties(request.properties),
        "tags": tuple(check_tags(request.tags)),
        "owner": context.actor if request.owner is None else check_owner(request.owner),
    }


def creation_fields(context: DecisionContext) -> dict[str, object]:
    """The audit fields of a new row."""
    return {
        "created_at": context.at,
        "created_by": context.actor,
        "updated_at": context.at,
        "updated_by": context.actor,
    }


def updated(row: L, context: DecisionContext, **changes: object) -> L:
    """The row with changes, and with the audit fields of its update."""
    return msgspec.structs.replace(row, updated_at=context.at, updated_by=context.actor, **changes)


def amended_fields(request: Amendment, row: DescribedRow) -> dict[str, object]:
    """The descriptive fields that an amendment changes."""
    changes: dict[str, object] = {}
    if request.comment is not UNSET:
        changes["comment"] = None if request.comment is None else check_comment(request.comment)
    if request.properties is not UNSET:
        merged = {} if request.properties is None else {**row.properties, **request.properties}
        properties = {key: value for key, value in merged.items() if value is not None}
        changes["properties"] = check_properties(properties)
    if request.tags is not UNSET:
        changes["tags"] = tuple(check_tags(request.tags))
    if request.owner is not UNSET:
        changes["owner"] = None if request.owner is None else check_owner(request.owner)
    return changes


class DecisionView(Lookup):
    """A snapshot with the decided rows of the same group on top; they are published together."""

    def __init__(self, below: Lookup, commit: int) -> None:
        self._below = below
        self._commit = commit  # the number that the decided rows will have
        self._decided: dict[tuple[str, int], DecidedRows] = {}

    async def bucket(self, table: StateTable, value: str, kind: type[R]) -> Bucket[R]:
        bucket = await self._below.bucket(table, value, kind)
        decided = self._decided.get((table.name, table.bucket_of(value)))
        return bucket if decided is None else bucket.over(decided)

    def add(self, rows: tuple[AnyRow, ...]) -> None:
        """Show these rows to the requests that are decided next."""
        for row in rows:
            key = _bucket_key(row)
            if key not in self._decided:
                table = TABLE_OF[type(row)]
                self._decided[key] = DecidedRows(table, self._commit)
            self._decided[key].add(row)

    def holds(self, rows: tuple[AnyRow, ...]) -> bool:
        """Whether another request of the group writes one of these rows too."""
        candidates = ((self._decided.get(_bucket_key(row)), row) for row in rows)
        return any(decided is not None and decided.holds(row) for decided, row in candidates)

    def begin(self) -> None:
        """Start the decision of another request: reset `used_unpublished`."""
        for decided in self._decided.values():
            decided.was_read = False

    @property
    def used_unpublished(self) -> bool:
        """Whether the last decision depends on rows that are not published yet (P25)."""
        return any(decided.was_read for decided in self._decided.values())


def _bucket_key(row: AnyRow) -> tuple[str, int]:
    """The bucket that a row belongs to."""
    table = TABLE_OF[type(row)]
    value = "" if table.bucket is None else getattr(row, table.bucket.column)
    return table.name, table.bucket_of(value)
