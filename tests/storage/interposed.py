"""A backend that runs steps of a test before and after each request, to force an interleaving."""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from arco.storage.backend import Backend, Meta

T = TypeVar("T")

Step = Callable[[str, str], Awaitable[None]]


async def nothing(verb: str, key: str) -> None:
    """The step that does nothing."""


class Interposed:
    """Another backend. An error raised before a request keeps it from the store; one raised after
    it hides the store's answer, whatever that was."""

    def __init__(self, inner: Backend, *, before: Step = nothing, after: Step = nothing) -> None:
        self._inner = inner
        self._before = before
        self._after = after

    async def get(self, key: str) -> bytes:
        return await self._pass("get", key, lambda: self._inner.get(key))

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        return await self._pass("get_range", key, lambda: self._inner.get_range(key, start, length))

    async def head(self, key: str) -> Meta:
        return await self._pass("head", key, lambda: self._inner.head(key))

    async def create(self, key: str, body: bytes) -> None:
        await self._pass("create", key, lambda: self._inner.create(key, body))

    async def put(self, key: str, body: bytes) -> None:
        await self._pass("put", key, lambda: self._inner.put(key, body))

    async def delete(self, key: str) -> None:
        await self._pass("delete", key, lambda: self._inner.delete(key))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        await self._before("list", prefix)
        async for meta in self._inner.list(prefix, after):
            yield meta
        await self._after("list", prefix)

    async def settle(self, key: str) -> None:
        await self._pass("settle", key, lambda: self._inner.settle(key))

    async def sign(self, key: str, expires_s: int) -> str:
        return await self._pass("sign", key, lambda: self._inner.sign(key, expires_s))

    async def _pass(self, verb: str, key: str, proceed: Callable[[], Coroutine[Any, Any, T]]) -> T:
        await self._before(verb, key)
        try:
            return await proceed()
        finally:
            await self._after(verb, key)
