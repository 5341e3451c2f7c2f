"""The ledger's tail: events that were acknowledged and are in no manifest yet, for fresh reads.

A domain's streams are followed from the watermark of its manifest. The segments above it are kept as they
are stored, within limits of bytes and events: only an SQL process makes rows of them (`expand`), by the
same code as a compaction, so that, folded with the state, it is what the next manifest will say. A segment
never changes: it stays in memory until a manifest has it.

Cost in round trips beside the snapshot: from an empty process, one for each new slot, one or two for the
floor, two for each doubling of the longest run of new segments, and one for every 32 segments to be read;
when nothing is new since the last fresh read, two: the next slot, then the next segment of all streams.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from arco.core import json
from arco.core.errors import BacklogTooLarge, Conflict
from arco.core.hashing import sha256_hex
from arco.core.tasks import Event
from arco.events.registry import total_rows
from arco.ledger.envelope import RowCount
from arco.ledger.follower import PlaceFollower
from arco.ledger.segment import Segment, SegmentPlace, find_segment
from arco.ledger.slot import Slot, slots_of
from arco.ledger.watermark import Watermark
from arco.query.limits import QueryLimits
from arco.query.protocol import ExpandSegments, SegmentSlice
from arco.query.system_tables import DomainTable
from arco.query.worker_pool import WorkerClient
from arco.storage.store import Store

_FIRST, _AT_ONCE = 8, 32
_RETRY_AFTER_MS = 5_000


@dataclass(frozen=True)
class TailSegment:
    """A segment above the watermark, and how many rows it makes of each table that was asked for."""

    segment: Segment
    row_counts: dict[str, RowCount] = field(default_factory=dict)


@dataclass(frozen=True)
class LedgerTail:
    """All segments of a domain above a watermark, in their order."""

    domain: str
    segments: Sequence[TailSegment]
    retained_from: Mapping[str, datetime]

    @cached_property
    def retention_key(self) -> str:
        """Another where other events are too old to be read."""
        return sha256_hex(json.encode(dict(self.retained_from)))[:16]

    @cached_property
    def key(self) -> str:
        """Another where the rows may be others."""
        places = [(each.segment.stream, each.segment.seq) for each in self.segments]
        return sha256_hex(json.encode([self.domain, places, self.retention_key]))

    def segment_key(self, table: str, segment: Segment) -> str:
        """What the rows of one table that one segment makes are kept under."""
        return f"{self.domain}/{table}/{self.retention_key}/{segment.stream}/{segment.seq}"

    def segment_keys(self, table: str) -> tuple[str, ...]:
        """The same of all segments."""
        return tuple(self.segment_key(table, each.segment) for each in self.segments)

    def check_rows(self, table: str, most: RowCount) -> RowCount:
        """How much is left for segments whose rows were not counted yet, or `BacklogTooLarge`."""
        counted = total_rows(each.row_counts.get(table, RowCount()) for each in self.segments)
        if not counted.fits(most):
            events = sum(each.segment.events for each in self.segments)
            raise backlog_too_large(
                f"{events} events of {self.domain} wait to be compacted, and they make at least "
                f"{counted.rows} rows of {table} with {counted.text_bytes} bytes of text; "
                f"a fresh read takes at most {most.rows} rows with {most.text_bytes} bytes",
            )
        return most.minus(counted)


class LedgerTailReader:
    """The tail of one domain, as far as it was read."""

    def __init__(self, store: Store, domain: str, limits: QueryLimits) -> None:
        self._store = store
        self._domain = domain
        self._limits = limits
        self._tasks = store.runtime.tasks
        self._slots = slots_of(store, domain)
        self._streams: dict[int, str] = {}  # by slot
        self._read: dict[tuple[str, int], TailSegment] = {}
        self._retained_from: Mapping[str, datetime] = {}
        self._follower: PlaceFollower | None = None
        self._mark = Watermark()  # where it stands
        self._busy: Event | None = None

    async def since(
        self, watermark: Watermark, retained_from: Mapping[str, datetime]
    ) -> LedgerTail:
        """All that was acknowledged before this call and is above a watermark.

        `Conflict` if the watermark is too old for that, and `BacklogTooLarge` if it is too much.
        """
        while self._busy is not None:
            await self._busy.wait()
        self._busy = self._tasks.event()
        try:
            return await self._since(watermark, retained_from)
        finally:
            self._busy.set()
            self._busy = None

    async def _since(
        self, watermark: Watermark, retained_from: Mapping[str, datetime]
    ) -> LedgerTail:
        if retained_from != self._retained_from:
            self._retained_from = dict(retained_from)
            for each in self._read.values():
                each.row_counts.clear()
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
        segments = tuple(self._read[at] for at in sorted(self._read))
        return LedgerTail(self._domain, segments, self._retained_from)

    def _follow(self, mark: Watermark) -> PlaceFollower:
        most = self._limits.fresh_segments + 1
        return PlaceFollower(self._store, self._domain, mark, most=most)

    def _forget_below(self, watermark: Watermark) -> Watermark:
        """How far above a watermark everything was read; what is not above it is forgotten."""
        kept: dict[tuple[str, int], TailSegment] = {}
        mark = watermark
        while mark.frontier in self._streams:
            mark = mark.registered(self._streams[mark.frontier])
        for stream, last in list(mark.open.items()):
            at = (stream, last + 1)
            while (read := self._read.get(at)) is not None:
                kept[at] = read
                mark = mark.folded(*at, seal=read.segment.seal)
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
        most = self._limits.fresh_segments
        if len(self._read) + len(places) > most:
            raise self._too_much(f"more than {most} segments with events of")
        waiting, stride, largest = places, _FIRST, 1
        while waiting:
            room = self._check_room()
            stride = max(1, min(stride, _AT_ONCE, room // largest))
            found = await self._tasks.gather(*(self._find(place) for place in waiting[:stride]))
            for segment in found:
                self._read[segment.stream, segment.seq] = TailSegment(segment)
                largest = max(largest, len(segment.raw))
            waiting, stride = waiting[stride:], 2 * stride

    async def _find(self, place: SegmentPlace) -> Segment:
        segment = await find_segment(self._store, self._domain, place.stream, place.seq)
        if segment is None:
            raise Conflict(f"segment {place.seq} of {place.stream} was collected meanwhile")
        return segment

    def _check_room(self) -> int:
        """How many bytes may still be read, or `BacklogTooLarge` if it is too much already."""
        most_events, most_bytes = self._limits.fresh_events, self._limits.fresh_bytes
        segments = [each.segment for each in self._read.values()]
        events, size_bytes = (
            sum(each.events for each in segments),
            sum(len(each.raw) for each in segments),
        )
        if events > most_events:
            raise self._too_much(f"more than {most_events} events of")
        if size_bytes > most_bytes:
            raise self._too_much(f"{events} events or more, of more than {most_bytes} bytes, of")
        return most_bytes - size_bytes

    def _too_much(self, waiting: str) -> BacklogTooLarge:
        return backlog_too_large(
            f"{waiting} {self._domain} wait to be compacted, more than a fresh read takes"
        )


def backlog_too_large(reason: str) -> BacklogTooLarge:
    """The refusal of a fresh read."""
    return BacklogTooLarge(
        f"{reason}: read the published state (freshness=published), or wait for the compactor",
        retry_after_ms=_RETRY_AFTER_MS,
    )


_MESSAGE_BYTES = 8 * 1024 * 1024  # of segments in one message; one that is larger goes alone


async def send_tail(
    talk: WorkerClient,
    state: DomainTable,
    tail: LedgerTail,
    lacking: Container[str],
    limits: QueryLimits,
) -> None:
    """Send the segments whose rows of a table are among the `lacking` keys.

    `BacklogTooLarge` if all segments together make more rows of it than a fresh read takes.
    """
    table, most = state.table.name, limits.fresh_room
    room = tail.check_rows(table, most)
    missing = [each for each in tail.segments if tail.segment_key(table, each.segment) in lacking]
    for batch in _batches(missing):
        # Those that another process has expanded before are counted already.
        counted = total_rows(each.row_counts.get(table, RowCount()) for each in batch)
        message = ExpandSegments(
            state=state.name,
            segments=tuple(_slice(tail, table, each) for each in batch),
            retained_from=dict(tail.retained_from),
            room=room.plus(counted),
        )
        counts = await talk.expand(message, b"".join(each.segment.raw for each in batch))
        for each, count in zip(batch, counts, strict=True):
            each.row_counts[table] = count
        room = tail.check_rows(table, most)


def _slice(tail: LedgerTail, table: str, each: TailSegment) -> SegmentSlice:
    segment = each.segment
    key = tail.segment_key(table, segment)
    return SegmentSlice(key, segment.stream, segment.seq, len(segment.raw))


def _batches(segments: Sequence[TailSegment]) -> Iterator[list[TailSegment]]:
    batch: list[TailSegment] = []
    size_bytes = 0
    for each in segments:
        if batch and size_bytes + len(each.segment.raw) > _MESSAGE_BYTES:
            yield batch
            batch, size_bytes = [], 0
        batch.append(each)
        size_bytes += len(each.segment.raw)
    if batch:
        yield batch
