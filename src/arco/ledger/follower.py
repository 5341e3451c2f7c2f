"""The follower: finds new segments by their keys, with few requests while there are none (P17).

A quiet stream is probed less and less often; after ten minutes idle targets take turns, and all of them
together cost less than 60 requests an hour. A notification makes its stream due at once, and the slots if
the stream is not known yet. As a stream has no holes (P15), its end is found by galloping, and only a few
bytes of a few segments are read.

The watermark of a batch is published with the manifest that folds the batch. After a failed publication,
start a new follower from the published watermark.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from arco.core.errors import Conflict
from arco.core.lru_cache import LruCache
from arco.ledger.segment import Segment, SegmentLocation, find_location
from arco.ledger.stream import Slot, Watermark, slot_chain
from arco.storage.chain import last_present
from arco.storage.store import Store

_CACHE_BYTES = 4 * 1024 * 1024


class SegmentCache:
    """The bytes of durable segments of one domain, so that the fold need not read them from the store."""

    def __init__(self, max_bytes: int = _CACHE_BYTES) -> None:
        self._segments = LruCache[tuple[str, int], bytes](max_bytes, len)

    def add(self, segment: Segment) -> None:
        """Cache a segment, which is in the store with these bytes."""
        self._segments.put((segment.stream, segment.seq), segment.raw)

    def find(self, stream: str, seq: int) -> bytes | None:
        """The bytes of a segment, if they are cached."""
        return self._segments.get((stream, seq))

    def remove(self, stream: str, seq: int) -> None:
        """Drop a segment that was folded."""
        self._segments.pop((stream, seq))

    def clear(self) -> None:
        """Drop all segments."""
        self._segments.clear()

    def last_consecutive(self, stream: str, first: int) -> int:
        """The last cached segment from `first` on without a gap; `first - 1` if that is not cached."""
        seq = first
        while (stream, seq) in self._segments:
            seq += 1
        return seq - 1


MAX_BATCH_SEGMENTS = 8_192  # of all streams in one batch: the input of one job

_SLOTS = "slots"  # the one target that is not a stream; streams are ULIDs
_MIN_PAUSE_MS = 250
_IDLE_MS = 10 * 60_000
# Between any two idle targets: 50 requests an hour for all, which leaves 10 for the manifest.
_IDLE_PAUSE_MS = 72_000


@dataclass(frozen=True)
class SegmentBatch:
    """New segments in the order of their streams, and the watermark when they are folded."""

    segments: list[SegmentLocation]
    watermark: Watermark


@dataclass
class _Target:
    """A stream or the slots: when it last had news, and when it is due again."""

    active_ms: float
    due_ms: float = field(default=0)


class SegmentFollower:
    """Reads the ledger of a domain on from a watermark: which segments there are, not what they hold."""

    def __init__(
        self,
        store: Store,
        domain: str,
        watermark: Watermark,
        *,
        most: int = MAX_BATCH_SEGMENTS,
        handed: SegmentCache | None = None,
    ) -> None:
        self.most = most
        self._store = store
        self._domain = domain
        self._handed = handed or SegmentCache()
        self._clock = store.runtime.clock
        self._slots = slot_chain(store, domain)
        self._watermark = self._returned = watermark
        self._is_above_floor = False
        now = self._clock.elapsed_ms()
        self._last_turn_ms = now
        self._targets = {each: _Target(now) for each in (_SLOTS, *watermark.open)}

    def due_in_ms(self) -> float:
        """The time until a target is due, if no notification comes."""
        due = min(target.due_ms for target in self._targets.values())
        return max(1, due - self._clock.elapsed_ms())

    def notify(self, streams: Iterable[str]) -> None:
        """These streams have new segments: they are due now, or the slots for an unknown one."""
        for stream in streams:
            self._targets.get(stream, self._targets[_SLOTS]).due_ms = 0

    async def poll(self, *, everything: bool = False) -> SegmentBatch | None:
        """New segments of the targets that are due, or of all of them; None if there are none."""
        if everything or self._is_due(_SLOTS):
            await self._probe_slots()
        streams = [each for each in self._watermark.open if everything or self._is_due(each)]
        unread = await self._store.runtime.tasks.gather(*(self._read_on(each) for each in streams))
        segments = self._bounded(dict(zip(streams, unread, strict=True)))
        for last_segment in {segment.stream: segment for segment in segments}.values():
            self._watermark = self._watermark.folded(
                last_segment.stream, last_segment.seq, seal=last_segment.seal
            )
            if last_segment.seal:
                del self._targets[last_segment.stream]
        if self._watermark == self._returned:
            return None
        self._returned = self._watermark
        return SegmentBatch(segments, self._watermark)

    async def _read_on(self, stream: str) -> list[SegmentLocation]:
        async def probe(seq: int) -> SegmentLocation | None:
            return await find_location(self._store, self._domain, stream, seq)

        first_seq = self._watermark.open[stream] + 1
        # Cached segments exist and are no seals, so the search starts after them.
        last_seq, end = await last_present(probe, self._handed.last_consecutive(stream, first_seq))
        self._reschedule(stream, news=last_seq >= first_seq)
        is_sealed = end is not None and end.seal
        return [
            SegmentLocation(stream, seq, seal=is_sealed and seq == last_seq)
            for seq in range(first_seq, last_seq + 1)
        ]

    def _bounded(self, available: Mapping[str, list[SegmentLocation]]) -> list[SegmentLocation]:
        """At most `most` segments: short streams in full, the others share the rest and are due at once."""
        space, waiting = self.most, sum(1 for several in available.values() if several)
        chosen: dict[str, list[SegmentLocation]] = {}
        for stream, several in sorted(available.items(), key=lambda each: len(each[1])):
            if not several:
                continue
            chosen[stream] = several[: max(1, space // waiting)]
            space -= len(chosen[stream])
            waiting -= 1
            if len(chosen[stream]) < len(several):
                self.notify([stream])
        return [segment for stream in available for segment in chosen.get(stream, ())]

    async def _probe_slots(self) -> None:
        news = False
        while (entry := await self._slots.find(self._watermark.frontier)) is not None:
            stream = entry.body(Slot).stream
            self._watermark = self._watermark.registered(stream)
            self._targets[stream] = _Target(self._clock.elapsed_ms())
            news = True
        if not self._is_above_floor:
            await self._refuse_gap()
        self._reschedule(_SLOTS, news=news)

    async def _refuse_gap(self) -> None:
        """`Conflict` if slots that this watermark has yet to read were collected (P8).

        Then a newer watermark is published, and this one is from before a sleep. If the published one is
        the same, a manifest was lost.
        """
        floor = await self._slots.floor()
        if self._watermark.frontier < floor:
            raise Conflict(
                f"the watermark is at slot {self._watermark.frontier}, below the floor {floor}"
            )
        self._is_above_floor = True

    def _is_due(self, target: str) -> bool:
        return self._targets[target].due_ms <= self._clock.elapsed_ms()

    def _reschedule(self, name: str, *, news: bool) -> None:
        target, now = self._targets[name], self._clock.elapsed_ms()
        if news:
            target.active_ms = now
        idle = now - target.active_ms
        target.due_ms = now + max(_MIN_PAUSE_MS, idle / 2)
        if target.due_ms - target.active_ms >= _IDLE_MS:
            target.due_ms = self._next_turn(now)

    def _next_turn(self, now: float) -> float:
        """Idle targets take turns: one at a time, each as often as the others."""
        turn = max(now, self._last_turn_ms) + _IDLE_PAUSE_MS
        self._last_turn_ms = min(turn, now + _IDLE_PAUSE_MS * len(self._targets))
        return self._last_turn_ms
