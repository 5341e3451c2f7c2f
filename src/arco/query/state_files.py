"""State: the rows of one table of state, made of the files that a manifest names."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.core.errors import Corrupt
from arco.fold.fold import conform, fold
from arco.fold.table import StateTable
from arco.fold.tier1 import MOVED


@dataclass(frozen=True)
class FileRows:
    """The rows of one file."""

    rows: pa.Table
    tail: bool
    buckets: frozenset[int]


def decode(table: StateTable, raw: bytes, rows: int, columns: Sequence[str] = ()) -> pa.Table:
    """The rows of a file with the table's columns as they are today, or `Corrupt`.

    If some columns are named, the others are null.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(raw), pre_buffer=False)
        found = conform(table, file.read(columns=list(columns) or None, use_threads=False))
    except (pa.ArrowException, OSError) as problem:
        raise Corrupt(f"a file of {table.name} is not Parquet of that table") from problem
    if found.num_rows != rows:
        raise Corrupt(
            f"a file of {table.name} has {found.num_rows} rows, and its manifest says {rows}"
        )
    return found


def merge(table: StateTable, pieces: Sequence[FileRows]) -> pa.Table:
    """One row for each key, without those that have moved to another bucket.

    A base file was folded when it was written, so of those that the tail has news for only the rows with
    such keys are folded again, and of the others none.
    """
    empty = table.schema.empty_table()
    tail = pa.concat_tables([empty, *(piece.rows for piece in pieces if piece.tail)])
    news = frozenset[int]().union(*(piece.buckets for piece in pieces if piece.tail))
    done, stale = [], [tail]
    for piece in pieces:
        if piece.tail:
            continue
        if not piece.buckets & news:
            done.append(piece.rows)
            continue
        touched = _touched(table, piece.rows, tail)
        stale.append(piece.rows.filter(touched))
        done.append(piece.rows.filter(pc.invert(touched)))
    rows = pa.concat_tables([*done, fold(table, pa.concat_tables(stale))])
    if MOVED in rows.column_names:
        rows = rows.filter(pc.invert(pc.fill_null(rows.column(MOVED), False)))
    return rows


def _touched(table: StateTable, rows: pa.Table, news: pa.Table) -> pa.ChunkedArray:
    """Which rows have a key that the news may have: each part of it is there, perhaps not all together."""
    parts = [
        pc.is_in(rows.column(name), value_set=news.column(name).combine_chunks())
        for name in table.key
    ]
    return reduce(pc.and_, parts)


_MOST = 8_192


class TableCache:
    """Holds everything until it is trimmed, so that nothing leaves while a query needs it."""

    def __init__(self, room_bytes: int) -> None:
        self._room_bytes = room_bytes
        self._used_bytes = 0
        self._tables: OrderedDict[str, pa.Table] = OrderedDict()

    def get(self, key: str) -> pa.Table | None:
        """The table under a key."""
        table = self._tables.get(key)
        if table is not None:
            self._tables.move_to_end(key)
        return table

    def put(self, key: str, table: pa.Table) -> pa.Table:
        """Hold a table."""
        known = self._tables.get(key)
        self._used_bytes += table.nbytes - (0 if known is None else known.nbytes)
        self._tables[key] = table
        self._tables.move_to_end(key)
        return table

    def trim(self) -> None:
        """Let go of the least used until the rest fits."""
        while self._used_bytes > self._room_bytes or len(self._tables) > _MOST:
            _, table = self._tables.popitem(last=False)
            self._used_bytes -= table.nbytes
