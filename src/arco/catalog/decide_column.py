"""Decisions on columns. Each makes the next version of the table's columns."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from arco.catalog.column_change import new_columns, next_version, pii_columns, spec_values
from arco.catalog.ddl import AddColumns, ColumnSpec, DropColumn, TableName, UpdateColumn
from arco.catalog.decide_table import live_columns, table_decision
from arco.catalog.decision import Context, Decision, refuse_ruled, refuse_stale, touched
from arco.catalog.lookup import Lookup
from arco.catalog.model import ColumnRow, TableRow
from arco.core.errors import Invalid, NotFound

# What the catalog itself knows of a column; all else is its table's own.
_OURS = ("pii_type", "sensitivity")


async def add_columns(view: Lookup, request: AddColumns, context: Context) -> Decision:
    """Columns more, at the end or from a position on."""
    table = await _table(view, request.target, request.expected)
    refuse_ruled(table.format, context)
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
    return await _decision(view, "add_column", table, before, after, context)


async def update_column(view: Lookup, request: UpdateColumn, context: Context) -> Decision:
    """One column changed; it stays the same column, whatever it is called."""
    table = await _table(view, request.target, request.expected)
    wanted = {name: getattr(request, name) for name in ColumnSpec.__struct_fields__}
    changes = {**wanted, "position": request.position}
    if any(value is not UNSET for name, value in changes.items() if name not in _OURS):
        refuse_ruled(table.format, context)
    before = await live_columns(view, table.table_id)
    old = _column(before, request.column)
    current = {name: getattr(old, name) for name in ColumnSpec.__struct_fields__}
    spec = ColumnSpec(
        **{name: current[name] if value is UNSET else value for name, value in wanted.items()}
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
    return await _decision(view, "update_column", table, before, after, context)


async def drop_column(view: Lookup, request: DropColumn, context: Context) -> Decision:
    """One column gone."""
    table = await _table(view, request.target, request.expected)
    refuse_ruled(table.format, context)
    before = await live_columns(view, table.table_id)
    old = _column(before, request.column)
    after = [column for column in before if column is not old]
    gone = msgspec.structs.replace(
        old, dropped_at=context.at, updated_at=context.at, updated_by=context.actor
    )
    return await _decision(view, "drop_column", table, before, after, context, gone)


async def _table(view: Lookup, name: TableName, expected: int | str | None) -> TableRow:
    found = await view.table(name)
    refuse_stale(expected, found)
    return found.row


def _column(columns: Sequence[ColumnRow], name: str) -> ColumnRow:
    for column in columns:
        if column.name == name:
            return column
    raise NotFound(f"there is no column {name[:80]!r}")


async def _decision(  # noqa: PLR0917 - read as: in this view, this is done to this table
    view: Lookup,
    operation: str,
    table: TableRow,
    before: Sequence[ColumnRow],
    after: Sequence[ColumnRow],
    context: Context,
    *gone: ColumnRow,
) -> Decision:
    """The table with its next version, and every column whose row has changed."""
    placed = tuple(
        column if column.position == at else msgspec.structs.replace(column, position=at)
        for at, column in enumerate(after)
    )
    if placed == tuple(before):
        return await table_decision(view, operation, touched(table, context), placed)
    version = next_version(table.table_id, table.schema_version, before, placed, context)
    table = touched(table, context, schema_version=version.version, pii_columns=pii_columns(placed))
    same = {column.column_id: column for column in before}
    changed = [column for column in placed if same.get(column.column_id) != column]
    return await table_decision(view, operation, table, placed, *changed, *gone, version)
