"""Laps: what the time of a piece of work went into."""

from arco.core.clock import Clock


class Laps:
    """Time by phase; the same phase may come again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ms = clock.elapsed_ms()
        self._spent_ms: dict[str, float] = {}

    def end(self, phase: str) -> None:
        """What has passed since the last lap belongs to `phase`."""
        now = self._clock.elapsed_ms()
        self._spent_ms[phase] = self._spent_ms.get(phase, 0) + now - self._since_ms
        self._since_ms = now

    def ms(self) -> dict[str, int]:
        """So far, in whole milliseconds."""
        return {phase: round(ms) for phase, ms in self._spent_ms.items()}
