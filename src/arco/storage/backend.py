"""The interface to an object store, and a wrapper that reports every request.

A backend reports the answer of one request. It does not retry, does not find out who won a race, and knows
nothing of tenants or roles: `Store` does that. Its errors mean:
`NotFound`, `AlreadyExists` (the condition failed, perhaps on our own earlier write), `Denied`,
`Invalid`, and `Unavailable` for every answer after which the write may or may not have happened.
"""

from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from arco.core.clock import Clock
from arco.core.errors import ArcoError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Meta:
    """Key, size and time of an object."""

    key: str
    size_bytes: int
    modified_ms: int


class Backend(Protocol):
    """One object store."""

    async def get(self, key: str) -> bytes:
        """All bytes of an object."""

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        """Bytes `start` to `start + length`, fewer at the object's end."""

    async def head(self, key: str) -> Meta:
        """Size and time of an object."""

    async def create(self, key: str, body: bytes) -> None:
        """Put if absent: atomic, and durable on return."""

    async def put(self, key: str, body: bytes) -> None:
        """Put, replacing the object: for hints only."""

    async def delete(self, key: str) -> None:
        """Remove; a missing object is no error."""

    def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        """Objects below `prefix` with keys above `after`, in the order of their UTF-8 bytes."""

    async def settle(self, key: str) -> None:
        """Make an object that a read found as durable as after a successful create."""

    async def sign(self, key: str, expires_s: int) -> str:
        """A URL with which anyone may GET this one object until it expires."""


class Observer(Protocol):
    """Receives every request to a store."""

    def request(self, verb: str, key: str, outcome: str, ms: float) -> None:
        """One request ended: `ok`, or the code of its error."""


@dataclass
class PendingRequests:
    """The number of requests to a store that have not ended."""

    count: int = 0


class ObservedBackend:
    """Another backend, whose requests are reported: for metrics, `arco doctor`, and tests that count."""

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

    def get(self, key: str) -> Coroutine[Any, Any, bytes]:
        return self._observe("get", key, self._inner.get(key))

    def get_range(self, key: str, start: int, length: int) -> Coroutine[Any, Any, bytes]:
        return self._observe("get_range", key, self._inner.get_range(key, start, length))

    def head(self, key: str) -> Coroutine[Any, Any, Meta]:
        return self._observe("head", key, self._inner.head(key))

    async def create(self, key: str, body: bytes) -> None:
        await self._observe("create", key, self._inner.create(key, body))

    async def put(self, key: str, body: bytes) -> None:
        await self._observe("put", key, self._inner.put(key, body))

    async def delete(self, key: str) -> None:
        await self._observe("delete", key, self._inner.delete(key))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        self._observer.request("list", prefix, "ok", 0)
        async for meta in self._inner.list(prefix, after):
            yield meta

    async def settle(self, key: str) -> None:
        await self._inner.settle(key)

    async def sign(self, key: str, expires_s: int) -> str:
        return await self._inner.sign(key, expires_s)

    async def _observe(self, verb: str, key: str, request: Coroutine[Any, Any, T]) -> T:
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
