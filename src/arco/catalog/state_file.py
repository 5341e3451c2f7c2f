"""RowState files: the Parquet that manifests name, as Arrow in memory."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.catalog.manifest import FileRef, read_named
from arco.catalog.model import ROWS, AnyRow, from_columns
from arco.core import json
from arco.core.errors import Corrupt, Unsupported
from arco.fold.fold import conform
from arco.fold.table import StateTable
from arco.fold.tier1 import COMMIT, MOVED
from arco.storage.store import Store

# A small file is decoded at once; a large one in a thread, so that others are served meanwhile.
_SMALL_BYTES = 32_768


async def read_rows(
    store: Store, table: StateTable, ref: FileRef, *, whole: bool = False, raw: bytes | None = None
) -> pa.Table:
    """The rows of a file with the table's columns as they are today, or `Corrupt`.

    Whoever writes them anew wants them `whole`: a column that this version does not know is refused then,
    as it would be lost. Whoever has the bytes already hands them in as `raw`.
    """
    if raw is None:
        raw = await read_named(store, ref)
    if len(raw) <= _SMALL_BYTES:
        return _decode_parquet(table, ref, raw, whole=whole)
    large = raw
    return await store.runtime.tasks.in_thread(
        lambda: _decode_parquet(table, ref, large, whole=whole)
    )


def _decode_parquet(table: StateTable, ref: FileRef, raw: bytes, *, whole: bool) -> pa.Table:
    try:
        # Straight from memory and in this thread: reading ahead would only hand bytes to other threads.
        file = pq.ParquetFile(pa.BufferReader(raw), pre_buffer=False)
        read = file.read(use_threads=False)
        rows = conform(table, read)
    except (pa.ArrowException, OSError) as problem:
        raise Corrupt(f"{ref.path} is not a Parquet file of {table.name}") from problem
    unknown = set(read.column_names) - set(table.schema.names)
    if whole and unknown:
        raise Unsupported(
            f"{ref.path} has columns of a newer Arco, {sorted(unknown)}: update this one"
        )
    if rows.num_rows != ref.rows:
        raise Corrupt(f"{ref.path} has {rows.num_rows} rows, and its manifest says {ref.rows}")
    return rows.combine_chunks()


KeyValue = str | int
SortKey = tuple[KeyValue, ...]

_FEW = 65_536  # more rows than a commit has
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS_KEPT = 64


class RowState(Enum):
    """Whether a row stands for something that is there."""

    LIVE = "live"
    DROPPED = "dropped"
    MOVED = "moved"  # it is in another bucket now


class RowSource(Protocol):
    """Rows of one table, by their index."""

    def find(self, key: SortKey) -> int | None:
        """The row with this key."""

    def span(self, parent: SortKey, after: KeyValue | None = None) -> range:
        """The rows of a parent, those above a label if one is given."""

    def exactly(self, parent: SortKey, label: KeyValue) -> range:
        """The rows at a place; several may have been dropped there, one may live."""

    def key(self, at: int) -> SortKey:
        """The key of a row."""

    def label(self, at: int) -> KeyValue:
        """The label of a row."""

    def state(self, at: int) -> RowState:
        """Whether the row is live."""

    def commit(self, at: int) -> int:
        """The number of the manifest that committed the row."""

    def rows(self, at: Sequence[int]) -> list[AnyRow]:
        """The rows themselves."""


class StateFile:
    """The rows of one file, still as Arrow."""

    def __init__(self, table: StateTable, rows: pa.Table) -> None:
        self._table = table
        self._rows = rows
        self._kind = ROWS[table.name]
        self._sort = [_chunk(rows, name) for name in table.sort]
        self._keys = [_chunk(rows, name) for name in table.key]
        self._commit = _chunk(rows, COMMIT)
        shown = [name for name in rows.column_names if not name.startswith("_") or name == MOVED]
        self._shown = {name: _chunk(rows, name) for name in shown}
        self._kept: dict[int, AnyRow] = {}
        self._dropped = self._shown.get("dropped_at")
        self._moved = self._shown.get(MOVED)

    @property
    def size_bytes(self) -> int:
        return int(self._rows.nbytes)

    def find(self, key: SortKey) -> int | None:
        if self._table.key == self._table.sort:
            at = bisect_left(self._all, key, key=self._place)
            return at if at < len(self._all) and self._place(at) == key else None
        if self._rows.num_rows <= _FEW:
            return self._by_key.get(key)
        # A dict of a million keys would take a second to make and a lot of room; a scan takes little.
        last = self._keys[-1]
        for at in pc.indices_nonzero(pc.equal(last, pa.scalar(key[-1], last.type))).to_pylist():
            if self.key(at) == key:
                return int(at)
        return None

    def span(self, parent: SortKey, after: KeyValue | None = None) -> range:
        depth = len(parent)
        low = (
            bisect_left(self._all, parent, key=lambda at: self._place(at)[:depth])
            if after is None
            else bisect_right(self._all, (*parent, after), key=self._place)
        )
        high = bisect_right(self._all, parent, lo=low, key=lambda at: self._place(at)[:depth])
        return range(low, high)

    def exactly(self, parent: SortKey, label: KeyValue) -> range:
        place = (*parent, label)
        low = bisect_left(self._all, place, key=self._place)
        return range(low, bisect_right(self._all, place, lo=low, key=self._place))

    def key(self, at: int) -> SortKey:
        return tuple(column[at].as_py() for column in self._keys)

    def label(self, at: int) -> KeyValue:
        value: KeyValue = self._sort[-1][at].as_py()
        return value

    def state(self, at: int) -> RowState:
        if self._moved is not None and self._moved[at].as_py():
            return RowState.MOVED
        dropped = self._dropped is not None and self._dropped[at].is_valid
        return RowState.DROPPED if dropped else RowState.LIVE

    def commit(self, at: int) -> int:
        return int(self._commit[at].as_py())

    def rows(self, at: Sequence[int]) -> list[AnyRow]:
        if len(at) == 1:
            return [self._row(at[0])]
        wanted = pa.array(at, pa.int64())
        return self._decode([column.take(wanted) for column in self._shown.values()])

    def _row(self, at: int) -> AnyRow:
        """One row; a few stay decoded, because every request asks for its catalog and its schema."""
        row = self._kept.get(at)
        if row is None:
            [row] = self._decode([column.slice(at, 1) for column in self._shown.values()])
            if len(self._kept) == _ROWS_KEPT:
                self._kept.clear()
            self._kept[at] = row
        return row

    def _decode(self, columns: list[pa.Array]) -> list[AnyRow]:
        return [
            from_columns(self._kind, dict(zip(self._shown, values, strict=True)))
            for values in zip(*map(_plain, columns), strict=True)
        ]

    @cached_property
    def _all(self) -> range:
        return range(self._rows.num_rows)

    @cached_property
    def _by_key(self) -> dict[SortKey, int]:
        columns = [column.to_pylist() for column in self._keys]
        return {key: at for at, key in enumerate(zip(*columns, strict=True))}

    def _place(self, at: int) -> SortKey:
        # A root schema has no parent; in the file nulls come first, as the empty text does here.
        values = (column[at].as_py() for column in self._sort)
        return tuple("" if value is None else value for value in values)


class DecidedRows:
    """Rows that this process has decided, before it has read, or needs to read, their file.

    `met` tells whether any question was answered with one of them: a refusal that rests on a row which
    is not yet published must wait until it is (P25).
    """

    def __init__(self, table: StateTable, commit: int, rows: Iterable[AnyRow] = ()) -> None:
        self._table = table
        self._commit = commit
        self._order: list[tuple[SortKey, SortKey]] = []  # place and key, sorted
        self._by_key: dict[SortKey, AnyRow] = {}
        self.was_read = False
        for row in rows:
            self.add(row)

    @property
    def size_bytes(self) -> int:
        # As text, and as much again three times for the objects that Python makes of it.
        return sum(1_000 + 4 * len(json.encode(row)) for row in self._by_key.values())

    def add(self, row: AnyRow) -> None:
        """Put a row in, over the one with the same key."""
        key = _values(row, self._table.key)
        old = self._by_key.get(key)
        if old is not None:
            del self._order[self._index(old, key)]
        self._by_key[key] = row
        insort(self._order, (_place_of(row, self._table), key))

    def holds(self, row: AnyRow) -> bool:
        """Whether a row with the same key is here; asking this rests nothing on it."""
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
        place = (*parent, label)
        low = bisect_left(self._order, place, key=lambda each: each[0])
        return self._mark_read(
            low, bisect_right(self._order, place, lo=low, key=lambda each: each[0])
        )

    def key(self, at: int) -> SortKey:
        return self._order[at][1]

    def label(self, at: int) -> KeyValue:
        return self._order[at][0][-1]

    def state(self, at: int) -> RowState:
        row = self._by_key[self.key(at)]
        if getattr(row, "moved", False):
            return RowState.MOVED
        return RowState.LIVE if getattr(row, "dropped_at", None) is None else RowState.DROPPED

    def commit(self, at: int) -> int:  # noqa: ARG002 - all rows came together
        return self._commit

    def rows(self, at: Sequence[int]) -> list[AnyRow]:
        return [self._by_key[self.key(each)] for each in at]

    def _index(self, row: AnyRow, key: SortKey) -> int:
        return bisect_left(self._order, (_place_of(row, self._table), key))

    def _mark_read(self, low: int, high: int) -> range:
        self.was_read = self.was_read or high > low
        return range(low, high)


def _values(row: AnyRow, names: tuple[str, ...]) -> SortKey:
    return tuple(getattr(row, name) for name in names)


def _place_of(row: AnyRow, table: StateTable) -> SortKey:
    return tuple("" if getattr(row, name) is None else getattr(row, name) for name in table.sort)


def _chunk(rows: pa.Table, name: str) -> pa.Array:
    """A column in one piece: finding a row among pieces would cost a search of its own."""
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _plain(values: pa.Array) -> list[Any]:
    """The values of a column; times by way of numbers, which is ten times as fast as one by one."""
    if pa.types.is_timestamp(values.type):
        moments = values.cast(pa.int64()).to_pylist()
        return [None if us is None else _EPOCH + timedelta(microseconds=us) for us in moments]
    plain: list[Any] = values.to_pylist()
    if pa.types.is_map(values.type):
        return [None if pairs is None else dict(pairs) for pairs in plain]
    return plain
