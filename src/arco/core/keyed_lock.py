"""A lock for each key, among the tasks of one process, in the order in which they asked.

It saves work and no protocol relies on it: without it, tasks of one process that change the same table
would lose races against each other, and each loss wastes a file. Between processes the chain decides.
"""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from arco.core.tasks import AsyncEvent, Tasks


class KeyedLock:
    """A lock for each key in use; a key that no task holds takes no memory."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._waiting: dict[str, deque[AsyncEvent]] = {}

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[None]:
        """Wait for the lock of `key`, and hold it until the block ends."""
        queue = self._waiting.get(key)
        if queue is None:
            self._waiting[key] = deque()
        else:
            await self._wait(key, queue)
        try:
            yield
        finally:
            self._release(key)

    async def _wait(self, key: str, queue: deque[AsyncEvent]) -> None:
        turn = self._tasks.event()
        queue.append(turn)
        try:
            await turn.wait()
        except BaseException:  # a waiter that is cancelled must not block those behind it
            if turn.is_set():
                self._release(key)
            else:
                queue.remove(turn)
            raise

    def _release(self, key: str) -> None:
        queue = self._waiting[key]
        if queue:
            queue.popleft().set()
        else:
            del self._waiting[key]
