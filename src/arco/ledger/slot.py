"""Slots: where writers register their streams, so that the compactor finds them without listing (P8).

The slots of a domain are a numbered chain. A slot names the stream and the end of life that its writer
has written down: past it, anybody may seal the stream (P16).
"""

from datetime import datetime, timedelta

import msgspec

from arco.core.clock import utc
from arco.core.errors import NotFound, Unavailable, Unknown
from arco.core.ids import new_ulid
from arco.storage.chain import Chain, Head
from arco.storage.store import Store


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """What a number of `sequence/{domain}` carries."""

    stream: str
    opened_at: datetime
    ends_at: datetime


def slots_of(store: Store, domain: str) -> Chain:
    """The chain of a domain's slots."""
    return Chain(store, f"sequence/{domain}", width=12)


async def register(slots: Chain, life_ms: int) -> Slot:
    """Register a new stream in the next free slot; `Unavailable` if it is not clear that it is."""
    runtime = slots.store.runtime
    opened = utc(runtime.clock.now_ms())
    ends = opened + timedelta(milliseconds=life_ms)
    slot = Slot(stream=new_ulid(runtime), opened_at=opened, ends_at=ends)

    async def build(_: Head) -> Slot:
        return slot

    try:
        await slots.extend(build)
    except Unknown as unclear:
        # If it lands after all, it is an empty stream that the janitor will seal.
        raise Unavailable("could not register a stream of events; retry") from unclear
    return slot


async def kept_slots(slots: Chain) -> dict[int, Slot]:
    """All slots that are kept, by number; for who may find that others collect some meanwhile."""
    while True:
        floor, head = await slots.floor(), await slots.head()
        try:
            entries = await slots.history(floor, head.number)
        except NotFound:
            if await slots.floor() == floor:
                raise
            continue
        return {entry.number: entry.body(Slot) for entry in entries}
