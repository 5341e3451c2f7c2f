"""A simulated world of its own seed and weather for one story about a service."""

from collections.abc import Callable, Coroutine
from typing import Any

from tests.ledger.simulated import Calm
from tests.sim.faults import Faults
from tests.sim.objects import SimObjects
from tests.sim.process import Life, Process
from tests.sim.world import HOUR_MS, World


def storm(story: Callable[[Calm], Coroutine[Any, Any, None]], seed: int, faults: Faults) -> None:
    """Run a story to its end in virtual time, over a store with faults."""
    world = World(seed)
    world.end_ms = 48 * HOUR_MS
    objects = SimObjects(world, faults)
    finished: list[bool] = []

    async def main(life: Life) -> None:
        await story(Calm(life, objects, process.wall))
        finished.append(True)
        world.stop()

    process = Process(world, "test", main)
    process.start()
    try:
        world.run()
    finally:
        world.close()
    assert not world.failures, "\n".join(world.failures)
    assert finished, "the story did not end"
