"""The runtime: clock, randomness and tasks as one argument (law 12)."""

from dataclasses import dataclass

from arco.core.clock import Clock, SystemClock
from arco.core.rng import Rng, system_rng
from arco.core.tasks import AsyncioTasks, Tasks


@dataclass(frozen=True)
class Runtime:
    """All that a protocol may use of the world besides its store."""

    clock: Clock
    rng: Rng
    tasks: Tasks


def system_runtime() -> Runtime:
    """The real world."""
    return Runtime(SystemClock(), system_rng(), AsyncioTasks())


def with_own_threads(runtime: Runtime, count: int) -> Runtime:
    """The same world for whoever blocks threads for long: others never wait for one of these."""
    return Runtime(runtime.clock, runtime.rng, AsyncioTasks(count))
