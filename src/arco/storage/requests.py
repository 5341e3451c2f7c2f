"""Requests: one backend asked with patience, and our own writes told from another's (law 8, P1, P2).

Here, once, live the bounded retries and the resolution of a create whose answer was lost. A body that
others could also write under the same key carries a `create_id` minted for exactly these bytes; so the
same bytes are mine, and other bytes are another's. Who may ask for what is settled before: by `Store`
for a workspace, by `Outside` for places that are not ours.
"""

from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

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
from arco.storage.retry import Retry

T = TypeVar("T")


class Requests:
    """Objects below `root`; keys come checked, and without it."""

    def __init__(
        self, backend: Backend, runtime: Runtime, *, root: str = "", retry: Retry | None = None
    ) -> None:
        self._backend = backend
        self._runtime = runtime
        self._root = root
        self._retry = retry or Retry()

    async def get(self, key: str, size_bytes: int = 0) -> bytes:
        """All bytes of an object, or `NotFound`; a large object's size buys it more time."""
        full = self._root + key
        return await self._repeat(lambda: self._backend.get(full), size_bytes)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        """Bytes `start` to `start + length`, fewer at the end of the object, or `NotFound`."""
        full = self._root + key
        return await self._repeat(lambda: self._backend.get_range(full, start, length), length)

    async def head(self, key: str) -> Meta:
        """Size and time of an object, or `NotFound`."""
        full = self._root + key
        return replace(await self._repeat(lambda: self._backend.head(full)), key=key)

    async def create(self, key: str, body: bytes) -> None:
        """Put if absent, durable on return; `Conflict` if another is there, `Unknown` if unclear."""
        full = self._root + key
        doubtful = False  # whether an earlier attempt may have been applied, or may yet be
        attempt, started = 0, self._runtime.clock.elapsed_ms()
        while await self._retry.again(self._runtime, attempt, started):
            attempt += 1
            try:
                await self._once(self._backend.create(full, body), len(body))
                return
            except AlreadyExists:
                pass
            except Unavailable as problem:
                if isinstance(problem, StoreFull) and not doubtful:
                    raise  # nothing was written, and no retry makes room
                doubtful = True
            except ArcoError as refused:
                if doubtful:
                    raise Unknown(f"an earlier attempt to create {key} may yet land") from refused
                raise
            if await self._is_mine(full, key, body):
                return
        raise Unknown(f"could not find out whether {key} was created")

    async def put(self, key: str, body: bytes) -> None:
        """Overwrite an object, once and without retries: for hints alone."""
        await self._once(self._backend.put(self._root + key, body), len(body))

    async def delete(self, key: str) -> None:
        """Remove an object; removing what is not there is fine."""
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
                    # Whatever the caller did meanwhile took its own time.
                    start, attempt, started = meta.key, 0, self._runtime.clock.elapsed_ms()
            except Unavailable:
                attempt += 1
                if not await self._retry.again(self._runtime, attempt, started):
                    raise
            else:
                return

    async def sign(self, key: str, expires_s: int) -> str:
        """A URL that serves GET of this one object until it expires."""
        return await self._backend.sign(self._root + key, expires_s)

    async def _is_mine(self, full: str, key: str, body: bytes) -> bool:
        """Look who won: True if we did, `Conflict` if another, False if nobody or unseen.

        A look that is refused has seen nothing: the write may be there all the same, so the refusal
        is not the answer (P2).
        """
        try:
            winner = await self._once(self._backend.get(full), len(body))
            if winner == body:
                await self._once(self._backend.settle(full))
                return True
        except (NotFound, Unavailable):
            return False
        except ArcoError as refused:
            raise Unknown(f"may not look who has created {key}") from refused
        raise Conflict(f"{key} was created by another")

    async def _repeat(self, request: Callable[[], Coroutine[Any, Any, T]], size: int = 0) -> T:
        attempt, started = 0, self._runtime.clock.elapsed_ms()
        while True:
            attempt += 1
            try:
                return await self._once(request(), size)
            except Unavailable:
                if not await self._retry.again(self._runtime, attempt, started):
                    raise

    async def _once(self, request: Coroutine[Any, Any, T], size_bytes: int = 0) -> T:
        patience_ms = self._retry.patience_ms(size_bytes)
        try:
            return await self._runtime.tasks.deadline(patience_ms, request)
        except TimeoutError as late:
            raise Unavailable(f"the store did not answer within {patience_ms:.0f} ms") from late
