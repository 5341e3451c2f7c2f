"""What differs between two snapshots: objects made, changed and dropped, with the fields that differ.

Every row carries the number of the commit that made it, so only rows above the older number are looked at,
and only in files that hold such rows. What lies in a dropped container is not listed apart from it.
"""

from enum import StrEnum
from typing import NamedTuple

import msgspec
import pyarrow.compute as pc

from arco.catalog.decision import AnyObject, id_of, kind_of
from arco.catalog.model import ObjectKind, TableRow, to_columns
from arco.catalog.name import print_dotted
from arco.catalog.snapshot import Snapshot
from arco.catalog.state_file import read_rows
from arco.core.errors import NotFound
from arco.fold.table import Table
from arco.fold.tier1 import CATALOGS, COMMIT, SCHEMAS, TABLES
from arco.storage.store import Store

_IDS = {CATALOGS.name: "catalog_id", SCHEMAS.name: "schema_id", TABLES.name: "table_id"}
_BOOKKEEPING = frozenset({"updated_at", "updated_by", "_moved"})


class How(StrEnum):
    """What became of an object."""

    CREATED = "created"
    UPDATED = "updated"
    DROPPED = "dropped"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One object that differs; `before` and `after` hold the fields that do."""

    change: How
    kind: ObjectKind
    id: str
    name: str
    commit: int
    before: dict[str, object] = msgspec.field(default_factory=dict)
    after: dict[str, object] = msgspec.field(default_factory=dict)


async def diff(store: Store, old: Snapshot, new: Snapshot) -> list[Difference]:
    """What has changed from one snapshot to another, in either direction of time."""
    later, number = (new, old.number) if new.number >= old.number else (old, new.number)
    found: list[Difference] = []
    for table in (CATALOGS, SCHEMAS, TABLES):
        for object_id in await _touched(store, later, table, number):
            difference = await _compare(old, new, object_id)
            if difference is not None:
                found.append(difference)
    return sorted(found, key=lambda each: (each.commit, each.name))


async def _touched(store: Store, snapshot: Snapshot, table: Table, number: int) -> list[str]:
    """The ids of all rows that commits above `number` have made."""
    ids: set[str] = set()
    for ref in await snapshot.files_of(table):
        if ref.newest > number:
            rows = await read_rows(store, table, ref)
            newer = rows.filter(pc.greater(rows.column(COMMIT), number))
            ids |= set(newer.column(_IDS[table.name]).to_pylist())
    return sorted(ids)


async def _compare(old: Snapshot, new: Snapshot, object_id: str) -> Difference | None:
    before, after = await _state(old, object_id), await _state(new, object_id)
    if before is None:
        return None if after is None else await _difference(How.CREATED, after, {}, after.fields)
    if after is None:
        return await _difference(
            How.DROPPED, before._replace(commit=await _end(new, before)), before.fields, {}
        )
    differing = [
        name
        for name in {**before.fields, **after.fields}
        if before.fields.get(name) != after.fields.get(name)
    ]
    if not differing:
        return None
    was = {name: before.fields[name] for name in differing if name in before.fields}
    now = {name: after.fields[name] for name in differing if name in after.fields}
    return await _difference(How.UPDATED, after, was, now)


class _State(NamedTuple):
    """An object as one snapshot has it."""

    snapshot: Snapshot
    row: AnyObject
    commit: int
    fields: dict[str, object]


async def _state(snapshot: Snapshot, object_id: str) -> _State | None:
    try:
        found = await snapshot.find(object_id)
    except NotFound:
        return None
    fields = {
        name: value
        for name, value in to_columns(found.row).items()
        if name not in _BOOKKEEPING and value is not None
    }
    if isinstance(found.row, TableRow):
        columns = [column.row for column in await snapshot.columns(found.row.table_id)]
        fields["columns"] = [f"{column.name} {column.data_type}" for column in columns]
    return _State(snapshot, found.row, found.commit, fields)


async def _end(snapshot: Snapshot, state: _State) -> int:
    """The commit that has dropped an object, or, of one that is not there yet, the one that made it."""
    try:
        return (await snapshot.find(id_of(state.row), dropped=True)).commit
    except NotFound:
        return state.commit


async def _difference(
    how: How, state: _State, before: dict[str, object], after: dict[str, object]
) -> Difference:
    return Difference(
        change=how,
        kind=kind_of(state.row),
        id=id_of(state.row),
        name=print_dotted(await state.snapshot.levels(state.row)),
        commit=state.commit,
        before=before,
        after=after,
    )
