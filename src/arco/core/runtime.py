"""The runtime: clock, randomness and tasks as one argument (law 12)."""

import random
from dataclasses import dataclass
from typing import Protocol

from arco.core.clock import Clock, SystemClock
from arco.core.tasks import AsyncioTasks, Tasks


class Rng(Protocol):
    """Randomness as an argument."""

    def random(self) -> float:
        """A number from 0 up to, not including, 1."""

    def randbytes(self, n: int, /) -> bytes:
        """`n` random bytes."""


def system_rng() -> Rng:
    """Randomness of the operating system, good enough for ids and secrets."""
    return random.SystemRandom()


@dataclass(frozen=True)
class Runtime:
    """Everything outside the store that a protocol may use."""

    clock: Clock
    rng: Rng
    tasks: Tasks


def system_runtime() -> Runtime:
    """The clocks, randomness and threads of this machine."""
    return Runtime(SystemClock(), system_rng(), AsyncioTasks())


def with_own_threads(runtime: Runtime, count: int) -> Runtime:
    """The same runtime with a separate thread pool, for callers that block threads for long."""
    return Runtime(runtime.clock, runtime.rng, AsyncioTasks(count))
