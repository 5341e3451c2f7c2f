"""A snapshot: the catalog as one manifest says it was, read only and for ever the same."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

from arco.catalog.bucket import Bucket
from arco.catalog.lookup import Lookup
from arco.catalog.manifest import BaseIndex, FileRef, Manifest, Ref, read_index, read_manifest
from arco.catalog.model import AnyRow, TableFormat, TableRow
from arco.catalog.state_file import DecidedRows, RowSource, StateFile, read_rows
from arco.core.tasks import Task
from arco.fold.table import StateTable
from arco.storage.link import Entry
from arco.storage.store import Store

T = TypeVar("T")
R = TypeVar("R", bound=AnyRow)

DEFAULT_ROOM_BYTES = 512 * 1024 * 1024

_INDEX_BYTES_A_FILE = 500


class StateFileCache:
    """A cache over one store. Keyed by hash, not by path: a restored bucket may reuse paths (P29)."""

    def __init__(self, store: Store, *, room_bytes: int = DEFAULT_ROOM_BYTES) -> None:
        self._store = store
        self._room_bytes = room_bytes
        self._used_bytes = 0
        self._kept: OrderedDict[str, tuple[object, int]] = OrderedDict()
        self._coming: dict[str, Task[Any]] = {}

    async def parts(self, table: StateTable, refs: Sequence[FileRef]) -> list[RowSource]:
        """The rows of files of one table, all read at once."""
        if all(ref.sha256 in self._kept for ref in refs):
            return [await self._part(table, ref) for ref in refs]
        return await self._store.runtime.tasks.gather(*(self._part(table, ref) for ref in refs))

    async def index(self, ref: Ref) -> BaseIndex:
        """A base index."""
        return cast("BaseIndex", await self._once(ref.sha256, lambda: self._read_index(ref)))

    def keep_decided(self, ref: FileRef, part: DecidedRows) -> None:
        """Keep rows that this process has decided itself, so that their file need not be read."""
        self._keep(ref.sha256, part, part.size_bytes)

    async def _part(self, table: StateTable, ref: FileRef) -> RowSource:
        return cast("RowSource", await self._once(ref.sha256, lambda: self._read_part(table, ref)))

    async def _once(self, key: str, read: Callable[[], Coroutine[Any, Any, object]]) -> object:
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept[0]
        coming = self._coming.get(key)
        if coming is None:
            coming = self._coming[key] = self._store.runtime.tasks.spawn(
                self._forgetting(key, read)
            )
        return await coming.wait()

    async def _forgetting(self, key: str, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            return await read()
        finally:
            self._coming.pop(key, None)

    async def _read_part(self, table: StateTable, ref: FileRef) -> RowSource:
        part = StateFile(table, await read_rows(self._store, table, ref))
        self._keep(ref.sha256, part, part.size_bytes)
        return part

    async def _read_index(self, ref: Ref) -> BaseIndex:
        index = await read_index(self._store, ref)
        files = sum(map(len, index.tables.values()))
        self._keep(ref.sha256, index, files * _INDEX_BYTES_A_FILE)
        return index

    def _keep(self, key: str, value: object, size_bytes: int) -> None:
        if key in self._kept:
            return
        self._kept[key] = (value, size_bytes)
        self._used_bytes += size_bytes
        while self._used_bytes > self._room_bytes and len(self._kept) > 1:
            _, (_, freed_bytes) = self._kept.popitem(last=False)
            self._used_bytes -= freed_bytes


NOTHING = BaseIndex(tables={})


class Snapshot(Lookup):
    """One manifest, and the files it names. Number -1 is the state before the first."""

    def __init__(self, files: StateFileCache, entry: Entry | None) -> None:
        self._files = files
        self.entry = entry
        self.manifest: Manifest | None = None if entry is None else read_manifest(entry)
        self.number = -1 if entry is None else entry.number
        self.sha256 = "" if entry is None else entry.sha256()
        self.created_at: datetime | None = None if entry is None else entry.link.created_at

    async def bucket(self, table: StateTable, value: str, kind: type[R]) -> Bucket[R]:  # noqa: ARG002
        return Bucket(await self._files.parts(table, await self._refs(table, value)))

    async def index(self) -> BaseIndex:
        """The base files of the bucketed tables."""
        ref = None if self.manifest is None else self.manifest.base.index
        return NOTHING if ref is None else await self._files.index(ref)

    async def files_of(self, table: StateTable) -> list[FileRef]:
        """Every file that holds rows of a table, newest first."""
        buckets = (await self.index()).tables.get(table.name, {})
        return [*self._tail(table), *self._whole(table), *buckets.values()]

    def _tail(self, table: StateTable) -> Iterator[FileRef]:
        if self.manifest is not None:
            yield from reversed(self.manifest.tail.get(table.name, ()))

    def _whole(self, table: StateTable) -> Iterator[FileRef]:
        if self.manifest is not None and table.name in self.manifest.base.whole:
            yield self.manifest.base.whole[table.name]

    async def _refs(self, table: StateTable, value: str) -> list[FileRef]:
        """The files that may hold rows with a value in the bucket's column, newest first."""
        if table.bucket is None:
            return [*self._tail(table), *self._whole(table)]
        bucket = table.bucket_of(value)
        refs = [ref for ref in self._tail(table) if bucket in ref.buckets]
        base = (await self.index()).tables.get(table.name, {}).get(str(bucket))
        refs += [] if base is None else [base]
        if table.bucket.column != table.sort[0]:
            return refs
        return [ref for ref in refs if ref.low[0] <= value <= ref.high[0]]


_AT_ONCE = 100


async def list_tables(
    snapshot: Snapshot, kind: TableFormat, *, dropped: bool = False
) -> AsyncIterator[TableRow]:
    """The rows of all tables and views of a format that are there, or of those that were dropped."""
    for catalog in await snapshot.catalogs():
        async for row in _in_catalog(snapshot, catalog.row.catalog_id, dropped=dropped):
            if row.format is kind:
                yield row


async def _in_catalog(
    snapshot: Snapshot, catalog_id: str, *, dropped: bool
) -> AsyncIterator[TableRow]:
    above: list[str | None] = [None]
    while above:
        for schema in await snapshot.schemas(catalog_id, above.pop()):
            above.append(schema.row.schema_id)
            async for row in _in_schema(snapshot, schema.row.schema_id, dropped=dropped):
                yield row


async def _in_schema(
    snapshot: Snapshot, schema_id: str, *, dropped: bool
) -> AsyncIterator[TableRow]:
    after: str | None = None
    behind: str | None = None
    while True:
        found = await snapshot.tables(
            schema_id, after=after, behind=behind, limit=_AT_ONCE, dropped=dropped
        )
        for each in found:
            yield each.row
        if len(found) < _AT_ONCE:
            return
        after = found[-1].row.name
        behind = found[-1].row.table_id if dropped else None
