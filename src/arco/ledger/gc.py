"""Garbage collection of a ledger: expired streams are sealed, old segments, slots and keys are deleted.

A seal decides, by put-if-absent, between the end of a stream and a writer that woke up late. It is never
collected, so a late create always meets it (P16). Segments go when a published watermark has folded them
and they are older than the retention. That watermark must be the one of the oldest kept manifest: what
later manifests have folded stays, so that the state can be rebuilt from there (P20).

The chain of an expired idempotency key is deleted from the top down, number 0 last (P14): while number 0 is
there, a retry meets an expired claim and is refused. Its number 0 says how long the key lives, so writers
and collectors cannot be configured differently.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from arco.core.errors import Conflict, Invalid
from arco.ledger.claim import KEYS, MAX_REQUEST_MS, Claim, key_chain
from arco.ledger.idempotency import MIN_LIFE_MS
from arco.ledger.segment import Segment, encode_seal, find_segment, parse_segment_key, segment_key
from arco.ledger.stream import Slot, Watermark, read_slots
from arco.storage.backend import Meta
from arco.storage.chain import SHORTEST_RETENTION_MS, Chain, last_present
from arco.storage.chain_gc import collect
from arco.storage.store import Store, store_now_ms


async def seal_expired_streams(slots: Chain, domain: str, watermark: Watermark) -> list[str]:
    """Seal every open stream whose end of life has passed; the sealed streams."""
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
    """Delete old segments that the published `watermark` has folded; the number deleted."""
    if retention_ms < SHORTEST_RETENTION_MS:
        raise Invalid(f"a ledger keeps its segments for at least {SHORTEST_RETENTION_MS} ms")
    store = slots.store
    old_ms = await store_now_ms(store) - retention_ms
    # Listed before the slots are read: a stream is registered before its first segment.
    segments = [
        segment
        async for meta in store.list(f"ledger/{domain}/")
        if (segment := _parse_listed(meta))
    ]
    still_open = await _open_streams(slots, watermark)
    last_seqs = {segment.stream: segment.seq for segment in segments}
    sealed: dict[str, bool] = {}
    deleted = 0
    for segment in segments:
        stream = segment.stream
        if stream in still_open:
            folded = segment.seq <= watermark.open.get(stream, -1)
        else:
            folded = segment.seq < last_seqs[segment.stream]  # the last one is the seal
        if not folded or segment.modified_ms > old_ms:
            continue
        if stream not in still_open and stream not in sealed:
            # A stream that has no slot and no seal is reported by anti-entropy, and not deleted here.
            end = await find_segment(store, domain, stream, last_seqs[stream])
            sealed[stream] = end is not None and end.seal
        if sealed.get(stream, True):
            await store.delete(segment_key(domain, stream, segment.seq))
            deleted += 1
    return deleted


async def collect_slots(slots: Chain, watermark: Watermark, *, retention_ms: int) -> int:
    """Delete old slots whose streams the published `watermark` has closed; the number deleted."""
    still_open = [
        number
        for number, slot in (await read_slots(slots)).items()
        if slot.stream in watermark.open
    ]
    ceiling = min([watermark.frontier, *still_open])
    return (await collect(slots, retention_ms=retention_ms, ceiling=ceiling)).deleted


async def collect_keys(store: Store, *, longest_request_ms: int = MAX_REQUEST_MS) -> int:
    """Delete the chains of expired keys, each from the top down; the number of chains.

    Costs a listing, and one GET for each key older than the shortest life.
    """
    now_ms = await store_now_ms(store)
    collected = 0
    async for numbers in _chains(store):
        age_ms = now_ms - numbers[0].modified_ms - longest_request_ms
        if age_ms < MIN_LIFE_MS or not await _is_over(store, numbers[0], age_ms):
            continue
        for meta in reversed(numbers):
            await store.delete(meta.key)
        collected += 1
    return collected


@dataclass(frozen=True)
class _ListedSegment:
    stream: str
    seq: int
    modified_ms: int


def _parse_listed(meta: Meta) -> _ListedSegment | None:
    """The segment of a listed object; None if the object is no segment."""
    parsed = parse_segment_key(meta.key)
    return None if parsed is None else _ListedSegment(parsed[1], parsed[2], meta.modified_ms)


async def _open_streams(slots: Chain, watermark: Watermark) -> dict[str, Slot | None]:
    """Streams that are open, or that the watermark has not reached, with their slots.

    The slot of a very old open stream may have been collected: the stream is past its end of life.
    """
    open_streams: dict[str, Slot | None] = dict.fromkeys(watermark.open)
    for number, slot in (await read_slots(slots)).items():
        if slot.stream in open_streams or number >= watermark.frontier:
            open_streams[slot.stream] = slot
    return open_streams


async def _seal(store: Store, domain: str, stream: str, folded: int) -> None:
    async def probe(seq: int) -> Segment | None:
        return await find_segment(store, domain, stream, seq)

    while True:
        last_seq, segment = await last_present(probe, folded)
        if segment is not None and segment.seal:
            return
        try:
            seal = encode_seal(store.runtime, stream, last_seq + 1)
            await store.create(segment_key(domain, stream, last_seq + 1), seal)
        except Conflict:
            folded = last_seq
            continue
        return


async def _is_over(store: Store, lowest: Meta, age_ms: float) -> bool:
    """Whether the life that the key's first claim names is over."""
    chain = key_chain(store, _folder(lowest))
    first = await chain.find(0)
    if first is None:
        # If number 0 was listed, another process is deleting this key. If not, the listed entry is a create
        # that came after the key was deleted.
        return lowest.key != chain.key(0)
    return age_ms >= first.body(Claim).life_ms


async def _chains(store: Store) -> AsyncIterator[list[Meta]]:
    """The objects of each key, in order: those of one chain are adjacent in a listing."""
    numbers: list[Meta] = []
    async for meta in store.list(KEYS):
        if numbers and _folder(numbers[0]) != _folder(meta):
            yield numbers
            numbers = []
        numbers.append(meta)
    if numbers:
        yield numbers


def _folder(meta: Meta) -> str:
    return meta.key.rpartition("/")[0]
