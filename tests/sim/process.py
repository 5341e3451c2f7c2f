"""Processes: groups of tasks that crash, sleep, stall and start again together.

A process has several incarnations. Each begins with an empty memory: its main function is called again.
A crash ends an incarnation between two steps: none of its tasks goes on, not even to run a `finally`, while
the requests that it has sent may still arrive at the store.
"""

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from arco.core.runtime import Runtime

from .clock import SimClock, Wall
from .task import SimTask
from .tasks import SimTasks
from .world import MINUTE_MS, Item, World

# A machine that is further off the true time would be noticed by its people.
FURTHEST_CLOCK_MS = 59.0 * MINUTE_MS


@dataclass
class Ambush:
    """Something that strikes after so many more steps, or after so many that send a create."""

    steps: int
    strike: Callable[[], None]
    for_creates: bool = False


class Incarnation:
    """One incarnation of a process."""

    def __init__(self, world: World, name: str, number: int, wall: Wall) -> None:
        self.world = world
        self.name = f"{name}.{number}"
        self.alive = True
        self.asleep = False
        self.running: SimTask[Any] | None = None
        self._wakes_ms = 0.0
        self._put_off: list[Item] = []
        self._failed: list[SimTask[Any]] = []
        self._ambush: Ambush | None = None
        self._has_created = False  # whether this step sent off a create
        self._main: SimTask[None] | None = None
        rng = random.Random(f"{world.seed}/{self.name}")
        clock = SimClock(world, self, wall, world.now_ms - rng.random() * 1e9)
        self._tasks = SimTasks(self, self.name)
        self.runtime = Runtime(clock, rng, self._tasks)
        world.ending.append(self._report_unseen)
        world.closing.append(self._close)

    def begin(self, main: Coroutine[Any, Any, None]) -> None:
        """Run the main function."""
        self._main = self._tasks.start(main)

    def sleep(self, ms: float) -> None:
        """Run nothing for a while; what falls due meanwhile happens on waking."""
        self.asleep = True
        self._wakes_ms = max(self._wakes_ms, self.world.now_ms + ms)
        self.world.after(ms, self._wake)

    def ambush(self, ambush: "Ambush") -> None:
        """Strike between two steps, however close in time they are."""
        self._ambush = ambush

    def creates(self) -> None:
        """A create, which may be a commit point, is on its way."""
        self._has_created = True

    def put_off(self, item: Item) -> None:
        self._put_off.append(item)

    def stepped(self) -> None:
        ambush, has_created = self._ambush, self._has_created
        self._has_created = False
        if ambush is None or (ambush.for_creates and not has_created):
            return
        ambush.steps -= 1
        if ambush.steps <= 0:
            self._ambush = None
            ambush.strike()

    def ended(self, task: SimTask[Any]) -> None:
        self._tasks.forget(task)
        if task.error is None or task.was_cancelled():
            return
        if task is self._main:
            self.world.escaped(self.name, task.error)
        else:
            self._failed.append(task)

    def _report_unseen(self) -> None:
        """Errors of tasks that were never awaited are violations too."""
        for task in self._failed:
            if task.error is not None and not task.watched:
                self.world.escaped(task.name, task.error)
        self._failed.clear()

    def _wake(self) -> None:
        if self.world.now_ms < self._wakes_ms:
            return
        self.asleep = False
        due, self._put_off = self._put_off, []
        for item in due:
            self.world.push(self.world.now_ms, item)

    def _close(self) -> None:
        self.alive = False
        self._tasks.close()


class Process:
    """A named process with a machine of its own."""

    def __init__(
        self,
        world: World,
        name: str,
        main: Callable[[Incarnation], Coroutine[Any, Any, None]],
        *,
        furthest_clock_ms: float = FURTHEST_CLOCK_MS,
    ) -> None:
        self.world = world
        self.name = name
        self.wall = Wall(furthest_clock_ms)
        self.incarnation: Incarnation | None = None
        self.incarnations: list[Incarnation] = []
        self._main = main

    def start(self) -> None:
        """Begin an incarnation."""
        self.incarnation = Incarnation(self.world, self.name, len(self.incarnations), self.wall)
        self.incarnations.append(self.incarnation)
        self.incarnation.begin(self._main(self.incarnation))

    def crash(self) -> None:
        """End this incarnation at once."""
        if self.incarnation is not None:
            self._happened("crashes", "crashes")
            self.incarnation.alive = False
            self.incarnation = None

    def restart(self) -> None:
        """Begin another incarnation, if none is going on."""
        if self.incarnation is None:
            self._happened("restarts", "starts again")
            self.start()

    def suspend(self, ms: float) -> None:
        """Put the machine to sleep: the clocks go on, nothing else does."""
        if self.incarnation is not None:
            self._happened("suspends", f"is suspended for {ms / 1000:.1f} s")
            self.incarnation.sleep(ms)

    def stall(self, ms: float) -> None:
        """A short halt, as of a garbage collection or a busy host."""
        if self.incarnation is not None:
            self._happened("stalls", f"stalls for {ms:.0f} ms")
            self.incarnation.sleep(ms)

    def jump(self, by_ms: float) -> None:
        """Move the wall clock."""
        self.wall.jump(by_ms)
        self._happened("clock jumps", f"has its clock moved to {self.wall.offset_ms:+.0f} ms")

    def _happened(self, kind: str, what: str) -> None:
        self.world.tally[kind] += 1
        self.world.note(self.name, what)
