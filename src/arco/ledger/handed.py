"""Segments whose writer has handed over their bytes, so that whoever folds them need not read them.

A writer hands over only what is durable. What was not handed over, or has left for want of room, is found
and read in the store, as it would be without this.
"""

from collections import OrderedDict

from arco.ledger.segment import Segment

_ROOM_BYTES = 4 * 1024 * 1024


class HandedSegments:
    """The bytes of segments of one domain by stream and number; the oldest leave when the room is full."""

    def __init__(self, room_bytes: int = _ROOM_BYTES) -> None:
        self._room_bytes = room_bytes
        self._used_bytes = 0
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def add(self, segment: Segment) -> None:
        """This segment is in the store with these bytes."""
        self.remove(segment.stream, segment.seq)
        self._kept[segment.stream, segment.seq] = segment.raw
        self._used_bytes += len(segment.raw)
        while self._used_bytes > self._room_bytes:
            self._used_bytes -= len(self._kept.popitem(last=False)[1])

    def find(self, stream: str, seq: int) -> bytes | None:
        """The bytes of a segment, if they were handed over and are still kept."""
        return self._kept.get((stream, seq))

    def remove(self, stream: str, seq: int) -> None:
        """Nobody needs this segment any more."""
        self._used_bytes -= len(self._kept.pop((stream, seq), b""))

    def clear(self) -> None:
        """Keep none of them."""
        self._kept.clear()
        self._used_bytes = 0

    def last_in_row(self, stream: str, first: int) -> int:
        """The last of the segments from `first` on, as far as they are all kept; `first - 1` if none is."""
        seq = first
        while (stream, seq) in self._kept:
            seq += 1
        return seq - 1
