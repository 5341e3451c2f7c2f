"""Lag: how long the oldest event waits that is acknowledged and in no manifest yet.

Cost: a probe of the next slot, a gallop in each open stream, and two segments of each stream with news.
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
    """What is in the ledger above a watermark.

    `events` is an estimate: the first and the last segment of each stream are counted, and those between
    them are taken for alike.
    """

    segments: int = 0
    events: int = 0
    oldest_received: datetime | None = None


@dataclass(frozen=True)
class _Read:
    """What was found in one segment."""

    events: int
    oldest_received: datetime | None


class _Received(msgspec.Struct):
    received_at: datetime


_read_received = json.reader(_Received)


async def waiting_above(store: Store, domain: str, watermark: Watermark) -> Waiting:
    """What waits to be folded; seals alone do not count."""
    batch = await PlaceFollower(store, domain, watermark).poll(everything=True)
    places = [] if batch is None else [each for each in batch.segments if not each.seal]
    first: dict[str, SegmentPlace] = {}
    last: dict[str, SegmentPlace] = {}
    for place in places:
        first.setdefault(place.stream, place)
        last[place.stream] = place
    ends, found = list(dict.fromkeys([*first.values(), *last.values()])), list[_Read]()
    for start in range(0, len(ends), _AT_ONCE):
        some = ends[start : start + _AT_ONCE]
        found += await store.runtime.tasks.gather(*(_read(store, domain, each) for each in some))
    moments = [each.oldest_received for each in found if each.oldest_received is not None]
    counted = sum(each.events for each in found)
    events = round(counted / len(found) * len(places)) if found else 0
    return Waiting(len(places), events, min(moments, default=None))


async def _read(store: Store, domain: str, place: SegmentPlace) -> _Read:
    """How many events a segment has, and when the first of them was received."""
    segment = await find_segment(store, domain, place.stream, place.seq)
    if segment is None:
        raise Conflict(f"segment {place.seq} of {place.stream} was collected meanwhile")
    moments = []
    for line in segment.lines:
        try:
            moments.append(_read_received(line).received_at)
        except Invalid:
            continue  # it will be quarantined, and nobody waits for it
    return _Read(segment.events, min(moments, default=None))
