"""Reading segments of a job: many requests in flight, and never more bytes at once than memory is for.

Nobody knows how large a segment is before it was read, so each wave of requests learns from those before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from arco.compactor.job import SegmentRef
from arco.core.errors import Corrupt
from arco.ledger.segment import LARGEST_BYTES, Segment, decode_segment, segment_key
from arco.storage.store import Store

# Segments that are in memory at once; the next ones are read meanwhile.
CHUNK_BYTES = 16 * 1024 * 1024

_FIRST_WAVE = 8
_WIDEST_WAVE = 64


@dataclass(frozen=True)
class RawSegment:
    """The bytes of a segment."""

    ref: SegmentRef
    raw: bytes

    def decode(self) -> Segment:
        """The segment, or `Corrupt`."""
        return decode_segment(self.raw, self.ref.stream, self.ref.seq)


class SegmentReader:
    """Reads segments that are known to be there, chunk by chunk."""

    def __init__(self, store: Store, domain: str, segments: Sequence[SegmentRef]) -> None:
        self._store = store
        self._domain = domain
        self._segments = segments
        self._segments_read = 0
        self._bytes_read = 0

    async def chunk(self, most_bytes: int | None = None) -> list[RawSegment]:
        """The next segments; none at the end. `Corrupt` if one is missing: none is left out (law 14)."""
        chunk: list[RawSegment] = []
        size, most = 0, CHUNK_BYTES if most_bytes is None else most_bytes
        while size < most and self._segments_read < len(self._segments):
            wave = await self._wave(most - size)
            size += sum(len(each.raw) for each in wave)
            chunk += wave
        return chunk

    @property
    def expected_bytes(self) -> int:
        """How large all segments together are, judged by those that were read."""
        return self._bytes_read * len(self._segments) // max(1, self._segments_read)

    async def _wave(self, room_bytes: int) -> list[RawSegment]:
        width = _FIRST_WAVE
        if self._bytes_read:
            mean = self._bytes_read / self._segments_read
            width = max(1, min(int(room_bytes / mean), _WIDEST_WAVE))
        refs = self._segments[self._segments_read : self._segments_read + width]
        wave = await self._store.runtime.tasks.gather(*(self._read(ref) for ref in refs))
        self._segments_read += len(wave)
        self._bytes_read += sum(len(each.raw) for each in wave)
        return wave

    async def _read(self, ref: SegmentRef) -> RawSegment:
        if ref.raw is not None:
            return RawSegment(ref, ref.raw)
        key = segment_key(self._domain, ref.stream, ref.seq)
        raw = await self._store.find(key, size_bytes=LARGEST_BYTES)
        if raw is None:
            raise Corrupt(f"{key} is missing, and it has been found before")
        return RawSegment(ref, raw)
