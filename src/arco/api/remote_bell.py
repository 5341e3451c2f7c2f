"""The API's bell for a compactor in another process: tells it over HTTP which streams have news.

It only makes things sooner, and nobody waits for it. What was rung for while a call was under way goes
out after it, once; a call that fails is forgotten, because the compactor looks by itself too.
"""

from arco.api.remote_compactor import RemoteCompactor
from arco.core.errors import ArcoError
from arco.core.runtime import Runtime
from arco.core.tasks import Task
from arco.ledger.segment import Segment

_PAUSE_MS = 100  # so that a busy API does not spend itself on ringing
_AFTER_FAILURE_MS = 2_000


class RemoteBell:
    """Rings at most ten times a second, and hardly ever where nobody answers."""

    def __init__(self, compactor: RemoteCompactor, runtime: Runtime) -> None:
        self._compactor = compactor
        self._runtime = runtime
        self._news: dict[tuple[str, str], None] = {}
        self._ringing: Task[None] | None = None

    def ring(self, domain: str, stream: str, _segment: Segment | None = None, /) -> None:
        """A stream of a domain has something new."""
        self._news[domain, stream] = None
        if self._ringing is None or self._ringing.done():
            self._ringing = self._runtime.tasks.spawn(self._ring_out())

    def close(self) -> None:
        """Ring no more."""
        self._news.clear()
        if self._ringing is not None:
            self._ringing.cancel()

    async def _ring_out(self) -> None:
        while self._news:
            news, self._news = list(self._news), {}
            pause_ms = _PAUSE_MS
            for domain, stream in news:
                try:
                    await self._compactor.notify(domain, stream)
                except ArcoError:
                    pause_ms = _AFTER_FAILURE_MS
            await self._runtime.clock.sleep(pause_ms)
