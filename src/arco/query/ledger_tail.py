"""The ledger tail: acknowledged events that no manifest holds yet, for fresh reads.

The streams of a domain are followed from the watermark of its manifest. The segments above it are kept as
they are stored, within limits of bytes and events. Only a worker makes rows of them, by the code of
compaction, so that the rows folded with the state are those of the next manifest. A segment never changes:
it stays in memory until a manifest holds it.

Round trips besides the snapshot: with an empty cache, one for each new slot, one or two for the floor, two
for each doubling of the longest run of new segments, and one for every 32 segments to read; if nothing is
new since the last fresh read, two: the next slot, then the next segment of all streams.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from arco.catalog.snapshot import Snapshot
from arco.core import json
from arco.core.errors import BacklogTooLarge, Conflict
from arco.core.hashing import sha256_hex
from arco.core.tasks import AsyncEvent
from arco.events.registry import total_rows
from arco.ledger.envelope import RowVolume
from arco.ledger.follower import SegmentFollower
from arco.ledger.segment import Segment, SegmentLocation, find_segment
from arco.ledger.stream import Slot, Watermark, slot_chain
from arco.query.limits import QueryLimits
from arco.query.protocol import ExpandSegments, SegmentSlice
from arco.query.system_tables import DomainTable
from arco.query.worker_pool import WorkerClient
from arco.storage.store import Store

_FIRST_READS, _PARALLEL_READS = 8, 32
_RETRY_AFTER_MS = 5_000
_MESSAGE_BYTES = 8 * 1024 * 1024  # of segments in one message; a larger one is sent alone


@dataclass(frozen=True)
class TailSegment:
    """A segment above the watermark, and the rows that it makes of each table read so far."""

    segment: Segment
    row_counts: dict[str, RowVolume] = field(default_factory=dict)


@dataclass(frozen=True)
class LedgerTail:
    """All segments of a domain above a watermark, in order."""

    domain: str
    segments: Sequence[TailSegment]
    retained_from: Mapping[str, datetime]

    @cached_property
    def retention_key(self) -> str:
        """Identifies the retention: it decides which events are too old."""
        return sha256_hex(json.encode(dict(self.retained_from)))[:16]

    @cached_property
    def key(self) -> str:
        """Identifies the segments and the retention: equal keys mean equal rows."""
        positions = [(each.segment.stream, each.segment.seq) for each in self.segments]
        return sha256_hex(json.encode([self.domain, positions, self.retention_key]))

    def segment_key(self, table: str, segment: Segment) -> str:
        """The cache key of the rows that a segment makes of one table."""
        return f"{self.domain}/{table}/{self.retention_key}/{segment.stream}/{segment.seq}"

    def segment_keys(self, table: str) -> tuple[str, ...]:
        """The cache keys of all segments."""
        return tuple(self.segment_key(table, each.segment) for each in self.segments)

    def check_rows(self, table: str, limit: RowVolume) -> RowVolume:
        """The rows left for segments that are not counted yet, or `BacklogTooLarge`."""
        counted = total_rows(each.row_counts.get(table, RowVolume()) for each in self.segments)
        if not counted.fits(limit):
            events = sum(each.segment.events for each in self.segments)
            raise backlog_too_large(
                f"{events} events of {self.domain} wait to be compacted, and they make at least "
                f"{counted.rows} rows of {table} with {counted.text_bytes} bytes of text; "
                f"a fresh read takes at most {limit.rows} rows with {limit.text_bytes} bytes",
            )
        return limit.minus(counted)


class LedgerTailReader:
    """Reads the tail of one domain, and keeps the segments that it has read."""

    def __init__(self, store: Store, domain: str, limits: QueryLimits) -> None:
        self._store = store
        self._domain = domain
        self._limits = limits
        self._tasks = store.runtime.tasks
        self._slots = slot_chain(store, domain)
        self._streams: dict[int, str] = {}  # by slot
        self._read: dict[tuple[str, int], TailSegment] = {}
        self._retained_from: Mapping[str, datetime] = {}
        self._follower: SegmentFollower | None = None
        self._mark = Watermark()  # of the follower
        self._busy: AsyncEvent | None = None

    async def above(self, snapshot: Snapshot) -> LedgerTail:
        """The segments above the watermark of a snapshot; see `since`."""
        manifest = snapshot.manifest
        if manifest is None:
            return await self.since(Watermark(), {})
        return await self.since(manifest.watermark, manifest.retained_from)

    async def since(
        self, watermark: Watermark, retained_from: Mapping[str, datetime]
    ) -> LedgerTail:
        """All segments above a watermark that were acknowledged before this call.

        `Conflict` if segments above the watermark were already collected, and `BacklogTooLarge` if the
        segments exceed the limits.
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
        mark = self._drop_below(watermark)
        if self._follower is None or mark != self._mark:
            self._follower = self._follow(mark)
        # A follower that fails half way is not used again.
        follower, self._follower = self._follower, None
        batch = await follower.poll(everything=True)
        if batch is not None:
            await self._read_slots(mark.frontier, batch.watermark.frontier)
            await self._read_segments(batch.segments)
            mark = batch.watermark
        self._follower, self._mark = follower, mark
        self._check_size()
        segments = tuple(self._read[at] for at in sorted(self._read))
        return LedgerTail(self._domain, segments, self._retained_from)

    def _follow(self, mark: Watermark) -> SegmentFollower:
        most = self._limits.fresh_segments + 1
        return SegmentFollower(self._store, self._domain, mark, most=most)

    def _drop_below(self, watermark: Watermark) -> Watermark:
        """Drop the segments below a watermark; how far above it all segments were read."""
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

    async def _read_slots(self, first: int, end: int) -> None:
        for number in range(first, end):
            entry = await self._slots.find(number)
            if entry is None:
                raise Conflict(f"slot {number} of {self._domain} was garbage collected meanwhile")
            self._streams[number] = entry.body(Slot).stream

    async def _read_segments(self, locations: list[SegmentLocation]) -> None:
        """Read segments within the limits, never many large ones in parallel."""
        limit = self._limits.fresh_segments
        if len(self._read) + len(locations) > limit:
            raise self._too_much(f"more than {limit} segments with events of")
        waiting, stride, largest = locations, _FIRST_READS, 1
        while waiting:
            bytes_left = self._check_size()
            stride = max(1, min(stride, _PARALLEL_READS, bytes_left // largest))
            segments = await self._tasks.gather(
                *(self._find(location) for location in waiting[:stride])
            )
            for segment in segments:
                self._read[segment.stream, segment.seq] = TailSegment(segment)
                largest = max(largest, len(segment.raw))
            waiting, stride = waiting[stride:], 2 * stride

    async def _find(self, location: SegmentLocation) -> Segment:
        segment = await find_segment(self._store, self._domain, location.stream, location.seq)
        if segment is None:
            raise Conflict(
                f"segment {location.seq} of {location.stream} was garbage collected meanwhile"
            )
        return segment

    def _check_size(self) -> int:
        """The bytes that may still be read, or `BacklogTooLarge` if the limits are exceeded."""
        max_events, max_bytes = self._limits.fresh_events, self._limits.fresh_bytes
        segments = [each.segment for each in self._read.values()]
        events = sum(each.events for each in segments)
        size_bytes = sum(len(each.raw) for each in segments)
        if events > max_events:
            raise self._too_much(f"more than {max_events} events of")
        if size_bytes > max_bytes:
            raise self._too_much(f"{events} events or more, of more than {max_bytes} bytes, of")
        return max_bytes - size_bytes

    def _too_much(self, waiting: str) -> BacklogTooLarge:
        return backlog_too_large(
            f"{waiting} {self._domain} wait to be compacted, more than a fresh read takes"
        )


def backlog_too_large(reason: str) -> BacklogTooLarge:
    """The error of a fresh read that exceeds its limits."""
    return BacklogTooLarge(
        f"{reason}: read the published state (freshness=published), or wait for the compactor",
        retry_after_ms=_RETRY_AFTER_MS,
    )


async def send_tail(
    worker: WorkerClient,
    state: DomainTable,
    tail: LedgerTail,
    missing: Container[str],
    limits: QueryLimits,
) -> None:
    """Send the segments whose rows of a state table are among the `missing` keys of a worker.

    `BacklogTooLarge` if all segments together make more rows of the table than a fresh read may.
    """
    table, limit = state.table.name, limits.fresh_row_limit
    rows_left = tail.check_rows(table, limit)
    segments = [each for each in tail.segments if tail.segment_key(table, each.segment) in missing]
    for batch in _batches(segments):
        # Segments that another worker has expanded are already counted.
        counted = total_rows(each.row_counts.get(table, RowVolume()) for each in batch)
        request = ExpandSegments(
            state=state.name,
            segments=tuple(_slice(tail, table, each) for each in batch),
            retained_from=dict(tail.retained_from),
            max_rows=rows_left.plus(counted),
        )
        counts = await worker.expand(request, b"".join(each.segment.raw for each in batch))
        for each, count in zip(batch, counts, strict=True):
            each.row_counts[table] = count
        rows_left = tail.check_rows(table, limit)


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
