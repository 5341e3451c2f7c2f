"""A backend that reports every request: for metrics, for `arco doctor`, and for tests that count."""

from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from arco.core.clock import Clock
from arco.core.errors import ArcoError
from arco.storage.backend import Backend, Meta

T = TypeVar("T")


class Observer(Protocol):
    """Whoever wants to know what the store was asked."""

    def request(self, verb: str, key: str, outcome: str, ms: float) -> None:
        """One request ended: `ok`, or the code of its error."""


@dataclass
class PendingRequests:
    """How many requests to a store have begun and not ended."""

    count: int = 0


class ObservedBackend:
    """Another backend, watched."""

    def __init__(
        self,
        inner: Backend,
        observer: Observer,
        clock: Clock,
        pending: PendingRequests | None = None,
    ) -> None:
        self._inner = inner
        self._observer = observer
        self._clock = clock
        self._pending = pending or PendingRequests()

    async def get(self, key: str) -> bytes:
        return await self._watch("get", key, self._inner.get(key))

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        return await self._watch("get_range", key, self._inner.get_range(key, start, length))

    async def head(self, key: str) -> Meta:
        return await self._watch("head", key, self._inner.head(key))

    async def create(self, key: str, body: bytes) -> None:
        await self._watch("create", key, self._inner.create(key, body))

    async def put(self, key: str, body: bytes) -> None:
        await self._watch("put", key, self._inner.put(key, body))

    async def delete(self, key: str) -> None:
        await self._watch("delete", key, self._inner.delete(key))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        self._observer.request("list", prefix, "ok", 0)
        async for meta in self._inner.list(prefix, after):
            yield meta

    async def settle(self, key: str) -> None:
        await self._inner.settle(key)

    async def sign(self, key: str, expires_s: int) -> str:
        return await self._inner.sign(key, expires_s)

    async def _watch(self, verb: str, key: str, request: Coroutine[Any, Any, T]) -> T:
        started = self._clock.elapsed_ms()
        outcome = "cancelled"
        self._pending.count += 1
        try:
            result = await request
            outcome = "ok"
        except ArcoError as problem:
            outcome = problem.code
            raise
        finally:
            self._pending.count -= 1
            self._observer.request(verb, key, outcome, self._clock.elapsed_ms() - started)
        return result
