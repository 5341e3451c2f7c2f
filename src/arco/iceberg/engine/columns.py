"""The columns of an Iceberg schema as the catalog lists them, and a schema for columns as it is asked.

Of a schema the catalog lists the top level alone; what is nested stands in the type of its column.
"""

from collections.abc import Sequence

from arco.catalog.column_change import MOST_COLUMNS
from arco.catalog.ddl import AttachedColumn, ColumnSpec
from arco.catalog.name import check_column_name, check_comment
from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.default_text import print_default, read_default
from arco.iceberg.engine.from_spark import iceberg_type, numbered_fields
from arco.iceberg.engine.shape import Object
from arco.iceberg.engine.to_spark import clean_comment, spark_type

MOST_FIELD_ID = 2**31 - 1 - 200  # those above are Iceberg's own, for `_file` and its like


def columns_of(schema: Object) -> tuple[AttachedColumn, ...]:
    """The columns of `schema`, or `Invalid` if the catalog cannot hold them."""
    if schema.get("type", "struct") != "struct":
        raise Invalid("a schema is a struct")
    columns = tuple(map(_column, shape.objects(schema, "fields", "the schema")))
    if len(columns) > MOST_COLUMNS:
        raise Invalid(f"a table has at most {MOST_COLUMNS} columns, not {len(columns)}")
    _refuse_doubles([column.name for column in columns], "name")
    _refuse_doubles([column.field_id for column in columns], "id")
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
    last = 0

    def next_id() -> int:
        nonlocal last
        last += 1
        return last

    fields: list[Json] = [field_of(column) for column in columns]
    struct: Object = {"type": "struct", "schema-id": 0, "fields": fields}
    schema: Object = {**struct, "fields": numbered_fields(struct, next_id)}
    columns_of(schema)  # refuses doubles
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


def _refuse_doubles(values: Sequence[str | int], what: str) -> None:
    seen: set[str | int] = set()
    for value in values:
        if value in seen:
            raise Invalid(f"two columns have the {what} {str(value)[:80]!r}")
        seen.add(value)
