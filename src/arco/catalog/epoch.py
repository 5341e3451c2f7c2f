"""Epochs: the lease of a domain as it is stored, and the notes beside it (P28).

The epochs of a domain are a numbered chain, and an epoch's number is the fencing token. Renewal, release
and the wish of a waiter are hints beside the epoch that they speak of, so an old one can never be
mistaken for one about a newer epoch. Losing a hint costs time, never truth.
"""

import re
from typing import TypeVar

import msgspec

from arco.core import json
from arco.core.errors import Invalid
from arco.storage.backend import Meta
from arco.storage.chain import Chain
from arco.storage.chain_gc import collect, oldest_retained
from arco.storage.store import Store

FORMAT = 1

# What an epoch may ask of its waiters, whatever is written in it.
LONGEST_LIFE_MS = 60_000

_NOTES = ".renewal.json"
_STORED = re.compile(r"locks/[^/]+/([0-9]{20})\.(?:[a-z]+\.)*json")


class Epoch(msgspec.Struct, frozen=True, kw_only=True):
    """What a number of `locks/{domain}` carries: who took it, and how long its silence is life."""

    holder: str
    life_ms: int


class Renewal(msgspec.Struct, frozen=True, kw_only=True):
    """The body of `{epoch}.renewal.json`: its holder is alive, or has let go."""

    format: int = FORMAT
    epoch: int
    count: int
    released: bool = False


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """The body of `{epoch}.waiting.renewal.json`: who is to be next, as the one who waited longest.

    How long somebody waited is measured on its own clock; no two clocks are ever compared.
    """

    format: int = FORMAT
    epoch: int
    waiter: str
    waited_ms: int


Note = TypeVar("Note", Renewal, Waiting)


class Epochs:
    """The epochs of one domain, with their notes."""

    def __init__(self, store: Store, domain: str) -> None:
        self.chain = Chain(store, f"locks/{domain}")
        self._store = store

    async def renewal(self, epoch: int) -> Renewal | None:
        """How often an epoch was renewed, and whether it was released; None if that is garbage."""
        raw = await self._store.find(self._key(epoch, "renewal"))
        if raw is None:
            return Renewal(epoch=epoch, count=0)
        return _read(raw, Renewal, epoch)

    async def renew(self, renewal: Renewal) -> bool:
        """Say that the holder of an epoch is alive, or has let go; whether that was written."""
        key = self._key(renewal.epoch, "renewal")
        return await self._store.put_hint(key, json.encode(renewal))

    async def waiting(self, epoch: int) -> Waiting | None:
        """Who is to be next after an epoch, if anybody waits for its end."""
        raw = await self._store.find(self._key(epoch, "waiting.renewal"))
        return None if raw is None else _read(raw, Waiting, epoch)

    async def is_awaited(self, epoch: int) -> bool:
        """Whether anybody waits for the end of an epoch."""
        return await self.waiting(epoch) is not None

    async def wait_in_line(self, waiting: Waiting) -> bool:
        """Say that somebody waits for the end of an epoch; whether that was written."""
        key = self._key(waiting.epoch, "waiting.renewal")
        return await self._store.put_hint(key, json.encode(waiting))

    def _key(self, epoch: int, kind: str) -> str:
        # One ending for all notes (_NOTES): it is what the table of roles lets an API process overwrite.
        return f"{self.chain.key(epoch).removesuffix('.json')}.{kind}.json"


async def collect_epochs(
    store: Store, domain: str, *, retention_ms: int, dry_run: bool = False
) -> list[Meta]:
    """Delete old epochs of a domain (P6), then the notes beside them; what goes."""
    chain = Chain(store, f"locks/{domain}")
    kept = await oldest_retained(chain, retention_ms=retention_ms)
    gone = [meta async for meta in store.list(f"{chain.path}/") if _is_below(meta.key, kept)]
    if not dry_run:
        await collect(chain, retention_ms=retention_ms)
        for meta in gone:
            if meta.key.endswith(_NOTES):
                await store.delete(meta.key)
    return gone


def _is_below(key: str, number: int) -> bool:
    stored = _STORED.fullmatch(key)
    return stored is not None and int(stored[1]) < number


def _read(raw: bytes, kind: type[Note], epoch: int) -> Note | None:
    """The note in `raw`, or None if it makes no sense as one about `epoch`."""
    try:
        note = json.decode(raw, kind)
    except Invalid:
        return None
    return note if (note.format, note.epoch) == (FORMAT, epoch) else None
