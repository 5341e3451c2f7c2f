"""Exhaustive crash points of Tier 2: one piece of work, with a crash or a sleep at every storage call.

A small domain is prepared once: a base, tails that are due for a merge, rows that are due to be forgotten,
events that wait. For each point the world begins anew from there: somebody appends, folds, merges,
rebuilds or collects, and dies at the chosen call and starts again, or falls asleep there while others go
on. Then all that is left is folded, rebuilt and collected, and the auditor judges the whole log.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache

from arco.compactor.catalog_compactor import CatalogCompactor
from arco.compactor.domain_compactor import DomainCompactor
from arco.compactor.garbage_collection import collect_garbage
from arco.compactor.rebuild import rebuild
from arco.compactor.tail_merge import TailPolicy
from arco.core.errors import ArcoError, Corrupt
from arco.core.scope import Scope
from arco.fold.tier2 import EXECUTIONS_DOMAIN
from arco.ledger.writer import LedgerWriter
from arco.storage.chain import SHORTEST_RETENTION_MS
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.compactor.in_process_engine import InProcessEngine

from .crash_points import CHANGES, Bomb, BombedBackend, Point
from .faults import NONE
from .iceberg_crash import DrowsyBackend
from .objects import SimObjects
from .operations_audit import OperationsAudit
from .operations_events import event
from .operations_history import History
from .operations_notes import OperationsNotes, Told
from .process import Life, Process
from .store import SimBackend
from .world import HOUR_MS, MINUTE_MS, SECOND_MS, World

DOMAIN = EXECUTIONS_DOMAIN

_LIFE_MS = 20 * MINUTE_MS
_POLICY = TailPolicy(longest=4, many_rows=3)
_RETENTION = {"executions": timedelta(hours=2)}


@dataclass(frozen=True)
class Halt:
    """What happens to whoever works: it dies, or sleeps while others do some of this."""

    sleep_ms: float = 0.0
    folds: bool = True
    merges: bool = False
    collects: bool = False


CRASH = Halt()
HALTS = {
    "crash": CRASH,
    "nap": Halt(30 * SECOND_MS),
    "nap over a merge": Halt(30 * SECOND_MS, merges=True),
    "sleep": Halt(3 * HOUR_MS, merges=True, collects=True),
    "sleep beside a janitor": Halt(3 * HOUR_MS, folds=False, collects=True),
}


class Site:
    """A store, and what can be done to the domain in it."""

    def __init__(self, objects: SimObjects, notes: OperationsNotes) -> None:
        self.objects = objects
        self.notes = notes

    def store(self, life: Life, role: Role) -> Store:
        return Store(SimBackend(self.objects, life), life.runtime, scope=Scope(), role=role)

    async def append(self, life: Life, *names: str, done: bool = False, ago: float = 0.0) -> None:
        """Tell that executions have begun, or are done, in a stream that ends with them."""
        writer = LedgerWriter(self.store(life, Role.API), DOMAIN, life_ms=_LIFE_MS)
        for name in names:
            payload = {"execution_id": name} | (
                {"status": "SUCCESS"} if done else {"pipeline_id": "p"}
            )
            kind = "execution_completed" if done else "execution_started"
            line = event(life, kind, payload, skew_ms=-ago)
            receipt = await writer.append_lines([line, b"{"])
            self.notes.told.append(Told(DOMAIN, [line, b"{"], receipt))
        await writer.close()

    def compactor(self, store: Store) -> DomainCompactor:
        engine = InProcessEngine(store)
        return DomainCompactor(store, DOMAIN, engine, retention=_RETENTION, policy=_POLICY)

    async def fold(self, life: Life, *, merges: bool = False) -> None:
        compactor = self.compactor(self.store(life, Role.COMPACTOR))
        while await compactor.cycle(everything=True) is not None:
            pass
        while merges and await compactor.merge() is not None:
            pass

    async def collect(self, life: Life) -> None:
        janitor, publisher = self.store(life, Role.JANITOR), self.store(life, Role.COMPACTOR)
        await collect_garbage(
            janitor, CatalogCompactor(publisher), domain=DOMAIN, retention_ms=SHORTEST_RETENTION_MS
        )


async def _append(trial: "Trial", life: Life) -> None:
    await trial.append(life, "mine", done=True)


async def _cycle(trial: "Trial", life: Life) -> None:
    await trial.compactor(trial.store(life, Role.COMPACTOR)).cycle(everything=True)


async def _merge(trial: "Trial", life: Life) -> None:
    await trial.compactor(trial.store(life, Role.COMPACTOR)).merge()


async def _rebuild(trial: "Trial", life: Life) -> None:
    store = trial.store(life, Role.COMPACTOR)
    await rebuild(store, DOMAIN, InProcessEngine(store), most_segments=2)


async def _collect(trial: "Trial", life: Life) -> None:
    await trial.collect(life)


WORK: dict[str, Callable[["Trial", Life], Awaitable[None]]] = {
    "append": _append,
    "cycle": _cycle,
    "merge": _merge,
    "rebuild": _rebuild,
    "collection": _collect,
}


@dataclass
class Prepared:
    """The domain as every trial finds it."""

    objects: SimObjects
    told: list[Told]
    now_ms: float


@cache
def prepare() -> Prepared:
    """Make the domain, with something for every kind of work to do."""
    world = World(0)
    domain = Site(SimObjects(world, NONE), OperationsNotes())

    async def drive(life: Life) -> None:
        for n in range(4):
            await domain.append(life, f"old{n}", f"run{n}")
            await domain.fold(life, merges=n == 3)
        await life.runtime.clock.sleep(4 * HOUR_MS)
        await domain.collect(life)
        for n in range(4):
            await domain.append(life, f"run{n}", done=True)
            await domain.append(life, f"new{n}", ago=(3 - n) * HOUR_MS)
            await domain.fold(life)
        await life.runtime.clock.sleep(HOUR_MS)
        await domain.append(life, "waiting", "old1", done=True)
        world.stop()

    Process(world, "driver", drive).start()
    world.run()
    world.close()
    if world.failures:
        raise AssertionError(world.failures[0])
    return Prepared(domain.objects, domain.notes.told, world.now_ms)


class Trial(Site):
    """One piece of work with a halt at a point, from the prepared state to the verdict."""

    def __init__(self, work: str, bomb: Bomb, halt: Halt = CRASH) -> None:
        prepared = prepare()
        self.world = World(0)
        self.world.now_ms = prepared.now_ms + (3 * HOUR_MS if work == "collection" else SECOND_MS)
        self.world.end_ms = self.world.now_ms + 24 * HOUR_MS
        super().__init__(SimObjects(self.world, NONE), OperationsNotes(told=list(prepared.told)))
        self.objects.restore(prepared.objects)
        self._work = work
        self._bomb = bomb
        self._halt = halt
        self._is_done = False
        self._worker = Process(self.world, "worker", self._toil)

    def run(self) -> list[str]:
        """What is wrong afterwards."""
        self._worker.start()
        Process(self.world, "driver", self._drive).start()
        try:
            self.world.run()
            if self._bomb.points:
                return [f"nobody reached {self._bomb.points[0]}"]
            history = History.of(self.objects, DOMAIN)
            found = [*self.world.failures, *self.notes.complaints]
            if not self.notes.caught_up or not history.is_caught_up():
                found.append("not everything was published in the end")
            return [*found, *OperationsAudit(history, self.notes).violations()]
        finally:
            self.world.close()

    def store(self, life: Life, role: Role) -> Store:
        if not life.name.startswith("worker"):
            return super().store(life, role)
        inner, worker = SimBackend(self.objects, life), self._worker
        backend = BombedBackend(inner, worker, self._bomb)
        if self._halt.sleep_ms:
            ms = self._halt.sleep_ms
            backend = DrowsyBackend(inner, worker, self._bomb, life=life, sleep_ms=ms)
        return Store(backend, life.runtime, scope=Scope(), role=role)

    async def _toil(self, life: Life) -> None:
        await life.runtime.clock.sleep(SECOND_MS)
        self._bomb.armed = True
        while not self._is_done:
            try:
                await WORK[self._work](self, life)
            except Corrupt as problem:
                self.notes.complaints.append(f"{self._work}: {problem!r}")
                return
            except ArcoError:
                await life.runtime.clock.sleep(SECOND_MS)
            else:
                self._is_done = True

    async def _drive(self, life: Life) -> None:
        began_ms = life.world.now_ms
        await life.runtime.clock.sleep(10 * SECOND_MS)
        self._bomb.armed = False
        if self._halt.folds:
            await self.append(life, "old2", "new0", "run1", "mine", done=True)
            await self.fold(life, merges=self._halt.merges)
        if self._halt.collects:
            await life.runtime.clock.sleep(began_ms + 2.7 * HOUR_MS - life.world.now_ms)
            if self._halt.folds:
                await self.append(life, "later")
                await self.fold(life, merges=True)
            await self.collect(life)
        await life.runtime.clock.sleep(
            began_ms + self._halt.sleep_ms + MINUTE_MS - life.world.now_ms
        )
        await self.append(life, "old3", "last", done=True)
        await self.fold(life)
        store = self.store(life, Role.COMPACTOR)
        await rebuild(store, DOMAIN, InProcessEngine(store))
        await life.runtime.clock.sleep(SHORTEST_RETENTION_MS + 2 * HOUR_MS)
        await self.append(life, "end")
        await self.fold(life, merges=True)
        await self.collect(life)
        await self.fold(life)  # the seals of streams that were left
        self.notes.caught_up = self._is_done or bool(self.notes.complaints)
        self.world.stop()


def points_of(work: str) -> list[Point]:
    """Every point that there is in a piece of work."""
    bomb = Bomb([])
    wrong = Trial(work, bomb).run()
    if wrong:
        raise AssertionError(f"{work} fails without a crash: {wrong[0]}")
    return [
        Point("worker", call, after)
        for call, verb in enumerate(bomb.calls.get("worker", ()), start=1)
        # To die after a read is to die before the next call.
        for after in ((False, True) if verb in CHANGES else (False,))
    ]


def failures(work: str, points: Iterable[Point], halt: str) -> Iterator[str]:
    """What is wrong after a halt at each of these points."""
    for point in points:
        for each in Trial(work, Bomb([replace(point)]), HALTS[halt]).run():
            yield f"{work}, {halt} {point}: {each}"


def survey(work: str, halt: str) -> tuple[str, int, list[str]]:
    """Every point of a piece of work: how many there are, and what was wrong."""
    points = points_of(work)
    return work, len(points), list(failures(work, points, halt))
