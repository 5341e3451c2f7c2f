"""A backend that is a dictionary: fast, and open to tests that damage objects."""

from collections.abc import AsyncIterator

from arco.core.errors import AlreadyExists, NotFound
from arco.storage.backend import Meta


class DictBackend:
    """As `arco.storage.backend.Backend`."""

    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}
        self.now_ms = 0  # its clock, which the test moves
        self._made_ms: dict[str, int] = {}

    async def get(self, key: str) -> bytes:
        if key not in self.stored:
            raise NotFound(f"there is no {key}")
        return self.stored[key]

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        return (await self.get(key))[start : start + length]

    async def head(self, key: str) -> Meta:
        return Meta(key, len(await self.get(key)), self._made_ms.get(key, 0))

    async def create(self, key: str, body: bytes) -> None:
        if key in self.stored:
            raise AlreadyExists(f"{key} exists")
        await self.put(key, body)

    async def put(self, key: str, body: bytes) -> None:
        self.stored[key] = body
        self._made_ms[key] = self.now_ms

    async def delete(self, key: str) -> None:
        self.stored.pop(key, None)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        for key in sorted(self.stored):
            if key.startswith(prefix) and key > after:
                yield await self.head(key)

    async def settle(self, key: str) -> None:
        """What is in a dictionary is as durable as it will ever be."""

    async def sign(self, key: str, expires_s: int) -> str:
        return f"https://objects.invalid/{key}"
