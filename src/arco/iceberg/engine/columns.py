"""The columns of an Iceberg schema as the catalog lists them, and schemas for columns that are requested.

The catalog lists the top level of a schema; nested fields are part of the column's type. A column keeps
its id when it is renamed or moved, so existing files are read as before. A change that would make them
unreadable is refused: a type may only be widened, and a nullable column cannot become required.
"""

import re
from collections.abc import Sequence

from msgspec import UNSET

from arco.catalog.column_change import MAX_COLUMNS
from arco.catalog.data_type import normalise
from arco.catalog.ddl import AddColumns, AttachedColumn, ColumnRequest, ColumnSpec, UpdateColumn
from arco.catalog.name import check_column_name, check_comment
from arco.core.errors import Invalid, NotFound
from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.default_value import print_default, read_default
from arco.iceberg.engine.shape import Object
from arco.iceberg.engine.spark_types import (
    NextId,
    clean_comment,
    fields_with_ids,
    iceberg_type,
    spark_type,
    with_ids,
)

# Higher ids are reserved for Iceberg's metadata columns, such as `_file`.
MAX_FIELD_ID = 2**31 - 1 - 200

_WIDER = {("int", "long"), ("float", "double")}
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


def columns_of(schema: Object) -> tuple[AttachedColumn, ...]:
    """The columns of `schema`, or `Invalid` if the catalog cannot store them."""
    if schema.get("type", "struct") != "struct":
        raise Invalid("a schema is a struct")
    columns = tuple(map(_column, shape.objects(schema, "fields", "the schema")))
    if len(columns) > MAX_COLUMNS:
        raise Invalid(f"a table has at most {MAX_COLUMNS} columns, not {len(columns)}")
    _refuse_duplicates([column.name for column in columns], "name")
    _refuse_duplicates([column.field_id for column in columns], "id")
    return columns


def _column(field: Object) -> AttachedColumn:
    name = check_column_name(shape.text(field, "name", "a field of the schema"))
    field_id = shape.integer(field, "id", f"field {name}")
    if field_id < 0:
        raise Invalid(f"the id of field {name} is negative: {field_id}")
    doc = shape.maybe_text(field, "doc", f"field {name}")
    return AttachedColumn(
        field_id=field_id,
        name=name,
        data_type=spark_type(field.get("type"), name),
        nullable=not shape.flag(field, "required", f"field {name}"),
        comment=None if doc is None else clean_comment(doc),
        default_value=print_default(field.get("type"), field.get("write-default")),
    )


def schema_of(columns: Sequence[ColumnSpec]) -> Object:
    """The first schema of a table with these columns; ids are counted from 1."""
    last_id = 0

    def next_id() -> int:
        nonlocal last_id
        last_id += 1
        return last_id

    fields: list[Json] = [field_of(column) for column in columns]
    struct: Object = {"type": "struct", "schema-id": 0, "fields": fields}
    schema: Object = {**struct, "fields": fields_with_ids(struct, next_id)}
    columns_of(schema)  # refuses duplicates
    return schema


def field_of(column: ColumnSpec) -> Object:
    """The field for a column, without ids."""
    kind = iceberg_type(column.data_type)
    field: Object = {
        "name": check_column_name(column.name),
        "required": not column.nullable,
        "type": kind,
    }
    if column.comment is not None:
        field["doc"] = check_comment(column.comment)
    if column.default_value is not None:
        default = read_default(kind, column.default_value, column.name)
        if default is not None:
            field["write-default"] = default
    return field


def _refuse_duplicates(values: Sequence[str | int], label: str) -> None:
    seen: set[str | int] = set()
    for value in values:
        if value in seen:
            raise Invalid(f"two columns have the {label} {str(value)[:80]!r}")
        seen.add(value)


def change_schema(
    schema: Object, last_column_id: int, request: ColumnRequest
) -> tuple[Object, int]:
    """The schema after `request`, and the last id in use; both unchanged if nothing changes."""
    columns_of(schema)  # refuses an invalid schema
    ids = _Ids(last_column_id)
    fields = shape.objects(schema, "fields", "the schema")
    if isinstance(request, AddColumns):
        after = _added(fields, request, ids.next)
    elif isinstance(request, UpdateColumn):
        after = _updated(fields, request, ids.next)
    else:
        removed_field = _find(fields, request.column)
        after = [each for each in fields if each is not removed_field]
    if after == fields:
        return schema, last_column_id
    changed: Object = {**schema, "fields": [*after]}
    columns_of(changed)  # refuses duplicates
    _check_identifiers(schema, changed)
    return changed, ids.last_id


class _Ids:
    """Ids that no column has had."""

    def __init__(self, last_id: int) -> None:
        self.last_id = last_id

    def next(self) -> int:
        if self.last_id >= MAX_FIELD_ID:
            raise Invalid("the table has no id left for another column")
        self.last_id += 1
        return self.last_id


def _added(fields: list[Object], request: AddColumns, next_id: NextId) -> list[Object]:
    if not request.columns:
        raise Invalid("name at least one column to add")
    at = len(fields) if request.position is None else request.position
    if not 0 <= at <= len(fields):
        raise Invalid(f"position is 0 to {len(fields)}, not {at}")
    added = [_new_field(column, next_id) for column in request.columns]
    return [*fields[:at], *added, *fields[at:]]


def _new_field(column: ColumnSpec, next_id: NextId) -> Object:
    """A new column of a table that may have rows; existing rows get its default."""
    field = field_of(column)
    default = field.get("write-default")
    if default is not None:
        field["initial-default"] = default
    elif not column.nullable:
        raise Invalid(
            f"the column {column.name[:80]!r} would be null in existing rows:"
            " make it nullable, or give it a default value"
        )
    return {"id": next_id(), **field, "type": with_ids(field["type"], next_id)}


def _updated(fields: list[Object], request: UpdateColumn, next_id: NextId) -> list[Object]:
    old = _find(fields, request.column)
    new = dict(old)
    if request.name is not UNSET:
        new["name"] = check_column_name(request.name)
    if request.data_type is not UNSET:
        new["type"] = _changed_type(new["type"], request.data_type, request.column, next_id)
    if request.nullable is not UNSET:
        new["required"] = _changed_requirement(new, required=not request.nullable)
    if request.comment is not UNSET:
        new = _with(new, "doc", None if request.comment is None else check_comment(request.comment))
    if request.default_value is not UNSET:
        new = _with(new, "write-default", _changed_default(new, request.default_value))
    after = [new if each is old else each for each in fields]
    if request.position is not UNSET:
        if not 0 <= request.position < len(fields):
            raise Invalid(f"position is 0 to {len(fields) - 1}, not {request.position}")
        after.insert(request.position, after.pop(fields.index(old)))
    return after


def _find(fields: list[Object], name: str) -> Object:
    for field in fields:
        if field["name"] == name:
            return field
    raise NotFound(f"there is no column {name[:80]!r}")


def _with(field: Object, key: str, value: Json) -> Object:
    """`field` with the value under `key`, or without the key if there is no value."""
    rest = {name: each for name, each in field.items() if name != key}
    return rest if value is None else {**rest, key: value}


def _changed_requirement(field: Object, *, required: bool) -> bool:
    if required and field["required"] is False:
        raise Invalid(
            f"the column {str(field['name'])[:80]!r} may be null in existing rows,"
            " and cannot be made required"
        )
    return required


def _changed_default(field: Object, text: str | None) -> Json:
    current = field.get("write-default")
    if text is None or text == print_default(field["type"], current):
        return None if text is None else current
    return read_default(field["type"], text, str(field["name"]))


def _changed_type(old: Json, data_type: str, label: str, next_id: NextId) -> Json:
    """The requested type with the ids of the existing one."""
    if spark_type(old, label) == normalise(data_type):
        return old  # a UUID stays one although the catalog shows it as a string
    return with_ids(_widened(old, iceberg_type(data_type), label), next_id)


def _widened(old: Json, new: Json, label: str) -> Json:
    """`new` with the ids of `old`, if values of `old` can be read as `new`."""
    if isinstance(old, str) and isinstance(new, str):
        if old != new and not _is_wider(old, new):
            raise _not_wider(old, new, label)
        return new
    if not isinstance(old, dict) or not isinstance(new, dict) or old["type"] != new["type"]:
        raise _not_wider(old, new, label)
    if old["type"] == "struct":
        return {**old, "fields": _widened_fields(old, new, label)}
    if old["type"] == "list":
        return {**old, "element": _widened(old["element"], new["element"], f"{label}.element")}
    if spark_type(old["key"], label) != spark_type(with_ids(new["key"], lambda: 0), label):
        raise Invalid(f"the keys of the map {label[:80]!r} cannot change: rows are found by them")
    return {**old, "value": _widened(old["value"], new["value"], f"{label}.value")}


def _widened_fields(old: Object, new: Object, label: str) -> list[Json]:
    """The requested fields of a struct, matched by name; new ones have no ids yet."""
    old_fields = {field["name"]: field for field in shape.objects(old, "fields", label)}
    fields: list[Json] = []
    for new_field in shape.objects(new, "fields", label):
        path = f"{label}.{new_field['name']}"
        field = old_fields.get(new_field["name"])
        if field is None:
            if new_field["required"]:
                raise Invalid(f"the new field {path[:80]!r} cannot be NOT NULL: rows lack it")
            fields.append(new_field)
            continue
        required = _changed_requirement(field, required=new_field["required"] is True)
        kind = _widened(field["type"], new_field["type"], path)
        doc = new_field.get("doc", field.get("doc"))
        fields.append(_with({**field, "required": required, "type": kind}, "doc", doc))
    return fields


def _is_wider(old: str, new: str) -> bool:
    if (old, new) in _WIDER:
        return True
    before, after = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if before is None or after is None or before[2] != after[2]:
        return False
    return int(before[1]) <= int(after[1])


def _not_wider(old: Json, new: Json, label: str) -> Invalid:
    before, after = (each if isinstance(each, str) else _name(each) for each in (old, new))
    return Invalid(
        f"the type of {label[:80]!r} cannot change from {before} to {after}: only int to long, float"
        " to double and decimals to a higher precision can"
    )


def _name(kind: Json) -> str:
    return str(shape.as_object(kind, "a type")["type"])


def _check_identifiers(before: Object, after: Object) -> None:
    """Refuse to drop or to make nullable a field that identifies rows."""
    identifier_ids = before.get("identifier-field-ids") or []
    able = _required_field_ids(shape.objects(after, "fields", "the schema"))
    for each in shape.as_list(identifier_ids, "identifier-field-ids"):
        if shape.as_int(each, "each of identifier-field-ids") not in able:
            raise Invalid(
                f"the field with the id {each} identifies the table's rows: it can neither be"
                " dropped nor become nullable, nor can its parents"
            )


def _required_field_ids(fields: list[Object]) -> set[int]:
    """The ids of fields that are required, with all their parents."""
    field_ids: set[int] = set()
    for field in fields:
        if field["required"] is True:
            field_ids.add(shape.integer(field, "id", "a field"))
            kind = field["type"]
            if isinstance(kind, dict) and kind["type"] == "struct":
                field_ids |= _required_field_ids(shape.objects(kind, "fields", "a struct"))
    return field_ids
