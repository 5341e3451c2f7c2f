"""Decisions on tables and their columns. Each change of columns makes the next schema version."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from arco.catalog.column_change import (
    first_columns,
    new_columns,
    next_version,
    pii_columns,
    spec_values,
)
from arco.catalog.ddl import (
    AddColumns,
    ColumnSpec,
    CreateTable,
    DropColumn,
    DropTable,
    SchemaName,
    TableName,
    UpdateColumn,
    UpdateTable,
)
from arco.catalog.decision import (
    Decision,
    DecisionContext,
    amended_fields,
    creation_fields,
    description_fields,
    object_row,
    refuse_routed,
    refuse_stale,
    updated,
)
from arco.catalog.location import check_location, managed_location
from arco.catalog.lookup import Lookup
from arco.catalog.model import AnyRow, ColumnRow, TableFormat, TableRow, TableType
from arco.catalog.name import check_name, print_dotted
from arco.catalog.place import release_location, reserve_location
from arco.core.errors import AlreadyExists, Invalid, NotFound


async def create_table(view: Lookup, request: CreateTable, context: DecisionContext) -> Decision:
    """Create a table under a free name, with schema version 1."""
    refuse_routed(request.format, context)
    name = check_name(request.name, "table")
    schema = (await view.schema(request.schema)).row
    columns, version = first_columns(context.new_id, request.columns, context)
    external = request.location is not None
    if request.format is TableFormat.DELTA and not external:
        raise Invalid(
            "Arco cannot write the log of a managed Delta table yet: pass the location of a Delta table "
            "to register it, or create the table with format ICEBERG"
        )
    values = {
        "table_id": context.new_id,
        "catalog_id": schema.catalog_id,
        "schema_id": schema.schema_id,
        "name": name,
        "format": request.format,
        "table_type": TableType.EXTERNAL if external else TableType.MANAGED,
        "location": managed_location(context.new_id)
        if request.location is None
        else check_location(
            request.location, context.rules.own_roots, declared=context.rules.declared
        ),
        "pii_columns": pii_columns(columns),
        "schema_version": version.version,
        "last_field_id": len(columns),
    }
    await refuse_taken_table(view, schema.schema_id, name)
    row = msgspec.convert(
        values | description_fields(request, context) | creation_fields(context), TableRow
    )
    place_rows = await reserve_location(view, row, context) if external else ()
    return await table_decision(
        view, "create_table", row, columns, object_row(row), *columns, version, *place_rows
    )


async def update_table(view: Lookup, request: UpdateTable, context: DecisionContext) -> Decision:
    """Rename a table, move it to another schema, or change its description."""
    current = await view.table(request.target)
    refuse_stale(request.expected, current)
    row = updated(current.row, context, **amended_fields(request, current.row))
    if request.name is not UNSET:
        row = msgspec.structs.replace(row, name=check_name(request.name, "table"))
    if request.schema is not UNSET or request.catalog is not UNSET:
        catalog = request.target.catalog if request.catalog is UNSET else request.catalog
        path = request.target.schema if request.schema is UNSET else request.schema
        schema = (await view.schema(SchemaName(catalog, path))).row
        row = msgspec.structs.replace(row, schema_id=schema.schema_id, catalog_id=schema.catalog_id)
    if (row.schema_id, row.name) != (current.row.schema_id, current.row.name):
        refuse_routed(row.format, context)
        await refuse_taken_table(view, row.schema_id, row.name)
    columns = await live_columns(view, row.table_id)
    return await table_decision(view, "update_table", row, columns, *move_rows(current.row, row))


async def drop_table(view: Lookup, request: DropTable, context: DecisionContext) -> Decision:
    """Drop a table with its columns."""
    current = await view.table(request.target)
    refuse_routed(current.row.format, context)
    refuse_stale(request.expected, current)
    return await dropped_table(view, "drop_table", current.row, context)


async def dropped_table(
    view: Lookup, operation: str, row: TableRow, context: DecisionContext
) -> Decision:
    """A decision that drops a table and gives up its location."""
    columns = await live_columns(view, row.table_id)
    place_rows = await release_location(view, row, context)
    dropped = updated(row, context, dropped_at=context.at)
    return await table_decision(view, operation, dropped, columns, *place_rows)


def move_rows(old: TableRow, new: TableRow) -> tuple[AnyRow, ...]:
    """The further rows of a move to another schema: a marker in the old bucket, and the new bucket."""
    if new.schema_id == old.schema_id:
        return ()
    return msgspec.structs.replace(old, moved=True), object_row(new)


async def live_columns(view: Lookup, table_id: str) -> tuple[ColumnRow, ...]:
    """The columns of a table, by position."""
    return tuple(current.row for current in await view.columns(table_id))


async def refuse_taken_table(view: Lookup, schema_id: str, name: str) -> None:
    """`AlreadyExists` if the name of a table or view is taken in its schema."""
    if await view.has_table(schema_id, name):
        raise AlreadyExists(f"there is a table or view {name!r} in this schema already")


async def table_decision(
    view: Lookup,
    operation: str,
    row: TableRow,
    columns: tuple[ColumnRow, ...],
    *others: AnyRow,
) -> Decision:
    """A decision whose object is a table."""
    name = print_dotted(await view.levels(row))
    return Decision(operation, row, name, (row, *others), columns)


# The fields that the catalog keeps for tables of all formats; the format owns all others.
_CATALOG_FIELDS = ("pii_type", "sensitivity")


async def add_columns(view: Lookup, request: AddColumns, context: DecisionContext) -> Decision:
    """Add columns at the end, or at a position."""
    table = await _load_table(view, request.target, request.expected)
    refuse_routed(table.format, context)
    before = await live_columns(view, table.table_id)
    if not request.columns:
        raise Invalid("name at least one column to add")
    at = len(before) if request.position is None else request.position
    if not 0 <= at <= len(before):
        raise Invalid(f"position is 0 to {len(before)}, not {at}")
    added = new_columns(
        table.table_id,
        request.columns,
        context,
        first_field_id=table.last_field_id + 1,
        first_position=at,
    )
    table = msgspec.structs.replace(table, last_field_id=table.last_field_id + len(added))
    after = (*before[:at], *added, *before[at:])
    return await _column_decision(view, "add_column", table, before, after, context)


async def update_column(view: Lookup, request: UpdateColumn, context: DecisionContext) -> Decision:
    """Change one column; its id stays the same."""
    table = await _load_table(view, request.target, request.expected)
    requested = {name: getattr(request, name) for name in ColumnSpec.__struct_fields__}
    changes = {**requested, "position": request.position}
    if any(value is not UNSET for name, value in changes.items() if name not in _CATALOG_FIELDS):
        refuse_routed(table.format, context)
    before = await live_columns(view, table.table_id)
    old = _column(before, request.column)
    current = {name: getattr(old, name) for name in ColumnSpec.__struct_fields__}
    spec = ColumnSpec(
        **{name: current[name] if value is UNSET else value for name, value in requested.items()}
    )
    new = msgspec.structs.replace(old, **spec_values(spec))
    if new != old:
        new = msgspec.structs.replace(new, updated_at=context.at, updated_by=context.actor)
    after = [new if column is old else column for column in before]
    if request.position is not UNSET:
        if not 0 <= request.position < len(before):
            raise Invalid(f"position is 0 to {len(before) - 1}, not {request.position}")
        after.remove(new)
        after.insert(request.position, new)
    return await _column_decision(view, "update_column", table, before, after, context)


async def drop_column(view: Lookup, request: DropColumn, context: DecisionContext) -> Decision:
    """Drop one column."""
    table = await _load_table(view, request.target, request.expected)
    refuse_routed(table.format, context)
    before = await live_columns(view, table.table_id)
    old = _column(before, request.column)
    after = [column for column in before if column is not old]
    dropped = msgspec.structs.replace(
        old, dropped_at=context.at, updated_at=context.at, updated_by=context.actor
    )
    return await _column_decision(view, "drop_column", table, before, after, context, dropped)


async def _load_table(view: Lookup, name: TableName, expected: int | str | None) -> TableRow:
    current = await view.table(name)
    refuse_stale(expected, current)
    return current.row


def _column(columns: Sequence[ColumnRow], name: str) -> ColumnRow:
    for column in columns:
        if column.name == name:
            return column
    raise NotFound(f"the table has no column {name[:80]!r}")


async def _column_decision(  # noqa: PLR0917 - read as: in this view, this is done to this table
    view: Lookup,
    operation: str,
    table: TableRow,
    before: Sequence[ColumnRow],
    after: Sequence[ColumnRow],
    context: DecisionContext,
    *dropped: ColumnRow,
) -> Decision:
    """The table with its next schema version, and every column whose row has changed."""
    placed = tuple(
        column if column.position == at else msgspec.structs.replace(column, position=at)
        for at, column in enumerate(after)
    )
    if placed == tuple(before):
        return await table_decision(view, operation, updated(table, context), placed)
    version = next_version(table.table_id, table.schema_version, before, placed, context)
    table = updated(table, context, schema_version=version.version, pii_columns=pii_columns(placed))
    same = {column.column_id: column for column in before}
    changed = [column for column in placed if same.get(column.column_id) != column]
    return await table_decision(view, operation, table, placed, *changed, *dropped, version)
