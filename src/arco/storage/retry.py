"""Requests to a backend with bounded retries, which distinguish own writes from others' (laws 8, 12).

A create whose answer was lost is resolved here, and only here (P1, P2). A body that other processes could
write under the same key has a `create_id` made for exactly these bytes; so equal bytes are our write, and
other bytes are another's. `Store` and `ExternalLocation` check scope and role before.
"""

from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from arco.core.backoff import ExponentialBackoff
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Conflict,
    NotFound,
    StoreFull,
    Unavailable,
    Unknown,
)
from arco.core.runtime import Runtime
from arco.storage.backend import Backend, Meta

T = TypeVar("T")


@dataclass(frozen=True)
class StoreRetryPolicy:
    """How often, how fast and for how long a request is tried again."""

    attempts: int = 10
    first_pause_ms: float = 40
    longest_pause_ms: float = 4_000
    budget_ms: float = 25_000
    attempt_ms: float = 10_000
    bytes_per_ms: float = 1_000  # the slowest transfer that still counts as moving: 1 MB/s

    async def wait_before(self, runtime: Runtime, attempt: int, started_ms: float) -> bool:
        """Wait for the pause before attempt number `attempt`; whether it may still be made."""
        if attempt == 0:
            return True
        if attempt >= self.attempts:
            return False
        # From half of the pause to all of it.
        backoff = ExponentialBackoff(self.first_pause_ms / 2, self.longest_pause_ms / 2, jitter=1)
        await backoff.sleep(attempt, runtime)
        return runtime.clock.elapsed_ms() - started_ms <= self.budget_ms

    def patience_ms(self, size_bytes: int) -> float:
        """How long one attempt that moves `size_bytes` may take."""
        return self.attempt_ms + size_bytes / self.bytes_per_ms


class RetryingBackend:
    """Objects below `root`, by keys that are checked and do not include it."""

    def __init__(
        self,
        backend: Backend,
        runtime: Runtime,
        *,
        root: str = "",
        retry: StoreRetryPolicy | None = None,
    ) -> None:
        self._backend = backend
        self._runtime = runtime
        self._root = root
        self._retry = retry or StoreRetryPolicy()

    def get(self, key: str, size_bytes: int = 0) -> Coroutine[Any, Any, bytes]:
        """All bytes of an object, or `NotFound`; `size_bytes` extends the time limit for a large object."""
        full = self._root + key
        return self._repeat(lambda: self._backend.get(full), size_bytes)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        """Bytes `start` to `start + length`, fewer at the end of the object, or `NotFound`."""
        full = self._root + key
        return await self._repeat(lambda: self._backend.get_range(full, start, length), length)

    async def head(self, key: str) -> Meta:
        """Size and time of an object, or `NotFound`."""
        full = self._root + key
        meta = await self._repeat(lambda: self._backend.head(full))
        return Meta(key, meta.size_bytes, meta.modified_ms)

    async def create(self, key: str, body: bytes) -> None:
        """Put if absent, durable on return; `Conflict` if another object exists, `Unknown` if unclear."""
        full = self._root + key
        doubtful = False  # whether an earlier attempt may have been applied, or may be later
        attempt, started = 0, self._runtime.clock.elapsed_ms()
        while await self._retry.wait_before(self._runtime, attempt, started):
            attempt += 1
            try:
                await self._once(self._backend.create(full, body), len(body))
                return
            except AlreadyExists:
                pass
            except Unavailable as problem:
                if isinstance(problem, StoreFull) and not doubtful:
                    raise  # nothing was written, and no retry frees space
                doubtful = True
            except ArcoError as refused:
                if doubtful:
                    raise Unknown(
                        f"an earlier attempt to create {key} may still succeed"
                    ) from refused
                raise
            if await self._is_mine(full, key, body):
                return
        raise Unknown(f"could not find out whether {key} was created")

    async def put(self, key: str, body: bytes) -> None:
        """Overwrite an object, once and without retries: for hints only."""
        await self._once(self._backend.put(self._root + key, body), len(body))

    async def delete(self, key: str) -> None:
        """Remove an object; a missing object is no error."""
        full = self._root + key
        await self._repeat(lambda: self._backend.delete(full))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        """Objects below `prefix` with keys above `after`, in byte order."""
        root = self._root
        start = root + after if after else ""
        attempt, started = 0, self._runtime.clock.elapsed_ms()
        while True:
            try:
                async for meta in self._backend.list(root + prefix, start):
                    yield Meta(meta.key.removeprefix(root), meta.size_bytes, meta.modified_ms)
                    # The time that the caller took for the last object does not count.
                    start, attempt, started = meta.key, 0, self._runtime.clock.elapsed_ms()
            except Unavailable:
                attempt += 1
                if not await self._retry.wait_before(self._runtime, attempt, started):
                    raise
            else:
                return

    async def sign(self, key: str, expires_s: int) -> str:
        """A URL that serves GET of this one object until it expires."""
        return await self._backend.sign(self._root + key, expires_s)

    async def _is_mine(self, full: str, key: str, body: bytes) -> bool:
        """Read who won: True if we did, `Conflict` if another did, False if none or unknown.

        A denied read shows nothing: the write may have succeeded, so the denial is not the answer (P2).
        """
        try:
            winner = await self._once(self._backend.get(full), len(body))
            if winner == body:
                await self._once(self._backend.settle(full))
                return True
        except (NotFound, Unavailable):
            return False
        except ArcoError as refused:
            raise Unknown(f"cannot read {key} to find out which process created it") from refused
        raise Conflict(f"{key} was created by another process")

    async def _repeat(self, request: Callable[[], Coroutine[Any, Any, T]], size: int = 0) -> T:
        attempt, started = 0, self._runtime.clock.elapsed_ms()
        while True:
            attempt += 1
            try:
                return await self._once(request(), size)
            except Unavailable:
                if not await self._retry.wait_before(self._runtime, attempt, started):
                    raise

    async def _once(self, request: Coroutine[Any, Any, T], size_bytes: int = 0) -> T:
        patience_ms = self._retry.patience_ms(size_bytes)
        try:
            return await self._runtime.tasks.deadline(patience_ms, request)
        except TimeoutError as problem:
            raise Unavailable(f"the store did not answer within {patience_ms:.0f} ms") from problem
