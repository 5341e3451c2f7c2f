"""Results as bytes: JSON that people read, or a stream of Arrow that programs do."""

import base64
from collections.abc import Callable
from decimal import Decimal
from typing import cast

import pyarrow as pa

from arco.core import json
from arco.core.errors import Invalid
from arco.query.plain import plain

ARROW_STREAM = "application/vnd.apache.arrow.stream"


def to_json(table: pa.Table) -> bytes:
    """`{"columns": [{"name", "type"}], "rows": [[...]]}`.

    Times are RFC 3339, maps are objects, bytes are base64, decimals are text so that no digit is lost,
    and what is not a number is null, as JSON has no word for it.
    """
    table = plain(table)
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
    """The stream format of Arrow, which every library of Arrow reads."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return cast("bytes", sink.getvalue().to_pybytes())


def from_arrow(raw: bytes) -> pa.Table:
    """The table in a stream of Arrow."""
    with pa.ipc.open_stream(raw) as reader:
        return reader.read_all()


def _values(column: pa.ChunkedArray) -> list[object]:
    values: list[object] = column.to_pylist(maps_as_pydicts="strict")
    if _is_simple(column.type):
        return values
    return [_value(value) for value in values]


def _is_simple(kind: pa.DataType) -> bool:
    """Whether the encoder writes all values of a type as they shall be."""
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
