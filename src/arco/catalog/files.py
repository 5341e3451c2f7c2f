"""Files that manifests name, kept in memory: they never change, so a path is all there is to ask for.

What is asked for twice at once is read once. The least used files leave when the room is full.
"""

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

from arco.catalog.manifest import BaseIndex, FileRef, Ref, read_index
from arco.catalog.part import DecidedPart, FilePart, Part
from arco.catalog.state_file import read_rows
from arco.core.tasks import Task
from arco.fold.table import StateTable
from arco.storage.store import Store

T = TypeVar("T")

DEFAULT_ROOM_BYTES = 512 * 1024 * 1024

_INDEX_BYTES_A_FILE = 500


class Files:
    """A cache over one store. Keyed by hash, not by path: a restored bucket may reuse paths (P29)."""

    def __init__(self, store: Store, *, room_bytes: int = DEFAULT_ROOM_BYTES) -> None:
        self._store = store
        self._room_bytes = room_bytes
        self._used_bytes = 0
        self._kept: OrderedDict[str, tuple[object, int]] = OrderedDict()
        self._coming: dict[str, Task[Any]] = {}

    async def parts(self, table: StateTable, refs: Sequence[FileRef]) -> list[Part]:
        """The rows of files of one table, all read at once."""
        if all(ref.sha256 in self._kept for ref in refs):
            return [await self._part(table, ref) for ref in refs]
        return await self._store.runtime.tasks.gather(*(self._part(table, ref) for ref in refs))

    async def index(self, ref: Ref) -> BaseIndex:
        """A base index."""
        return cast("BaseIndex", await self._once(ref.sha256, lambda: self._read_index(ref)))

    def keep_decided(self, ref: FileRef, part: DecidedPart) -> None:
        """Keep rows that this process has decided itself, so that their file need not be read."""
        self._keep(ref.sha256, part, part.size_bytes)

    async def _part(self, table: StateTable, ref: FileRef) -> Part:
        return cast("Part", await self._once(ref.sha256, lambda: self._read_part(table, ref)))

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

    async def _read_part(self, table: StateTable, ref: FileRef) -> Part:
        part = FilePart(table, await read_rows(self._store, table, ref))
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
