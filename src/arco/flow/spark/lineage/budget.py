"""Budgets: how much processor time watching one query may cost."""

import time

QUERY_MS = 150.0


class Budget:
    """The processor time of this thread, from now on; what was spent before may be carried over."""

    def __init__(self, most_ms: float = QUERY_MS, *, spent_ms: float = 0.0) -> None:
        self._most_ms = most_ms
        self._start_ms = _now_ms() - spent_ms

    def spent_ms(self) -> float:
        """What was used so far."""
        return _now_ms() - self._start_ms

    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.spent_ms() >= self._most_ms


def _now_ms() -> float:
    return time.thread_time_ns() / 1e6
