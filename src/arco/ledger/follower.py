"""Followers: they find new segments by their known keys, and hardly ask while there are none (P17).

One reads segments whole, for whoever folds them right here. The other finds out only where they are, for
whoever has them folded elsewhere: as a stream has no holes (P15), its end is found by galloping, and the
segments below it need not be asked for. The watermark that goes with a batch goes into the manifest of
whoever folds the batch. Who cannot publish it makes a new follower from the watermark that is published.
"""

from collections.abc import Mapping

from arco.ledger.bell import Bell
from arco.ledger.handed import HandedSegments
from arco.ledger.probing import Batch, Probing
from arco.ledger.segment import Segment, SegmentPlace, find_place, find_segment
from arco.ledger.watermark import Watermark
from arco.storage.gallop import last_present
from arco.storage.store import Store

__all__ = ["MOST_PLACES", "Batch", "Follower", "PlaceFollower"]

_READ_AHEAD = 16
_MOST_BYTES = (
    64 * 1024 * 1024
)  # of one stream in one batch, so that an outage does not end in memory

MOST_PLACES = 8_192  # of all streams in one batch: what one job is about


class Follower(Probing[Segment]):
    """Finds whole segments."""

    async def _read_on(self, stream: str) -> list[Segment]:
        """All new segments of a stream, read ahead in growing strides."""
        found: list[Segment] = []
        stride, next_seq = 1, self._watermark.open[stream] + 1
        while True:
            wanted = range(next_seq, next_seq + stride)
            read = await self._store.runtime.tasks.gather(*(self._find(stream, n) for n in wanted))
            for segment in read:
                if segment is None:
                    self._reschedule(stream, news=bool(found))
                    return found
                found.append(segment)
                if segment.seal:
                    return found
            if sum(len(segment.body) for segment in found) > _MOST_BYTES:
                return found  # and due again at once
            next_seq, stride = next_seq + stride, min(stride * 2, _READ_AHEAD)

    async def _find(self, stream: str, seq: int) -> Segment | None:
        return await find_segment(self._store, self._domain, stream, seq)


class PlaceFollower(Probing[SegmentPlace]):
    """Finds where segments are: a few bytes of a few of them are read, however many there are."""

    def __init__(
        self,
        store: Store,
        domain: str,
        watermark: Watermark,
        *,
        bell: Bell | None = None,
        most: int = MOST_PLACES,
        handed: HandedSegments | None = None,
    ) -> None:
        super().__init__(store, domain, watermark, bell=bell)
        self.most = most
        self._handed = handed or HandedSegments()

    async def _read_on(self, stream: str) -> list[SegmentPlace]:
        async def probe(seq: int) -> SegmentPlace | None:
            return await find_place(self._store, self._domain, stream, seq)

        first = self._watermark.open[stream] + 1
        # What was handed over is there, and is no seal; what came after it is asked for.
        last, end = await last_present(probe, self._handed.last_in_row(stream, first))
        self._reschedule(stream, news=last >= first)
        is_sealed = end is not None and end.seal
        return [
            SegmentPlace(stream, seq, seal=is_sealed and seq == last)
            for seq in range(first, last + 1)
        ]

    def _bounded(self, found: Mapping[str, list[SegmentPlace]]) -> list[SegmentPlace]:
        """Streams with little have all of it in the batch; the others share what room there is."""
        room, waiting = self.most, sum(1 for several in found.values() if several)
        kept: dict[str, list[SegmentPlace]] = {}
        for stream, several in sorted(found.items(), key=lambda each: len(each[1])):
            if not several:
                continue
            kept[stream] = several[: max(1, room // waiting)]
            room -= len(kept[stream])
            waiting -= 1
            if len(kept[stream]) < len(several):
                self.ring([stream])
        return [place for stream in found for place in kept.get(stream, ())]
