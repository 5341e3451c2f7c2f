"""A janitor's handle that keeps count of what goes; in a rehearsal nothing goes, and all looks as if.

A rehearsal runs the very code of a collection over this handle: what it would delete is hidden, what it
would create is seen by itself alone. So a dry run cannot differ from what is then done. The one thing that
is written all the same is the hint by which the store's clock is read.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable

import msgspec

from arco.compactor.progress import ProgressCounter
from arco.core.errors import Conflict, NotFound
from arco.storage.backend import Meta
from arco.storage.store import Store

_REMEMBERED = 10_000


class ObjectCount(msgspec.Struct, kw_only=True):
    """How many objects, and how many bytes they are."""

    objects: int = 0
    bytes: int = 0

    def add(self, meta: Meta) -> None:
        """One more."""
        self.objects += 1
        self.bytes += meta.size_bytes


def add_object_counts(piles: Iterable[ObjectCount]) -> ObjectCount:
    """Several piles in one."""
    whole = ObjectCount()
    for pile in piles:
        whole.objects += pile.objects
        whole.bytes += pile.bytes
    return whole


class CollectingStore(Store):
    """Another handle, whose deletions are counted, by the first part of their paths."""

    def __init__(self, inner: Store, meter: ProgressCounter, *, rehearsed: bool) -> None:
        self._inner = inner
        self._meter = meter
        self._rehearsed = rehearsed
        self.runtime = inner.runtime
        self.scope = inner.scope
        self.role = inner.role
        self.gone: dict[str, ObjectCount] = {}
        self.made: list[Meta] = []
        self._hidden: set[str] = set()
        self._shown: dict[str, bytes] = {}
        self._listed: OrderedDict[str, Meta] = OrderedDict()  # spares a request for their sizes

    async def get(self, key: str, *, size_bytes: int = 0) -> bytes:
        if key in self._shown:
            return self._shown[key]
        self._refuse_hidden(key)
        return await self._inner.get(key, size_bytes=size_bytes)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        if key in self._shown:
            return self._shown[key][start : start + length]
        self._refuse_hidden(key)
        return await self._inner.get_range(key, start, length)

    async def head(self, key: str) -> Meta:
        if key in self._shown:
            return Meta(key, len(self._shown[key]), self.runtime.clock.now_ms())
        self._refuse_hidden(key)
        return await self._inner.head(key)

    async def create(self, key: str, body: bytes) -> None:
        if self._rehearsed:
            if await self.find(key) is not None:
                raise Conflict(f"{key} was created by another")
            self._shown[key] = body
        else:
            await self._inner.create(key, body)
        self.made.append(Meta(key, len(body), self.runtime.clock.now_ms()))

    async def put_hint(self, key: str, body: bytes) -> bool:
        return await self._inner.put_hint(key, body)

    async def delete(self, key: str) -> None:
        meta = self._listed.pop(key, None)
        try:
            meta = meta or await self.head(key)
        except NotFound:
            return  # another janitor was first
        if self._rehearsed:
            self._hidden.add(key)
        else:
            await self._inner.delete(key)
        self.gone.setdefault(key.partition("/")[0], ObjectCount()).add(meta)
        self._meter.step()

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        async for meta in self._inner.list(prefix, after):
            if meta.key in self._hidden:
                continue
            self._listed[meta.key] = meta
            if len(self._listed) > _REMEMBERED:
                self._listed.popitem(last=False)
            yield meta

    def _refuse_hidden(self, key: str) -> None:
        if key in self._hidden:
            raise NotFound(f"there is no {key}")
