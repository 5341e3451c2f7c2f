"""From a name to a table: the name's id in the newest snapshot, and where the table of that id stands.

Both are asked for at once: the id is guessed from the snapshot that this process remembers, and its chain
is looked at while the snapshot is validated. So a warm look-up is one round trip. An operation resolves the
name once and then acts on the id (P32). A name whose chain has ended is absent, whatever the catalog says,
and whoever meets one releases it (P31).
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from arco.catalog.change import change
from arco.catalog.ddl import ReleaseTable, SchemaName, TableName
from arco.catalog.model import ObjectKind, TableFormat, TableRow
from arco.catalog.name import check_name
from arco.catalog.snapshot import Snapshot
from arco.core.errors import ArcoError, Conflict, Corrupt, Invalid, Unavailable
from arco.iceberg.context import Desk
from arco.iceberg.errors import Refused, no_such_namespace, no_such_table, no_such_view
from arco.iceberg.pointer_head import Standing
from arco.storage.link import Entry

SYSTEM = "client:arco"


@dataclass(frozen=True)
class Name:
    """The whole name of a table or view."""

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
class Resolved:
    """A live table or view."""

    row: TableRow
    standing: Standing

    @property
    def id(self) -> str:
        return self.row.table_id

    @property
    def location(self) -> str:
        """The metadata file in effect."""
        return cast("str", self.standing.location)


def check_namespace(namespace: Sequence[str]) -> tuple[str, ...]:
    """The levels of a namespace; one that can have no name does not exist."""
    try:
        levels = tuple(check_name(level, "namespace") for level in namespace)
    except Invalid as problem:
        raise no_such_namespace(namespace) from problem
    if not levels:
        raise no_such_namespace(namespace)
    return levels


def absent(kind: ObjectKind, name: Name) -> Refused:
    """There is no table, or view, of this name."""
    missing = no_such_view if kind is ObjectKind.VIEW else no_such_table
    return missing(name.namespace, name.name)


async def resolve(desk: Desk, name: Name, kind: ObjectKind, *, ahead: bool = False) -> Resolved:
    """The table or view of this name, or a refusal."""
    found = await look_up(desk, name, kind, ahead=ahead)
    if found is None:
        raise absent(kind, name)
    return found


async def look_up(
    desk: Desk, name: Name, kind: ObjectKind, *, ahead: bool = False
) -> Resolved | None:
    """The table or view of this name, if there is one; `ahead` begins to read its metadata early."""
    glimpse = desk.foresee if ahead else None
    row, standing = await _newest(desk, name, glimpse)
    if row is None or not is_ours(row, kind):
        return None
    if standing is None:
        standing = await desk.standings.of(row.table_id, glimpse=glimpse)
    if standing.is_live:
        return Resolved(row, standing)
    if standing.undecided is None:
        desk.aftermath.beside(row.table_id, release(desk, row.table_id, standing))
    return None


async def occupant(desk: Desk, name: Name) -> TableRow | None:
    """Who has this name, of whatever kind and format; a dead one is released first.

    `Unavailable` if it cannot be released now: then nobody can tell whether the name is free.
    """
    row, standing = await _newest(desk, name)
    if row is None or row.format is not TableFormat.ICEBERG:
        return row
    if standing is None:
        standing = await desk.standings.of(row.table_id)
    standing = await desk.standings.decided(standing)
    if standing.is_live:
        return row
    try:
        await release(desk, row.table_id, standing)
    except ArcoError as problem:
        raise Unavailable("a dropped table still has this name; retry") from problem
    return None


async def seems_free(desk: Desk, name: Name) -> bool:
    """Whether nobody has this name in the snapshot that this process remembers: it may be taken by now.

    For those who go on to have the catalog decide; no request, in a warm process.
    """
    known = desk.reader.remembered()
    return known is not None and await desk.rows.find(known, name.table) is None


async def release(desk: Desk, table_id: str, standing: Standing, actor: str = SYSTEM) -> None:
    """Release the name of a table whose chain has ended, or never had an effective version (P31).

    Nothing is lost if it fails now: whoever meets the name next does the same.
    """
    tombstone = standing.tombstone
    if tombstone is None:
        tombstone = await _bury(desk, table_id, standing)
    purge = standing.pointer is not None and standing.pointer.purge
    request = ReleaseTable(table_id=table_id, tombstone=tombstone, purge=purge)
    await change(desk.committer, request, actor)


async def _bury(desk: Desk, table_id: str, standing: Standing) -> int:
    """A tombstone for a chain without an effective version, before its name is released."""
    if standing.pointer is None:
        raise Corrupt(f"table {table_id} has a name, and no version")

    body = msgspec.structs.replace(
        standing.pointer, operation="bury", actor=SYSTEM, transaction=None, publication=None
    )
    try:
        head = await desk.pointers.chain(table_id).append(standing.head, body, tombstone=True)
    except Conflict as passed:
        tombstone = (await desk.standings.of(table_id)).tombstone
        if tombstone is None:
            raise Unavailable("this table is being changed; retry") from passed
        return tombstone  # somebody else has buried it
    return head.number


def is_ours(row: TableRow, kind: ObjectKind) -> bool:
    """Whether a row is an Iceberg table, or view."""
    return row.format is TableFormat.ICEBERG and row.kind is kind


async def _newest(
    desk: Desk, name: Name, glimpse: Callable[[Entry], None] | None = None
) -> tuple[TableRow | None, Standing | None]:
    """The row of a name in the newest snapshot, and where its table stands, if that was guessed."""
    known = desk.reader.remembered()
    guess = None if known is None else await desk.rows.find(known, name.table)
    if guess is None or guess.format is not TableFormat.ICEBERG:
        return await desk.rows.find(await desk.reader.head(), name.table), None
    newest, standing = await desk.runtime.tasks.gather(
        cast("Coroutine[Any, Any, Snapshot | Standing]", desk.reader.head()),
        cast(
            "Coroutine[Any, Any, Snapshot | Standing]",
            desk.standings.of(guess.table_id, glimpse=glimpse),
        ),
    )
    row: TableRow | None = guess
    if cast("Snapshot", newest) is not known:
        row = await desk.rows.find(cast("Snapshot", newest), name.table)
    if row is None or row.table_id != guess.table_id:
        return row, None
    return row, cast("Standing", standing)
