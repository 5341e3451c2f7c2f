"""From a name to a table: the name's id in the newest snapshot, and the head of its pointer chain.

Both are read at once: the id is taken from the remembered snapshot and its chain is read while the
snapshot is validated, so a warm look-up is one round trip. An operation resolves a name once and then
works on the id (P32). A name whose chain has ended does not exist, whatever the catalog says, and every
operation that meets one releases it (P31).
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from arco.catalog.change import SYSTEM, change
from arco.catalog.ddl import ReleaseTable, SchemaName, TableName
from arco.catalog.model import ObjectKind, TableFormat, TableRow
from arco.catalog.name import check_name
from arco.catalog.snapshot import Snapshot
from arco.core.errors import (
    ArcoError,
    Conflict,
    Corrupt,
    Invalid,
    NoSuchTable,
    NoSuchView,
    Unavailable,
)
from arco.iceberg.context import IcebergContext
from arco.iceberg.errors import no_such_namespace, no_such_table, no_such_view
from arco.iceberg.pointer import PointerOperation
from arco.iceberg.pointer_head import PointerHead
from arco.storage.entry import Entry


@dataclass(frozen=True)
class FullName:
    """The full name of a table or view."""

    catalog: str
    namespace: tuple[str, ...]
    name: str

    @property
    def table(self) -> TableName:
        return TableName(self.catalog, self.namespace, self.name)

    @property
    def schema(self) -> SchemaName:
        return SchemaName(self.catalog, self.namespace)


@dataclass(frozen=True)
class ResolvedObject:
    """A live table or view."""

    row: TableRow
    table_head: PointerHead

    @property
    def id(self) -> str:
        return self.row.table_id

    @property
    def location(self) -> str:
        """The metadata file in effect."""
        return cast("str", self.table_head.location)


def check_namespace(namespace: Sequence[str]) -> tuple[str, ...]:
    """The levels of a namespace; an invalid name is a namespace that does not exist."""
    try:
        levels = tuple(check_name(level, "namespace") for level in namespace)
    except Invalid as problem:
        raise no_such_namespace(namespace) from problem
    if not levels:
        raise no_such_namespace(namespace)
    return levels


def not_found_error(kind: ObjectKind, name: FullName) -> NoSuchTable | NoSuchView:
    """The table or view does not exist."""
    missing = no_such_view if kind is ObjectKind.VIEW else no_such_table
    return missing(name.namespace, name.name)


async def resolve_name(
    context: IcebergContext, name: FullName, kind: ObjectKind, *, ahead: bool = False
) -> ResolvedObject:
    """The table or view of this name; `NoSuchTable` or `NoSuchView` if there is none."""
    resolved = await find_object(context, name, kind, ahead=ahead)
    if resolved is None:
        raise not_found_error(kind, name)
    return resolved


async def find_object(
    context: IcebergContext, name: FullName, kind: ObjectKind, *, ahead: bool = False
) -> ResolvedObject | None:
    """The table or view of this name, if it exists; `ahead` begins to read its metadata early."""
    glimpse = context.read_ahead if ahead else None
    row, table_head = await _find_row_and_head(context, name, glimpse)
    if row is None or not is_iceberg(row, kind):
        return None
    if table_head is None:
        table_head = await context.heads.of(row.table_id, glimpse=glimpse)
    if table_head.is_live:
        return ResolvedObject(row, table_head)
    release_name_later(context, row.table_id, table_head)
    return None


async def find_occupant(context: IcebergContext, name: FullName) -> TableRow | None:
    """The row that has this name, of any kind and format; the name of a dropped table is released first.

    `Unavailable` if it cannot be released now: then it is unknown whether the name is free.
    """
    row, table_head = await _find_row_and_head(context, name)
    if row is None or row.format is not TableFormat.ICEBERG:
        return row
    if table_head is None:
        table_head = await context.heads.of(row.table_id)
    table_head = await context.heads.settle(table_head)
    if table_head.is_live:
        return row
    await release_name_now(context, row.table_id, table_head)
    return None


async def is_probably_free(context: IcebergContext, name: FullName) -> bool:
    """Whether the name is free in the remembered snapshot; it may have been taken since.

    For callers that let the catalog decide afterwards; no request in a warm process.
    """
    snapshot = context.reader.remembered()
    return snapshot is not None and await context.rows.find(snapshot, name.table) is None


async def release_name(
    context: IcebergContext, table_id: str, table_head: PointerHead, actor: str = SYSTEM
) -> None:
    """Release the name of a table whose chain has ended, or never had an effective version (P31).

    Nothing is lost if it fails: the next operation that meets the name repeats it.
    """
    tombstone = table_head.tombstone
    if tombstone is None:
        tombstone = await _append_tombstone(context, table_id, table_head)
    purge = table_head.pointer is not None and table_head.pointer.purge
    request = ReleaseTable(table_id=table_id, tombstone=tombstone, purge=purge)
    await change(context.committer, request, actor)


async def release_name_now(context: IcebergContext, table_id: str, table_head: PointerHead) -> None:
    """The same for a caller that cannot go on without it: a failure is `Unavailable`."""
    try:
        await release_name(context, table_id, table_head)
    except ArcoError as problem:
        raise Unavailable("a dropped table still has this name; retry") from problem


def release_name_later(context: IcebergContext, table_id: str, table_head: PointerHead) -> None:
    """The same in the background, unless a transaction may still bring the table into effect."""
    if table_head.undecided is None:
        context.after_commit.run_in_background(
            table_id, release_name(context, table_id, table_head)
        )


async def _append_tombstone(context: IcebergContext, table_id: str, table_head: PointerHead) -> int:
    """End a chain that has no version in effect, before its name is released."""
    if table_head.pointer is None:
        raise Corrupt(f"table {table_id} has a name, and no version")

    body = msgspec.structs.replace(
        table_head.pointer,
        operation=PointerOperation.ABANDON,
        actor=SYSTEM,
        transaction=None,
        publication=None,
    )
    try:
        head = await context.pointers.chain(table_id).append(
            table_head.chain_head, body, tombstone=True
        )
    except Conflict as passed:
        tombstone = (await context.heads.of(table_id)).tombstone
        if tombstone is None:
            raise Unavailable("this table is being changed; retry") from passed
        return tombstone  # another process wrote it
    return head.number


def is_iceberg(row: TableRow, kind: ObjectKind) -> bool:
    """Whether a row is an Iceberg object of this kind."""
    return row.format is TableFormat.ICEBERG and row.kind is kind


async def _find_row_and_head(
    context: IcebergContext, name: FullName, glimpse: Callable[[Entry], None] | None = None
) -> tuple[TableRow | None, PointerHead | None]:
    """The row of a name in the newest snapshot, and its head if the id was guessed right."""
    remembered = context.reader.remembered()
    guess = None if remembered is None else await context.rows.find(remembered, name.table)
    if guess is None or guess.format is not TableFormat.ICEBERG:
        return await context.rows.find(await context.reader.head(), name.table), None
    newest, table_head = await context.runtime.tasks.gather(
        cast("Coroutine[Any, Any, Snapshot | PointerHead]", context.reader.head()),
        cast(
            "Coroutine[Any, Any, Snapshot | PointerHead]",
            context.heads.of(guess.table_id, glimpse=glimpse),
        ),
    )
    row: TableRow | None = guess
    if cast("Snapshot", newest) is not remembered:
        row = await context.rows.find(cast("Snapshot", newest), name.table)
    if row is None or row.table_id != guess.table_id:
        return row, None
    return row, cast("PointerHead", table_head)
