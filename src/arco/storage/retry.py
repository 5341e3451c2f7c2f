"""Retries: bounded in number and in time, with jitter, on the injected clock and rng (law 12)."""

from dataclasses import dataclass

from arco.core.runtime import Runtime


@dataclass(frozen=True)
class Retry:
    """How often, how fast and for how long to try again."""

    attempts: int = 10
    first_pause_ms: float = 40
    longest_pause_ms: float = 4_000
    budget_ms: float = 25_000
    attempt_ms: float = 10_000
    bytes_per_ms: float = 1_000  # the slowest transfer that still counts as moving: 1 MB/s

    async def again(self, runtime: Runtime, attempt: int, started_ms: float) -> bool:
        """Whether attempt number `attempt` is to be made, after the pause that is due before it."""
        if attempt == 0:
            return True
        if attempt >= self.attempts:
            return False
        pause = min(self.longest_pause_ms, self.first_pause_ms * 2 ** (attempt - 1))
        await runtime.clock.sleep(pause * (0.5 + runtime.rng.random() / 2))
        return runtime.clock.elapsed_ms() - started_ms <= self.budget_ms

    def patience_ms(self, size_bytes: int) -> float:
        """How long one attempt that moves `size_bytes` may take."""
        return self.attempt_ms + size_bytes / self.bytes_per_ms
