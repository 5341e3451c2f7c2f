"""Epochs: how the lease of a domain is stored, and how a process takes the next epoch (P28).

The epochs of a domain are a chain, and an epoch's number is the fencing token. Renewals, releases and
waiters are hints in objects next to their epoch, so a hint about an old epoch is never mistaken for one
about a newer. Losing a hint costs time, not correctness.

A process that has to wait records so in a hint that names the process which has waited longest, and reads
the epoch's renewal five to ten times a second. An epoch is over when it was released, or when its renewal
did not change for the epoch's life by the clock of the waiter. Then the named process goes first and the
others pause for a moment, so that all get a turn.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from arco.core import json
from arco.core.errors import Conflict, Invalid, Unavailable, Unknown
from arco.core.runtime import Runtime
from arco.storage.backend import Meta
from arco.storage.chain import FRESH_MS, Chain, Head
from arco.storage.chain_gc import collect, oldest_retained
from arco.storage.store import Store

FORMAT = 1

MAX_LIFE_MS = 60_000  # waiters wait no longer, whatever the stored epoch says

_POLL_MS = 200  # the longest pause between two reads

# How long the others wait for the named process: time for its next read and its create. After that it has
# left or died, and any process may take the epoch.
_HANDOVER_MS = 500

_HINTS = ".renewal.json"
_STORED = re.compile(r"locks/[^/]+/([0-9]{20})\.(?:[a-z]+\.)*json")


class Epoch(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `locks/{domain}`: its holder, and how long it lives without a renewal."""

    holder: str
    life_ms: int


class Renewal(msgspec.Struct, frozen=True, kw_only=True):
    """The body of `{epoch}.renewal.json`: the holder is alive, or has released the epoch."""

    format: int = FORMAT
    epoch: int
    count: int
    released: bool = False


class LeaseWaiter(msgspec.Struct, frozen=True, kw_only=True):
    """The body of `{epoch}.waiting.renewal.json`: the process that waited longest and goes next.

    Each process measures its wait by its own clock; clocks are never compared.
    """

    format: int = FORMAT
    epoch: int
    waiter: str
    waited_ms: int


HintT = TypeVar("HintT", Renewal, LeaseWaiter)


class Epochs:
    """The epochs of one domain, with their hints."""

    def __init__(self, store: Store, domain: str) -> None:
        self.chain = Chain(store, f"locks/{domain}")
        self._store = store

    async def renewal(self, epoch: int) -> Renewal | None:
        """How often an epoch was renewed, and whether it was released; None if the hint is garbage."""
        raw = await self._store.find(self._key(epoch, "renewal"))
        if raw is None:
            return Renewal(epoch=epoch, count=0)
        return _read(raw, Renewal, epoch)

    async def renew(self, renewal: Renewal) -> bool:
        """Write the renewal or release of an epoch; whether that succeeded."""
        key = self._key(renewal.epoch, "renewal")
        return await self._store.put_hint(key, json.encode(renewal))

    async def waiting(self, epoch: int) -> LeaseWaiter | None:
        """The process that goes next after an epoch, if one waits."""
        raw = await self._store.find(self._key(epoch, "waiting.renewal"))
        return None if raw is None else _read(raw, LeaseWaiter, epoch)

    async def is_awaited(self, epoch: int) -> bool:
        """Whether a process waits for the end of an epoch."""
        return await self.waiting(epoch) is not None

    async def record_waiter(self, waiting: LeaseWaiter) -> bool:
        """Record that a process waits for the end of an epoch; whether that succeeded."""
        key = self._key(waiting.epoch, "waiting.renewal")
        return await self._store.put_hint(key, json.encode(waiting))

    def _key(self, epoch: int, kind: str) -> str:
        # One suffix for all hints (_HINTS): the table of roles lets an API process overwrite it.
        return f"{self.chain.key(epoch).removesuffix('.json')}.{kind}.json"


async def collect_epochs(
    store: Store, domain: str, *, retention_ms: int, dry_run: bool = False
) -> list[Meta]:
    """Delete old epochs of a domain (P6), then their hints; the deleted objects."""
    chain = Chain(store, f"locks/{domain}")
    oldest = await oldest_retained(chain, retention_ms=retention_ms)
    deleted = [meta async for meta in store.list(f"{chain.path}/") if _is_below(meta.key, oldest)]
    if not dry_run:
        await collect(chain, retention_ms=retention_ms)
        for meta in deleted:
            if meta.key.endswith(_HINTS):
                await store.delete(meta.key)
    return deleted


def _is_below(key: str, number: int) -> bool:
    stored = _STORED.fullmatch(key)
    return stored is not None and int(stored[1]) < number


def _read(raw: bytes, kind: type[HintT], epoch: int) -> HintT | None:
    """The hint in `raw`, or None if it is not a valid one about `epoch`."""
    try:
        hint = json.decode(raw, kind)
    except Invalid:
        return None
    return hint if (hint.format, hint.epoch) == (FORMAT, epoch) else None


@dataclass
class _Observation:
    """What this process has observed of one epoch."""

    epoch: int
    waited_ms: int = 0  # how long this process had waited before
    count: int | None = None
    count_ms: float = 0.0  # when this count was first read
    deferred_since_ms: float | None = None  # since when it is over and another process goes next
    is_registered: bool = False  # whether the hint names this process, or one that waited longer


class LeaseCandidate:
    """One process that competes for the lease of a domain."""

    def __init__(self, runtime: Runtime, epochs: Epochs, mine: Epoch) -> None:
        self._rng = runtime.rng
        self._clock = runtime.clock
        self._epochs = epochs
        self._mine = mine
        self._observation = _Observation(-1)
        self._after: Head | None = None
        self._waits_since_ms: float | None = None

    def ended_idle(self, head: Head) -> None:
        """Note that our epoch ended for lack of work, and no process waited."""
        self._after = head

    def handed_over(self, head: Head) -> None:
        """Note that our epoch ended because another process waits, which goes next."""
        self._observation = _Observation(head.number, deferred_since_ms=self._clock.elapsed_ms())

    def lost(self) -> None:
        """Note that another process has taken an epoch after ours."""
        self._after = None

    def last_epoch(self) -> int | None:
        """Our last epoch, if no process waited when it ended and no later one is known."""
        after = self._after
        if after is None or self._clock.elapsed_ms() - after.seen_ms >= FRESH_MS:
            return None
        return after.number

    async def take(self, is_wanted: Callable[[], bool]) -> Head | None:
        """Take the next epoch; None as soon as it is no longer wanted.

        The time waited and the observations are kept for the next call.
        """
        if self._waits_since_ms is None:
            self._waits_since_ms = self._clock.elapsed_ms()
        head = self._own_end()
        is_free = head is not None
        while is_wanted():
            head = head or await self._epochs.chain.head()
            if is_free or await self._is_free(head):
                own_head = await self._append(head)
                if own_head is not None:
                    self._waits_since_ms = None
                    return own_head
                head, is_free = None, False
                continue
            await self._clock.sleep(_POLL_MS * (0.5 + self._rng.random() / 2))
            if self._observation.deferred_since_ms is not None:
                head = None  # the named process has taken it by now, or soon will
        return None

    def _own_end(self) -> Head | None:
        """Our last epoch, if no process waited when it ended: usually there is no competitor to read of.

        The create fails if there is one, except for a head so old that its successor may be collected.
        """
        after, self._after = self._after, None
        if after is None or self._clock.elapsed_ms() - after.seen_ms >= FRESH_MS:
            return None
        return after

    async def _append(self, after: Head) -> Head | None:
        """Create the epoch after `after`; None if another process has taken it."""
        try:
            return await self._epochs.chain.append(after, self._mine)
        except Conflict:
            return None
        except Unknown as unclear:
            # If the create succeeded after all, the epoch names this process, which recognizes it.
            raise Unavailable("could not take the lease; retry") from unclear

    async def _is_free(self, head: Head) -> bool:
        """Whether the epoch at the head is over, and this process goes next."""
        if head.entry is None:
            return True
        epoch = head.entry.body(Epoch)
        if self._observation.epoch != head.number:
            self._observation = _Observation(head.number, self._waited_ms())
        observation = self._observation
        if observation.deferred_since_ms is not None:
            return self._clock.elapsed_ms() - observation.deferred_since_ms >= _HANDOVER_MS
        # An epoch of this process is over too: it would not take another one otherwise.
        is_mine = epoch.holder == self._mine.holder
        if is_mine or await self._has_ended(observation, min(epoch.life_ms, MAX_LIFE_MS)):
            return await self._is_next(observation)
        await self._register_waiter(observation)
        return False

    def _waited_ms(self) -> int:
        since_ms = self._waits_since_ms
        return 0 if since_ms is None else int(self._clock.elapsed_ms() - since_ms)

    async def _has_ended(self, observation: _Observation, life_ms: int) -> bool:
        """Whether the epoch of another process is over, by one more read."""
        sent_ms = self._clock.elapsed_ms()
        renewal = await self._epochs.renewal(observation.epoch)
        if renewal is None or renewal.released:
            return True
        if renewal.count != observation.count:
            observation.count, observation.count_ms = renewal.count, self._clock.elapsed_ms()
            return False
        return sent_ms - observation.count_ms >= life_ms

    async def _is_next(self, observation: _Observation) -> bool:
        """Whether no other process has waited longer for the end of an epoch."""
        first = await self._epochs.waiting(observation.epoch)
        if first is None or first.waiter == self._mine.holder:
            return True
        observation.deferred_since_ms = self._clock.elapsed_ms()
        return False

    async def _register_waiter(self, observation: _Observation) -> None:
        """Record this process as the one that has waited longest, unless another has.

        The next read checks it again: a process that waited less may have written at the same time.
        """
        if observation.is_registered:
            return
        mine = LeaseWaiter(
            epoch=observation.epoch, waiter=self._mine.holder, waited_ms=observation.waited_ms
        )
        first = await self._epochs.waiting(observation.epoch)
        observation.is_registered = first is not None and first.waited_ms >= mine.waited_ms
        if not observation.is_registered:
            await self._epochs.record_waiter(mine)
