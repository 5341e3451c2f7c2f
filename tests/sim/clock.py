"""The clock of a simulated process: its wall time is off and jumps, its elapsed time never does."""

from .future import Future
from .world import EPOCH_MS, Owner, World


class Wall:
    """A machine's wall clock: how far it is off the true time, within a bound."""

    def __init__(self, furthest_ms: float) -> None:
        self.offset_ms = 0.0
        self.furthest_ms = furthest_ms

    def jump(self, by_ms: float) -> None:
        """Move the clock, not beyond its bound."""
        moved = self.offset_ms + by_ms
        self.offset_ms = max(-self.furthest_ms, min(self.furthest_ms, moved))


class SimClock:
    """Time as one incarnation of a process sees it."""

    def __init__(self, world: World, owner: Owner, wall: Wall, booted_ms: float) -> None:
        self._world = world
        self._owner = owner
        self._wall = wall
        self._booted_ms = booted_ms

    def now_ms(self) -> int:
        return int(EPOCH_MS + self._world.now_ms + self._wall.offset_ms)

    def elapsed_ms(self) -> float:
        return self._world.now_ms - self._booted_ms

    async def sleep(self, ms: float) -> None:
        awake: Future[None] = Future()
        self._world.after(max(0.0, ms), lambda: awake.resolve(None), self._owner)
        await awake
