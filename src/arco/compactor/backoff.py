"""Backing off: what fails is tried again later each time, with some spread, until it works."""

from arco.core.runtime import Runtime

_FIRST_PAUSE_MS = 1_000
_LONGEST_PAUSE_MS = 60_000


class Backoff:
    """How often something has failed in a row, and until when it is left alone."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._until_ms = 0.0
        self.failures = 0
        self.problem: Exception | None = None

    def rest_ms(self) -> float:
        """How long it is still left alone; 0 if it may be tried."""
        return max(0, self._until_ms - self._runtime.clock.elapsed_ms())

    def failed(self, problem: Exception) -> None:
        """It has failed once more."""
        self.failures += 1
        self.problem = problem
        pause_ms = min(_LONGEST_PAUSE_MS, _FIRST_PAUSE_MS * 2 ** min(self.failures - 1, 16))
        spread = 1 + self._runtime.rng.random() / 4
        self._until_ms = self._runtime.clock.elapsed_ms() + pause_ms * spread

    def worked(self) -> None:
        """It has worked."""
        self.failures, self.problem, self._until_ms = 0, None, 0.0
