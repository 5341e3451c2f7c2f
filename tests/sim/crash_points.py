"""Exhaustive crash points (figure 2): one operation on a small catalog, with a crash at every storage call.

The catalog is prepared once. For each point the world begins anew from that state: the operation runs, the
process that makes the chosen call dies right before it is sent or right after it was answered, and starts
again; what it has left is met by the next request. The catalog's auditor then judges the whole log.

Pairs of points are taken at calls that change the store: a process that dies around a read leaves what its
last change has left.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from arco.catalog.reader import SnapshotReader
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.compactor.garbage_collection import collect_garbage
from arco.core.errors import ArcoError
from arco.core.scope import Scope
from arco.storage.backend import Meta
from arco.storage.chain import SHORTEST_RETENTION_MS
from arco.storage.roles import Role
from arco.storage.store import Store

from .catalog_api import UNDROP_FOR, Api, Call, Inbox
from .catalog_audit import CatalogAudit
from .catalog_notes import CatalogNotes, Sighting, Wish
from .catalog_scenario import FORGET_AFTER, look_around
from .crash_operations import Operation, Prepared, operations, prepare
from .faults import NONE
from .future import Future
from .objects import SimObjects
from .process import Life, Process
from .rpc import Exchange, RemotePort, Wires
from .store import SimBackend
from .world import HOUR_MS, SECOND_MS, World

T = TypeVar("T")

CHANGES = ("create", "put", "delete")

# The most important operations, of which every pair of points is explored.
PAIRED = ("create_table with a key", "create_table", "update_table", "drop_table", "merge")

_KEY_LIFE_MS = round(5 * HOUR_MS)


@dataclass(frozen=True, order=True)
class Point:
    """A process dies at its call number `call`, counted from the last crash or the beginning."""

    process: str
    call: int
    after: bool  # whether the call was answered

    def __str__(self) -> str:
        return f"{self.process} {'after' if self.after else 'before'} call {self.call}"


@dataclass
class Bomb:
    """Counts the calls of all processes, and strikes at the points, one after the other."""

    points: list[Point]
    changes_only: bool = False
    armed: bool = False
    calls: dict[str, list[str]] = field(default_factory=dict)  # the verbs, by process

    def counted(self, process: str, verb: str) -> Point | None:
        """Whether this call is where somebody dies next."""
        if not self.armed or (self.changes_only and verb not in CHANGES):
            return None
        calls = self.calls.setdefault(process, [])
        calls.append(verb)
        if self.points and (self.points[0].process, self.points[0].call) == (process, len(calls)):
            self.calls.clear()
            return self.points.pop(0)
        return None


class BombedBackend:
    """The way to the store of a process that may die on it."""

    def __init__(self, inner: SimBackend, process: Process, bomb: Bomb) -> None:
        self._inner = inner
        self._process = process
        self._bomb = bomb

    async def get(self, key: str) -> bytes:
        return await self._call("get", lambda: self._inner.get(key))

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        return await self._call("get", lambda: self._inner.get_range(key, start, length))

    async def head(self, key: str) -> Meta:
        return await self._call("head", lambda: self._inner.head(key))

    async def create(self, key: str, body: bytes) -> None:
        await self._call("create", lambda: self._inner.create(key, body))

    async def put(self, key: str, body: bytes) -> None:
        await self._call("put", lambda: self._inner.put(key, body))

    async def delete(self, key: str) -> None:
        await self._call("delete", lambda: self._inner.delete(key))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        async for meta in self._inner.list(prefix, after):
            yield meta

    async def settle(self, key: str) -> None:
        await self._inner.settle(key)

    async def sign(self, key: str, expires_s: int) -> str:
        return await self._inner.sign(key, expires_s)

    async def _call(self, verb: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        point = self._bomb.counted(self._process.name, verb)
        if point is None:
            return await work()
        if point.after:
            with contextlib.suppress(ArcoError):  # whatever it is told, nobody is there to hear it
                await work()
        self._process.crash()
        self._process.world.after(SECOND_MS, self._process.restart)
        return await Future[T]()


class Trial:
    """One operation with crashes at given points, from the prepared state to the verdict."""

    def __init__(self, prepared: Prepared, operation: Operation, bomb: Bomb) -> None:
        self._operation = operation
        self._bomb = bomb
        self.notes = CatalogNotes(wishes=list(prepared.wishes))
        self.world = World(0)
        self.world.now_ms = prepared.now_ms + operation.later_ms
        self.world.end_ms = self.world.now_ms + HOUR_MS
        self.objects = SimObjects(self.world, NONE)
        self.objects.restore(prepared.objects)
        self._exchange = Exchange(self.world, Wires())
        self._exchange.calls.update(prepared.calls)
        self._inbox: Inbox | None = None
        self._tidied = False
        self.processes = {
            "api": Process(self.world, "api", self._serve),
            "compactor": Process(self.world, "compactor", self._compact),
            "janitor": Process(self.world, "janitor", self._tidy),
        }

    def run(self) -> list[str]:
        """What is wrong afterwards."""
        for process in self.processes.values():
            process.start()
        Process(self.world, "driver", self._drive).start()
        try:
            self.world.run()
            if self._bomb.points and self.notes.finished:
                return [f"nobody reached {self._bomb.points[0]}"]
            audit = CatalogAudit(self.objects, self.notes, self._exchange.calls, UNDROP_FOR)
            return [*self.world.failures, *audit.violations()]
        finally:
            self.world.close()

    def _store(self, life: Life, role: Role) -> Store:
        return Store(self._backend(life), life.runtime, scope=Scope(), role=role)

    def _backend(self, life: Life) -> BombedBackend:
        process = self.processes[life.name.partition(".")[0]]
        return BombedBackend(SimBackend(self.objects, life), process, self._bomb)

    def _port(self, life: Life) -> RemotePort:
        return RemotePort(self._exchange, life)

    def _opened(self, life: Life, inbox: Inbox) -> None:
        self._inbox = inbox

    async def _serve(self, life: Life) -> None:
        store = self._store(life, Role.API)
        port = self._port(life)
        api = Api(life, store, port, self.notes, self.objects, key_life_ms=_KEY_LIFE_MS)
        await api.begin()
        inbox = Inbox([], life.runtime.tasks.event())
        self._opened(life, inbox)
        await api.serve(inbox)

    async def _compact(self, life: Life) -> None:
        store = self._store(life, Role.COMPACTOR)
        compactor = CatalogCompactor(store, retention=UNDROP_FOR, grace=FORGET_AFTER)
        self._exchange.open("compactor", life, compactor)

    async def _tidy(self, life: Life) -> None:
        if self._operation.kind != "gc":
            return
        store = self._store(life, Role.JANITOR)
        port = RemotePort(self._exchange, life)
        while not self._tidied:
            await life.runtime.clock.sleep(10)
            if self._bomb.armed:
                try:
                    await collect_garbage(store, port, retention_ms=SHORTEST_RETENTION_MS)
                except ArcoError:
                    await life.runtime.clock.sleep(SECOND_MS)
                else:
                    self._tidied = True

    async def _drive(self, life: Life) -> None:
        await life.runtime.clock.sleep(SECOND_MS)
        self._bomb.armed = True
        await self._operate(life)
        await life.runtime.clock.sleep(3 * SECOND_MS)  # for what follows the answer
        self._bomb.armed = False
        await life.runtime.clock.sleep(5 * SECOND_MS)  # for whoever has to start again
        for attempt in range(5):
            wish = Wish(f"after{attempt}", self._operation.after, keyed=False)
            await self._pursue(life, wish)
            if wish.is_answered:
                break
        reader = SnapshotReader(
            Store(SimBackend(self.objects, life), life.runtime, scope=Scope(), role=Role.READER)
        )
        sent = len(self.objects.log)
        snapshot = await reader.head()
        answered = len(self.objects.log)
        live = await look_around(snapshot)
        self.notes.sightings.append(
            Sighting("driver", snapshot.number, snapshot.sha256, sent, answered, live)
        )
        self.notes.finished = wish.is_answered
        self.world.stop()

    async def _operate(self, life: Life) -> None:
        operation = self._operation
        if operation.request is not None:
            await self._pursue(life, Wish("op", operation.request, keyed=operation.keyed))
            return
        port = RemotePort(self._exchange, life)
        for _ in range(10):
            try:
                if operation.kind == "merge":
                    await port.merge()
                    return
                if operation.kind == "mark":
                    await port.mark_orphans(operation.mark)
                    return
                if self._tidied:
                    return
            except ArcoError:
                pass
            await life.runtime.clock.sleep(3 * SECOND_MS)

    async def _pursue(self, life: Life, wish: Wish) -> None:
        wish.sent, wish.sent_ms = len(self.objects.log), life.world.now_ms
        self.notes.wishes.append(wish)
        while True:
            call = Call(wish, life.runtime.tasks.event(), len(self.objects.log), life.world.now_ms)
            if self._inbox is not None and self.processes["api"].life is not None:
                self._inbox.calls.append(call)
                self._inbox.rung.set()
                with contextlib.suppress(TimeoutError):
                    await life.runtime.tasks.deadline(45 * SECOND_MS, call.replied.wait())
            if not wish.is_open or not wish.keyed:
                wish.given_up = wish.is_open
                return
            await life.runtime.clock.sleep(2 * SECOND_MS)


def rehearse(
    prepared: Prepared, operation: Operation, before: tuple[Point, ...] = (), *, changes_only: bool
) -> list[Point]:
    """Every point that there is in an operation, after those that come first."""
    bomb = Bomb(list(before), changes_only=changes_only)
    wrong = Trial(prepared, operation, bomb).run()
    if wrong:
        raise AssertionError(f"{operation.name} fails after {before}: {wrong[0]}")
    return [
        Point(process, call, after)
        for process, verbs in sorted(bomb.calls.items())
        for call, verb in enumerate(verbs, start=1)
        # To die after a read is to die before the next call.
        for after in ((False, True) if verb in CHANGES else (False,))
    ]


def explore(
    prepared: Prepared, operation: Operation, points: list[Point], *, changes_only: bool = False
) -> list[str]:
    """What is wrong after crashes at these points."""
    wrong = Trial(prepared, operation, Bomb(list(points), changes_only=changes_only)).run()
    where = ", then ".join(map(str, points))
    return [f"{operation.name}, {where}: {each}" for each in wrong]


def survey_singles(name: str) -> tuple[str, int, list[str]]:
    """Every single point of an operation: how many there are, and what was wrong."""
    prepared, operation = _find(name)
    points = rehearse(prepared, operation, changes_only=False)
    wrong = [each for point in points for each in explore(prepared, operation, [point])]
    return name, len(points), wrong


def survey_pairs(name: str) -> tuple[str, int, list[str]]:
    """Every pair of points at which an operation changes the store."""
    prepared, operation = _find(name)
    count, wrong = 0, list[str]()
    for first in rehearse(prepared, operation, changes_only=True):
        for second in rehearse(prepared, operation, (first,), changes_only=True):
            count += 1
            wrong += explore(prepared, operation, [first, second], changes_only=True)
    return name, count, wrong


def _find(name: str) -> tuple[Prepared, Operation]:
    prepared = prepare()
    return prepared, next(each for each in operations(prepared) if each.name == name)
