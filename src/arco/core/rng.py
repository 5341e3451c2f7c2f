"""The randomness seam (law 12): ids and jitter draw from here, and the simulator seeds it."""

import random
from typing import Protocol


class Rng(Protocol):
    """Randomness as an argument."""

    def random(self) -> float:
        """A number from 0 up to, not including, 1."""

    def randbytes(self, n: int, /) -> bytes:
        """`n` random bytes."""


def system_rng() -> Rng:
    """Randomness of the operating system, good enough for ids and secrets."""
    return random.SystemRandom()
