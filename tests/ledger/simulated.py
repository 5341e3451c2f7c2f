"""A calm simulated world for tests in which hours pass: virtual time, no faults, every request counted."""

from collections.abc import Callable, Coroutine
from typing import Any

from arco.core.scope import Scope
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.sim.clock import Wall
from tests.sim.faults import NONE, Faults
from tests.sim.objects import SimObjects
from tests.sim.process import Incarnation, Process
from tests.sim.store import SimBackend
from tests.sim.world import HOUR_MS, World


class Calm:
    """One process on one store."""

    def __init__(self, incarnation: Incarnation, objects: SimObjects, wall: Wall) -> None:
        self.incarnation = incarnation
        self.wall = wall
        self.objects = objects
        self.runtime = incarnation.runtime
        self.clock = incarnation.runtime.clock

    def store(self, role: Role = Role.API) -> Store:
        return Store(
            SimBackend(self.objects, self.incarnation), self.runtime, scope=Scope(), role=role
        )

    def requests(self) -> int:
        """How many requests the store was sent so far."""
        return self.incarnation.world.tally["requests"]


def simulate(
    scenario: Callable[[Calm], Coroutine[Any, Any, None]],
    *,
    hours: float = 1_000,
    seed: int = 0,
    faults: Faults = NONE,
) -> None:
    """Run a scenario to its end in virtual time; without `faults` the store has none."""
    world = World(seed)
    world.end_ms = hours * HOUR_MS
    objects = SimObjects(world, faults)
    finished: list[bool] = []

    async def main(incarnation: Incarnation) -> None:
        await scenario(Calm(incarnation, objects, process.wall))
        finished.append(True)
        world.stop()

    process = Process(world, "test", main)
    process.start()
    try:
        world.run()
    finally:
        world.close()
    assert not world.failures, "\n".join(world.failures)
    assert finished, "the scenario did not end"
