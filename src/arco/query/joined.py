"""Columns of one table beside the rows of another, by a key of texts that both have."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def joined(
    rows: pa.Table,
    others: pa.Table | None,
    key: Sequence[str],
    columns: Sequence[str],
    schema: pa.Schema,
) -> pa.Table:
    """`rows` with `columns` of the other row with the same key, null where there is none; as `schema`."""
    made = rows.select([name for name in schema.names if name not in columns])
    if others is None:
        found = [pa.nulls(rows.num_rows, schema.field(name).type) for name in columns]
    else:
        at = pc.index_in(_keys(rows, key), value_set=_keys(others, key))
        found = [others.column(name).take(at) for name in columns]
    for name, values in zip(columns, found, strict=True):
        made = made.append_column(schema.field(name), values)
    return made.select(schema.names)


def _keys(rows: pa.Table, key: Sequence[str]) -> pa.Array:
    """The key of each row as one text, with lengths before its parts, so that no two keys look alike."""
    *firsts, last = (rows.column(name).combine_chunks() for name in key)
    parts = [part for text in firsts for part in (pc.utf8_length(text).cast(pa.string()), text)]
    return pc.binary_join_element_wise(*parts, last, ":") if parts else last
