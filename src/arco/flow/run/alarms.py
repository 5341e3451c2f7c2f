"""Alarms: things to look at once some time has passed, by a clock that never jumps.

One task waits for the next of them. An alarm is never taken back: whoever is called looks whether there is
still something to do, so that making a lease longer costs nothing.
"""

import heapq
from collections.abc import Callable
from contextlib import suppress

from arco.core.runtime import Runtime
from arco.core.tasks import Task

Call = Callable[[], None]

_LONGEST_MS = 3_600_000


class Alarms:
    """Calls that are due at some time; `tell` hears of one that raises, and the others go on."""

    def __init__(self, runtime: Runtime, tell: Callable[[str, Exception], None]) -> None:
        self._tell = tell
        self._clock = runtime.clock
        self._tasks = runtime.tasks
        self._queue: list[tuple[float, int, Call]] = []
        self._count = 0
        self._earlier = runtime.tasks.event()  # an alarm was set before all others
        self._ringing: Task[None] | None = None

    def begin(self) -> None:
        """Ring from now on."""
        self._ringing = self._tasks.spawn(self._ring())

    def close(self) -> None:
        """Ring no more."""
        if self._ringing is not None:
            self._ringing.cancel()

    def set(self, in_ms: float, call: Call) -> None:
        """Call once so long has passed."""
        self._count += 1
        due = self._clock.elapsed_ms() + in_ms
        if not self._queue or due < self._queue[0][0]:
            self._earlier.set()
        heapq.heappush(self._queue, (due, self._count, call))

    async def _ring(self) -> None:
        while True:
            self._earlier.clear()
            now = self._clock.elapsed_ms()
            while self._queue and self._queue[0][0] <= now:
                self._call(heapq.heappop(self._queue)[2])
            if self._earlier.is_set():
                continue
            wait = self._queue[0][0] - now if self._queue else _LONGEST_MS
            with suppress(TimeoutError):
                await self._tasks.deadline(min(wait, _LONGEST_MS), self._earlier.wait())

    def _call(self, call: Call) -> None:
        try:
            call()
        except Exception as problem:
            self._tell("an alarm of the book of runs", problem)
