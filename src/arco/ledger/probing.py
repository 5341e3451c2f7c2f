"""Probing: which slot and which streams of a domain to look at, and when (P17).

What was quiet is probed ever more rarely; after ten minutes idle targets take turns, and all of them
together cost less than 60 requests an hour. A ring makes its stream due at once, and the slots if nobody
knows the stream yet. What is found moves the watermark that is handed out with it.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from arco.core.errors import Conflict
from arco.ledger.bell import Bell
from arco.ledger.segment import SegmentPlace
from arco.ledger.slot import Slot, slots_of
from arco.ledger.watermark import Watermark
from arco.storage.store import Store

S = TypeVar("S", bound=SegmentPlace)

_SLOTS = "slots"  # the target that is no stream; streams are ULIDs
_SHORTEST_PAUSE_MS = 250
_IDLE_MS = 10 * 60_000
# Between any two idle targets: 50 requests an hour for all of them, which leaves room for a manifest.
_IDLE_PAUSE_MS = 72_000


@dataclass(frozen=True)
class Batch(Generic[S]):
    """New segments in the order of their streams, and the watermark once they are folded."""

    segments: list[S]
    watermark: Watermark


@dataclass
class _Target:
    """Something to probe: when it last had news, and when it is due again."""

    active_ms: float
    due_ms: float = field(default=0)


class Probing(ABC, Generic[S]):
    """A domain's ledger, read on from a watermark; what of a segment is read is up to the follower."""

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

    @abstractmethod
    async def _read_on(self, stream: str) -> list[S]:
        """New segments of a stream; if there are no more for now, it is rescheduled."""

    def _bounded(self, found: Mapping[str, list[S]]) -> list[S]:
        """As much of what was found as one batch may hold; a stream that is cut short is due at once."""
        return [segment for several in found.values() for segment in several]

    async def follow(self) -> AsyncIterator[Batch[S]]:
        """Batches as they come, for ever."""
        while True:
            batch = await self.poll()
            if batch is not None:
                yield batch
                continue
            self.ring(await self._bell.wait(self.due_in_ms()))

    def due_in_ms(self) -> float:
        """How long it takes until there is something to probe, if nobody rings."""
        due = min(target.due_ms for target in self._targets.values())
        return max(1, due - self._clock.elapsed_ms())

    def ring(self, streams: Iterable[str]) -> None:
        """These streams have something new: they are due, or the slots if one of them is unknown."""
        for stream in streams:
            self._targets.get(stream, self._targets[_SLOTS]).due_ms = 0

    async def poll(self, *, everything: bool = False) -> Batch[S] | None:
        """What is new in the targets that are due, or in all of them; None if nothing is."""
        if everything or self._is_due(_SLOTS):
            await self._probe_slots()
        streams = [each for each in self._watermark.open if everything or self._is_due(each)]
        found = await self._store.runtime.tasks.gather(*(self._read_on(each) for each in streams))
        segments = self._bounded(dict(zip(streams, found, strict=True)))
        for last in {segment.stream: segment for segment in segments}.values():
            self._watermark = self._watermark.folded(last.stream, last.seq, seal=last.seal)
            if last.seal:
                del self._targets[last.stream]
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
