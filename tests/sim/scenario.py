"""Scenarios: who is in a world, and what must be true when its time is over."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .world import World


class Scenario(Protocol):
    """One scenario. An instance serves one seed, so it may keep notes for its audit."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""

    def build(self, world: World) -> None:
        """Put stores, processes and chaos into the world, and say when it ends."""

    def audit(self, world: World) -> list[str]:
        """What is wrong now that it is over, one sentence each."""


@dataclass(frozen=True)
class Result:
    """What became of one seed."""

    scenario: str
    seed: int
    trace_hash: str
    tally: Counter[str]
    violations: tuple[str, ...]
    lines: tuple[str, ...] = ()


def run_seed(factory: Callable[[], Scenario], seed: int, *, keep_trace: bool = False) -> Result:
    """Run one scenario from one seed."""
    scenario, world = factory(), World(seed, keep_trace=keep_trace)
    scenario.build(world)
    try:
        world.run()
        # What escaped explains what the audit finds, so it comes first.
        violations = (*world.failures, *scenario.audit(world))
    finally:
        world.close()
    world.tally.update(seeds=1, steps=world.steps, violations=len(violations))
    lines = tuple(world.trace.lines)
    return Result(scenario.name, seed, world.trace.digest(), world.tally, violations, lines)
