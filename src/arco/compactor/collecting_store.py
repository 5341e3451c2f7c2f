"""A store that counts what a collection deletes, and in a dry run only simulates it.

A dry run is the same code on this store: objects that it would delete are hidden from it, and objects that
it would create are visible to it alone. So it cannot differ from the real run. Only the hint by which the
clock of the store is read is written in a dry run too.
"""

from collections.abc import AsyncIterator, Callable, Iterable

import msgspec

from arco.core.errors import Conflict, NotFound
from arco.core.lru_cache import LruCache
from arco.storage.backend import Meta
from arco.storage.store import Store

Progress = Callable[[int, int], None]  # done, and the total so far


class ProgressCounter:
    """Counts steps, and reports each change."""

    def __init__(self, report: Progress | None) -> None:
        self._report = report
        self._done = 0
        self._total = 0

    def expect(self, more: int) -> None:
        """Add to the total."""
        self._total += more
        self._changed()

    def step(self) -> None:
        """One step is done."""
        self._done += 1
        self._changed()

    def _changed(self) -> None:
        if self._report is not None:
            self._report(self._done, self._total)


_REMEMBERED = 10_000


class ObjectCount(msgspec.Struct, kw_only=True):
    """A number of objects and their total size."""

    objects: int = 0
    bytes: int = 0

    def add(self, meta: Meta) -> None:
        """Count one object."""
        self.objects += 1
        self.bytes += meta.size_bytes


def add_object_counts(counts: Iterable[ObjectCount]) -> ObjectCount:
    """The sum of several counts."""
    total = ObjectCount()
    for count in counts:
        total.objects += count.objects
        total.bytes += count.bytes
    return total


class CollectingStore(Store):
    """Wraps a store and counts deletions by the top-level folder of their paths."""

    def __init__(self, inner: Store, progress: ProgressCounter, *, dry_run: bool) -> None:
        self._inner = inner
        self._progress = progress
        self._dry_run = dry_run
        self.runtime = inner.runtime
        self.scope = inner.scope
        self.role = inner.role
        self.deleted: dict[str, ObjectCount] = {}
        self.created: list[Meta] = []
        self._hidden: set[str] = set()
        self._simulated: dict[str, bytes] = {}
        self._metas = LruCache[str, Meta](_REMEMBERED)  # saves a request for their sizes

    async def get(self, key: str, *, size_bytes: int = 0) -> bytes:
        if key in self._simulated:
            return self._simulated[key]
        self._refuse_hidden(key)
        return await self._inner.get(key, size_bytes=size_bytes)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        if key in self._simulated:
            return self._simulated[key][start : start + length]
        self._refuse_hidden(key)
        return await self._inner.get_range(key, start, length)

    async def head(self, key: str) -> Meta:
        if key in self._simulated:
            return Meta(key, len(self._simulated[key]), self.runtime.clock.now_ms())
        self._refuse_hidden(key)
        return await self._inner.head(key)

    async def create(self, key: str, body: bytes) -> None:
        if self._dry_run:
            if await self.find(key) is not None:
                raise Conflict(f"{key} was created by another")
            self._simulated[key] = body
        else:
            await self._inner.create(key, body)
        self.created.append(Meta(key, len(body), self.runtime.clock.now_ms()))

    async def put_hint(self, key: str, body: bytes) -> bool:
        return await self._inner.put_hint(key, body)

    async def delete(self, key: str) -> None:
        meta = self._metas.pop(key)
        try:
            meta = meta or await self.head(key)
        except NotFound:
            return  # another collection deleted it
        if self._dry_run:
            self._hidden.add(key)
        else:
            await self._inner.delete(key)
        self.deleted.setdefault(key.partition("/")[0], ObjectCount()).add(meta)
        self._progress.step()

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        async for meta in self._inner.list(prefix, after):
            if meta.key in self._hidden:
                continue
            self._metas.put(meta.key, meta)
            yield meta

    def _refuse_hidden(self, key: str) -> None:
        if key in self._hidden:
            raise NotFound(f"there is no {key}")
