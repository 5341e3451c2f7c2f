"""Exhaustive crash and sleep points of Iceberg operations (figures 2 and 6), and the repair that follows.

Two tables and a dropped one are prepared. For each point the world starts again from there: the operation
runs, and the process that makes the chosen call dies right before it is sent or right after it was
answered; or it falls asleep there, and goes on later as if nothing had happened. Meanwhile others
change the tables, and a request with a key is sent again, to another process. Whatever was left half done
is finished by the reconciler of a third. Then every table is read and changed, and the auditor judges.
"""

import contextlib
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from arco.compactor.catalog_compactor import CatalogCompactor
from arco.core.scope import Scope
from arco.storage.roles import Role
from arco.storage.store import Store

from .catalog_api import UNDROP_FOR
from .crash_points import CHANGES, Bomb, BombedBackend, Point
from .faults import NONE
from .future import Future
from .iceberg_answers import KEY_LIFE_MS
from .iceberg_api import Call, IcebergApi, Inbox
from .iceberg_audit import IcebergAudit
from .iceberg_notes import IcebergNotes, Intent, Outcome
from .iceberg_operations import (
    Append,
    Both,
    Create,
    Drop,
    Facts,
    List,
    Load,
    Mark,
    Operation,
    Register,
    Rename,
    Undrop,
)
from .objects import SimObjects
from .process import Incarnation, Process
from .rpc import Exchange, RemotePort, Wires
from .store import SimBackend
from .world import HOUR_MS, SECOND_MS, World

T = TypeVar("T")

# A nap is past a grace and a takeover, but not past the time of a request; a sleep is past everything.
NAP_MS = 15 * SECOND_MS
SLEEP_MS = 60 * SECOND_MS

_PREPARATION: tuple[Operation, ...] = (
    Create("t1"),
    Create("t2"),
    Create("gone"),
    Drop("gone"),
    Both((Mark("t1", "color", "red"), Mark("t2", "color", "red"))),
)
_STAGED = "7e1f0000-0000-4000-8000-000000000001"
_NEW = "7e1f0000-0000-4000-8000-000000000002"

# Every pair of points of these is explored by `make sim`.
PAIRED = ("both with a key",)


@dataclass
class Prepared:
    """A small catalog, how it came about, and the answers."""

    objects: SimObjects
    intents: list[Intent]
    now_ms: float
    seen: dict[str, Facts] = field(default_factory=dict)
    locations: dict[str, str] = field(default_factory=dict)


def operations(prepared: Prepared) -> dict[str, tuple[Operation, bool]]:
    """Every operation on tables, and whether it has a key."""
    seen = prepared.seen
    by_name: dict[str, Operation] = {
        "commit": Mark("t1", "color", "green"),  # what is blue meanwhile must not be green again
        "needless commit": Mark("t1", "color", "red"),
        "append": Append("t1", seen["t1"], 77),
        "create": Create("new"),
        "staged create": Create("new", _STAGED),
        "drop": Drop("t1"),
        "undrop": Undrop(seen["gone"].uuid),
        "rename": Rename("t1", "new"),
        "register": Register("new", prepared.locations["gone"]),
        "both": Both((Append("t1", seen["t1"], 77), Mark("t2", "m.op"))),
        "both and a birth": Both((Mark("t1", "m.op"), Create("new", _NEW))),
    }
    keyed = {f"{name} with a key": (operation, True) for name, operation in by_name.items()}
    return (
        {"load": (Load("t1"), False)}
        | {name: (operation, False) for name, operation in by_name.items()}
        | keyed
    )


class _World:
    """The processes that a trial needs."""

    def __init__(self, now_ms: float = 0.0) -> None:
        self.notes = IcebergNotes()
        self.world = World(0)
        self.world.now_ms = now_ms
        self.world.end_ms = now_ms + HOUR_MS
        self.objects = SimObjects(self.world, NONE)
        self.exchange = Exchange(self.world, Wires())
        self.inboxes: dict[str, Inbox] = {}
        self.bomb = Bomb([])
        self.processes: dict[str, Process] = {}

    def backend(self, incarnation: Incarnation, process: Process) -> BombedBackend:
        return BombedBackend(SimBackend(self.objects, incarnation), process, self.bomb)

    def start(self, *apis: str) -> None:
        self.processes["compactor"] = Process(self.world, "compactor", self._compact)
        for name in apis:
            self.processes[name] = Process(self.world, name, self._serve)
        for process in self.processes.values():
            process.start()

    def store(self, incarnation: Incarnation, role: Role) -> Store:
        process = self.processes.get(incarnation.name.partition(".")[0])
        if process is None:
            plain = SimBackend(self.objects, incarnation)
            return Store(plain, incarnation.runtime, scope=Scope(), role=role)
        return Store(
            self.backend(incarnation, process), incarnation.runtime, scope=Scope(), role=role
        )

    def api(self, incarnation: Incarnation) -> IcebergApi:
        return IcebergApi(
            incarnation,
            self.store(incarnation, Role.API),
            RemotePort(self.exchange, incarnation),
            self.notes,
            self.objects,
            key_life_ms=round(KEY_LIFE_MS),
        )

    def send(self, incarnation: Incarnation, intent: Intent, api: str) -> Call | None:
        inbox, process = self.inboxes.get(api), self.processes[api]
        if inbox is None or process.incarnation is None:
            return None
        sent, now_ms = len(self.objects.log), incarnation.world.now_ms
        call = Call(intent, incarnation.runtime.tasks.event(), sent, now_ms)
        inbox.calls.append(call)
        inbox.rung.set()
        return call

    def intent(self, name: str, operation: Operation, *, keyed: bool = False) -> Intent:
        intent = Intent(name, operation, keyed=keyed)
        intent.sent, intent.sent_ms = len(self.objects.log), self.world.now_ms
        self.notes.intents.append(intent)
        return intent

    async def _compact(self, incarnation: Incarnation) -> None:
        compactor = CatalogCompactor(self.store(incarnation, Role.COMPACTOR), retention=UNDROP_FOR)
        self.exchange.open("compactor", incarnation, compactor)

    async def _serve(self, incarnation: Incarnation) -> None:
        await incarnation.runtime.clock.sleep(10)
        api = self.api(incarnation)
        await api.begin()
        inbox = self.inboxes[incarnation.name.partition(".")[0]] = Inbox(
            [], incarnation.runtime.tasks.event()
        )
        await api.serve(inbox)


@cache
def prepare() -> Prepared:
    """Make the tables, one request after the other."""
    made = _World()
    prepared = Prepared(made.objects, made.notes.intents, 0.0)

    async def drive(incarnation: Incarnation) -> None:
        await incarnation.runtime.clock.sleep(SECOND_MS)
        for number, operation in enumerate(_PREPARATION):
            intent = made.intent(f"prepare{number}", operation)
            call = made.send(incarnation, intent, "api")
            if call is None:
                raise AssertionError("no API process is running to prepare anything")
            await call.replied.wait()
            if isinstance(operation, Create):
                prepared.locations[operation.name] = str(intent.replies[-1].location)
        for name in ("t1", "t2"):
            call = made.send(incarnation, made.intent(f"look{name}", Load(name)), "api")
            if call is not None:
                await call.replied.wait()
        await incarnation.runtime.clock.sleep(10 * SECOND_MS)  # for what follows the answers
        made.world.stop()

    made.start("api")
    Process(made.world, "driver", drive).start()
    made.world.run()
    made.world.close()
    if made.world.failures:
        raise AssertionError(made.world.failures[0])
    if not all(
        intent.replies and intent.replies[0].outcome is Outcome.DONE for intent in prepared.intents
    ):
        raise AssertionError("the preparation was not carried out")
    prepared.now_ms = made.world.now_ms
    prepared.seen = dict(made.notes.seen)
    return prepared


class DrowsyBackend(BombedBackend):
    """The way to the store of a process that may fall asleep on it."""

    def __init__(
        self,
        inner: SimBackend,
        process: Process,
        bomb: Bomb,
        *,
        incarnation: Incarnation,
        sleep_ms: float,
    ) -> None:
        super().__init__(inner, process, bomb)
        self._incarnation = incarnation
        self._sleep_ms = sleep_ms

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
        self._process.suspend(self._sleep_ms)
        awake: Future[None] = Future()
        self._incarnation.world.after(0, lambda: awake.resolve(None), self._incarnation)
        await awake


class Trial(_World):
    """One operation with crashes at given points, from the prepared state to the verdict."""

    def __init__(
        self,
        prepared: Prepared,
        operation: Operation,
        bomb: Bomb,
        *,
        keyed: bool,
        sleep_ms: float = 0.0,
    ) -> None:
        super().__init__(prepared.now_ms)
        self._prepared = prepared
        self._operation, self._keyed, self._sleep_ms = operation, keyed, sleep_ms
        self.bomb = bomb
        self.notes.intents = list(prepared.intents)
        self.objects.restore(prepared.objects)

    def run(self) -> list[str]:
        """What is wrong afterwards."""
        self.start("api", "other")
        Process(self.world, "driver", self._drive).start()
        try:
            self.world.run()
            if self.bomb.points and self.notes.finished:
                return [f"no process reached {self.bomb.points[0]}"]
            return [*self.world.failures, *IcebergAudit(self.objects, self.notes).violations()]
        finally:
            self.world.close()

    def backend(self, incarnation: Incarnation, process: Process) -> BombedBackend:
        if not self._sleep_ms:
            return super().backend(incarnation, process)
        inner = SimBackend(self.objects, incarnation)
        return DrowsyBackend(
            inner, process, self.bomb, incarnation=incarnation, sleep_ms=self._sleep_ms
        )

    async def _drive(self, incarnation: Incarnation) -> None:
        await incarnation.runtime.clock.sleep(SECOND_MS)
        self.bomb.armed = True
        await self._pursue(incarnation, self.intent("op", self._operation, keyed=self._keyed))
        await incarnation.runtime.clock.sleep(3 * SECOND_MS)  # for what follows the answer
        self.bomb.armed = False
        # For the process that has to start again, or to wake up.
        await incarnation.runtime.clock.sleep(2 * self._sleep_ms + 5 * SECOND_MS)
        fixer = self.api(incarnation)
        await fixer.iceberg.reconciler.round(full=True)
        for name in ("t1", "t2", "gone", "new"):
            for operation in (Load(name), Mark(name, f"m.after.{name}")):
                intent = self.intent(f"after{type(operation).__name__}{name}", operation)
                await self._ask(incarnation, intent, "other")
                if not intent.is_answered:
                    return
        await incarnation.runtime.clock.sleep(3 * SECOND_MS)
        await fixer.iceberg.reconciler.round(full=True)
        self.notes.finished = True
        self.world.stop()

    async def _pursue(self, incarnation: Incarnation, intent: Intent) -> None:
        """Send it to one process; under a key then to the other, until there is an answer."""
        await self._ask(incarnation, intent, "api")
        await incarnation.runtime.clock.sleep(SECOND_MS)
        for number, operation in enumerate(self._meanwhile()):  # others go on
            await self._ask(incarnation, self.intent(f"meanwhile{number}", operation), "other")
        for _ in range(20):
            if not intent.keyed or not intent.is_open:
                break
            await incarnation.runtime.clock.sleep(2 * SECOND_MS)
            await self._ask(incarnation, intent, "other")
        if intent.keyed and intent.is_open:
            self.notes.complaints.append("a retry with the same key gets no answer")
        if intent.keyed and intent.is_answered:
            await incarnation.runtime.clock.sleep(5 * SECOND_MS)  # past the time for a takeover
            await self._ask(incarnation, intent, "other")  # a repeated request gets the same answer
        intent.given_up = intent.is_open

    def _meanwhile(self) -> list[Operation]:
        blue = [Mark(name, "color", "blue") for name in ("t1", "t2")]
        if isinstance(self._operation, Drop):
            return [List(), *blue, Undrop(self._prepared.seen["t1"].uuid)]
        return [List(), *blue]

    async def _ask(self, incarnation: Incarnation, intent: Intent, api: str) -> None:
        call = self.send(incarnation, intent, api)
        if call is not None:
            patience_ms = 5 * SECOND_MS if api == "api" else 45 * SECOND_MS
            with contextlib.suppress(TimeoutError):
                await incarnation.runtime.tasks.deadline(patience_ms, call.replied.wait())


def rehearse(name: str, before: tuple[Point, ...] = (), *, changes_only: bool) -> list[Point]:
    """Every point that there is in an operation, after those that come first."""
    bomb = Bomb(list(before), changes_only=changes_only)
    wrong = _trial(name, bomb)
    if wrong:
        raise AssertionError(f"{name} fails after {before}: {wrong[0]}")
    return [
        Point(process, call, after)
        for process, verbs in sorted(bomb.calls.items())
        for call, verb in enumerate(verbs, start=1)
        # To die after a read is to die before the next call.
        for after in ((False, True) if verb in CHANGES else (False,))
    ]


def survey_singles(name: str, sleep_ms: float = 0.0) -> tuple[str, int, list[str]]:
    """Every single point of an operation: how many there are, and what was wrong."""
    points = own_points(name)
    return name, len(points), list(failures(name, points, sleep_ms))


def own_points(name: str) -> list[Point]:
    """The points of the process that an operation is first sent to."""
    return [point for point in rehearse(name, changes_only=False) if point.process == "api"]


def failures(name: str, points: Iterable[Point], sleep_ms: float = 0.0) -> Iterator[str]:
    """What is wrong after a crash, or a sleep, at each of these points."""
    for point in points:
        for each in _trial(name, Bomb([point]), sleep_ms):
            yield f"{name}, {'asleep ' if sleep_ms else ''}{point}: {each}"


def survey_pairs(name: str) -> tuple[str, int, list[str]]:
    """Every pair of points at which an operation changes the store."""
    count, wrong = 0, list[str]()
    for first in rehearse(name, changes_only=True):
        for second in rehearse(name, (first,), changes_only=True):
            count += 1
            violations = _trial(name, Bomb([first, second], changes_only=True))
            wrong += [f"{name}, {first}, then {second}: {each}" for each in violations]
    return name, count, wrong


def _trial(name: str, bomb: Bomb, sleep_ms: float = 0.0) -> list[str]:
    prepared = prepare()
    operation, keyed = operations(prepared)[name]
    return Trial(prepared, operation, bomb, keyed=keyed, sleep_ms=sleep_ms).run()
