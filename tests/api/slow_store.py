"""A store that keeps its callers waiting."""

import asyncio
import threading
from collections.abc import AsyncIterator

from arco.storage.backend import Backend, Meta


class Slow:
    """A store that answers when the test allows."""

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self.open = threading.Event()
        self.open.set()

    async def get(self, key: str) -> bytes:
        await self._wait()
        return await self._inner.get(key)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        await self._wait()
        return await self._inner.get_range(key, start, length)

    async def head(self, key: str) -> Meta:
        await self._wait()
        return await self._inner.head(key)

    async def create(self, key: str, body: bytes) -> None:
        await self._wait()
        await self._inner.create(key, body)

    async def put(self, key: str, body: bytes) -> None:
        await self._wait()
        await self._inner.put(key, body)

    async def delete(self, key: str) -> None:
        await self._inner.delete(key)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        async for meta in self._inner.list(prefix, after):
            yield meta

    async def settle(self, key: str) -> None:
        await self._inner.settle(key)

    async def sign(self, key: str, expires_s: int) -> str:
        return await self._inner.sign(key, expires_s)

    async def _wait(self) -> None:
        while not self.open.is_set():  # noqa: ASYNC110  # it is set from another thread
            await asyncio.sleep(0.01)
