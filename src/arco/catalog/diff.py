"""The difference between two snapshots: objects created, changed and dropped, with the changed fields.

Every row carries the number of its commit, so only rows above the older number are read, and only files
that hold such rows. The objects in a dropped container are not listed. The result is paged, and each page
has a bounded cost.
"""

from enum import StrEnum
from functools import partial
from heapq import nsmallest
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.catalog.decision import AnyObject, id_of, kind_of
from arco.catalog.model import ColumnRow, ObjectKind, TableRow, to_columns
from arco.catalog.name import print_dotted
from arco.catalog.snapshot import Snapshot
from arco.catalog.state_file import read_rows
from arco.core.errors import NotFound
from arco.fold.tier1 import CATALOGS, COMMIT, SCHEMAS, TABLES
from arco.storage.store import Store

_IDS = {CATALOGS.name: "catalog_id", SCHEMAS.name: "schema_id", TABLES.name: "table_id"}
_MAX_COMPARED = 2_000  # objects that one page looks at
_TURN_EVERY = 16
_BOOKKEEPING = frozenset({"updated_at", "updated_by", "projected", "_moved"})


class ChangeKind(StrEnum):
    """How an object changed."""

    CREATED = "created"
    UPDATED = "updated"
    DROPPED = "dropped"


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One object that differs; `before` and `after` hold the fields that do."""

    change: ChangeKind
    kind: ObjectKind
    id: str
    name: str
    commit: int
    before: dict[str, object] = msgspec.field(default_factory=dict)
    after: dict[str, object] = msgspec.field(default_factory=dict)


class DiffPosition(NamedTuple):
    """The position of an object in a difference: by the last commit that changed it, then by its id."""

    commit: int
    id: str


class Differences(NamedTuple):
    """One page of a difference; the next begins after `rest`, None at the end."""

    items: list[Difference]
    rest: DiffPosition | None


async def diff(
    store: Store,
    old: Snapshot,
    new: Snapshot,
    *,
    limit: int,
    most_columns: int,
    after: DiffPosition | None = None,
) -> Differences:
    """The changes from one snapshot to another, forward or backward in time.

    A page has at most `limit` objects, and ends with the one whose columns reach `most_columns` in total.
    It may be shorter, even empty: an object that was changed back does not differ, but costs a comparison.
    """
    tasks = store.runtime.tasks
    spots = await _touched(store, old, new, after)
    differences: list[Difference] = []
    column_count = 0
    for count, spot in enumerate(spots, start=1):
        difference = await _compare(old, new, spot.id)
        if difference is not None:
            differences.append(difference)
            column_count += _columns_in(difference)
        if count == _MAX_COMPARED or len(differences) == limit or column_count >= most_columns:
            return Differences(differences, spot if count < len(spots) else None)
        if count % _TURN_EVERY == 0:
            await tasks.turn()  # without store requests the loop would block other tasks
    return Differences(differences, None)


async def _touched(
    store: Store, old: Snapshot, new: Snapshot, after: DiffPosition | None
) -> list[DiffPosition]:
    """The objects of rows above the older number, in order from `after` on: enough for one page."""
    later, number = (new, old.number) if new.number >= old.number else (old, new.number)
    tasks = store.runtime.tasks
    newest: dict[str, int] = {}
    for table in (CATALOGS, SCHEMAS, TABLES):
        for ref in await later.files_of(table):
            if ref.newest > number:
                rows = await read_rows(store, table, ref)
                collect = partial(_collect, newest, rows, _IDS[table.name], number)
                await tasks.in_thread(collect)
    return await tasks.in_thread(lambda: _first(newest, after))


def _collect(newest: dict[str, int], rows: pa.Table, column: str, number: int) -> None:
    """Record for each object in a file the last commit above `number` that changed it."""
    newer = rows.filter(pc.greater(rows.column(COMMIT), number))
    ids, commits = newer.column(column).to_pylist(), newer.column(COMMIT).to_pylist()
    for object_id, commit in zip(ids, commits, strict=True):
        newest[object_id] = max(commit, newest.get(object_id, commit))


def _first(newest: dict[str, int], after: DiffPosition | None) -> list[DiffPosition]:
    spots = (DiffPosition(commit, object_id) for object_id, commit in newest.items())
    return nsmallest(_MAX_COMPARED + 1, (s for s in spots if after is None or s > after))


def _columns_in(difference: Difference) -> int:
    sides = (difference.before.get("columns"), difference.after.get("columns"))
    return sum(len(side) for side in sides if isinstance(side, list))


async def _compare(old: Snapshot, new: Snapshot, object_id: str) -> Difference | None:
    before, after = await _state(old, object_id), await _state(new, object_id)
    if before is None:
        return (
            None
            if after is None
            else await _difference(ChangeKind.CREATED, after, {}, after.fields)
        )
    if after is None:
        return await _difference(
            ChangeKind.DROPPED, before._replace(commit=await _end(new, before)), before.fields, {}
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
    return await _difference(ChangeKind.UPDATED, after, was, now)


class _State(NamedTuple):
    """An object as one snapshot has it."""

    snapshot: Snapshot
    row: AnyObject
    commit: int
    fields: dict[str, object]


async def _state(snapshot: Snapshot, object_id: str) -> _State | None:
    try:
        stored = await snapshot.find(object_id)
    except NotFound:
        return None
    fields = {
        name: value
        for name, value in to_columns(stored.row).items()
        if name not in _BOOKKEEPING and value is not None
    }
    if isinstance(stored.row, TableRow):
        columns = [column.row for column in await snapshot.columns(stored.row.table_id)]
        fields["columns"] = [_spelled(column) for column in columns]
    return _State(snapshot, stored.row, stored.commit, fields)


async def _end(snapshot: Snapshot, state: _State) -> int:
    """The commit that dropped an object, or the one that created it if it does not exist yet."""
    try:
        return (await snapshot.find(id_of(state.row), dropped=True)).commit
    except NotFound:
        return state.commit


async def _difference(
    change_kind: ChangeKind, state: _State, before: dict[str, object], after: dict[str, object]
) -> Difference:
    return Difference(
        change=change_kind,
        kind=kind_of(state.row),
        id=id_of(state.row),
        name=print_dotted(await state.snapshot.levels(state.row)),
        commit=state.commit,
        before=before,
        after=after,
    )


def _spelled(column: ColumnRow) -> str:
    """A column on one line, with all fields that are compared."""
    words = [f"{column.name} {column.data_type}"]
    words += [] if column.nullable else ["not null"]
    for name in ("default_value", "comment", "pii_type", "sensitivity"):
        value = getattr(column, name)
        words += [] if value is None else [f"{name} {str(value)!r}"]
    return " ".join(words)
