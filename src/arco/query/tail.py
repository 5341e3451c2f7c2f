"""The ledger's tail: rows of events that were acknowledged and are in no manifest yet, for fresh reads.

A domain's streams are followed from the watermark of its manifest. What the segments above it say is read
by the same code as in a compaction, so that, folded with the state, it is what the next manifest will say.
A segment never changes: what was read of it stays in memory until a manifest has it.

Cost in round trips beside the snapshot: from an empty process, one for each new slot, one or two for the
floor, two for each doubling of the longest run of new segments, and one for every 32 segments to be read;
when nothing is new since the last fresh read, two: the next slot, then the next segment of all streams.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from arco.core import json
from arco.core.errors import Conflict, Unavailable
from arco.core.hashing import sha256_hex
from arco.core.tasks import Event
from arco.events.read import read_segment
from arco.ledger.follower import PlaceFollower
from arco.ledger.segment import Segment, SegmentPlace, find_segment
from arco.ledger.slot import Slot, slots_of
from arco.ledger.watermark import Watermark
from arco.query.limits import Limits
from arco.storage.store import Store

_FIRST, _AT_ONCE = 8, 32
_RETRY_AFTER_MS = 5_000


@dataclass(frozen=True)
class Fresh:
    """The rows above a watermark, by table and not folded, under a key that says which they are."""

    key: str
    rows: dict[str, pa.Table]


@dataclass(frozen=True)
class _Read:
    """A segment that was read."""

    seal: bool
    events: int
    size_bytes: int
    rows: Mapping[str, pa.Table]


class LedgerTail:
    """The tail of one domain, as far as it was read."""

    def __init__(self, store: Store, domain: str, limits: Limits) -> None:
        self._store = store
        self._domain = domain
        self._limits = limits
        self._tasks = store.runtime.tasks
        self._slots = slots_of(store, domain)
        self._streams: dict[int, str] = {}  # by slot
        self._read: dict[tuple[str, int], _Read] = {}
        self._retained_from: Mapping[str, datetime] = {}
        self._follower: PlaceFollower | None = None
        self._mark = Watermark()  # where it stands
        self._busy: Event | None = None

    async def since(self, watermark: Watermark, retained_from: Mapping[str, datetime]) -> Fresh:
        """All that was acknowledged before this call and is above a watermark.

        `Conflict` if the watermark is too old for that, and `Unavailable` if it is too much.
        """
        while self._busy is not None:
            await self._busy.wait()
        self._busy = self._tasks.event()
        try:
            return await self._since(watermark, retained_from)
        finally:
            self._busy.set()
            self._busy = None

    async def _since(self, watermark: Watermark, retained_from: Mapping[str, datetime]) -> Fresh:
        if retained_from != self._retained_from:
            self._read, self._retained_from = {}, dict(retained_from)
        mark = self._forget_below(watermark)
        if self._follower is None or mark != self._mark:
            self._follower = self._follow(mark)
        follower, self._follower = (
            self._follower,
            None,
        )  # one that failed half way is not asked again
        batch = await follower.poll(everything=True)
        if batch is not None:
            await self._learn_slots(mark.frontier, batch.watermark.frontier)
            await self._take(batch.segments)
            mark = batch.watermark
        self._follower, self._mark = follower, mark
        self._check_room()
        return self._fresh(retained_from)

    def _follow(self, mark: Watermark) -> PlaceFollower:
        most = self._limits.fresh_segments + 1
        return PlaceFollower(self._store, self._domain, mark, most=most)

    def _forget_below(self, watermark: Watermark) -> Watermark:
        """How far above a watermark everything was read; what is not above it is forgotten."""
        kept: dict[tuple[str, int], _Read] = {}
        mark = watermark
        while mark.frontier in self._streams:
            mark = mark.registered(self._streams[mark.frontier])
        for stream, last in list(mark.open.items()):
            at = (stream, last + 1)
            while (read := self._read.get(at)) is not None:
                kept[at] = read
                mark = mark.folded(*at, seal=read.seal)
                at = (stream, at[1] + 1)
        self._read = kept
        frontier = watermark.frontier
        self._streams = {at: name for at, name in self._streams.items() if at >= frontier}
        return mark

    async def _learn_slots(self, first: int, end: int) -> None:
        for number in range(first, end):
            entry = await self._slots.find(number)
            if entry is None:
                raise Conflict(f"slot {number} of {self._domain} was collected meanwhile")
            self._streams[number] = entry.body(Slot).stream

    async def _take(self, places: list[SegmentPlace]) -> None:
        """Read segments until the limits are reached, never many large ones at once."""
        if len(self._read) + len(places) > self._limits.fresh_segments:
            raise self._too_far()
        waiting, stride, largest = places, _FIRST, 1
        while waiting:
            room = self._check_room()
            stride = max(1, min(stride, _AT_ONCE, room // largest))
            found = await self._tasks.gather(*(self._find(place) for place in waiting[:stride]))
            for segment in found:
                self._read[segment.stream, segment.seq] = await self._parsed(segment)
                largest = max(largest, len(segment.body))
            waiting, stride = waiting[stride:], 2 * stride

    async def _find(self, place: SegmentPlace) -> Segment:
        segment = await find_segment(self._store, self._domain, place.stream, place.seq)
        if segment is None:
            raise Conflict(f"segment {place.seq} of {place.stream} was collected meanwhile")
        return segment

    async def _parsed(self, segment: Segment) -> _Read:
        domain, retained = self._domain, self._retained_from
        reading = await self._tasks.in_thread(lambda: read_segment(domain, segment, retained))
        return _Read(segment.seal, segment.events, len(segment.body), reading.rows)

    def _check_room(self) -> int:
        """How many bytes may still be read, or `Unavailable` if it is too much already."""
        events = sum(read.events for read in self._read.values())
        room = self._limits.fresh_bytes - sum(read.size_bytes for read in self._read.values())
        if events > self._limits.fresh_events or room < 0:
            raise self._too_far()
        return room

    def _too_far(self) -> Unavailable:
        return Unavailable(
            f"more events of {self._domain} wait to be compacted than a fresh read can take: "
            "ask for what is published, or wait for the compactor",
            retry_after_ms=_RETRY_AFTER_MS,
        )

    def _fresh(self, retained_from: Mapping[str, datetime]) -> Fresh:
        rows: dict[str, list[pa.Table]] = {}
        for at in sorted(self._read):
            for name, table in self._read[at].rows.items():
                rows.setdefault(name, []).append(table)
        key = sha256_hex(json.encode([self._domain, sorted(self._read), dict(retained_from)]))
        return Fresh(key, {name: pa.concat_tables(several) for name, several in rows.items()})
