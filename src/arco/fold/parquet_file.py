"""State files as Parquet: plain files of one table, and combined files with the rows of several.

A commit of Tier 1 writes one combined file for all tables that it changes. It has a struct column for each
of them, named like the table; every row of the file sets exactly one of these columns.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from arco.fold.table import ColumnType, StateTable

_ROW_GROUP = 32_768
# Every commit writes files of a few rows. There a dictionary and statistics cost more than they save, and
# zstd takes longer to set up for each column than to compress it.
_FEW_ROWS = 64


def encode_table(table: StateTable, rows: pa.Table) -> bytes:
    """A Parquet file with these rows of one table."""
    return _encode(rows, _repeated(table, ""), _compared(table, ""))


def encode_combined(tables: Mapping[str, StateTable], rows: Mapping[str, pa.Table]) -> bytes:
    """A combined file with these rows by table; no table is empty."""
    total = sum(each.num_rows for each in rows.values())
    columns: list[pa.Array] = []
    start = 0
    for each in rows.values():
        structs = each.combine_chunks().to_struct_array()
        structs = structs.combine_chunks() if isinstance(structs, pa.ChunkedArray) else structs
        above = pa.nulls(start, structs.type)
        below = pa.nulls(total - start - each.num_rows, structs.type)
        columns.append(pa.concat_arrays([above, structs, below]))
        start += each.num_rows
    return _encode(
        pa.Table.from_arrays(columns, list(rows)),
        [name for table in rows for name in _repeated(tables[table], f"{table}.")],
        [name for table in rows for name in _compared(tables[table], f"{table}.")],
    )


def decode(
    table: StateTable, raw: bytes, *, is_combined: bool, columns: Sequence[str] = ()
) -> pa.Table:
    """The rows of one table as they are stored; some `columns` of a plain file are enough if given.

    Raises `pa.ArrowException` or `OSError` for what is not Parquet, or has no rows of the table.
    """
    # The bytes are in memory: pre-buffering would only copy them between threads.
    file = pq.ParquetFile(pa.BufferReader(raw), pre_buffer=False)
    if not is_combined:
        return file.read(columns=list(columns) or None, use_threads=False)
    stored = file.read(columns=[table.name], use_threads=False)
    if stored.num_columns != 1:
        raise pa.ArrowInvalid(f"the file has no rows of {table.name}")
    structs = stored.column(0).combine_chunks().drop_null()
    return pa.Table.from_struct_array(structs)


def _encode(rows: pa.Table, repeated: list[str], compared: list[str]) -> bytes:
    many = rows.num_rows > _FEW_ROWS
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows,
        sink,
        compression="zstd" if many else "lz4",
        row_group_size=_ROW_GROUP,
        store_schema=False,
        use_dictionary=repeated if many else False,
        write_statistics=compared if many else False,
    )
    raw: bytes = sink.getvalue().to_pybytes()
    return raw


def _repeated(table: StateTable, prefix: str) -> list[str]:
    """Columns worth a dictionary: texts that repeat, which those of the key do not."""
    return [
        prefix + each.name
        for each in table.columns
        if each.kind is ColumnType.STRING and each.name not in table.key
    ]


def _compared(table: StateTable, prefix: str) -> list[str]:
    """Columns that queries filter by; the binary ones only order versions in the fold."""
    return [prefix + each.name for each in table.columns if each.kind is not ColumnType.BYTES]
