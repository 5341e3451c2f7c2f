"""The world: one seed, one virtual clock, one queue of events.

Whatever happens is an event at a moment; events of the same moment come in an order drawn from the
seed, so that the interleavings of tasks differ from seed to seed. An event may belong to an incarnation
of a process: it is dropped when that incarnation has ended and put off while it is asleep.
"""

import random
import traceback
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from .trace import Trace

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS

EPOCH_MS = 1_767_225_600_000  # what wall clocks say at the beginning: 2026-01-01

_MOST_STEPS = 500_000  # far above any run that makes progress


class Owner(Protocol):
    """Whose events they are: an incarnation of a process."""

    alive: bool
    asleep: bool

    def put_off(self, item: "Item") -> None:
        """Keep an event that fell due during sleep."""


class Item(Protocol):
    """What stands in the queue."""

    @property
    def owner(self) -> Owner | None:
        """Whose event it is; None for the network, the store and chaos."""

    def fire(self) -> None:
        """It is time."""


class Timer:
    """A call at a moment."""

    __slots__ = ("_call", "owner")

    def __init__(self, call: Callable[[], None], owner: Owner | None) -> None:
        self._call: Callable[[], None] | None = call
        self.owner = owner

    def cancel(self) -> None:
        """Do not call any more."""
        self._call = None

    def fire(self) -> None:
        if self._call is not None:
            self._call()


class World:
    """All that a run consists of, but for what its scenario adds."""

    def __init__(self, seed: int, *, keep_trace: bool = False) -> None:
        self.seed = seed
        self.now_ms = 0.0
        self.end_ms = 24.0 * HOUR_MS
        self.steps = 0
        self.trace = Trace(keep=keep_trace)
        self.tally: Counter[str] = Counter()
        self.failures: list[str] = []  # what escaped from a process, with its traceback
        self.ending: list[Callable[[], None]] = []  # what to ask when the last event has happened
        self.closing: list[Callable[[], None]] = []  # what to tidy when the run has been judged
        self._streams: dict[str, random.Random] = {}
        self._draw = self.stream("order").random
        self._queue: list[tuple[float, float, int, Item]] = []
        self._sequence = 0
        self._turn = 0
        self._stopped = False

    def stream(self, name: str) -> random.Random:
        """Randomness of its own for each purpose: a draw more in one shifts no other."""
        rng = self._streams.get(name)
        if rng is None:
            # A string is seeded by its SHA-512, not by its hash, which differs between processes.
            rng = self._streams[name] = random.Random(f"{self.seed}/{name}")
        return rng

    def push(self, at_ms: float, item: Item) -> None:
        """Queue an item; among those of the same moment its place is drawn."""
        self._sequence = sequence = self._sequence + 1
        heappush(self._queue, (at_ms, self._draw(), sequence, item))

    def push_turn(self, item: Item) -> None:
        """Queue an item behind all that is ready at this moment."""
        self._sequence += 1
        place = self._turn + 1 + self._draw()
        heappush(self._queue, (self.now_ms, place, self._sequence, item))

    def after(self, delay_ms: float, call: Callable[[], None], owner: Owner | None = None) -> Timer:
        """Call once `delay_ms` has passed."""
        timer = Timer(call, owner)
        self.push(self.now_ms + delay_ms, timer)
        return timer

    def run(self) -> None:
        """Let everything happen up to `end_ms`, or until the run is stopped."""
        queue = self._queue
        while queue and not self._stopped and queue[0][0] <= self.end_ms:
            at_ms, place, _, item = heappop(queue)
            owner = item.owner
            if owner is not None:
                if not owner.alive:
                    continue
                if owner.asleep:
                    owner.put_off(item)
                    continue
            self.now_ms, self._turn = at_ms, int(place)
            self.steps += 1
            if self.steps > _MOST_STEPS:
                self.failures.append(f"no end in sight after {self.steps} steps: a livelock")
                break
            item.fire()
        for ask in self.ending:
            ask()

    def stop(self) -> None:
        """End the run before the next event."""
        self._stopped = True

    def close(self) -> None:
        """Tidy up; nothing that happens now has any effect."""
        self._queue.clear()
        for tidy in self.closing:
            tidy()

    def note(self, process: str, what: str) -> None:
        """Add a line to the trace."""
        self.trace.note(self.now_ms, process, what)

    def escaped(self, process: str, error: BaseException) -> None:
        """An error that was not caught: always a violation."""
        text = "".join(traceback.format_exception(error))
        self.note(process, f"died of {error!r}")
        self.failures.append(f"{process}: an error escaped at {self.now_ms:.0f} ms\n{text}")
