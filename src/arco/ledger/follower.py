"""The follower: finds new segments by their known keys, and hardly asks while there are none (P17).

It probes the next slot and, in each open stream, the next segment. What was quiet is probed ever more
rarely; after ten minutes idle targets take turns, and all of them together cost less than 60 requests
an hour. A ring makes its stream due at once. The watermark it hands out goes into the manifest of
whoever folds the batch.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from arco.core.errors import Conflict
from arco.ledger.bell import Bell
from arco.ledger.segment import Segment, find_segment
from arco.ledger.slot import Slot, slots_of
from arco.ledger.watermark import Watermark
from arco.storage.store import Store

_SLOTS = "slots"  # the target that is no stream; streams are ULIDs
_SHORTEST_PAUSE_MS = 250
_IDLE_MS = 10 * 60_000
_IDLE_PAUSE_MS = (
    61_000  # between any two idle targets: less than 60 requests an hour for all of them
)
_READ_AHEAD = 16
_MOST_BYTES = (
    64 * 1024 * 1024
)  # of one stream in one batch, so that an outage does not end in memory


@dataclass(frozen=True)
class Batch:
    """New segments in the order of their streams, and the watermark once they are folded."""

    segments: list[Segment]
    watermark: Watermark


@dataclass
class _Target:
    """Something to probe: when it last had news, and when it is due again."""

    active_ms: float
    due_ms: float = field(default=0)


class Follower:
    """A domain's ledger, read on from a watermark.

    Who cannot publish a batch makes a new follower from the watermark that is published.
    """

    def __init__(
        self, store: Store, domain: str, watermark: Watermark, *, bell: Bell | None = None
    ) -> None:
        self._store = store
        self._domain = domain
        self._clock = store.runtime.clock
        self._bell = bell or Bell(store.runtime.tasks)
        self._slots = slots_of(store, domain)
        self._watermark = self._handed_out = watermark
        self._is_above_floor = False
        now = self._clock.elapsed_ms()
        self._last_turn_ms = now
        self._targets = {each: _Target(now) for each in (_SLOTS, *watermark.open)}

    async def follow(self) -> AsyncIterator[Batch]:
        """Batches as they come, for ever."""
        while True:
            batch = await self.poll()
            if batch is not None:
                yield batch
                continue
            due = min(target.due_ms for target in self._targets.values())
            for stream in await self._bell.wait(max(1, due - self._clock.elapsed_ms())):
                self._targets.get(stream, self._targets[_SLOTS]).due_ms = 0

    async def poll(self, *, everything: bool = False) -> Batch | None:
        """What is new in the targets that are due, or in all of them; None if nothing is."""
        if everything or self._is_due(_SLOTS):
            await self._probe_slots()
        streams = [each for each in self._watermark.open if everything or self._is_due(each)]
        found = await self._store.runtime.tasks.gather(*(self._read_on(each) for each in streams))
        segments = [segment for several in found for segment in several]
        for segment in segments:
            self._watermark = self._watermark.folded(segment.stream, segment.seq, seal=segment.seal)
            if segment.seal:
                del self._targets[segment.stream]
        if self._watermark == self._handed_out:
            return None
        self._handed_out = self._watermark
        return Batch(segments, self._watermark)

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

        Then a newer watermark is published, and ours is from before a sleep. Who reads it again and
        finds the same has lost a manifest.
        """
        floor = await self._slots.floor()
        if self._watermark.frontier < floor:
            raise Conflict(
                f"the watermark stands at slot {self._watermark.frontier}, below {floor}"
            )
        self._is_above_floor = True

    async def _read_on(self, stream: str) -> list[Segment]:
        """All new segments of a stream, read ahead in growing strides."""
        found: list[Segment] = []
        stride, next_seq = 1, self._watermark.open[stream] + 1
        while True:
            wanted = range(next_seq, next_seq + stride)
            read = await self._store.runtime.tasks.gather(*(self._find(stream, n) for n in wanted))
            for segment in read:
                if segment is None:
                    self._reschedule(stream, news=bool(found))
                    return found
                found.append(segment)
                if segment.seal:
                    return found
            if sum(segment.size_bytes for segment in found) > _MOST_BYTES:
                return found  # and due again at once
            next_seq, stride = next_seq + stride, min(stride * 2, _READ_AHEAD)

    async def _find(self, stream: str, seq: int) -> Segment | None:
        return await find_segment(self._store, self._domain, stream, seq)

    def _is_due(self, target: str) -> bool:
        return self._targets[target].due_ms <= self._clock.elapsed_ms()

    def _reschedule(self, name: str, *, news: bool) -> None:
        target, now = self._targets[name], self._clock.elapsed_ms()
        if news:
            target.active_ms = now
        idle = now - target.active_ms
        target.due_ms = now + max(_SHORTEST_PAUSE_MS, idle / 2)
        if target.due_ms - target.active_ms >= _IDLE_MS:
            target.due_ms = self._next_turn(now)

    def _next_turn(self, now: float) -> float:
        """Idle targets take turns: one of them is asked at a time, each as often as the others."""
        turn = max(now, self._last_turn_ms) + _IDLE_PAUSE_MS
        self._last_turn_ms = min(turn, now + _IDLE_PAUSE_MS * len(self._targets))
        return self._last_turn_ms
