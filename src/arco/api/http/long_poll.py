"""Long polling: a handler waits until it has something to answer, its client disconnects, or time is up.

A change is never cancelled half-way, so a poll must end when its client disconnects: a task leased to a
client that is gone would wait until the lease expires.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from arco.api.http.request import Call, ClientDisconnected
from arco.core.runtime import Runtime
from arco.core.tasks import AsyncEvent

T = TypeVar("T")

MAX_WAIT_MS = 25_000  # less than the deadline of a request
_STEP_MS = 1_000  # so that a shutdown is noticed soon


@dataclass
class ShutdownFlag:
    """Set by the server when it shuts down; handlers that wait then answer at once."""

    is_set: bool = False


class LongPoll:
    """Repeats a question until its answer is enough."""

    def __init__(self, runtime: Runtime, shutdown: ShutdownFlag) -> None:
        self._clock = runtime.clock
        self._tasks = runtime.tasks
        self._shutdown = shutdown

    async def until(
        self,
        call: Call[Any, Any],
        wait_ms: int,
        ask: Callable[[int], Coroutine[Any, Any, T]],
        enough: Callable[[T], bool],
    ) -> T:
        """The answer of `ask` once it is `enough`, or the last one after `wait_ms`.

        Raises `ClientDisconnected` if the client disconnects first.
        """
        ends_ms = self._clock.elapsed_ms() + min(wait_ms, MAX_WAIT_MS)
        while True:
            rest_ms = max(0, int(ends_ms - self._clock.elapsed_ms()))
            asking = ask(min(rest_ms, _STEP_MS))
            disconnected = call.disconnected if rest_ms else None
            answer = await (asking if disconnected is None else self._unless(disconnected, asking))
            if enough(answer) or self._shutdown.is_set or self._clock.elapsed_ms() >= ends_ms:
                return answer

    async def _unless(self, disconnected: AsyncEvent, asking: Coroutine[Any, Any, T]) -> T:
        """The answer, unless the client disconnects before there is one."""
        over = self._tasks.event()
        question = self._tasks.spawn(_signal_end(asking, over))
        listener = self._tasks.spawn(_signal_end(disconnected.wait(), over))
        try:
            await over.wait()
            if disconnected.is_set():
                raise ClientDisconnected
            return await question.wait()
        finally:
            listener.cancel()
            question.cancel()


async def _signal_end(work: Coroutine[Any, Any, T], over: AsyncEvent) -> T:
    try:
        return await work
    finally:
        over.set()
