"""Exponential back-off with jitter: how long to wait after a number of failures in a row."""

from dataclasses import dataclass

from arco.core.runtime import Rng, Runtime

_MAX_DOUBLINGS = 30  # more would overflow, and every pause is at its maximum long before


@dataclass(frozen=True)
class ExponentialBackoff:
    """Pauses that double from `first_ms` to `max_ms`.

    Each is longer by a random share of up to `jitter`, so that callers that failed together spread out.
    """

    first_ms: float
    max_ms: float
    jitter: float = 0.25

    def pause_ms(self, failures: int, rng: Rng) -> float:
        """The pause after this many failures in a row, 1 or more."""
        doubled_ms = self.first_ms * 2.0 ** min(failures - 1, _MAX_DOUBLINGS)
        return self.spread_ms(doubled_ms, rng)

    def spread_ms(self, pause_ms: float, rng: Rng) -> float:
        """A pause that was computed elsewhere, with the same limit and jitter."""
        return min(pause_ms, self.max_ms) * (1 + self.jitter * rng.random())

    async def sleep(self, failures: int, runtime: Runtime) -> None:
        """Wait for the pause after this many failures in a row."""
        await runtime.clock.sleep(self.pause_ms(failures, runtime.rng))
