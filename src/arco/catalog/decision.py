"""Decisions: what a request comes to, as whole rows, ids and times included: replay decides nothing.

A decision is made against a `View`, a snapshot with the rows of neighbours in the same group on top. A
refusal is an error that is raised while deciding; it may rest on nothing but that view.
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
    """What a workspace is set to: how long dropped things stay, which places are not for tables.

    External tables lie below one of the `declared` places; None for anywhere.
    Tables of the formats in `ruled` are changed through their format, which tells the catalog afterwards.
    """

    retention: timedelta = DEFAULT_RETENTION
    own_roots: tuple[str, ...] = ()
    routed_formats: frozenset[TableFormat] = frozenset()
    declared: tuple[str, ...] | None = None


@dataclass(frozen=True)
class DecisionContext:
    """Who asks, when it is decided, and the id that a new object would get."""

    actor: str
    at: datetime
    new_id: str
    rules: WorkspaceRules = WorkspaceRules()


@dataclass(frozen=True)
class Decision:
    """The rows that carry a request out, and the object as it is then."""

    operation: str
    object: AnyObject
    name: str  # with all its levels, dotted, as it was called when it was decided
    rows: tuple[AnyRow, ...]
    columns: tuple[ColumnRow, ...] = ()
    at: datetime | None = None  # when it was decided, if that left the object as it is

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
    """What an object is."""
    if isinstance(row, CatalogRow):
        return ObjectKind.CATALOG
    return ObjectKind.SCHEMA if isinstance(row, SchemaRow) else row.kind


def object_row(row: AnyObject) -> ObjectRow:
    """The row by which an object is found by its id."""
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


def version_of(found: CommittedObject) -> str:
    """What tells a version of an object from all others: the commit alone is shared by a whole group."""
    return f"{found.commit}-{sha256_hex(id_of(found.row).encode())[:8]}"


def refuse_stale(expected: int | str | None, found: CommittedObject) -> None:
    """`PreconditionFailed` if the caller has read another version than the one it would change."""
    if isinstance(expected, int) and found.commit != expected:
        raise PreconditionFailed(
            f"it was changed by commit {found.commit}, and the request expects {expected}"
        )
    if isinstance(expected, str) and version_of(found) != expected:
        raise PreconditionFailed(f"it is {version_of(found)}, and the request expects {expected}")


def refuse_ruled(table_format: TableFormat | None, context: DecisionContext) -> None:
    """`Unavailable` if tables of this format are changed elsewhere: that is no verdict on the request."""
    if table_format in context.rules.routed_formats:
        raise Unavailable(f"a table of format {table_format} is changed through its format; retry")


async def refuse_undrop(view: Lookup, row: AnyObject, context: DecisionContext) -> None:
    """A refusal if an object is there, was dropped too long ago, or has nowhere to come back to."""
    container = await view.container(row)
    if container is not None and not await view.is_live(container.row):
        refusal = Conflict("what it lies in was dropped")
        refusal.add_note("Undrop that first.")
        raise refusal
    if row.dropped_at is None:
        needless = AlreadyExists("it was not dropped")
        needless.add_note("There is nothing to do.")
        raise needless
    if row.dropped_at < context.at - context.rules.retention:
        raise NotFound("it was dropped too long ago to be brought back")


def description(request: Description, context: DecisionContext) -> dict[str, object]:
    """What is said of a new object; who makes it owns it unless somebody else is named."""
    return {
        "comment": None if request.comment is None else check_comment(request.comment),
        "properties": check_properties(request.properties),
        "tags": tuple(check_tags(request.tags)),
        "owner": context.actor if request.owner is None else check_owner(request.owner),
    }


def creation_fields(context: DecisionContext) -> dict[str, object]:
    """When and by whom something new was made."""
    return {
        "created_at": context.at,
        "created_by": context.actor,
        "updated_at": context.at,
        "updated_by": context.actor,
    }


def updated(row: L, context: DecisionContext, **changes: object) -> L:
    """The row with changes, and who made them when."""
    return msgspec.structs.replace(row, updated_at=context.at, updated_by=context.actor, **changes)


def amended(request: Amendment, row: DescribedRow) -> dict[str, object]:
    """What an amendment changes in what is said of an object."""
    changes: dict[str, object] = {}
    if request.comment is not UNSET:
        changes["comment"] = None if request.comment is None else check_comment(request.comment)
    if request.properties is not UNSET:
        merged = {} if request.properties is None else {**row.properties, **request.properties}
        kept = {key: value for key, value in merged.items() if value is not None}
        changes["properties"] = check_properties(kept)
    if request.tags is not UNSET:
        changes["tags"] = tuple(check_tags(request.tags))
    if request.owner is not UNSET:
        changes["owner"] = None if request.owner is None else check_owner(request.owner)
    return changes


class DecisionView(Lookup):
    """A state and the rows of neighbours that will be published together with ours, if at all."""

    def __init__(self, below: Lookup, commit: int) -> None:
        self._below = below
        self._commit = commit  # the number that the decided rows are going to have
        self._decided: dict[tuple[str, int], DecidedRows] = {}

    async def bucket(self, table: StateTable, value: str, kind: type[R]) -> Bucket[R]:
        bucket = await self._below.bucket(table, value, kind)
        decided = self._decided.get((table.name, table.bucket_of(value)))
        return bucket if decided is None else bucket.over(decided)

    def add(self, rows: tuple[AnyRow, ...]) -> None:
        """Let those who are decided next see these rows."""
        for row in rows:
            place = _place(row)
            if place not in self._decided:
                table = TABLE_OF[type(row)]
                self._decided[place] = DecidedRows(table, self._commit)
            self._decided[place].add(row)

    def holds(self, rows: tuple[AnyRow, ...]) -> bool:
        """Whether a neighbour has written one of these rows, too."""
        parts = ((self._decided.get(_place(row)), row) for row in rows)
        return any(part is not None and part.holds(row) for part, row in parts)

    def begin(self) -> None:
        """A new request is being decided: what it rests on is yet to be seen."""
        for part in self._decided.values():
            part.met = False

    @property
    def used_unpublished(self) -> bool:
        """Whether what was decided last rests on rows that are not published yet (P25)."""
        return any(part.met for part in self._decided.values())


def _place(row: AnyRow) -> tuple[str, int]:
    """The bucket that a row belongs to."""
    table = TABLE_OF[type(row)]
    value = "" if table.bucket is None else getattr(row, table.bucket.column)
    return table.name, table.bucket_of(value)
