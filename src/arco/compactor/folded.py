"""The segments that a commit of Tier 2 has folded, held against what its record tells of them.

No record names a single event there, and none could be folded again in the same way for ever: what one
version cannot read and puts into quarantine, a later one may fold. So segments are counted, not replayed.
Those that were folded since the oldest kept manifest must be there, as a rebuild would need them (P20), and
a seal is never collected (P16).
"""

from arco.catalog.manifest import Commit, Counts
from arco.compactor.advance import closed_by
from arco.compactor.report import Checked, ProblemKind, Wrong
from arco.core.errors import Corrupt
from arco.ledger.segment import LARGEST_BYTES, Segment, decode_segment, segment_key
from arco.ledger.stream import Watermark
from arco.storage.store import Store

_AT_ONCE = 16

Place = tuple[str, int]


class FoldedCheck:
    """Checks one commit after the other."""

    def __init__(self, store: Store, checked: Checked) -> None:
        self._store = store
        self._checked = checked

    async def check_seals(self, record: Commit, mark: Watermark) -> None:
        """`Wrong` if a stream has left the watermark without its seal."""
        for place in closed_by(record, mark).items():
            segment = (await self._find(place, record))[0]
            if segment is None or not segment.seal:
                fault = "is missing" if segment is None else "is no seal"
                raise _wrong(place, f"{fault}, and a commit has closed its stream", record)

    async def check_segments(self, record: Commit, mark: Watermark) -> None:
        """`Wrong` if segments are missing, or have other sizes than were counted."""
        seals = set(closed_by(record, mark).items())
        places = [
            (stream, seq)
            for stream, (first, last) in record.streams.items()
            for seq in range(first, last + 1)
            if (stream, seq) not in seals
        ]
        events = size_bytes = 0
        for at in range(0, len(places), _AT_ONCE):
            wave = places[at : at + _AT_ONCE]
            found = await self._store.runtime.tasks.gather(
                *(self._find(place, record) for place in wave)
            )
            for place, (segment, size) in zip(wave, found, strict=True):
                if segment is None or segment.seal:
                    fault = "is missing, and the state cannot be made anew without it"
                    # If the floor has come up to this commit, it was rightly collected.
                    raise _wrong(place, fault, record, led_by=record.number - 1)
                events += segment.events
                size_bytes += size
        counts = record.counts or Counts()
        if (counts.events, counts.bytes) != (events, size_bytes):
            told = f"{counts.events} events in {counts.bytes} bytes were folded"
            fault = f"and its likes have {events} events in {size_bytes} bytes, but {told}"
            raise _wrong(places[0], fault, record, led_by=record.number - 1)
        self._checked.events += events
        self._checked.bytes += size_bytes

    async def _find(self, place: Place, record: Commit) -> tuple[Segment | None, int]:
        raw = await self._store.find(segment_key(record.domain, *place), size_bytes=LARGEST_BYTES)
        if raw is None:
            return None, 0
        try:
            return decode_segment(raw, *place), len(raw)
        except Corrupt as problem:
            raise _wrong(place, str(problem), record) from problem


def _wrong(place: Place, fault: str, record: Commit, *, led_by: int | None = None) -> Wrong:
    number = record.number if led_by is None else led_by
    return Wrong(ProblemKind.EVENT, segment_key(record.domain, *place), fault, number=number)
