"""The store: the handle of a process, bound to one scope (law 10) and one role (law 4).

`RetryingBackend` does the retries and distinguishes own writes from those of others (law 8).
"""

from collections.abc import AsyncIterator

from arco.core.errors import ArcoError, Denied, Invalid, NotFound, Unavailable
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.backend import Backend, Meta
from arco.storage.key import check_key, check_prefix
from arco.storage.retry import RetryingBackend, StoreRetryPolicy
from arco.storage.roles import Role, Verb, may

MAX_SIGNED_S = 3_600
CLOCK_KEY = "_probe/clock.json"


class Store:
    """One workspace of one store, with the permissions of one role."""

    def __init__(
        self,
        backend: Backend,
        runtime: Runtime,
        *,
        scope: Scope,
        role: Role,
        retry: StoreRetryPolicy | None = None,
    ) -> None:
        self._requests = RetryingBackend(backend, runtime, root=scope.prefix, retry=retry)
        self.runtime = runtime
        self.scope = scope
        self.role = role

    async def get(self, key: str, *, size_bytes: int = 0) -> bytes:
        """All bytes of an object, or `NotFound`; `size_bytes` extends the time limit for a large object."""
        self._admit(Verb.GET, key)
        return await self._requests.get(key, size_bytes)

    async def find(self, key: str, *, size_bytes: int = 0) -> bytes | None:
        """All bytes of an object, or None if it does not exist: a probe."""
        try:
            return await self.get(key, size_bytes=size_bytes)
        except NotFound:
            return None

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        """Bytes `start` to `start + length`, fewer at the end of the object, or `NotFound`."""
        self._admit(Verb.GET, key)
        if start < 0 or length <= 0:
            raise Invalid(f"a range starts at 0 or above and is not empty: {start}+{length}")
        return await self._requests.get_range(key, start, length)

    async def head(self, key: str) -> Meta:
        """Size and time of an object, or `NotFound`."""
        self._admit(Verb.GET, key)
        return await self._requests.head(key)

    async def create(self, key: str, body: bytes) -> None:
        """Put if absent, durable on return; `Conflict` if another object exists, `Unknown` if unclear."""
        self._admit(Verb.CREATE, key)
        await self._requests.create(key, body)

    async def put_hint(self, key: str, body: bytes) -> bool:
        """Overwrite a hint, once and without retries; whether it was written."""
        self._admit(Verb.HINT, key)
        try:
            await self._requests.put(key, body)
        except ArcoError:  # losing a hint only costs time
            return False
        return True

    async def delete(self, key: str) -> None:
        """Remove an object; a missing object is no error."""
        self._admit(Verb.DELETE, key)
        await self._requests.delete(key)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        """Objects below `prefix`, in byte order: for anti-entropy and collection only (law 6)."""
        self._check_role(Verb.LIST, prefix + "_")
        if after:
            check_key(self.scope.prefix + after)
        check_prefix(prefix)
        async for meta in self._requests.list(prefix, after):
            yield meta

    async def sign(self, key: str, expires_s: int = 900) -> str:
        """A URL that serves GET of this one object until it expires."""
        self._admit(Verb.SIGN, key)
        if not 0 < expires_s <= MAX_SIGNED_S:
            raise Invalid(f"a signed URL lives 1 to {MAX_SIGNED_S} seconds, not {expires_s}")
        return await self._requests.sign(key, expires_s)

    def _admit(self, verb: Verb, key: str) -> None:
        check_key(self.scope.prefix + key)
        self._check_role(verb, key)

    def _check_role(self, verb: Verb, key: str) -> None:
        if not may(self.role, verb, key):
            raise Denied(f"role {self.role} may not {verb} {key}")


async def store_now_ms(store: Store) -> int:
    """The time of the store's clock: that of a hint written now. For the janitor only.

    A collector whose own clock runs ahead would take young numbers for old ones, and a writer that
    remembers them would fork the chain. So an age is the difference of two times that the store itself has
    set.
    """
    if not await store.put_hint(CLOCK_KEY, b"{}"):
        raise Unavailable("the store rejected a hint, so its clock cannot be read; retry")
    return (await store.head(CLOCK_KEY)).modified_ms
