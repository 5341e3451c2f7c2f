"""Snapshots: the immutable state of the catalog at one manifest, and the cache of its files.

The files that a manifest names never change, so the cache needs no invalidation. Concurrent reads of one
file share one request; the least recently used files leave when the cache is full.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

from arco.catalog.bucket import Bucket
from arco.catalog.lookup import Lookup
from arco.catalog.manifest import (
    BaseIndex,
    FileRef,
    Manifest,
    Ref,
    read_index,
    read_manifest,
    read_named,
)
from arco.catalog.model import AnyRow, TableFormat, TableRow
from arco.catalog.state_file import DecidedRows, RowSource, StateFile, decode_rows
from arco.core.lru_cache import LruCache
from arco.core.shared_task import SharedTasks
from arco.fold.table import StateTable
from arco.storage.entry import Entry
from arco.storage.store import Store

T = TypeVar("T")
R = TypeVar("R", bound=AnyRow)

DEFAULT_CACHE_BYTES = 512 * 1024 * 1024

_COMBINED_BYTES = 8 * 1024 * 1024
_INDEX_BYTES_A_FILE = 500
_NO_FILES = BaseIndex(tables={})
_TABLES_PER_READ = 100


class StateFileCache:
    """The files of one store, by hash and not by path: a restored store may reuse paths (P29)."""

    def __init__(self, store: Store, *, capacity_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._store = store
        self._cache = LruCache[str, tuple[object, int]](
            capacity_bytes, lambda each: each[1], keep_newest=True
        )
        self._reads = SharedTasks[str, object](store.runtime.tasks)
        # Each table of a combined file decodes its own rows, mostly soon after the first.
        self._combined = LruCache[str, bytes](_COMBINED_BYTES, len)
        self._combined_reads = SharedTasks[str, bytes](store.runtime.tasks)

    async def sources(self, table: StateTable, refs: Sequence[FileRef]) -> list[RowSource]:
        """The rows of files of one table, read in parallel."""
        if all(ref.rows_key(table.name) in self._cache for ref in refs):
            return [await self._source(table, ref) for ref in refs]
        return await self._store.runtime.tasks.gather(*(self._source(table, ref) for ref in refs))

    async def index(self, ref: Ref) -> BaseIndex:
        """A base index."""
        return cast("BaseIndex", await self._cached(ref.sha256, lambda: self._read_index(ref)))

    def keep_decided(self, table: StateTable, ref: FileRef, source: DecidedRows) -> None:
        """Keep rows that this process has decided itself, so that their file need not be read."""
        self._keep(ref.rows_key(table.name), source, source.size_bytes)

    async def _source(self, table: StateTable, ref: FileRef) -> RowSource:
        return cast(
            "RowSource",
            await self._cached(ref.rows_key(table.name), lambda: self._read_file(table, ref)),
        )

    async def _cached(self, key: str, read: Callable[[], Coroutine[Any, Any, object]]) -> object:
        cached = self._cache.get(key)
        if cached is not None:
            return cached[0]
        return await self._reads.run(key, read)

    async def _read_file(self, table: StateTable, ref: FileRef) -> RowSource:
        raw = await (self._read_combined(ref) if ref.is_combined else read_named(self._store, ref))
        source = StateFile(table, await decode_rows(self._store.runtime.tasks, table, ref, raw))
        self._keep(ref.rows_key(table.name), source, source.size_bytes)
        return source

    async def _read_combined(self, ref: FileRef) -> bytes:
        """The bytes of a combined file, read once for all its tables."""

        async def read() -> bytes:
            raw = await read_named(self._store, ref)
            self._combined.put(ref.sha256, raw)
            return raw

        raw = self._combined.get(ref.sha256)
        return await self._combined_reads.run(ref.sha256, read) if raw is None else raw

    async def _read_index(self, ref: Ref) -> BaseIndex:
        index = await read_index(self._store, ref)
        files = sum(map(len, index.tables.values()))
        self._keep(ref.sha256, index, files * _INDEX_BYTES_A_FILE)
        return index

    def _keep(self, key: str, value: object, size_bytes: int) -> None:
        if key not in self._cache:
            self._cache.put(key, (value, size_bytes))


class Snapshot(Lookup):
    """The state of the catalog at one manifest; number -1 is the state before the first."""

    def __init__(self, files: StateFileCache, entry: Entry | None) -> None:
        self._files = files
        self.entry = entry
        self.manifest: Manifest | None = None if entry is None else read_manifest(entry)
        self.number = -1 if entry is None else entry.number
        self.sha256 = "" if entry is None else entry.sha256()
        self.created_at: datetime | None = None if entry is None else entry.record.created_at

    async def bucket(self, table: StateTable, value: str, kind: type[R]) -> Bucket[R]:  # noqa: ARG002
        return Bucket(await self._files.sources(table, await self._refs(table, value)))

    async def index(self) -> BaseIndex:
        """The base files of the bucketed tables."""
        ref = None if self.manifest is None else self.manifest.base.index
        return _NO_FILES if ref is None else await self._files.index(ref)

    async def files_of(self, table: StateTable) -> list[FileRef]:
        """Every file that holds rows of a table, newest first."""
        buckets = (await self.index()).tables.get(table.name, {})
        return [*self._tail(table), *self._unbucketed(table), *buckets.values()]

    def _tail(self, table: StateTable) -> Iterator[FileRef]:
        if self.manifest is not None:
            yield from reversed(self.manifest.tail.get(table.name, ()))

    def _unbucketed(self, table: StateTable) -> Iterator[FileRef]:
        if self.manifest is not None and table.name in self.manifest.base.unbucketed:
            yield self.manifest.base.unbucketed[table.name]

    async def _refs(self, table: StateTable, value: str) -> list[FileRef]:
        """The files that may hold rows with a value in the bucket's column, newest first."""
        if table.bucket is None:
            return [*self._tail(table), *self._unbucketed(table)]
        bucket = table.bucket_of(value)
        refs = [ref for ref in self._tail(table) if bucket in ref.buckets]
        base = (await self.index()).tables.get(table.name, {}).get(str(bucket))
        refs += [] if base is None else [base]
        if table.bucket.column != table.sort[0]:
            return refs
        return [ref for ref in refs if ref.low[0] <= value <= ref.high[0]]


async def list_tables(
    snapshot: Snapshot, kind: TableFormat, *, dropped: bool = False
) -> AsyncIterator[TableRow]:
    """All live tables and views of a format, or all dropped ones, a few rows at a time."""
    for catalog in await snapshot.catalogs():
        async for row in _in_catalog(snapshot, catalog.row.catalog_id, dropped=dropped):
            if row.format is kind:
                yield row


async def _in_catalog(
    snapshot: Snapshot, catalog_id: str, *, dropped: bool
) -> AsyncIterator[TableRow]:
    parent_ids: list[str | None] = [None]
    while parent_ids:
        for schema in await snapshot.schemas(catalog_id, parent_ids.pop()):
            parent_ids.append(schema.row.schema_id)
            async for row in _in_schema(snapshot, schema.row.schema_id, dropped=dropped):
                yield row


async def _in_schema(
    snapshot: Snapshot, schema_id: str, *, dropped: bool
) -> AsyncIterator[TableRow]:
    after: str | None = None
    after_id: str | None = None
    while True:
        tables = await snapshot.tables(
            schema_id, after=after, after_id=after_id, limit=_TABLES_PER_READ, dropped=dropped
        )
        for table in tables:
            yield table.row
        if len(tables) < _TABLES_PER_READ:
            return
        after = tables[-1].row.name
        after_id = tables[-1].row.table_id if dropped else None
