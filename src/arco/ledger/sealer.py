"""The janitor's work in a ledger: seals for streams past their end, and old segments away (P16).

A seal decides, by put-if-absent, between the end of a stream and a writer that woke up late. It is never
collected, so a late create always meets it. Segments go when they are folded by a published watermark
and older than the retention. The watermark to give is that of the oldest manifest which is kept: what later
ones have folded stays, so that the state can be made anew from that one on (P20).
"""

from dataclasses import dataclass

from arco.core.errors import Conflict, Invalid
from arco.ledger.segment import Segment, encode_seal, find_segment, parse_segment_key, segment_key
from arco.ledger.slot import Slot, kept_slots
from arco.ledger.watermark import Watermark
from arco.storage.backend import Meta
from arco.storage.chain import SHORTEST_RETENTION_MS, Chain
from arco.storage.collect import collect
from arco.storage.gallop import last_present
from arco.storage.store import Store
from arco.storage.store_clock import store_now_ms


async def seal_expired(slots: Chain, domain: str, watermark: Watermark) -> list[str]:
    """Seal every open stream whose written end of life has passed; which those were."""
    sealed = []
    now_ms = slots.store.runtime.clock.now_ms()
    for stream, slot in (await _open_streams(slots, watermark)).items():
        if slot is None or slot.ends_at.timestamp() * 1000 < now_ms:
            await _seal(slots.store, domain, stream, watermark.open.get(stream, -1))
            sealed.append(stream)
    return sealed


async def collect_segments(
    slots: Chain, domain: str, watermark: Watermark, *, retention_ms: int
) -> int:
    """Delete segments that `watermark`, which must be published, has folded; how many."""
    if retention_ms < SHORTEST_RETENTION_MS:
        raise Invalid(f"a ledger keeps its segments for at least {SHORTEST_RETENTION_MS} ms")
    store = slots.store
    old_ms = await store_now_ms(store) - retention_ms
    # Listed first: a stream is registered before its first segment, so none in the list is unknown.
    found = [place async for meta in store.list(f"ledger/{domain}/") if (place := _place(meta))]
    still_open = await _open_streams(slots, watermark)
    last = {place.stream: place.seq for place in found}
    sealed: dict[str, bool] = {}
    deleted = 0
    for place in found:
        stream = place.stream
        if stream in still_open:
            folded = place.seq <= watermark.open.get(stream, -1)
        else:
            folded = place.seq < last[place.stream]  # the last one is the seal
        if not folded or place.modified_ms > old_ms:
            continue
        if stream not in still_open and stream not in sealed:
            # What no slot names and no seal ends is not ours to judge: anti-entropy tells of it.
            end = await find_segment(store, domain, stream, last[stream])
            sealed[stream] = end is not None and end.seal
        if sealed.get(stream, True):
            await store.delete(segment_key(domain, stream, place.seq))
            deleted += 1
    return deleted


async def collect_slots(slots: Chain, watermark: Watermark, *, retention_ms: int) -> int:
    """Delete old slots whose streams `watermark`, which must be published, has closed; how many."""
    still_open = [
        number
        for number, slot in (await kept_slots(slots)).items()
        if slot.stream in watermark.open
    ]
    ceiling = min([watermark.frontier, *still_open])
    return (await collect(slots, retention_ms=retention_ms, ceiling=ceiling)).deleted


@dataclass(frozen=True)
class _Place:
    stream: str
    seq: int
    modified_ms: int


def _place(meta: Meta) -> _Place | None:
    """Which segment an object is; None for what somebody else has put there."""
    found = parse_segment_key(meta.key)
    return None if found is None else _Place(found[1], found[2], meta.modified_ms)


async def _open_streams(slots: Chain, watermark: Watermark) -> dict[str, Slot | None]:
    """Streams that are open, or that the watermark has not reached, with their slots.

    An open stream without a slot is so old that its slot was collected: it has outlived its end.
    """
    found: dict[str, Slot | None] = dict.fromkeys(watermark.open)
    for number, slot in (await kept_slots(slots)).items():
        if slot.stream in found or number >= watermark.frontier:
            found[slot.stream] = slot
    return found


async def _seal(store: Store, domain: str, stream: str, folded: int) -> None:
    async def probe(seq: int) -> Segment | None:
        return await find_segment(store, domain, stream, seq)

    while True:
        last, segment = await last_present(probe, folded)
        if segment is not None and segment.seal:
            return
        try:
            seal = encode_seal(store.runtime, stream, last + 1)
            await store.create(segment_key(domain, stream, last + 1), seal)
        except Conflict:
            folded = last
            continue
        return
