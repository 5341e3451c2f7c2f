"""The rows of state tables: decoding of state files, merging of base and tail, and a cache."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from arco.core.errors import Corrupt
from arco.fold import parquet_file
from arco.fold.fold import conform, fold
from arco.fold.table import StateTable
from arco.fold.tier1 import MOVED

_MAX_TABLES = 8_192


@dataclass(frozen=True)
class FileRows:
    """The rows of one file."""

    rows: pa.Table
    tail: bool
    buckets: frozenset[int]


def decode(
    table: StateTable,
    raw: bytes,
    rows: int,
    columns: Sequence[str] = (),
    *,
    is_combined: bool = False,
) -> pa.Table:
    """The rows of a file with the current columns of the table, or `Corrupt`.

    If `columns` are given, the others may be null.
    """
    try:
        decoded = conform(
            table, parquet_file.decode(table, raw, is_combined=is_combined, columns=columns)
        )
    except (pa.ArrowException, OSError) as problem:
        raise Corrupt(f"a file of {table.name} is not Parquet of that table") from problem
    if decoded.num_rows != rows:
        raise Corrupt(
            f"a file of {table.name} has {decoded.num_rows} rows, and its manifest says {rows}"
        )
    return decoded


def merge(table: StateTable, files: Sequence[FileRows]) -> pa.Table:
    """One row for each key, without those that have moved to another bucket.

    A base file was folded when it was written, so only its rows with keys of the tail are folded again.
    """
    empty = table.schema.empty_table()
    tail = pa.concat_tables([empty, *(file.rows for file in files if file.tail)])
    tail_buckets = frozenset[int]().union(*(file.buckets for file in files if file.tail))
    folded, stale = [], [tail]
    for file in files:
        if file.tail:
            continue
        if not file.buckets & tail_buckets:
            folded.append(file.rows)
            continue
        touched = _touched(table, file.rows, tail)
        stale.append(file.rows.filter(touched))
        folded.append(file.rows.filter(pc.invert(touched)))
    rows = pa.concat_tables([*folded, fold(table, pa.concat_tables(stale))])
    if MOVED in rows.column_names:
        rows = rows.filter(pc.invert(pc.fill_null(rows.column(MOVED), False)))
    return rows


def _touched(table: StateTable, rows: pa.Table, tail: pa.Table) -> pa.ChunkedArray:
    """Which rows may have a key of the tail: each key column has a value of the tail."""
    parts = [
        pc.is_in(rows.column(name), value_set=tail.column(name).combine_chunks())
        for name in table.key
    ]
    return reduce(pc.and_, parts)


class TableCache:
    """A cache of tables by key, least recently used first, bounded by bytes and number.

    It evicts only in `trim`, so that no table is removed while a query needs it; `core.lru_cache.LruCache`
    would evict in `put`.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._used_bytes = 0
        self._tables: OrderedDict[str, pa.Table] = OrderedDict()

    def get(self, key: str) -> pa.Table | None:
        """The cached table, if any."""
        table = self._tables.get(key)
        if table is not None:
            self._tables.move_to_end(key)
        return table

    def put(self, key: str, table: pa.Table) -> pa.Table:
        """Add or replace a table."""
        replaced = self._tables.get(key)
        self._used_bytes += table.nbytes - (0 if replaced is None else replaced.nbytes)
        self._tables[key] = table
        self._tables.move_to_end(key)
        return table

    def trim(self) -> None:
        """Evict the least recently used tables until the rest fits."""
        while self._used_bytes > self._max_bytes or len(self._tables) > _MAX_TABLES:
            _, table = self._tables.popitem(last=False)
            self._used_bytes -= table.nbytes
