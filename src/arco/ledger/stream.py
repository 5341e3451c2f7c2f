"""The streams of a domain: the slots that register them, and the watermark of what was folded (P8, P16).

Writers register their streams in a numbered chain, so that the compactor finds them without a listing. A
slot names the stream and its end of life: after it, any process may seal the stream. The watermark is
published with the domain's manifest.
"""

from datetime import datetime, timedelta

import msgspec

from arco.core.clock import utc
from arco.core.errors import NotFound, Unavailable, Unknown
from arco.core.ids import new_ulid
from arco.storage.chain import Chain, Head
from arco.storage.store import Store


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an entry of `sequence/{domain}`."""

    stream: str
    opened_at: datetime
    ends_at: datetime


def slot_chain(store: Store, domain: str) -> Chain:
    """The chain of a domain's slots."""
    return Chain(store, f"sequence/{domain}", width=12)


async def register_stream(slots: Chain, life_ms: int) -> Slot:
    """Register a new stream in the next free slot; `Unavailable` if it may not be registered."""
    runtime = slots.store.runtime
    opened = utc(runtime.clock.now_ms())
    ends = opened + timedelta(milliseconds=life_ms)
    slot = Slot(stream=new_ulid(runtime), opened_at=opened, ends_at=ends)

    async def build(_: Head) -> Slot:
        return slot

    try:
        await slots.extend(build)
    except Unknown as unclear:
        # If it was registered after all, it is an empty stream, which garbage collection seals.
        raise Unavailable("could not register a stream of events; retry") from unclear
    return slot


async def read_slots(slots: Chain) -> dict[int, Slot]:
    """All slots above the floor, by number; reads again if some were collected meanwhile."""
    while True:
        floor, head = await slots.floor(), await slots.head()
        try:
            entries = await slots.history(floor, head.number)
        except NotFound:
            if await slots.floor() == floor:
                raise
            continue
        return {entry.number: entry.body(Slot) for entry in entries}


class Watermark(msgspec.Struct, frozen=True):
    """How far the ledger of a domain was folded.

    `frontier` is the first slot not yet read, `open` has the last folded segment of each open stream. A
    stream leaves it only when its seal was folded; a slot below the frontier that is not open is closed.
    """

    frontier: int = 0
    open: dict[str, int] = msgspec.field(default_factory=dict)

    def registered(self, stream: str) -> "Watermark":
        """The watermark with the stream of the frontier's slot open, and the frontier one further."""
        return Watermark(self.frontier + 1, {**self.open, stream: -1})

    def folded(self, stream: str, seq: int, *, seal: bool) -> "Watermark":
        """The watermark with segment `seq` of `stream` folded; a seal closes the stream."""
        rest = {each: folded_seq for each, folded_seq in self.open.items() if each != stream}
        return Watermark(self.frontier, rest if seal else {**rest, stream: seq})
