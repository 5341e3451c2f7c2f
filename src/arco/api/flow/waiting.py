"""Waiting at a caller's wish, until there is something to tell or the caller has left.

A change is never broken off half-way, so whoever has left must not be waited for: a task that is leased to
nobody would lie idle until its lease ends. What has not begun to change anything ends at once.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from arco.api.body import Gone
from arco.api.route import Call
from arco.api.stopping import Stopping
from arco.core.runtime import Runtime
from arco.core.tasks import Event

T = TypeVar("T")

MOST_WAIT_MS = 25_000  # less than a request may take at all
_STRETCH_MS = 1_000  # so that a server which stops is not held up


class Waiting:
    """How long callers may wait here: until the server stops, for one."""

    def __init__(self, runtime: Runtime, stopping: Stopping) -> None:
        self._clock = runtime.clock
        self._tasks = runtime.tasks
        self._stopping = stopping

    async def until(
        self,
        call: Call[Any, Any],
        wait_ms: int,
        ask: Callable[[int], Coroutine[Any, Any, T]],
        enough: Callable[[T], bool],
    ) -> T:
        """What `ask` gives once that is `enough`, or after so long; `Gone` if nobody is there any more."""
        ends_ms = self._clock.elapsed_ms() + min(wait_ms, MOST_WAIT_MS)
        while True:
            rest_ms = max(0, int(ends_ms - self._clock.elapsed_ms()))
            asking = ask(min(rest_ms, _STRETCH_MS))
            left = call.left if rest_ms else None
            found = await (asking if left is None else self._unless(left, asking))
            if enough(found) or self._stopping.is_asked:
                return found
            if self._clock.elapsed_ms() >= ends_ms:
                return found

    async def _unless(self, left: Event, asking: Coroutine[Any, Any, T]) -> T:
        """The answer, unless the caller leaves before there is one."""
        over = self._tasks.event()
        asked = self._tasks.spawn(_then(asking, over))
        leaving = self._tasks.spawn(_then(left.wait(), over))
        try:
            await over.wait()
            if left.is_set():
                raise Gone
            return await asked.wait()
        finally:
            leaving.cancel()
            asked.cancel()


async def _then(work: Coroutine[Any, Any, T], over: Event) -> T:
    """`work`, and word that it has ended, however that was."""
    try:
        return await work
    finally:
        over.set()
