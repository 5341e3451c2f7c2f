"""The rows of a change of columns: the columns, and a schema version that records the changes.

A column's id is derived from its table's id and its field id. Field ids are counted in the table's row and
never reused, so a column that is dropped and created again under its name gets another id (law 11).
"""

from collections.abc import Mapping, Sequence
from uuid import UUID, uuid5

import msgspec

from arco.catalog.data_type import normalise
from arco.catalog.ddl import AttachedColumn, ColumnSpec
from arco.catalog.decision import DecisionContext, creation_fields, updated
from arco.catalog.model import ColumnRow, SchemaVersionRow
from arco.catalog.name import check_column_name, check_comment
from arco.core import json
from arco.core.errors import Invalid

MAX_COLUMNS = 10_000

_RECORDED = (
    *("column_id", "name", "data_type", "position", "nullable", "comment", "default_value"),
    *("pii_type", "sensitivity", "field_id"),
)


class RecordedColumnChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of a version's `changes`: the fields of a column before and after."""

    change: str  # added, changed, dropped
    column_id: str
    column: str
    before: dict[str, object] = msgspec.field(default_factory=dict)
    after: dict[str, object] = msgspec.field(default_factory=dict)


def column_id(table_id: str, field_id: int) -> str:
    """The id of a column, for every format with field ids."""
    return str(uuid5(UUID(table_id), str(field_id)))


def first_columns(
    table_id: str, specs: Sequence[ColumnSpec], context: DecisionContext
) -> tuple[tuple[ColumnRow, ...], SchemaVersionRow]:
    """The columns of a new table, and schema version 1."""
    columns = new_columns(table_id, specs, context, first_field_id=1, first_position=0)
    return columns, next_version(table_id, 0, (), columns, context)


def new_columns(
    table_id: str,
    specs: Sequence[ColumnSpec],
    context: DecisionContext,
    *,
    first_field_id: int,
    first_position: int,
) -> tuple[ColumnRow, ...]:
    """Rows for new columns."""
    columns = []
    for offset, spec in enumerate(specs):
        field_id = first_field_id + offset
        checked = {
            "column_id": column_id(table_id, field_id),
            "table_id": table_id,
            "position": first_position + offset,
            "field_id": field_id,
        }
        columns.append(
            msgspec.convert(creation_fields(context) | spec_values(spec) | checked, ColumnRow)
        )
    return tuple(columns)


def attached_columns(
    table_id: str,
    columns: Sequence[AttachedColumn],
    recorded: Mapping[str, ColumnRow],
    context: DecisionContext,
) -> tuple[ColumnRow, ...]:
    """Rows for columns of a format that assigns field ids; known columns keep the catalog's fields."""
    field_ids = {column.field_id for column in columns}
    if len(field_ids) < len(columns):
        raise Invalid("two columns have the same field id")
    if any(not 0 <= each < 2**31 for each in field_ids):
        raise Invalid("a field id is a number from 0 to 2147483647")
    return tuple(
        _attached(table_id, column, position, recorded, context)
        for position, column in enumerate(columns)
    )


def _attached(
    table_id: str,
    column: AttachedColumn,
    position: int,
    recorded: Mapping[str, ColumnRow],
    context: DecisionContext,
) -> ColumnRow:
    each = column_id(table_id, column.field_id)
    old = recorded.get(each)
    spec = ColumnSpec(
        name=column.name,
        data_type=column.data_type,
        nullable=column.nullable,
        comment=column.comment,
        default_value=column.default_value,
        pii_type=column.pii_type if old is None else old.pii_type,
        sensitivity=column.sensitivity if old is None else old.sensitivity,
    )
    values = spec_values(spec) | {"position": position}
    if old is None:
        ids = {"column_id": each, "table_id": table_id, "field_id": column.field_id}
        return msgspec.convert(creation_fields(context) | values | ids, ColumnRow)
    new = msgspec.structs.replace(old, **values, dropped_at=None)
    return old if new == old else updated(new, context)


def spec_values(spec: ColumnSpec) -> dict[str, object]:
    """The validated and normalised fields of a requested column."""
    return {
        "name": check_column_name(spec.name),
        "data_type": normalise(spec.data_type),
        "nullable": spec.nullable,
        "comment": None if spec.comment is None else check_comment(spec.comment),
        "default_value": _short(spec.default_value, "default value"),
        "pii_type": _short(spec.pii_type, "PII type"),
        "sensitivity": spec.sensitivity,
    }


def next_version(
    table_id: str,
    version: int,
    before: Sequence[ColumnRow],
    after: Sequence[ColumnRow],
    context: DecisionContext,
) -> SchemaVersionRow:
    """The version that follows `version`; `Invalid` if there are too many columns or duplicates."""
    _refuse_duplicates(after)
    return SchemaVersionRow(
        table_id=table_id,
        version=version + 1,
        changes=json.encode(_changes(before, after)).decode(),
        columns=json.encode([_recorded(column) for column in after]).decode(),
        changed_at=context.at,
        changed_by=context.actor,
    )


def pii_columns(columns: Sequence[ColumnRow]) -> tuple[str, ...]:
    """The names of columns that hold personal data."""
    return tuple(column.name for column in columns if column.pii_type is not None)


def _refuse_duplicates(columns: Sequence[ColumnRow]) -> None:
    if len(columns) > MAX_COLUMNS:
        raise Invalid(f"a table has at most {MAX_COLUMNS} columns, not {len(columns)}")
    names: set[str] = set()
    for column in columns:
        if column.name in names:
            raise Invalid(f"two columns are called {column.name[:80]!r}")
        names.add(column.name)


def _changes(before: Sequence[ColumnRow], after: Sequence[ColumnRow]) -> list[RecordedColumnChange]:
    old = {column.column_id: column for column in before}
    new = {column.column_id: column for column in after}
    changes = [
        RecordedColumnChange("dropped", each, column.name, _recorded(column))
        for each, column in old.items()
        if each not in new
    ]
    for each, column in new.items():
        if each not in old:
            changes.append(RecordedColumnChange("added", each, column.name, {}, _recorded(column)))
            continue
        was, now = _recorded(old[each]), _recorded(column)
        fields = [name for name in _RECORDED if was.get(name) != now.get(name)]
        if fields:
            was = {name: was.get(name) for name in fields}
            now = {name: now.get(name) for name in fields}
            changes.append(RecordedColumnChange("changed", each, old[each].name, was, now))
    return changes


def _recorded(column: ColumnRow) -> dict[str, object]:
    values = ((name, getattr(column, name)) for name in _RECORDED)
    return {name: value for name, value in values if value is not None}


def _short(text: str | None, field: str) -> str | None:
    if text is not None and (len(text) > 4_096 or not text.isprintable()):
        raise Invalid(f"a {field} has at most 4,096 printable characters")
    return text
