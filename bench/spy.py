"""A backend that writes down every request, and can make each take a while."""

from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from arco.core.runtime import Runtime
from arco.storage.backend import Backend, Meta

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """One request to the store."""

    verb: str
    key: str
    sent_bytes: int
    began_ms: float
    ended_ms: float


class SpyBackend:
    """Another backend, spied on."""

    def __init__(self, inner: Backend, runtime: Runtime) -> None:
        self._inner = inner
        self._clock = runtime.clock
        self.latency_ms = 0.0  # added to every request
        self.requests: list[Request] = []

    async def get(self, key: str) -> bytes:
        return await self._note("get", key, self._inner.get(key))

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        return await self._note("get_range", key, self._inner.get_range(key, start, length))

    async def head(self, key: str) -> Meta:
        return await self._note("head", key, self._inner.head(key))

    async def create(self, key: str, body: bytes) -> None:
        await self._note("create", key, self._inner.create(key, body), len(body))

    async def put(self, key: str, body: bytes) -> None:
        await self._note("put", key, self._inner.put(key, body), len(body))

    async def delete(self, key: str) -> None:
        await self._note("delete", key, self._inner.delete(key))

    def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        return self._inner.list(prefix, after)

    async def settle(self, key: str) -> None:
        await self._note("settle", key, self._inner.settle(key))

    async def sign(self, key: str, expires_s: int) -> str:
        return await self._inner.sign(key, expires_s)

    def between(self, began_ms: float, ended_ms: float) -> Sequence[Request]:
        """The requests that began and ended in a span of time."""
        return [
            each
            for each in self.requests
            if began_ms <= each.began_ms and each.ended_ms <= ended_ms
        ]

    async def _note(self, verb: str, key: str, request: Coroutine[Any, Any, T], size: int = 0) -> T:
        began_ms = self._clock.elapsed_ms()
        try:
            if self.latency_ms:
                await self._clock.sleep(self.latency_ms)
            return await request
        finally:
            ended_ms = self._clock.elapsed_ms()
            self.requests.append(Request(verb, key, size, began_ms, ended_ms))


def round_trips(requests: Iterable[Request]) -> int:
    """How many requests went one after the other: the most of which no two overlap in time.

    Asked of what lies between a call and its answer, on a store where each request takes far longer than
    our own work: then nothing fits in beside the requests that the answer has waited for, and whatever ran
    in the background ran beside them, or ended after the answer.
    """
    count, free_ms = 0, float("-inf")
    for each in sorted(requests, key=lambda request: request.ended_ms):
        if each.began_ms >= free_ms:
            count, free_ms = count + 1, each.ended_ms
    return count
