"""Query results as JSON or as an Arrow stream, in types that every client can read."""

import base64
from collections.abc import Callable
from decimal import Decimal
from typing import cast

import pyarrow as pa

from arco.core import json
from arco.core.errors import Invalid

ARROW_STREAM = "application/vnd.apache.arrow.stream"


def to_portable(table: pa.Table) -> pa.Table:
    """`table` without view types, dictionaries and nanoseconds, which some clients do not support."""
    wanted = pa.schema([pa.field(each.name, _portable(each.type)) for each in table.schema])
    if wanted.types == table.schema.types:
        return table.cast(wanted)
    try:
        columns = [
            column if column.type == field.type else column.cast(field.type, safe=False)
            for column, field in zip(table.columns, wanted, strict=True)
        ]
    except pa.ArrowException as problem:
        raise Invalid("the result has a type that cannot be sent: cast it to text") from problem
    return pa.table(columns, schema=wanted)


def _portable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _portable(kind.value_type)
    if pa.types.is_temporal(kind):
        return _portable_time(kind)
    return _portable_nested(kind)


def _portable_time(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if pa.types.is_duration(kind) and kind.unit == "ns":
        return pa.duration("us")
    return pa.time64("us") if pa.types.is_time64(kind) else kind


def _portable_nested(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_map(kind):
        return pa.map_(_portable(kind.key_type), _portable(kind.item_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_portable_field(kind.value_field))
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_portable_field(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([_portable_field(kind.field(at)) for at in range(kind.num_fields)])
    return kind


def _portable_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _portable(field.type), field.nullable)


def to_json(table: pa.Table) -> bytes:
    """`{"columns": [{"name", "type"}], "rows": [[...]]}`.

    Times are RFC 3339, maps are objects, bytes are base64, decimals are text so that no digit is lost,
    and NaN and infinity are null, because JSON cannot express them.
    """
    table = to_portable(table)
    columns = [{"name": field.name, "type": str(field.type)} for field in table.schema]
    try:
        values = [_values(column) for column in table.columns]
        rows = list(zip(*values, strict=True)) if values else [()] * table.num_rows
        return json.encode({"columns": columns, "rows": rows})
    except (ValueError, OverflowError, TypeError, KeyError) as problem:
        raise Invalid(
            f"a value cannot be written as JSON: cast it to text, or accept {ARROW_STREAM}"
        ) from problem


def to_arrow(table: pa.Table) -> bytes:
    """The table in the Arrow stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return cast("bytes", sink.getvalue().to_pybytes())


def from_arrow(raw: bytes) -> pa.Table:
    """The table in an Arrow stream."""
    with pa.ipc.open_stream(raw) as reader:
        return reader.read_all()


def _values(column: pa.ChunkedArray) -> list[object]:
    values: list[object] = column.to_pylist(maps_as_pydicts="strict")
    if _is_simple(column.type):
        return values
    return [_value(value) for value in values]


def _is_simple(kind: pa.DataType) -> bool:
    """Whether the JSON encoder writes the values of a type correctly."""
    simple: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_string,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
        pa.types.is_timestamp,
        pa.types.is_date,
    )
    return any(check(kind) for check in simple)


def _value(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return {_key(key): _value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_value(each) for each in value]
    return value


def _key(key: object) -> str:
    return key if isinstance(key, str) else json.encode(_value(key)).decode().strip('"')
