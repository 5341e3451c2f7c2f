"""The ledger of Tier 1, from its janitor's side: nobody folds it, so no watermark says what is done.

An event of Tier 1 counts only if a commit names it. So a segment is spent when it is older than the
retention and no kept commit names it. The highest segment of a stream stays: it is its seal, or what a seal
will be created behind (P16). A slot is spent once its stream is sealed, as nobody looks for it any more.
"""

from collections.abc import Iterable

from arco.ledger.gc import seal_expired_streams
from arco.ledger.segment import parse_segment_key
from arco.ledger.stream import Slot, Watermark, read_slots, slot_chain
from arco.storage.backend import Meta
from arco.storage.chain import Chain
from arco.storage.chain_gc import collect
from arco.storage.store import Store

Streams = dict[str, dict[int, Meta]]


async def list_streams(store: Store, domain: str) -> Streams:
    """Every stream with its segments; what strangers have put there is left out."""
    streams: Streams = {}
    async for meta in store.list(f"ledger/{domain}/"):
        add_segment(streams, meta)
    return streams


def add_segment(streams: Streams, meta: Meta) -> None:
    """Take a segment in, if it is one."""
    place = parse_segment_key(meta.key)
    if place is not None:
        _, stream, seq = place
        streams.setdefault(stream, {})[seq] = meta


def spent_segments(streams: Streams, *, before_ms: int, named: Iterable[str]) -> list[Meta]:
    """The segments that may go."""
    kept = set(named)
    return [
        meta
        for segments in streams.values()
        for seq, meta in segments.items()
        if seq < max(segments) and meta.modified_ms <= before_ms and meta.key not in kept
    ]


def has_old_segments(streams: Streams, before_ms: int) -> bool:
    """Whether any segment may have to go: only then is it worth while to read who names them."""
    return bool(spent_segments(streams, before_ms=before_ms, named=()))


async def seal_streams(store: Store, domain: str, streams: Streams, *, retention_ms: int) -> None:
    """Seal the streams that are past their end, and collect the slots of those that are sealed.

    `streams` was listed before this call: a stream is registered before its first segment, so none of them
    is unknown here.
    """
    slots = slot_chain(store, domain)
    registered = await read_slots(slots)
    sealed = await _seal(slots, domain, registered, streams)
    still_open = (number for number, slot in registered.items() if slot.stream not in sealed)
    ceiling = min(still_open, default=max(registered, default=0))
    await collect(slots, retention_ms=retention_ms, ceiling=ceiling)


async def seal_dead(store: Store, domain: str, streams: Streams) -> None:
    """Seal the streams that are past their end; `streams` was listed before this call."""
    slots = slot_chain(store, domain)
    await _seal(slots, domain, await read_slots(slots), streams)


async def _seal(
    slots: Chain, domain: str, registered: dict[int, Slot], streams: Streams
) -> set[str]:
    # The last segment is looked for from the highest that was listed: those below it may be gone.
    highest = {
        slot.stream: max(streams[slot.stream]) - 1
        for slot in registered.values()
        if slot.stream in streams
    }
    return set(await seal_expired_streams(slots, domain, Watermark(0, highest)))
