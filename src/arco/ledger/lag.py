"""Lag: what is in the ledger above a watermark, and since when the oldest event waits.

Cost: a probe of the next slot, a gallop in each open stream, and two segments of each stream with news.
"""

from dataclasses import dataclass
from datetime import datetime

import msgspec

from arco.core import json
from arco.core.errors import Conflict, Invalid
from arco.ledger.follower import SegmentFollower
from arco.ledger.segment import SegmentLocation, find_segment
from arco.ledger.stream import Watermark
from arco.storage.store import Store

_PARALLEL_READS = 16


@dataclass(frozen=True)
class LedgerLag:
    """Segments and events above a watermark.

    `events` is an estimate: only the first and the last segment of each stream are counted.
    """

    segments: int = 0
    events: int = 0
    oldest_received: datetime | None = None


@dataclass(frozen=True)
class _SegmentSummary:
    """The events of one segment."""

    events: int
    oldest_received: datetime | None


class _Received(msgspec.Struct):
    received_at: datetime


_read_received = json.reader(_Received)


async def measure_lag(store: Store, domain: str, watermark: Watermark) -> LedgerLag:
    """What waits to be folded; seals do not count."""
    batch = await SegmentFollower(store, domain, watermark).poll(everything=True)
    segments = [] if batch is None else [each for each in batch.segments if not each.seal]
    first_segments: dict[str, SegmentLocation] = {}
    last_segments: dict[str, SegmentLocation] = {}
    for location in segments:
        first_segments.setdefault(location.stream, location)
        last_segments[location.stream] = location
    ends, summaries = (
        list(dict.fromkeys([*first_segments.values(), *last_segments.values()])),
        list[_SegmentSummary](),
    )
    for start in range(0, len(ends), _PARALLEL_READS):
        some = ends[start : start + _PARALLEL_READS]
        summaries += await store.runtime.tasks.gather(
            *(_summarize(store, domain, each) for each in some)
        )
    moments = [each.oldest_received for each in summaries if each.oldest_received is not None]
    counted = sum(each.events for each in summaries)
    events = round(counted / len(summaries) * len(segments)) if summaries else 0
    return LedgerLag(len(segments), events, min(moments, default=None))


async def _summarize(store: Store, domain: str, location: SegmentLocation) -> _SegmentSummary:
    """The number of events in a segment, and when the first of them was received."""
    segment = await find_segment(store, domain, location.stream, location.seq)
    if segment is None:
        raise Conflict(
            f"segment {location.seq} of {location.stream} was collected meanwhile; retry"
        )
    moments = []
    for line in segment.lines:
        try:
            moments.append(_read_received(line).received_at)
        except Invalid:
            continue  # it will be quarantined, so it does not wait to be folded
    return _SegmentSummary(segment.events, min(moments, default=None))
