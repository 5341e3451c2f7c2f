"""Lag: how long the oldest event waits that is acknowledged and in no manifest yet.

Cost: a probe of the next slot, a gallop in each open stream, and one segment of each stream with news.
"""

from dataclasses import dataclass
from datetime import datetime

import msgspec

from arco.core import json
from arco.core.errors import Conflict, Invalid
from arco.ledger.follower import PlaceFollower
from arco.ledger.segment import SegmentPlace, find_segment
from arco.ledger.watermark import Watermark
from arco.storage.store import Store

_AT_ONCE = 16


@dataclass(frozen=True)
class Waiting:
    """What is in the ledger above a watermark."""

    segments: int = 0
    oldest_received: datetime | None = None


class _Received(msgspec.Struct):
    received_at: datetime


_read_received = json.reader(_Received)


async def waiting_above(store: Store, domain: str, watermark: Watermark) -> Waiting:
    """What waits to be folded; seals alone do not count."""
    batch = await PlaceFollower(store, domain, watermark).poll(everything=True)
    places = [] if batch is None else [each for each in batch.segments if not each.seal]
    first: dict[str, SegmentPlace] = {}
    for place in places:
        first.setdefault(place.stream, place)
    heads, found = list(first.values()), list[datetime | None]()
    for start in range(0, len(heads), _AT_ONCE):
        some = heads[start : start + _AT_ONCE]
        found += await store.runtime.tasks.gather(*(_oldest(store, domain, each) for each in some))
    moments = [moment for moment in found if moment is not None]
    return Waiting(len(places), min(moments, default=None))


async def _oldest(store: Store, domain: str, place: SegmentPlace) -> datetime | None:
    """When the first event of a segment was received; the lines are nearly in that order."""
    segment = await find_segment(store, domain, place.stream, place.seq)
    if segment is None:
        raise Conflict(f"segment {place.seq} of {place.stream} was collected meanwhile")
    moments = []
    for line in segment.lines:
        try:
            moments.append(_read_received(line).received_at)
        except Invalid:
            continue  # it will be quarantined, and nobody waits for it
    return min(moments, default=None)
