"""A snapshot: the catalog as one manifest says it was, read only and for ever the same."""

from collections.abc import Iterator
from datetime import datetime
from typing import TypeVar

from arco.catalog.files import Files
from arco.catalog.lookup import Lookup
from arco.catalog.manifest import BaseIndex, FileRef, Manifest, read_manifest
from arco.catalog.model import AnyRow
from arco.catalog.shelf import Shelf
from arco.fold.table import StateTable
from arco.storage.entry import Entry

R = TypeVar("R", bound=AnyRow)

NOTHING = BaseIndex(tables={})


class Snapshot(Lookup):
    """One manifest, and the files it names. Number -1 is the state before the first."""

    def __init__(self, files: Files, entry: Entry | None) -> None:
        self._files = files
        self.entry = entry
        self.manifest: Manifest | None = None if entry is None else read_manifest(entry)
        self.number = -1 if entry is None else entry.number
        self.sha256 = "" if entry is None else entry.sha256()
        self.created_at: datetime | None = None if entry is None else entry.record.created_at

    async def shelf(self, table: StateTable, value: str, kind: type[R]) -> Shelf[R]:  # noqa: ARG002
        return Shelf(await self._files.parts(table, await self._refs(table, value)))

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
