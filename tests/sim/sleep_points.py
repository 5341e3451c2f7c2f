"""Exhaustive sleeps: one operation, with a process that falls asleep at every storage call in turn.

While it sleeps, for longer than anything is kept, two other API processes take the lease and give it back,
another compactor serves, and the janitor collects all that it may. Then the sleeper wakes up and goes on as
if nothing had happened.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from arco.catalog.ddl import CatalogName as Name
from arco.catalog.ddl import DropCatalog
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.compactor.garbage_collection import collect_garbage
from arco.storage.chain import SHORTEST_RETENTION_MS
from arco.storage.roles import Role

from .catalog_api import UNDROP_FOR, Inbox
from .catalog_notes import Intent
from .catalog_scenario import FORGET_AFTER
from .crash_operations import Operation, Prepared, operations, prepare
from .crash_points import CHANGES, Bomb, BombedBackend, Point, Trial
from .future import Future
from .process import Incarnation, Process
from .rpc import RemotePort
from .store import SimBackend
from .world import HOUR_MS, MINUTE_MS, SECOND_MS

T = TypeVar("T")

_SLEEP_MS = 3 * HOUR_MS

# Each takes the lease once: a process that comes twice would use its epoch again.
_OTHERS = ("api2", "api3")


class SleepyBackend(BombedBackend):
    """The way to the store of a process that may fall asleep on it."""

    def __init__(
        self, inner: SimBackend, process: Process, bomb: Bomb, incarnation: Incarnation
    ) -> None:
        super().__init__(inner, process, bomb)
        self._incarnation = incarnation

    async def _call(self, verb: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        point = self._bomb.counted(self._process.name, verb)
        if point is None:
            return await work()
        if not point.after:
            await self._sleep()
            return await work()
        answer = await work()
        await self._sleep()
        return answer

    async def _sleep(self) -> None:
        self._process.suspend(_SLEEP_MS)
        awake: Future[None] = Future()
        self._incarnation.world.after(0, lambda: awake.resolve(None), self._incarnation)
        await awake


class SleepTrial(Trial):
    """One operation whose API process or compactor sleeps at a point."""

    def __init__(self, prepared: Prepared, operation: Operation, bomb: Bomb) -> None:
        super().__init__(prepared, operation, bomb)
        self.world.end_ms += 2 * _SLEEP_MS
        self._other_inboxes: dict[str, Inbox] = {}
        self.processes["compactor2"] = Process(self.world, "compactor2", self._compact)
        for name in _OTHERS:
            self.processes[name] = Process(self.world, name, self._serve)

    def _backend(self, incarnation: Incarnation) -> BombedBackend:
        process = self.processes[incarnation.name.partition(".")[0]]
        return SleepyBackend(
            SimBackend(self.objects, incarnation), process, self._bomb, incarnation
        )

    def _port(self, incarnation: Incarnation) -> RemotePort:
        only = "compactor" if incarnation.name.startswith("api.") else "compactor2"
        return RemotePort(self._exchange, incarnation, only=only)

    def _opened(self, incarnation: Incarnation, inbox: Inbox) -> None:
        name = incarnation.name.partition(".")[0]
        if name in _OTHERS:
            self._other_inboxes[name] = inbox
        else:
            self._inbox = inbox

    async def _compact(self, incarnation: Incarnation) -> None:
        store = self._store(incarnation, Role.COMPACTOR)
        compactor = CatalogCompactor(store, retention=UNDROP_FOR, grace=FORGET_AFTER)
        self._exchange.open(incarnation.name.partition(".")[0], incarnation, compactor)

    async def _tidy(self, incarnation: Incarnation) -> None:
        """The janitor works when the driver calls it."""

    async def _operate(self, incarnation: Incarnation) -> None:
        began_ms = incarnation.world.now_ms
        request = self._operation.request
        if request is None:
            raise AssertionError("only requests are slept over")
        intent = Intent("op", request, keyed=False)
        await self._pursue(incarnation, intent)
        await incarnation.runtime.clock.sleep(MINUTE_MS)
        self._bomb.armed = False
        await self._pass_the_token(incarnation)
        await incarnation.runtime.clock.sleep(began_ms + 2.7 * HOUR_MS - incarnation.world.now_ms)
        janitor = self.processes["janitor"].incarnation
        if janitor is None:
            raise AssertionError("the janitor has no reason to die")
        collection = janitor.runtime.tasks.spawn(self._collect(janitor))
        await collection.wait()
        await incarnation.runtime.clock.sleep(
            began_ms + _SLEEP_MS + MINUTE_MS - incarnation.world.now_ms
        )

    async def _pass_the_token(self, incarnation: Incarnation) -> None:
        """Two requests that are refused: each takes an epoch of its own, and publishes nothing."""
        for name in _OTHERS:
            request = DropCatalog(target=Name("nowhere"))
            first, self._inbox = self._inbox, self._other_inboxes[name]
            await self._pursue(incarnation, Intent(f"passing by {name}", request, keyed=False))
            self._inbox = first
            await incarnation.runtime.clock.sleep(10 * SECOND_MS)

    async def _collect(self, incarnation: Incarnation) -> None:
        store = self._store(incarnation, Role.JANITOR)
        await collect_garbage(store, self._port(incarnation), retention_ms=SHORTEST_RETENTION_MS)


def survey_sleeps(name: str) -> tuple[int, list[str]]:
    """Every point of an operation at which its API process or compactor may fall asleep."""
    prepared = prepare(merged=True)
    operation = next(each for each in operations(prepared) if each.name == name)
    bomb = Bomb([])
    wrong = SleepTrial(prepared, operation, bomb).run()
    points = [
        Point(process, call, after)
        for process in ("api", "compactor")
        for call, verb in enumerate(bomb.calls[process], start=1)
        for after in ((False, True) if verb in CHANGES else (False,))
    ]
    for point in points:
        violations = SleepTrial(prepared, operation, Bomb([point])).run()
        wrong += [f"{name}, asleep {point}: {each}" for each in violations]
    return len(points), wrong
