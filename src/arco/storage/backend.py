"""The backend seam: what a store must do, in the smallest set of verbs.

A backend says what one request was answered and no more. It does not retry, does not resolve who
won, knows nothing of tenants or roles: all that is done once, in `Store`. Its errors mean:
`NotFound`, `AlreadyExists` (the condition failed, perhaps on our own earlier write), `Denied`,
`Invalid`, and `Unavailable` for every answer after which the write may or may not have happened.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Meta:
    """What a store knows of an object without reading it."""

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
        """Put, replacing what is there: for hints alone."""

    async def delete(self, key: str) -> None:
        """Remove; removing what is not there is fine."""

    def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        """Objects below `prefix` with keys above `after`, in the order of their UTF-8 bytes."""

    async def settle(self, key: str) -> None:
        """Make an object that a look has found as durable as a successful create would have."""

    async def sign(self, key: str, expires_s: int) -> str:
        """A URL with which anyone may GET this one object until it expires."""
