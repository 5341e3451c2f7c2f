"""Chaos: what befalls processes, clocks and the store at moments drawn from the seed.

Most of it lies in ambush: it strikes after so many more steps of a process, and so between a request
and its answer, where a moment drawn from the clock would hit idle time. It ends at a given moment;
from then on everything works, and everything must become live again.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from .faults import NONE, OUTAGE
from .objects import SimObjects
from .process import Ambush, Process
from .world import HOUR_MS, MINUTE_MS, SECOND_MS, World

_FURTHEST_AMBUSH = 40  # steps


@dataclass(frozen=True)
class Storm:
    """How often things happen, and how likely each of them is."""

    every_ms: float = 20.0 * MINUTE_MS
    longest_sleep_ms: float = 14.0 * HOUR_MS
    crash: float = 3.0
    suspend: float = 3.0
    stall: float = 2.0
    jump: float = 2.0
    lid: float = 1.0  # several machines fall asleep at once
    outage: float = 1.0

    def drawn(self, rng: random.Random) -> "Storm":
        """The storm of one seed: some things never, some often."""
        often = {kind: getattr(self, kind) * rng.choice((0.0, 1.0, 1.0, 3.0)) for kind in _KINDS}
        return replace(self, every_ms=self.every_ms * rng.uniform(0.5, 2.0), **often)


_KINDS = ("crash", "suspend", "stall", "jump", "lid", "outage")


class Chaos:
    """The actor that makes it happen."""

    def __init__(
        self,
        world: World,
        objects: SimObjects,
        processes: list[Process],
        *,
        until_ms: float,
        storm: Storm | None = None,
        pranks: Mapping[str, Callable[[], None]] | None = None,
    ) -> None:
        self._world = world
        self._objects = objects
        self._processes = processes
        self._until_ms = until_ms
        self._rng = world.stream("chaos")
        self._storm = (storm or Storm()).drawn(self._rng)
        self._weather = objects.faults
        self._pranks = dict(pranks or {})

    def start(self) -> None:
        """Begin, and see to it that it ends."""
        self._world.after(self._until_ms, self._calm)
        self._schedule_strike()

    def _schedule_strike(self) -> None:
        gap_ms = self._rng.expovariate(1 / self._storm.every_ms)
        if self._world.now_ms + gap_ms < self._until_ms:
            self._world.after(gap_ms, self._strike)

    def _strike(self) -> None:
        self._schedule_strike()
        kinds = [*_KINDS, *self._pranks]
        weights = [getattr(self._storm, kind) for kind in _KINDS] + [1.0] * len(self._pranks)
        kind = self._rng.choices(kinds, weights)[0] if any(weights) else ""
        victim = self._rng.choice(self._processes)
        match kind:
            case "crash":
                self._lurk(victim, lambda: self._crash(victim))
            case "suspend":
                self._lurk(victim, lambda: victim.suspend(self._sleep_ms()))
            case "stall":
                ms = self._spread(50, 20 * SECOND_MS)
                self._lurk(victim, lambda: victim.stall(ms))
            case "jump":
                furthest_ms = max(HOUR_MS, victim.wall.furthest_ms)
                victim.jump(self._rng.uniform(-furthest_ms, furthest_ms))
            case "lid":
                self._lurk(victim, self._close_lids)
            case "outage":
                self._outage()
            case "":
                pass
            case _:
                self._world.tally["pranks"] += 1
                self._world.note("chaos", kind)
                self._pranks[kind]()

    def _lurk(self, victim: Process, strike: Callable[[], None]) -> None:
        """Strike after some steps of the victim, or at once."""

        def spring() -> None:
            if self._world.now_ms < self._until_ms:
                strike()

        way = self._rng.random()
        if victim.incarnation is None or way < 0.2:
            spring()
        elif way < 0.5:
            victim.incarnation.ambush(Ambush(self._rng.randint(1, 3), spring, for_creates=True))
        else:
            victim.incarnation.ambush(Ambush(self._rng.randint(1, _FURTHEST_AMBUSH), spring))

    def _crash(self, victim: Process) -> None:
        victim.crash()
        self._world.after(self._spread(10, 10 * MINUTE_MS), victim.restart)

    def _close_lids(self) -> None:
        """Machines fall asleep together, and often wake together."""
        together = self._sleep_ms() if self._rng.random() < 0.6 else None
        for process in self._processes:
            if self._rng.random() < 0.6:
                after_ms = self._rng.random() * MINUTE_MS
                process.suspend(self._sleep_ms() if together is None else together + after_ms)

    def _outage(self) -> None:
        self._world.tally["outages"] += 1
        self._world.note("chaos", "the store is out")
        self._objects.faults = OUTAGE
        self._world.after(self._spread(SECOND_MS, 5 * MINUTE_MS), self._clear_up)

    def _clear_up(self) -> None:
        if self._world.now_ms < self._until_ms:
            self._objects.faults = self._weather

    def _calm(self) -> None:
        self._world.note("chaos", "ends")
        self._objects.faults = NONE
        for process in self._processes:
            process.restart()

    def _sleep_ms(self) -> float:
        """A nap or half a night, and not beyond the end of the chaos."""
        longest_ms = self._storm.longest_sleep_ms
        if self._rng.random() < 0.5:
            sleep_ms = self._spread(30 * SECOND_MS, longest_ms)
        else:
            sleep_ms = self._rng.uniform(0.1, 0.5) * longest_ms
        return min(sleep_ms, max(0.0, self._until_ms - self._world.now_ms))

    def _spread(self, low: float, high: float) -> float:
        """Between two bounds, with every order of magnitude alike."""
        return float(low * (high / low) ** self._rng.random())
