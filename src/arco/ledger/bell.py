"""The bell: tells a follower in the same process that a stream has something new.

It only makes things sooner. A ring that is lost costs time, because followers probe anyway.
"""

from arco.core.tasks import AsyncEvent, Tasks
from arco.ledger.segment import Segment


class Bell:
    """Streams that were heard of since somebody last asked."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._rung: AsyncEvent = tasks.event()
        self._streams: dict[str, None] = {}

    def ring(self, stream: str, _segment: Segment | None = None, /) -> None:
        """`stream` has a new segment."""
        self._streams[stream] = None
        self._rung.set()

    async def wait(self, ms: float) -> list[str]:
        """The streams that were rung for, as soon as there is one; none after `ms`."""
        try:
            await self._tasks.deadline(ms, self._rung.wait())
        except TimeoutError:
            return []
        self._rung.clear()
        streams, self._streams = list(self._streams), {}
        return streams
