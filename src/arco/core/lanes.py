"""Lanes: of those who want to change the same table in this process, one at a time, in turn.

It is politeness and nothing rests on it: without it writers of one process would lose races against each
other, and each loss costs what was written for it. Between processes the chain decides.
"""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from arco.core.tasks import Event, Tasks


class Lanes:
    """A lane for each key that somebody is using."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._waiting: dict[str, deque[Event]] = {}

    @asynccontextmanager
    async def enter(self, key: str) -> AsyncIterator[None]:
        """Wait for the lane, and have it until the block ends."""
        queue = self._waiting.get(key)
        if queue is None:
            self._waiting[key] = deque()
        else:
            await self._wait(key, queue)
        try:
            yield
        finally:
            self._leave(key)

    async def _wait(self, key: str, queue: deque[Event]) -> None:
        turn = self._tasks.event()
        queue.append(turn)
        try:
            await turn.wait()
        except BaseException:  # whoever gives up must not hold up those behind
            if turn.is_set():
                self._leave(key)
            else:
                queue.remove(turn)
            raise

    def _leave(self, key: str) -> None:
        queue = self._waiting[key]
        if queue:
            queue.popleft().set()
        else:
            del self._waiting[key]
