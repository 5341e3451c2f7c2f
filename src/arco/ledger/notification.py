"""Notifications inside one process: a writer reports new segments and passes their bytes on.

Both only save time. A follower probes for segments anyway, and reads from the store what is not cached.
"""

from arco.core.lru_cache import LruCache
from arco.core.tasks import AsyncEvent, Tasks
from arco.ledger.segment import Segment

_CACHE_BYTES = 4 * 1024 * 1024


class StreamNotifications:
    """The streams that have new segments since the last call of `wait`."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._event: AsyncEvent = tasks.event()
        self._streams: dict[str, None] = {}

    def notify(self, stream: str, _segment: Segment | None = None, /) -> None:
        """`stream` has a new segment."""
        self._streams[stream] = None
        self._event.set()

    async def wait(self, ms: float) -> list[str]:
        """The notified streams, as soon as there is one; none after `ms`."""
        try:
            await self._tasks.deadline(ms, self._event.wait())
        except TimeoutError:
            return []
        self._event.clear()
        streams, self._streams = list(self._streams), {}
        return streams


class SegmentCache:
    """The bytes of durable segments of one domain, so that the fold need not read them from the store."""

    def __init__(self, max_bytes: int = _CACHE_BYTES) -> None:
        self._segments = LruCache[tuple[str, int], bytes](max_bytes, len)

    def add(self, segment: Segment) -> None:
        """Cache a segment, which is in the store with these bytes."""
        self._segments.put((segment.stream, segment.seq), segment.raw)

    def find(self, stream: str, seq: int) -> bytes | None:
        """The bytes of a segment, if they are cached."""
        return self._segments.get((stream, seq))

    def remove(self, stream: str, seq: int) -> None:
        """Drop a segment that was folded."""
        self._segments.pop((stream, seq))

    def clear(self) -> None:
        """Drop all segments."""
        self._segments.clear()

    def last_consecutive(self, stream: str, first: int) -> int:
        """The last cached segment from `first` on without a gap; `first - 1` if that is not cached."""
        seq = first
        while (stream, seq) in self._segments:
            seq += 1
        return seq - 1
