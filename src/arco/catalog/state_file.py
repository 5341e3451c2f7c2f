"""State files: the Parquet files that manifests name, read into memory and searched without a scan.

`StateFile` holds the rows of one published file, `DecidedRows` rows that have no file yet. Both are sorted
by the sort columns of their table, that is by parent and label, and implement `RowSource`. Rows are decoded
only when they are requested: a file may hold a million.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from arco.catalog.manifest import FileRef, read_named
from arco.catalog.model import ROWS, AnyRow, from_columns
from arco.core import json
from arco.core.errors import Corrupt, Unsupported
from arco.core.tasks import Tasks
from arco.fold.fold import conform
from arco.fold.parquet_file import decode
from arco.fold.table import StateTable
from arco.fold.tier1 import COMMIT, MOVED
from arco.storage.store import Store

# A small file is decoded at once; a large one in a thread, so that the event loop stays free.
_SMALL_BYTES = 32_768
_SMALL_ROWS = 65_536  # more rows than a commit has
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DECODED_ROWS = 64

KeyValue = str | int
SortKey = tuple[KeyValue, ...]


async def read_rows(
    store: Store,
    table: StateTable,
    ref: FileRef,
    *,
    refuse_unknown_columns: bool = False,
) -> pa.Table:
    """The rows of a file with the columns that the table has in this version of Arco, or `Corrupt`.

    A caller that rewrites the rows passes `refuse_unknown_columns`: it would lose a column that this
    version does not know.
    """
    raw = await read_named(store, ref)
    return await decode_rows(
        store.runtime.tasks, table, ref, raw, refuse_unknown_columns=refuse_unknown_columns
    )


async def decode_rows(
    tasks: Tasks,
    table: StateTable,
    ref: FileRef,
    raw: bytes,
    *,
    refuse_unknown_columns: bool = False,
) -> pa.Table:
    """`read_rows` for a caller that has the bytes of the file."""
    if len(raw) <= _SMALL_BYTES:
        return _decode_parquet(table, ref, raw, refuse_unknown_columns=refuse_unknown_columns)
    return await tasks.in_thread(
        lambda: _decode_parquet(table, ref, raw, refuse_unknown_columns=refuse_unknown_columns)
    )


def _decode_parquet(
    table: StateTable, ref: FileRef, raw: bytes, *, refuse_unknown_columns: bool
) -> pa.Table:
    try:
        stored = decode(table, raw, is_combined=ref.is_combined)
        rows = conform(table, stored).combine_chunks()
    except (pa.ArrowException, OSError) as problem:
        raise Corrupt(f"{ref.path} is not a Parquet file of {table.name}") from problem
    unknown = set(stored.column_names) - set(table.schema.names)
    if refuse_unknown_columns and unknown:
        raise Unsupported(
            f"{ref.path} was written by a newer Arco and has the unknown columns {sorted(unknown)}; "
            "upgrade this process"
        )
    if rows.num_rows != ref.rows:
        raise Corrupt(f"{ref.path} has {rows.num_rows} rows, and its manifest says {ref.rows}")
    return rows


class RowState(Enum):
    """Whether the object of a row is live."""

    LIVE = "live"
    DROPPED = "dropped"
    MOVED = "moved"  # it is in another bucket now


class RowSource(Protocol):
    """Rows of one table in sort order, addressed by their index."""

    def find(self, key: SortKey) -> int | None:
        """The index of the row with this key."""

    def span(self, parent: SortKey, after: KeyValue | None = None) -> range:
        """The rows of a parent; with `after` those with a greater label."""

    def exactly(self, parent: SortKey, label: KeyValue) -> range:
        """The rows of a parent with a label: any number of dropped ones, and at most one live."""

    def key(self, index: int) -> SortKey:
        """The key of a row."""

    def label(self, index: int) -> KeyValue:
        """The label of a row: its last sort column."""

    def state(self, index: int) -> RowState:
        """Whether the row is live."""

    def commit(self, index: int) -> int:
        """The number of the manifest that committed the row."""

    def rows(self, indexes: Sequence[int]) -> list[AnyRow]:
        """The decoded rows."""


class StateFile:
    """The rows of one published file, as Arrow."""

    def __init__(self, table: StateTable, rows: pa.Table) -> None:
        self._table = table
        self._rows = rows
        self._kind = ROWS[table.name]
        self._sort = [_chunk(rows, name) for name in table.sort]
        self._keys = [_chunk(rows, name) for name in table.key]
        self._commit = _chunk(rows, COMMIT)
        column_names = [
            name for name in rows.column_names if not name.startswith("_") or name == MOVED
        ]
        self._columns = {name: _chunk(rows, name) for name in column_names}
        self._decoded: dict[int, AnyRow] = {}
        self._dropped = self._columns.get("dropped_at")
        self._moved = self._columns.get(MOVED)

    @property
    def size_bytes(self) -> int:
        return int(self._rows.nbytes)

    def find(self, key: SortKey) -> int | None:
        if self._table.key == self._table.sort:
            index = bisect_left(self._all, key, key=self._sort_key)
            return index if index < len(self._all) and self._sort_key(index) == key else None
        if self._rows.num_rows <= _SMALL_ROWS:
            return self._by_key.get(key)
        # A dict of a million keys would take a second to build and much memory; a scan is cheap.
        last_key_column = self._keys[-1]
        matches = pc.equal(last_key_column, pa.scalar(key[-1], last_key_column.type))
        for index in pc.indices_nonzero(matches).to_pylist():
            if self.key(index) == key:
                return int(index)
        return None

    def span(self, parent: SortKey, after: KeyValue | None = None) -> range:
        depth = len(parent)
        low = (
            bisect_left(self._all, parent, key=lambda index: self._sort_key(index)[:depth])
            if after is None
            else bisect_right(self._all, (*parent, after), key=self._sort_key)
        )
        high = bisect_right(
            self._all, parent, lo=low, key=lambda index: self._sort_key(index)[:depth]
        )
        return range(low, high)

    def exactly(self, parent: SortKey, label: KeyValue) -> range:
        sort_key = (*parent, label)
        low = bisect_left(self._all, sort_key, key=self._sort_key)
        return range(low, bisect_right(self._all, sort_key, lo=low, key=self._sort_key))

    def key(self, index: int) -> SortKey:
        return tuple(column[index].as_py() for column in self._keys)

    def label(self, index: int) -> KeyValue:
        value: KeyValue = self._sort[-1][index].as_py()
        return value

    def state(self, index: int) -> RowState:
        if self._moved is not None and self._moved[index].as_py():
            return RowState.MOVED
        dropped = self._dropped is not None and self._dropped[index].is_valid
        return RowState.DROPPED if dropped else RowState.LIVE

    def commit(self, index: int) -> int:
        return int(self._commit[index].as_py())

    def rows(self, indexes: Sequence[int]) -> list[AnyRow]:
        if len(indexes) == 1:
            return [self._row(indexes[0])]
        positions = pa.array(indexes, pa.int64())
        return self._decode([column.take(positions) for column in self._columns.values()])

    def _row(self, index: int) -> AnyRow:
        """One row; a few stay decoded, because every request reads its catalog and its schema."""
        row = self._decoded.get(index)
        if row is None:
            [row] = self._decode([column.slice(index, 1) for column in self._columns.values()])
            if len(self._decoded) == _DECODED_ROWS:
                self._decoded.clear()
            self._decoded[index] = row
        return row

    def _decode(self, columns: list[pa.Array]) -> list[AnyRow]:
        return [
            from_columns(self._kind, dict(zip(self._columns, values, strict=True)))
            for values in zip(*map(_plain, columns), strict=True)
        ]

    @cached_property
    def _all(self) -> range:
        return range(self._rows.num_rows)

    @cached_property
    def _by_key(self) -> dict[SortKey, int]:
        columns = [column.to_pylist() for column in self._keys]
        return {key: index for index, key in enumerate(zip(*columns, strict=True))}

    def _sort_key(self, index: int) -> SortKey:
        # A root schema has no parent: nulls sort first in the file, as the empty text does here.
        values = (column[index].as_py() for column in self._sort)
        return tuple("" if value is None else value for value in values)


class DecidedRows:
    """Rows that this process has decided, so that it need not read their file.

    `was_read` says whether a search returned one of them: a refusal that depends on a row which is not
    published yet must wait until it is (P25).
    """

    def __init__(self, table: StateTable, commit: int, rows: Iterable[AnyRow] = ()) -> None:
        self._table = table
        self._commit = commit
        self._order: list[tuple[SortKey, SortKey]] = []  # sort key and key, in order
        self._by_key: dict[SortKey, AnyRow] = {}
        self.was_read = False
        for row in rows:
            self.add(row)

    @property
    def size_bytes(self) -> int:
        # An estimate: the Python objects of a row take about four times the bytes of its JSON.
        return sum(1_000 + 4 * len(json.encode(row)) for row in self._by_key.values())

    def add(self, row: AnyRow) -> None:
        """Add a row; it replaces one with the same key."""
        key = _values(row, self._table.key)
        old = self._by_key.get(key)
        if old is not None:
            del self._order[self._index(old, key)]
        self._by_key[key] = row
        insort(self._order, (_sort_key_of(row, self._table), key))

    def holds(self, row: AnyRow) -> bool:
        """Whether a row with the same key was decided; this does not count as a read."""
        return _values(row, self._table.key) in self._by_key

    def find(self, key: SortKey) -> int | None:
        row = self._by_key.get(key)
        if row is None:
            return None
        self.was_read = True
        return self._index(row, key)

    def span(self, parent: SortKey, after: KeyValue | None = None) -> range:
        depth = len(parent)
        low = (
            bisect_left(self._order, parent, key=lambda each: each[0][:depth])
            if after is None
            else bisect_right(self._order, (*parent, after), key=lambda each: each[0])
        )
        high = bisect_right(self._order, parent, lo=low, key=lambda each: each[0][:depth])
        return self._mark_read(low, high)

    def exactly(self, parent: SortKey, label: KeyValue) -> range:
        sort_key = (*parent, label)
        low = bisect_left(self._order, sort_key, key=lambda each: each[0])
        return self._mark_read(
            low, bisect_right(self._order, sort_key, lo=low, key=lambda each: each[0])
        )

    def key(self, index: int) -> SortKey:
        return self._order[index][1]

    def label(self, index: int) -> KeyValue:
        return self._order[index][0][-1]

    def state(self, index: int) -> RowState:
        row = self._by_key[self.key(index)]
        if getattr(row, "moved", False):
            return RowState.MOVED
        return RowState.LIVE if getattr(row, "dropped_at", None) is None else RowState.DROPPED

    def commit(self, index: int) -> int:  # noqa: ARG002 - all rows have one commit
        return self._commit

    def rows(self, indexes: Sequence[int]) -> list[AnyRow]:
        return [self._by_key[self.key(each)] for each in indexes]

    def _index(self, row: AnyRow, key: SortKey) -> int:
        return bisect_left(self._order, (_sort_key_of(row, self._table), key))

    def _mark_read(self, low: int, high: int) -> range:
        self.was_read = self.was_read or high > low
        return range(low, high)


def _values(row: AnyRow, names: tuple[str, ...]) -> SortKey:
    return tuple(getattr(row, name) for name in names)


def _sort_key_of(row: AnyRow, table: StateTable) -> SortKey:
    return tuple("" if getattr(row, name) is None else getattr(row, name) for name in table.sort)


def _chunk(rows: pa.Table, name: str) -> pa.Array:
    """A column as one chunk: indexing a chunked column searches for the chunk each time."""
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _plain(values: pa.Array) -> list[Any]:
    """The values of a column; times are converted from integers, which is ten times as fast."""
    if pa.types.is_timestamp(values.type):
        moments = values.cast(pa.int64()).to_pylist()
        return [None if us is None else _EPOCH + timedelta(microseconds=us) for us in moments]
    plain: list[Any] = values.to_pylist()
    if pa.types.is_map(values.type):
        return [None if pairs is None else dict(pairs) for pairs in plain]
    return plain
