"""Numbered chains: the one way in which state changes (law 2, P5 to P9).

Number n+1 is created, with put-if-absent, only by a process that has read n; so above its floor a chain has
no holes, and galloping finds its end without a listing. Numbers are collected only below a floor that was
raised first, and a search for the end looks for a newer floor after the first miss. A hint makes the search
short; a hint that is lost or garbage costs time and never correctness.

Cost in requests: 1 when the head is remembered; cold with a fresh hint 4, in 3 round trips; with a
stale one at most 2·log2(gap) + 5.
"""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar, cast

from arco.core.errors import ArcoError, Conflict, Corrupt, Invalid, NotFound, Unknown
from arco.core.lru_cache import LruCache
from arco.core.tasks import Task
from arco.storage.entry import Entry, make_entry, read_entry
from arco.storage.hint import NO_FLOOR, FloorBody, FloorMark, HintWriter, read_hint
from arco.storage.roles import Verb, may
from arco.storage.store import Store

# No number is deleted before its successor has existed for this long, whatever retention is configured:
# longer than the longest signed URL and query, and than any request under way (P9).
SHORTEST_RETENTION_MS = 2 * 3_600_000

# So a head remembered for half of it has not been collected. Writers rely on this constant and never
# on a setting, because collectors may be configured apart from them (P7).
FRESH_MS = SHORTEST_RETENTION_MS / 2

# A hint names the newest floor that its writer knows; it may be this old. An older one costs a cold search
# a few more requests.
_FLOOR_KNOWN_MS = 10 * 60_000

_READ_AHEAD = 16
_MAX_CHAINS = 10_000
_MAX_SPREAD = 8
_MAX_REREADS = 3

T = TypeVar("T")

Probe = Callable[[int], Awaitable[T | None]]

_Pair = tuple[Entry | None, Entry | None]
_FirstRead = Coroutine[Any, Any, FloorMark | _Pair]


async def last_present(
    probe: Probe[T], base: int, best: T | None = None, *, best_offset: int = 0, step: int = 1
) -> tuple[int, T | None]:
    """The last number above `base` that exists, with its value; `base` and `best` if there is none.

    `best` is the value at `base + best_offset`, and `step` the first distance to try. A gallop: in a run
    of numbers without holes it takes twice the logarithm of probes.
    """
    low = base + best_offset
    while (present := await probe(base + step)) is not None:
        low, best, step = base + step, present, step * 2
    missing = base + step
    while missing - low > 1:
        middle = (low + missing) // 2
        present = await probe(middle)
        if present is None:
            missing = middle
        else:
            low, best = middle, present
    return low, best


@dataclass(frozen=True)
class Head:
    """The end of a chain as a process saw it; it may append after it (P5)."""

    entry: Entry | None
    seen_ms: float  # elapsed time, taken before the request that showed it

    @property
    def number(self) -> int:
        """The last number, -1 for an empty chain."""
        return -1 if self.entry is None else self.entry.number


class Chain:
    """One numbered chain at `path`, with what this process remembers of it."""

    def __init__(
        self,
        store: Store,
        path: str,
        *,
        width: int = 20,
        hinted: bool = True,
        floored: bool = True,
    ) -> None:
        self.store = store
        self.path = path.rstrip("/")
        self._width = width
        self._clock = store.runtime.clock
        self._remembered: Head | None = None
        self._floor = NO_FLOOR
        self._floor_seen_ms = float("-inf")
        self._floors = (
            Chain(store, f"{self.path}/floor", hinted=False, floored=False) if floored else None
        )
        self._hint = f"{self.path}/head.json" if hinted else None
        self._hints: HintWriter | None = None
        if self._hint is not None and may(store.role, Verb.HINT, self._hint):
            self._hints = HintWriter(store, self._hint, self._hint_mark)

    def key(self, number: int) -> str:
        """The key of a number."""
        return f"{self.path}/{number:0{self._width}d}.json"

    async def head(self, *, glimpse: Callable[[Entry], None] | None = None) -> Head:
        """The end of the chain: one request if it is remembered and has not moved.

        A cold search calls `glimpse` with the entry that is probably the head before it looks for a newer
        floor, so that the caller can start to load what the entry names: one round trip less. The entry
        may be stale, and another call may follow; so the caller may only read ahead.
        """
        started = self._clock.elapsed_ms()
        remembered = self.remembered()
        if remembered is not None:
            newest = await self.last_above(remembered.number, remembered.entry)
            # The remembered head is younger than anything that may be collected, so no floor can
            # have passed it, unless this process slept during the search (P7).
            if self._is_fresh(remembered):
                return self._remember(Head(newest, started))
        started = self._clock.elapsed_ms()
        return self._remember(Head(await self._search(glimpse), started))

    def remembered(self) -> Head | None:
        """The head as it was last seen, if that is fresh (P7): no request, and perhaps not the end."""
        head = self._remembered
        return head if head is not None and self._is_fresh(head) else None

    def learn(self, entry: Entry) -> bool:
        """Remember an entry that its writer passed on; whether it follows the remembered head (P5)."""
        head = self.remembered()
        if head is None or entry.number != head.number + 1:
            return False
        if head.entry is not None and entry.record.parent_sha256 != head.entry.sha256():
            return False
        self._remember(Head(entry, head.seen_ms))
        return True

    async def read(self, number: int) -> Entry:
        """One number, or `NotFound` if it is above the head or was collected."""
        [entry] = await self.history(number, number)
        return entry

    async def append(self, after: Head, body: object, *, tombstone: bool = False) -> Head:
        """Create the next number; `Conflict` if another did, `Unknown` if that is not known."""
        started = self._clock.elapsed_ms()
        entry = make_entry(self.store.runtime, after.entry, body, tombstone=tombstone)
        try:
            await self.store.create(self.key(entry.number), entry.raw)
        except Conflict:
            await self._refuse_sleeper(after, entry.number)
            raise
        await self._refuse_sleeper(after, entry.number)
        head = self._remember(Head(entry, started))
        if self._hints is not None:
            self._hints.moved(head.number)
        return head

    async def extend(self, build: Callable[[Head], Awaitable[object]]) -> Head:
        """Append what `build` makes of the head, and again of the new head if another was first."""
        losses = 0
        while True:
            started = self._clock.elapsed_ms()
            head = await self.head()
            body = await build(head)
            try:
                return await self.append(head, body)
            except Conflict:
                losses += 1
                # Racing processes spread out on the time scale of this store; one that has lost often
                # stops waiting, so that none starves.
                spread = max(0, min(losses, 2 * _MAX_SPREAD - losses))
                took_ms = self._clock.elapsed_ms() - started
                await self._clock.sleep(took_ms * spread * self.store.runtime.rng.random())

    async def history(self, first: int, last: int) -> list[Entry]:
        """Numbers `first` to `last`, each naming its parent's hash, or `Corrupt`.

        `NotFound` if one is above the head or below the floor: a number below the floor may be a leftover,
        or created again by a process that slept, and says nothing about the chain (P7).
        """
        entries: list[Entry] = []
        for start in range(first, last + 1, _READ_AHEAD):
            numbers = range(start, min(start + _READ_AHEAD, last + 1))
            read = await self.store.runtime.tasks.gather(*(self.find(n) for n in numbers))
            entries += [entry for entry in read if entry is not None]
        floor = await self._newest_floor()
        if first < floor.floor:
            raise NotFound(f"{self.path} was collected below number {floor.floor}")
        if len(entries) <= last - first:
            await self._refuse_hole(first, entries)
            raise NotFound(f"{self.path} does not have all numbers from {first} to {last}")
        for parent, child in pairwise(entries):
            if child.record.parent_sha256 != parent.sha256():
                raise Corrupt(f"number {child.number} of {self.path} does not follow its parent")
        return entries

    async def _refuse_hole(self, first: int, entries: list[Entry]) -> None:
        """`Corrupt` if a number is missing below one that exists (P5, law 14)."""
        present = {entry.number for entry in entries}
        for number in range(first, max(present, default=first)):
            # Read again: two numbers may have been created between two probes.
            if number not in present and await self.find(number) is None:
                raise Corrupt(f"number {number} of {self.path} is missing and was never collected")

    async def floor(self) -> int:
        """The number below which the chain was, or may be, collected."""
        return (await self._newest_floor()).floor

    async def raise_floor(self, floor: int) -> None:
        """Declare that numbers below `floor` may be deleted; `floor` itself stays. For the janitor only."""
        if self._floors is None:
            raise Invalid(f"{self.path} has no floor")
        await self.read(floor)
        while True:
            newest = await self._floors.head()
            if newest.entry is not None and newest.entry.body(FloorBody).floor >= floor:
                return
            try:
                await self._floors.append(newest, FloorBody(floor=floor))
            except Conflict:
                continue

    async def refresh_hint(self) -> bool:
        """Write a hint of the head as it was last seen; whether it was written."""
        return self._hints is not None and await self._hints.write()

    async def close(self) -> None:
        """Write a hint if one is due, for the next process."""
        if self._hints is not None:
            await self._hints.close()

    async def _search(self, glimpse: Callable[[Entry], None] | None) -> Entry | None:
        """The head, with nothing remembered: hint, floor, gallop, and the floor once more (P6)."""
        hint = None if self._hint is None else await read_hint(self.store, self._hint)
        if hint is not None:
            floor = hint.floor_mark()
            start, probed = max(hint.number, floor.floor), None
        else:
            # Mostly nothing was collected, so the first numbers are read together with the floor.
            first_reads = await self.store.runtime.tasks.gather(
                cast("_FirstRead", self._newest_floor()), cast("_FirstRead", self._pair(0))
            )
            floor, pair = cast("FloorMark", first_reads[0]), cast("_Pair", first_reads[1])
            start, probed = floor.floor, pair if floor.floor == 0 else None
        promised = hint is not None or floor.index >= 0
        rereads = 0
        while True:
            low, high = probed or await self._pair(start)
            probed, best = None, low
            if high is not None:
                _, best = await last_present(self.find, start, high, best_offset=1, step=2)
            if best is not None and glimpse is not None:
                glimpse(best)
            newer = await self._newest_floor(floor)
            last_seen = start - 1 if low is None or best is None else best.number
            if newer.index > floor.index and newer.floor > last_seen:
                floor, start, promised = newer, newer.floor, True
                continue
            is_hole = low is None and high is not None
            if (low is None and promised) or (is_hole and rereads == _MAX_REREADS):
                raise Corrupt(f"number {start} of {self.path} is missing and was never collected")
            if is_hole:
                rereads += 1  # both were created, or both collected, between two probes: read again
                continue
            return best

    async def _pair(self, number: int) -> "_Pair":
        """A number and the one after it, None where missing."""
        low, high = await self.store.runtime.tasks.gather(self.find(number), self.find(number + 1))
        return low, high

    async def last_above(self, base: int, best: Entry | None) -> Entry | None:
        """The last entry above `base`, or `best`, the entry at `base`, if there is none."""
        following = await self.find(base + 1)
        if following is None:
            return best  # as almost always: no need to gallop
        _, newest = await last_present(self.find, base, following, best_offset=1, step=2)
        return newest

    async def find(self, number: int) -> Entry | None:
        """One number, or None if it does not exist: a probe."""
        raw = await self.store.find(self.key(number))
        return None if raw is None else read_entry(raw, number, self.path)

    async def _newest_floor(self, base: FloorMark | None = None) -> FloorMark:
        """The newest floor, searched above `base`, or above the one that this process has seen."""
        base = self._floor if base is None else base
        if self._floors is None:
            return base
        seen_ms = self._clock.elapsed_ms()
        entry = await self._floors.last_above(base.index, None)
        newest = base if entry is None else FloorMark(entry.number, entry.body(FloorBody).floor)
        if newest.index > self._floor.index:
            self._floor = newest
        self._floor_seen_ms = seen_ms
        return newest

    async def _hint_mark(self) -> tuple[int, FloorMark]:
        """The number and the floor for a hint written now."""
        number = -1 if self._remembered is None else self._remembered.number
        if self._clock.elapsed_ms() - self._floor_seen_ms < _FLOOR_KNOWN_MS:
            return number, self._floor
        return number, await self._newest_floor()

    async def _refuse_sleeper(self, after: Head, number: int) -> None:
        """`Unknown` if this process slept so long that the number may have been collected (P7).

        Then our create may have recreated a collected number, and a conflicting entry may be where our
        create succeeded before.
        """
        if self._is_fresh(after):
            return
        try:
            newest = await self._newest_floor()
        except ArcoError as unseen:  # for any reason: the create may have succeeded (law 9)
            raise Unknown(f"number {number} of {self.path} may have been collected") from unseen
        if newest != NO_FLOOR and number <= newest.floor:
            raise Unknown(f"number {number} of {self.path} is below what was collected")

    def _is_fresh(self, head: Head) -> bool:
        return self._clock.elapsed_ms() - head.seen_ms < FRESH_MS

    def _remember(self, head: Head) -> Head:
        remembered = self._remembered
        if remembered is None or (head.number, head.seen_ms) > (
            remembered.number,
            remembered.seen_ms,
        ):
            self._remembered = head
        return head


class ChainCache:
    """The chains below one folder that were used recently, each with its remembered head."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._folder = folder
        self._chains = LruCache[str, Chain](_MAX_CHAINS, on_evict=self._close)
        self._closing: set[Task[None]] = set()

    def chain(self, name: str) -> Chain:
        """The chain of this name."""
        chain = self._chains.get(name)
        if chain is None:
            chain = Chain(self._store, f"{self._folder}/{name}")
            self._chains.put(name, chain)
        return chain

    async def close(self) -> None:
        """Write the hints that are due."""
        await self._store.runtime.tasks.gather(*(chain.close() for chain in self._chains.values()))
        for task in list(self._closing):
            await task.wait()

    def _close(self, chain: Chain) -> None:
        self._closing = {task for task in self._closing if not task.done()}
        self._closing.add(self._store.runtime.tasks.spawn(chain.close()))
