"""Decisions on tables with a pointer chain: the chain holds their state, the catalog their names (P31).

These requests follow from entries of that chain, and may arrive more than once, late, or from several
processes. So each names the number of the chain that it follows from, and one that a later number has
overtaken changes nothing. It is published all the same: the commit is the evidence of the answer.
"""

from dataclasses import replace
from typing import cast

import msgspec

from arco.catalog.column_change import attached_columns, column_id, next_version, pii_columns
from arco.catalog.ddl import (
    AttachedColumn,
    AttachTable,
    AttachTables,
    MoveTable,
    ProjectColumns,
    ReleaseTable,
    ReservePlace,
    RestoreTable,
)
from arco.catalog.decide_table import (
    dropped_table,
    live_columns,
    move_rows,
    refuse_taken_table,
    table_decision,
)
from arco.catalog.decision import (
    Decision,
    DecisionContext,
    DecisionView,
    creation_fields,
    description_fields,
    object_row,
    refuse_stale,
    refuse_undrop,
    updated,
)
from arco.catalog.location import check_attached, is_id, is_managed
from arco.catalog.lookup import Lookup
from arco.catalog.model import (
    AnyRow,
    ColumnRow,
    ObjectKind,
    ObjectRow,
    TableRow,
    TableType,
    uuid_name,
)
from arco.catalog.name import check_name
from arco.catalog.place import refuse_taken_since, reserve_location, reserve_locations
from arco.core.errors import AlreadyExists, Conflict, Invalid, NotFound

_MAX_UUID = 128


async def attach_table(view: Lookup, request: AttachTable, context: DecisionContext) -> Decision:
    """Attach an existing table or view under a free name."""
    name = check_name(request.name, "table")
    schema = (await view.schema(request.schema)).row
    await refuse_taken_table(view, schema.schema_id, name)
    await _refuse_used_id(view, request.table_id)
    columns = attached_columns(request.table_id, request.columns, {}, context)
    version = next_version(request.table_id, 0, (), columns, context)
    location = check_attached(request.location, context.rules.own_roots)
    values = {
        "table_id": request.table_id,
        "catalog_id": schema.catalog_id,
        "schema_id": schema.schema_id,
        "name": name,
        "kind": _kind(request.kind),
        "format": request.format,
        "table_type": TableType.MANAGED if is_managed(location) else TableType.EXTERNAL,
        "location": location,
        "table_uuid": _uuid(request),
        "pii_columns": pii_columns(columns),
        "schema_version": version.version,
        "last_field_id": _last_field_id(0, request.columns),
        "born": _number(request.born),
        "projected": _number(request.projected),
    }
    row = msgspec.convert(
        values | description_fields(request, context) | creation_fields(context), TableRow
    )
    alias = await _take_uuid(view, row)
    paths = [check_attached(path, context.rules.own_roots) for path in request.paths]
    places = await reserve_locations(view, row, paths, context)
    rows: tuple[AnyRow, ...] = (object_row(row), *columns, version, *alias, *places)
    return await table_decision(view, f"create_{row.kind.lower()}", row, columns, *rows)


async def attach_tables(view: Lookup, request: AttachTables, context: DecisionContext) -> Decision:
    """Attach several tables, each on top of those before it."""
    if not request.tables:
        raise Invalid("name at least one table to attach")
    together = DecisionView(view, commit=0)
    decisions: list[Decision] = []
    for each in request.tables:
        decisions.append(await attach_table(together, each, context))
        together.add(decisions[-1].rows)
    return replace(decisions[0], rows=tuple(row for each in decisions for row in each.rows))


async def release_table(view: Lookup, request: ReleaseTable, context: DecisionContext) -> Decision:
    """Release a name, unless that was done already, or the chain goes on after that tombstone.

    The row keeps the tombstone's number as `born`: an undrop that read the chain before the tombstone
    requests the name with a lower number, and is refused.
    """
    row = await _table(view, request.table_id, request.expected, dropped=True)
    operation = f"drop_{row.kind.lower()}"
    if row.dropped_at is not None or (row.born is not None and row.born >= request.tombstone):
        return await _unchanged(view, operation, row, context)
    ended = msgspec.structs.replace(row, born=_number(request.tombstone))
    decision = await dropped_table(view, operation, ended, context)
    return _purged(decision) if request.purge else decision


async def restore_table(view: Lookup, request: RestoreTable, context: DecisionContext) -> Decision:
    """Name a dropped table again, whose chain goes on."""
    old = await _table(view, request.table_id, request.expected, dropped=True)
    await refuse_undrop(view, old, context)
    if old.location is None:
        raise NotFound("the table was dropped with purge: its files were deleted")
    if old.born is not None and _number(request.born) <= old.born:
        raise Conflict(
            f"another process dropped the table at number {old.born} of its chain; retry"
        )
    name = old.name if request.name is None else check_name(request.name, "new")
    await refuse_taken_table(view, old.schema_id, name)
    row = updated(old, context, dropped_at=None, name=name, born=_number(request.born))
    alias = await _take_uuid(view, row)
    await refuse_taken_since(view, row)
    place_rows = await reserve_location(view, row, context)
    columns = await live_columns(view, row.table_id)
    return await table_decision(view, "undrop", row, columns, *alias, *place_rows)


async def move_table(view: Lookup, request: MoveTable, context: DecisionContext) -> Decision:
    """Rename a table, or move it to another schema."""
    old = await _table(view, request.table_id, request.expected)
    name = check_name(request.name, "table")
    schema = (await view.schema(request.schema)).row
    if (schema.schema_id, name) == (old.schema_id, old.name):
        return await _unchanged(view, "rename_table", old, context)
    await refuse_taken_table(view, schema.schema_id, name)
    parent_ids = {"schema_id": schema.schema_id, "catalog_id": schema.catalog_id}
    row = updated(old, context, name=name, **parent_ids)
    columns = await live_columns(view, row.table_id)
    return await table_decision(view, "rename_table", row, columns, *move_rows(old, row))


async def reserve_place(view: Lookup, request: ReservePlace, context: DecisionContext) -> Decision:
    """Reserve a location for a table that is about to move there."""
    row = await _table(view, request.table_id, request.expected)
    location = check_attached(request.location, context.rules.own_roots)
    relocated = msgspec.structs.replace(row, location=location)
    place_rows = await reserve_location(view, relocated, context)
    columns = await live_columns(view, row.table_id)
    decision = await table_decision(view, "reserve_place", row, columns, *place_rows)
    return replace(decision, at=context.at)


async def project_columns(
    view: Lookup, request: ProjectColumns, context: DecisionContext
) -> Decision:
    """Record the columns of the table's chain at a number, unless newer ones are recorded (P34)."""
    old = await _table(view, request.table_id, request.expected, dropped=True)
    pointer = _number(request.pointer)
    if old.dropped_at is not None or (old.projected is not None and old.projected >= pointer):
        return await _unchanged(view, "project_columns", old, context)
    before = await live_columns(view, old.table_id)
    recorded = await _recorded_columns(view, old.table_id, request.columns)
    after = attached_columns(old.table_id, request.columns, recorded, context)
    row = updated(old, context, projected=pointer, **_moved(request, context))
    if after == before:
        return await table_decision(view, "project_columns", row, after)
    version = next_version(old.table_id, old.schema_version, before, after, context)
    row = msgspec.structs.replace(
        row,
        schema_version=version.version,
        last_field_id=_last_field_id(old.last_field_id, request.columns),
        pii_columns=pii_columns(after),
    )
    changed = _changed(before, after, context)
    return await table_decision(view, "project_columns", row, after, *changed, version)


def _moved(request: ProjectColumns, context: DecisionContext) -> dict[str, object]:
    """The location fields of a projection that changes them."""
    if request.location is None:
        return {}
    location = check_attached(request.location, context.rules.own_roots)
    kind = TableType.MANAGED if is_managed(location) else TableType.EXTERNAL
    return {"location": location, "table_type": kind}


async def _table(
    view: Lookup, table_id: str, expected: int | str | None, *, dropped: bool = False
) -> TableRow:
    current = await view.find(table_id, dropped=dropped)
    refuse_stale(expected, current)
    if not isinstance(current.row, TableRow):
        raise NotFound(f"there is no table {table_id!r}")
    return current.row


def _purged(decision: Decision) -> Decision:
    """A drop that also deletes the files: the table loses its location, which stays reserved."""
    purged = msgspec.structs.replace(cast("TableRow", decision.object), location=None)
    others = tuple(row for row in decision.rows if row is not decision.object)
    return replace(decision, object=purged, rows=(purged, *others))


async def _unchanged(
    view: Lookup, operation: str, row: TableRow, context: DecisionContext
) -> Decision:
    """A decision that changes nothing; the commit still answers the request."""
    columns = await live_columns(view, row.table_id)
    return replace(await table_decision(view, operation, row, columns), at=context.at)


async def _refuse_used_id(view: Lookup, table_id: str) -> None:
    if not is_id(table_id):
        raise Invalid(f"the id of a table is a UUID in lower case, not {table_id[:80]!r}")
    if await view.has_object(table_id):
        raise AlreadyExists(f"the id {table_id} belongs to another object, live or dropped")


async def _take_uuid(view: Lookup, row: TableRow) -> tuple[ObjectRow, ...]:
    """The alias row of a uuid that is not its table's id; `AlreadyExists` if another has it (P30)."""
    known_as = row.table_uuid or row.table_id
    holder = await view.table_by_uuid(known_as)
    if holder is not None and holder.row.table_id != row.table_id:
        raise AlreadyExists(f"the uuid {known_as} belongs to another table")
    if row.table_uuid is None:
        return ()
    alias = {"id": uuid_name(row.table_uuid), "parent_id": row.table_id}
    return (ObjectRow(kind=row.kind, bucket_key=row.table_id, **alias),)


def _uuid(request: AttachTable) -> str | None:
    """The uuid of a table for Iceberg clients, in lower case; None if it is the table's id."""
    table_uuid = None if request.table_uuid is None else request.table_uuid.lower()
    if table_uuid is not None and not (
        0 < len(table_uuid) <= _MAX_UUID and table_uuid.isprintable()
    ):
        raise Invalid(f"the uuid of a table has 1 to {_MAX_UUID} printable characters")
    return None if table_uuid == request.table_id else table_uuid


def _kind(kind: ObjectKind) -> ObjectKind:
    if kind not in (ObjectKind.TABLE, ObjectKind.VIEW):
        raise Invalid(f"a table or a view can be attached, and this is a {kind}")
    return kind


def _number(number: int) -> int:
    if not 0 <= number < 2**63:
        raise Invalid(f"a chain has no number {number}")
    return number


def _last_field_id(current_last: int, columns: tuple[AttachedColumn, ...]) -> int:
    return max((current_last, *(column.field_id for column in columns)))


async def _recorded_columns(
    view: Lookup, table_id: str, columns: tuple[AttachedColumn, ...]
) -> dict[str, ColumnRow]:
    """The recorded rows of these columns, dropped ones included."""
    recorded: dict[str, ColumnRow] = {}
    for column in columns:
        current = await view.column(table_id, column_id(table_id, column.field_id))
        if current is not None:
            recorded[current.row.column_id] = current.row
    return recorded


def _changed(
    before: tuple[ColumnRow, ...], after: tuple[ColumnRow, ...], context: DecisionContext
) -> tuple[ColumnRow, ...]:
    """The rows that differ, and those of dropped columns."""
    old = {column.column_id: column for column in before}
    new = {column.column_id for column in after}
    changed = [column for column in after if old.get(column.column_id) != column]
    dropped = [column for column in before if column.column_id not in new]
    return (*changed, *(updated(column, context, dropped_at=context.at) for column in dropped))
