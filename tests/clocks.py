"""A clock that the test moves by hand, and a runtime that goes by it."""

import asyncio
import random

from arco.core.runtime import Runtime
from arco.core.tasks import AsyncioTasks


class HandClock:
    """Stands still but for what the test, or a sleep, moves it."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self._now_ms = now_ms
        self._elapsed_ms = 0.0
        self.slept_ms: list[float] = []

    def now_ms(self) -> int:
        return self._now_ms

    def elapsed_ms(self) -> float:
        return self._elapsed_ms

    async def sleep(self, ms: float) -> None:
        self.slept_ms.append(ms)
        self.pass_ms(ms)
        await asyncio.sleep(0)

    def pass_ms(self, ms: float) -> None:
        """Let time go by, as it does."""
        self._elapsed_ms += ms
        self._now_ms += round(ms)

    def jump_ms(self, ms: int) -> None:
        """Set the wall clock, as an administrator does: no time goes by."""
        self._now_ms += ms


def hand_runtime(clock: HandClock, seed: int = 0) -> Runtime:
    return Runtime(clock, random.Random(seed), AsyncioTasks())
