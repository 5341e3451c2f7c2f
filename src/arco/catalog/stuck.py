"""Passes that lead nowhere, noticed before they fill the ledger."""

from arco.core.errors import Unavailable
from arco.core.runtime import Runtime

_MOST_TIMES = 6
_PAUSE_MS = 10


class Stuck:
    """Notices passes that lead nowhere: nobody else has won, and yet nothing was published.

    A compactor that serves another store, or sees an older one, refuses for ever. Each pass leaves a
    segment behind, so after a few of them, each later than the one before, the callers are told.
    """

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None
        self._times = 0

    async def refuse(self, runtime: Runtime, number: int, asks: int) -> None:
        """`Unavailable` if this pass begins where several before it began."""
        self._times = self._times + 1 if (number, asks) == self._last else 0
        self._last = (number, asks)
        if self._times > _MOST_TIMES:
            raise Unavailable("the compactor publishes nothing: does it serve this very store?")
        if self._times:
            await runtime.clock.sleep(_PAUSE_MS * self._times * (1 + runtime.rng.random()))
