"""Epochs: the lease of a domain as it is stored, and the notes beside it (P28).

The epochs of a domain are a numbered chain, and an epoch's number is the fencing token. Renewal, release
and the wish of a waiter are hints beside the epoch that they speak of, so an old one can never be
mistaken for one about a newer epoch. Losing a hint costs time, never truth.
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
from arco.storage.collect import collect, oldest_needed
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


class LeaseWaiter(msgspec.Struct, frozen=True, kw_only=True):
    """The body of `{epoch}.waiting.renewal.json`: who is to be next, as the one who waited longest.

    How long somebody waited is measured on its own clock; no two clocks are ever compared.
    """

    format: int = FORMAT
    epoch: int
    waiter: str
    waited_ms: int


Note = TypeVar("Note", Renewal, LeaseWaiter)


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

    async def waiting(self, epoch: int) -> LeaseWaiter | None:
        """Who is to be next after an epoch, if anybody waits for its end."""
        raw = await self._store.find(self._key(epoch, "waiting.renewal"))
        return None if raw is None else _read(raw, LeaseWaiter, epoch)

    async def is_awaited(self, epoch: int) -> bool:
        """Whether anybody waits for the end of an epoch."""
        return await self.waiting(epoch) is not None

    async def wait_in_line(self, waiting: LeaseWaiter) -> bool:
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
    kept = await oldest_needed(chain, retention_ms=retention_ms)
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


_LOOK_MS = 200  # the longest pause between two looks

# How long others stand back for the one who is named: time for its next look and its create. After that
# it has left or died, and anybody may go.
_COURTESY_MS = 500


@dataclass
class _Sight:
    """What we have seen of one epoch."""

    epoch: int
    waited_ms: int = 0  # how long we had waited before
    count: int | None = None
    count_ms: float = 0.0  # when we first had seen this count
    stood_back_ms: float | None = None  # since when it is over, and another is to be next
    in_line: bool = False  # whether all can see that we wait, or somebody who waited longer


class LeaseCandidate:
    """One process among those that want the lease of a domain."""

    def __init__(self, runtime: Runtime, epochs: Epochs, mine: Epoch) -> None:
        self._rng = runtime.rng
        self._clock = runtime.clock
        self._epochs = epochs
        self._mine = mine
        self._sight = _Sight(-1)
        self._after: Head | None = None
        self._waits_since_ms: float | None = None

    def rested(self, last: Head) -> None:
        """Our own epoch is over for want of work, and nobody waited for its end."""
        self._after = last

    def yielded(self, last: Head) -> None:
        """Our own epoch is over because another waits: it is to be next."""
        self._sight = _Sight(last.number, stood_back_ms=self._clock.elapsed_ms())

    def passed(self) -> None:
        """Another has taken an epoch after ours."""
        self._after = None

    def last(self) -> int | None:
        """Our last epoch, if nobody waited when we rested and none is known to have come after it."""
        after = self._after
        if after is None or self._clock.elapsed_ms() - after.seen_ms >= FRESH_MS:
            return None
        return after.number

    async def take(self, is_wanted: Callable[[], bool]) -> Head | None:
        """The next epoch, which is ours; None as soon as nobody wants it any more.

        Who gives up keeps its place: the next call goes on with what was seen and waited so far.
        """
        if self._waits_since_ms is None:
            self._waits_since_ms = self._clock.elapsed_ms()
        head = self._own_end()
        is_free = head is not None
        while is_wanted():
            head = head or await self._epochs.chain.head()
            if is_free or await self._is_free(head):
                taken = await self._append(head)
                if taken is not None:
                    self._waits_since_ms = None
                    return taken
                head, is_free = None, False
                continue
            await self._clock.sleep(_LOOK_MS * (0.5 + self._rng.random() / 2))
            if self._sight.stood_back_ms is not None:
                head = None  # the one who is named has taken it by now, or soon will
        return None

    def _own_end(self) -> Head | None:
        """Our last epoch, if nobody waited when we rested: mostly we are alone, and need not look.

        The create itself will tell, but not for a head so old that its successor may be collected.
        """
        after, self._after = self._after, None
        if after is None or self._clock.elapsed_ms() - after.seen_ms >= FRESH_MS:
            return None
        return after

    async def _append(self, after: Head) -> Head | None:
        """The epoch after `after`, or None if another has taken it."""
        try:
            return await self._epochs.chain.append(after, self._mine)
        except Conflict:
            return None
        except Unknown as unclear:
            # If it lands after all, it bears our name, and we know it again.
            raise Unavailable("could not take the lease; retry") from unclear

    async def _is_free(self, head: Head) -> bool:
        """Whether the epoch at the head is over, and it is for us to follow it."""
        if head.entry is None:
            return True
        epoch = head.entry.body(Epoch)
        if self._sight.epoch != head.number:
            self._sight = _Sight(head.number, self._waited_ms())
        sight = self._sight
        if sight.stood_back_ms is not None:
            return self._clock.elapsed_ms() - sight.stood_back_ms >= _COURTESY_MS
        # Our own is over too: we would not ask if we had it still.
        is_mine = epoch.holder == self._mine.holder
        if is_mine or await self._has_ended(sight, min(epoch.life_ms, LONGEST_LIFE_MS)):
            return await self._is_next(sight)
        await self._stand_in_line(sight)
        return False

    def _waited_ms(self) -> int:
        since_ms = self._waits_since_ms
        return 0 if since_ms is None else int(self._clock.elapsed_ms() - since_ms)

    async def _has_ended(self, sight: _Sight, life_ms: int) -> bool:
        """Whether another's epoch is over, at one more look."""
        sent_ms = self._clock.elapsed_ms()
        renewal = await self._epochs.renewal(sight.epoch)
        if renewal is None or renewal.released:
            return True
        if renewal.count != sight.count:
            sight.count, sight.count_ms = renewal.count, self._clock.elapsed_ms()
            return False
        return sent_ms - sight.count_ms >= life_ms

    async def _is_next(self, sight: _Sight) -> bool:
        """Whether nobody has waited longer for the end of an epoch than we have."""
        first = await self._epochs.waiting(sight.epoch)
        if first is None or first.waiter == self._mine.holder:
            return True
        sight.stood_back_ms = self._clock.elapsed_ms()
        return False

    async def _stand_in_line(self, sight: _Sight) -> None:
        """Let the holder know that somebody waits, and the others who has waited longest.

        Looked at once more after it was said: who has waited less may have spoken at the same time.
        """
        if sight.in_line:
            return
        mine = LeaseWaiter(epoch=sight.epoch, waiter=self._mine.holder, waited_ms=sight.waited_ms)
        first = await self._epochs.waiting(sight.epoch)
        sight.in_line = first is not None and first.waited_ms >= mine.waited_ms
        if not sight.in_line:
            await self._epochs.wait_in_line(mine)
