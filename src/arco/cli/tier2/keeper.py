"""The keeper: sees to it that there is a child to compact Tier 2 whenever there is something to compact.

A child costs memory and its start takes seconds, so there is none before the first event, and none after
a long silence. One that dies is replaced, later each time, until one has done something. While there is
none, the keeper looks every so often whether others have written to the ledger.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from arco.api.health_monitor import CompactionFailure, CompactionState
from arco.cli.tier2.process import Child
from arco.cli.tier2.wire import Cycled, Failed, Handed, Ring, Said
from arco.core.runtime import Runtime
from arco.core.tasks import Task
from arco.ledger.segment import Segment

_LOOK_MS = 20 * 60_000
_LOOK_AGAIN_MS = 30_000  # after a look that has failed
_FIRST_PAUSE_MS = 1_000
_LONGEST_PAUSE_MS = 5 * 60_000
_RINGS_MS = 20  # rings that come in a burst go down together
_HANDED_BYTES = (
    256 * 1024
)  # of segments, in one burst; Spark reads larger ones from the store itself


_REASONS: dict[CompactionState, str] = {
    "waiting": "there is nothing to compact, so Spark is not running; the next event starts it",
    "starting": "Spark takes some seconds to start",
    "restarting": "Spark has ended or did not start, and is tried again; the log has the reason",
}


@dataclass(frozen=True)
class Care:
    """How a child is kept: whether from the start, and how long it may idle (None: for ever) and start."""

    at_once: bool = False
    idle_ms: float | None = None
    start_ms: float = 10 * 60_000


@dataclass(frozen=True)
class Died:
    """A child has ended unasked, and another is started after a while."""

    again_ms: float


@dataclass
class _Life:
    """One child, and when something was last heard of it or told to it."""

    child: Child
    active_ms: float
    was_asked: bool = False  # to end


class Keeper:
    """Runs one child after the other.

    `is_behind` tells whether the ledger holds what is not published. `heard` gets all that children say,
    `tell` what goes wrong here.
    """

    def __init__(
        self,
        start: Callable[[], Child],
        runtime: Runtime,
        *,
        care: Care,
        is_behind: Callable[[], Awaitable[bool]],
        heard: Callable[[Said | Died], None],
        tell: Callable[[str, Exception], None],
    ) -> None:
        self._start = start
        self._runtime = runtime
        self._care = care
        self._is_behind = is_behind
        self._heard = heard
        self._tell = tell
        self._news: dict[tuple[str, str], list[Handed]] = {}
        self._handed_bytes = 0
        self._rung = runtime.tasks.event()
        self._life: _Life | None = None
        self._running: list[Task[None]] = []
        self.deaths = 0  # in a row, without anything done between them
        self.is_up = False  # Spark runs
        self.problem: Failed | None = None  # the last, until something has gone well after it
        # Of domains that have published nothing since.
        self.failures: dict[str, CompactionFailure] = {}

    @property
    def has_child(self) -> bool:
        """Whether there is one, be it up or still on its way."""
        return self._life is not None

    @property
    def state(self) -> CompactionState:
        """How it is, for whoever asks after the server's health."""
        if self.is_up:
            return "running"
        if self.deaths:
            return "restarting"
        return "waiting" if self._life is None else "starting"

    @property
    def reason(self) -> str | None:
        """Why it is like that."""
        return _REASONS.get(self.state)

    def memory(self) -> Mapping[str, int]:
        """The memory of the child and of all below it, in bytes, by kind; nothing without one."""
        return {} if self._life is None else self._life.child.memory()

    def open(self) -> None:
        """Begin to keep one, beside the caller."""
        if self._care.at_once:
            self._rung.set()
        tasks = self._runtime.tasks
        self._running = [tasks.spawn(self._live()), tasks.spawn(self._look())]

    def ring(self, domain: str, stream: str, segment: Segment | None = None, /) -> None:
        """A stream of a domain has something new; a small segment is handed down with the news."""
        handed = self._news.setdefault((domain, stream), [])
        if segment is not None and self.is_up:
            self._handed_bytes += len(segment.raw)
            if self._handed_bytes <= _HANDED_BYTES:
                handed.append(Handed(segment.seq, segment.raw))
        self._rung.set()

    async def close(self) -> None:
        """End the child, and start no other."""
        for each in self._running:
            each.cancel()
        life, self._life, self.is_up = self._life, None, False
        if life is not None:
            await self._runtime.tasks.in_thread(life.child.end)

    async def _live(self) -> None:
        while True:
            await self._rung.wait()
            try:
                is_over = await self._one_life()
            except Exception as problem:
                self._tell("starting Spark", problem)
                is_over = False
            if is_over:
                continue
            self.deaths += 1
            pause_ms = self._pause_ms()
            self._heard(Died(pause_ms))
            await self._runtime.clock.sleep(pause_ms)
            self._rung.set()  # whatever it was about is still to be done

    async def _one_life(self) -> bool:
        """From the start of a child to its end; whether we had asked for that."""
        tasks = self._runtime.tasks
        child = await tasks.in_thread(self._start)
        # A new child looks at everything, so what was rung for until now is seen to.
        self._rung.clear()
        life = self._life = _Life(child, self._runtime.clock.elapsed_ms())
        passing_on = tasks.spawn(self._pass_on(life))
        idling = tasks.spawn(self._end_when_idle(life, passing_on))
        late = tasks.spawn(self._end_when_late(life))
        try:
            while (said := await tasks.in_thread(child.listen)) is not None:
                life.active_ms = self._runtime.clock.elapsed_ms()
                self._take(said)
        finally:
            self.is_up = False
            for each in (passing_on, idling, late):
                each.cancel()
        await tasks.in_thread(child.end)
        self._life = None
        return life.was_asked

    def _take(self, said: Said) -> None:
        if isinstance(said, Failed):
            self.problem = said
            for domain in said.domains:
                self.failures[domain] = CompactionFailure(said.error, said.detail)
        else:
            self.problem, self.deaths, self.is_up = None, 0, True
        if isinstance(said, Cycled):
            self.failures.pop(said.cycle.domain, None)
        self._heard(said)

    async def _pass_on(self, life: _Life) -> None:
        """Hand down what is rung for."""
        while True:
            await self._rung.wait()
            self._rung.clear()
            rings = [Ring(*where, tuple(handed)) for where, handed in self._news.items()]
            self._news.clear()
            self._handed_bytes = 0
            life.active_ms = self._runtime.clock.elapsed_ms()
            await self._runtime.tasks.in_thread(_ringing(life.child, rings))
            await self._runtime.clock.sleep(_RINGS_MS)

    async def _end_when_late(self, life: _Life) -> None:
        """Give up one that does not come up: a cluster may have no room, a JVM may hang."""
        await self._runtime.clock.sleep(self._care.start_ms)
        if not self.is_up:
            self._take(Failed("Spark", "TimeoutError", "it did not start in time"))
            life.child.finish()

    async def _end_when_idle(self, life: _Life, passing_on: Task[None]) -> None:
        """Ask it to finish after a long silence; what is rung for from then on is for the next one."""
        if self._care.idle_ms is None:
            return
        while not await self._is_idle(life, self._care.idle_ms):
            pass
        passing_on.cancel()
        life.was_asked = True
        life.child.finish()

    async def _is_idle(self, life: _Life, idle_ms: float) -> bool:
        """Whether there was silence for so long, and not because it has much to do, or is on its way."""
        while (ms := life.active_ms + idle_ms - self._runtime.clock.elapsed_ms()) > 0:
            await self._runtime.clock.sleep(ms)
        before_ms = life.active_ms
        if self.is_up and not await self._is_needed():
            return life.active_ms == before_ms
        life.active_ms = self._runtime.clock.elapsed_ms()
        return False

    async def _is_needed(self) -> bool:
        """Whether there is something to do; if that cannot be told, there is."""
        try:
            return await self._is_behind()
        except Exception as problem:
            self._tell("looking at the ledger", problem)
            return True

    async def _look(self) -> None:
        """While there is no child, look whether others have given it something to do."""
        while True:
            pause_ms = _LOOK_MS
            try:
                if self._life is None and await self._is_behind():
                    self._rung.set()
            except Exception as problem:
                self._tell("looking at the ledger", problem)
                pause_ms = _LOOK_AGAIN_MS
            await self._runtime.clock.sleep(pause_ms)

    def _pause_ms(self) -> float:
        pause = min(_LONGEST_PAUSE_MS, _FIRST_PAUSE_MS * 2.0 ** min(self.deaths - 1, 20))
        return pause * (1 + self._runtime.rng.random() / 4)


def _ringing(child: Child, rings: list[Ring]) -> Callable[[], None]:
    return lambda: child.ring(rings)
