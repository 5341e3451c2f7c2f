"""The objects of the simulated store, and a log of everything that ever changed them.

Strongly consistent: each request is applied at one instant, and whatever is applied later sees it.
The log is for auditors: no process reads it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from arco.core.errors import AlreadyExists, NotFound
from arco.core.hashing import sha256_hex
from arco.storage.backend import Meta

from .faults import Faults
from .world import EPOCH_MS, World


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change that the store applied."""

    at_ms: float
    process: str
    verb: str  # create, put or delete
    key: str
    sha256: str
    body: bytes


@dataclass(frozen=True, slots=True)
class _Stored:
    body: bytes
    modified_ms: int


class SimObjects:
    """One bucket that all processes share, and the weather on the way to it."""

    def __init__(self, world: World, faults: Faults) -> None:
        self.world = world
        self.faults = faults
        self.rng = world.stream("network")
        self.log: list[Mutation] = []
        self._stored: dict[str, _Stored] = {}

    def restore(self, other: "SimObjects") -> None:
        """Begin with what another store holds, and with its log."""
        self._stored = dict(other._stored)
        self.log = list(other.log)

    def keys(self) -> list[str]:
        """What is there now, in order."""
        return sorted(self._stored)

    def get(self, key: str) -> bytes:
        return self._find(key).body

    def head(self, key: str) -> Meta:
        stored = self._find(key)
        return Meta(key, len(stored.body), stored.modified_ms)

    def create(self, process: str, key: str, body: bytes) -> None:
        if key in self._stored:
            raise AlreadyExists(f"{key} exists")
        self._change(process, "create", key, body)

    def put(self, process: str, key: str, body: bytes) -> None:
        self._change(process, "put", key, body)

    def delete(self, process: str, key: str) -> None:
        if self._stored.pop(key, None) is not None:
            self.log.append(Mutation(self.world.now_ms, process, "delete", key, "", b""))

    def list(self, prefix: str, after: str) -> Iterator[Meta]:
        keys = sorted(key for key in self._stored if key.startswith(prefix) and key > after)
        return iter([self.head(key) for key in keys])

    def _find(self, key: str) -> _Stored:
        stored = self._stored.get(key)
        if stored is None:
            raise NotFound(f"there is no {key}")
        return stored

    def _change(self, process: str, verb: str, key: str, body: bytes) -> None:
        now_ms = self.world.now_ms
        self._stored[key] = _Stored(body, int(EPOCH_MS + now_ms))
        self.log.append(Mutation(now_ms, process, verb, key, sha256_hex(body), body))
