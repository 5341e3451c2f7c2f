"""Time as an argument (law 12).

Wall time is data: it goes into objects and logs, may jump, and decides nothing that safety rests on.
Elapsed time decides how long this process has waited or slept; it never jumps and it goes on while
the machine is suspended, because a process that slept through a retention must know it (P7).
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Time as an argument."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""

    def elapsed_ms(self) -> float:
        """Milliseconds since some fixed moment, suspended time included."""

    async def sleep(self, ms: float) -> None:
        """Return after at least this long."""


class SystemClock:
    """The clocks of the machine."""

    # CLOCK_BOOTTIME counts suspended time; on Darwin CLOCK_MONOTONIC does.
    _elapsed = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> float:
        return time.clock_gettime_ns(self._elapsed) / 1e6

    async def sleep(self, ms: float) -> None:
        await asyncio.sleep(ms / 1000)


def utc(ms: int) -> datetime:
    """The moment `ms` as a datetime in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC)
