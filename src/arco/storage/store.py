"""The store: the handle that a process gets, bound to one scope and one role.

Here, once, live the scope (law 10), the role (law 4), bounded retries, and the resolution of our own
writes (law 8, P1, P2). A body that others could also write under the same key carries a `create_id`
minted for exactly these bytes; so the same bytes are mine, and other bytes are another's.
"""

from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Conflict,
    Denied,
    Invalid,
    NotFound,
    Unavailable,
    Unknown,
)
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.backend import Backend, Meta
from arco.storage.key import check_key, check_prefix
from arco.storage.retry import Retry
from arco.storage.roles import Role, Verb, may

T = TypeVar("T")

LONGEST_SIGNED_S = 3_600


class Store:
    """One workspace of one store, as one role sees it."""

    def __init__(
        self,
        backend: Backend,
        runtime: Runtime,
        *,
        scope: Scope,
        role: Role,
        retry: Retry | None = None,
    ) -> None:
        self._backend = backend
        self._retry = retry or Retry()
        self.runtime = runtime
        self.scope = scope
        self.role = role

    async def get(self, key: str, *, size_bytes: int = 0) -> bytes:
        """All bytes of an object, or `NotFound`; a large object's size buys it more time."""
        full = self._admit(Verb.GET, key)
        return await self._repeat(lambda: self._backend.get(full), size_bytes)

    async def find(self, key: str, *, size_bytes: int = 0) -> bytes | None:
        """All bytes of an object, or None where there is none: a probe."""
        try:
            return await self.get(key, size_bytes=size_bytes)
        except NotFound:
            return None

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        """Bytes `start` to `start + length`, fewer at the end of the object, or `NotFound`."""
        full = self._admit(Verb.GET, key)
        if start < 0 or length <= 0:
            raise Invalid(f"a range starts at 0 or above and is not empty: {start}+{length}")
        return await self._repeat(lambda: self._backend.get_range(full, start, length), length)

    async def head(self, key: str) -> Meta:
        """Size and time of an object, or `NotFound`."""
        full = self._admit(Verb.GET, key)
        return replace(await self._repeat(lambda: self._backend.head(full)), key=key)

    async def create(self, key: str, body: bytes) -> None:
        """Put if absent, durable on return; `Conflict` if another is there, `Unknown` if unclear."""
        full = self._admit(Verb.CREATE, key)
        doubtful = False  # whether an earlier attempt may have been applied, or may yet be
        attempt, started = 0, self.runtime.clock.elapsed_ms()
        while await self._retry.again(self.runtime, attempt, started):
            attempt += 1
            try:
                await self._once(self._backend.create(full, body), len(body))
                return
            except AlreadyExists:
                pass
            except Unavailable:
                doubtful = True
            except ArcoError as refused:
                if doubtful:
                    raise Unknown(f"an earlier attempt to create {key} may yet land") from refused
                raise
            if await self._is_mine(full, key, body):
                return
        raise Unknown(f"could not find out whether {key} was created")

    async def put_hint(self, key: str, body: bytes) -> bool:
        """Overwrite a hint, once and without retries; whether it was written."""
        full = self._admit(Verb.HINT, key)
        try:
            await self._once(self._backend.put(full, body), len(body))
        except ArcoError:  # whatever the store has against it: losing a hint costs time only
            return False
        return True

    async def delete(self, key: str) -> None:
        """Remove an object; removing what is not there is fine."""
        full = self._admit(Verb.DELETE, key)
        await self._repeat(lambda: self._backend.delete(full))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        """Objects below `prefix`, in byte order: for anti-entropy and collection only (law 6)."""
        self._check_role(Verb.LIST, prefix + "_")
        root = self.scope.prefix
        start = check_key(root + after) if after else ""
        below = root + check_prefix(prefix)
        attempt, started = 0, self.runtime.clock.elapsed_ms()
        while True:
            try:
                async for meta in self._backend.list(below, start):
                    yield replace(meta, key=meta.key.removeprefix(root))
                    # Whatever the caller did meanwhile took its own time.
                    start, attempt, started = meta.key, 0, self.runtime.clock.elapsed_ms()
            except Unavailable:
                attempt += 1
                if not await self._retry.again(self.runtime, attempt, started):
                    raise
            else:
                return

    async def sign(self, key: str, expires_s: int = 900) -> str:
        """A URL that serves GET of this one object until it expires."""
        full = self._admit(Verb.SIGN, key)
        if not 0 < expires_s <= LONGEST_SIGNED_S:
            raise Invalid(f"a signed URL lives 1 to {LONGEST_SIGNED_S} seconds, not {expires_s}")
        return await self._backend.sign(full, expires_s)

    def _admit(self, verb: Verb, key: str) -> str:
        full = check_key(self.scope.prefix + key)
        self._check_role(verb, key)
        return full

    def _check_role(self, verb: Verb, key: str) -> None:
        if not may(self.role, verb, key):
            raise Denied(f"role {self.role} may not {verb} {key}")

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
        attempt, started = 0, self.runtime.clock.elapsed_ms()
        while True:
            attempt += 1
            try:
                return await self._once(request(), size)
            except Unavailable:
                if not await self._retry.again(self.runtime, attempt, started):
                    raise

    async def _once(self, request: Coroutine[Any, Any, T], size_bytes: int = 0) -> T:
        patience_ms = self._retry.patience_ms(size_bytes)
        try:
            return await self.runtime.tasks.deadline(patience_ms, request)
        except TimeoutError as late:
            raise Unavailable(f"the store did not answer within {patience_ms:.0f} ms") from late
