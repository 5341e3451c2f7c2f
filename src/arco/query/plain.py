"""Plain types: what results are made of, so that every client of Arrow and JSON can read them."""

import pyarrow as pa

from arco.core.errors import Invalid


def plain(table: pa.Table) -> pa.Table:
    """`table` without views, dictionaries and nanoseconds, which some readers do not know."""
    wanted = pa.schema([pa.field(each.name, _plain(each.type)) for each in table.schema])
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


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _plain(kind.value_type)
    if pa.types.is_temporal(kind):
        return _plain_time(kind)
    return _plain_nested(kind)


def _plain_time(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if pa.types.is_duration(kind) and kind.unit == "ns":
        return pa.duration("us")
    return pa.time64("us") if pa.types.is_time64(kind) else kind


def _plain_nested(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain_field(kind.value_field))
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(kind.field(at)) for at in range(kind.num_fields)])
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _plain(field.type), field.nullable)
