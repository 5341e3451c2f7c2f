"""The streams of a domain of Tier 2: segments that are still needed must be there, and ends be sealed.

A segment is needed until the oldest kept manifest has folded it (P20). One that is missing below a later
one is lost, because that was created after its predecessor was known to be there (P15). A listing is a
rumour: what it does not show is looked for by its key before it is called missing.
"""

from dataclasses import dataclass, field

from arco.compactor.inspection import Trouble, TroubleKind
from arco.compactor.spent import Streams
from arco.core.errors import Corrupt
from arco.ledger.segment import SegmentLocation, find_location, segment_key
from arco.ledger.stream import Watermark
from arco.storage.backend import Meta
from arco.storage.chain import last_present
from arco.storage.store import Store

_RESTORE = "Restore it from a backup."
_LOST = f"{_RESTORE} If there is none, have its events sent again, and tell us of it: this must not happen."


@dataclass(frozen=True)
class Slots:
    """The slots that are there, by stream, and below which number they were collected."""

    floor: int
    numbers: dict[str, int]


@dataclass
class Streaming:
    """What was found out about all streams."""

    waiting: list[Meta] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)


class StreamCheck:
    """Looks at one stream after the other."""

    def __init__(
        self, store: Store, domain: str, listed: Streams, slots: Slots, marks: tuple[Watermark, ...]
    ) -> None:
        self._store = store
        self._domain = domain
        self._listed = listed
        self._slots = slots
        self._oldest, self._newest = marks
        self.found = Streaming()

    def streams(self) -> list[str]:
        """All that anybody knows of."""
        known = {*self._listed, *self._slots.numbers, *self._oldest.open, *self._newest.open}
        return sorted(known)

    async def check(self, stream: str) -> None:
        """Note what is wrong with a stream, and what in it waits."""
        try:
            await self._check(stream)
        except Corrupt as problem:
            path = f"ledger/{self._domain}/{stream}/"
            self._trouble(TroubleKind.SEGMENT, path, str(problem), _RESTORE)

    async def _check(self, stream: str) -> None:
        number = self._slots.numbers.get(stream)
        is_known = number is not None or stream in {*self._newest.open, *self._oldest.open}
        if not is_known:
            await self._check_stranger(stream)
            return
        is_closed = stream not in self._newest.open and (
            number is None or number < self._newest.frontier
        )
        top = await self._top(stream, is_closed=is_closed)
        folded = top if is_closed else self._newest.open.get(stream, -1)
        await self._check_needed(
            stream, range(self._needed_from(stream, number, top), top + 1), folded
        )
        if not is_closed:
            await self._note_waiting(stream, folded, top)

    async def _check_stranger(self, stream: str) -> None:
        """No slot names it: it may be so old that its slot was collected, and then it has a seal."""
        last = max(self._listed[stream])
        end = await self._place(stream, last)
        if self._slots.floor == 0 or end is None or not end.seal:
            self._trouble(
                TroubleKind.STREAM,
                f"ledger/{self._domain}/{stream}/",
                f"no slot names this stream, so nobody folds its {len(self._listed[stream])} segments",
                f"Restore its slot below sequence/{self._domain}/ from a backup, or have them sent again.",
            )

    async def _top(self, stream: str, *, is_closed: bool) -> int:
        """The last number of a stream; one that is closed must end with a seal."""
        top = max(self._listed.get(stream, {-1: None}))

        async def probe(seq: int) -> SegmentLocation | None:
            return await self._place(stream, seq)

        if not is_closed:
            return max(top, self._newest.open.get(stream, -1))
        end = await self._place(stream, top) if top >= 0 else None
        if end is None or not end.seal:
            top, end = await last_present(probe, top, end)
        if end is None or not end.seal:
            self._trouble(
                TroubleKind.SEAL,
                segment_key(self._domain, stream, max(top, 0)),
                "a stream that was closed does not end with its seal: who woke up late could append to it",
                _RESTORE,
            )
        return top

    def _needed_from(self, stream: str, number: int | None, top: int) -> int:
        """The first segment that the oldest kept manifest has not folded."""
        if stream in self._oldest.open:
            return self._oldest.open[stream] + 1
        if number is not None and number < self._oldest.frontier:
            return top + 1  # closed for good
        return 0

    async def _check_needed(self, stream: str, needed: range, folded: int) -> None:
        there = self._listed.get(stream, {})
        missing = [
            seq for seq in needed if seq not in there and await self._place(stream, seq) is None
        ]
        if not missing:
            return
        others = f", and {len(missing) - 1} more of its stream" if len(missing) > 1 else ""
        if missing[0] <= folded:
            fault = "is missing: it is published, but the state cannot be made anew without it"
        else:
            fault = "is missing below a later one: its events are lost, and those after it wait for ever"
        path = segment_key(self._domain, stream, missing[0])
        self._trouble(TroubleKind.SEGMENT, path, fault + others, _LOST)

    async def _note_waiting(self, stream: str, folded: int, top: int) -> None:
        waiting = [meta for seq, meta in self._listed.get(stream, {}).items() if seq > folded]
        if waiting:
            end = await self._place(stream, top)
            is_seal = end is not None and end.seal
            self.found.waiting += [
                meta for meta in waiting if not (is_seal and meta.key.endswith(_name(top)))
            ]

    async def _place(self, stream: str, seq: int) -> SegmentLocation | None:
        return await find_location(self._store, self._domain, stream, seq)

    def _trouble(self, kind: TroubleKind, path: str, fault: str, step: str) -> None:
        self.found.troubles.append(Trouble(kind=kind, path=path, explanation=fault, next_step=step))


def _name(seq: int) -> str:
    return f"/{seq:012d}.jsonl"
