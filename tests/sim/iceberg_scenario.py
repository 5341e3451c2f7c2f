"""The story of the Iceberg catalog: users, API processes, compactors behind a network, and a janitor.

Users make, change, drop, restore and rename tables, one at a time and several at once, with and without
idempotency keys, at any API process. All but the users crash, sleep and stall; the store and the network
lose, delay and double. Afterwards every chain, name and answer is held against the log.
"""

import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from arco.compactor.catalog_compactor import CatalogCompactor
from arco.compactor.garbage_collection import collect_garbage
from arco.core.errors import ArcoError, Corrupt, NotFound, Unavailable, Unknown
from arco.storage.chain import SHORTEST_RETENTION_MS
from arco.storage.roles import Role
from arco.storage.store import Store

from .catalog_api import UNDROP_FOR
from .chaos import Chaos, Storm
from .faults import drawn
from .iceberg_answers import KEY_LIFE_MS
from .iceberg_api import Call, IcebergApi, Inbox
from .iceberg_audit import IcebergAudit
from .iceberg_notes import IcebergNotes, Told, Wish
from .iceberg_operations import Create, List, Load, Mark
from .iceberg_requests import NAMES, Whims
from .objects import SimObjects
from .opening import opened
from .process import Ambush, Life, Process
from .rpc import BAD, Exchange, RemotePort, Wires
from .world import HOUR_MS, MINUTE_MS, SECOND_MS, World

_APIS = 3
_USERS = 4
_BEGUN = 2  # tables that are there soon
_ROUNDS = 6
_AT_ONCE = 3  # wishes of one user
_PATIENCE_MS = 2.5 * HOUR_MS
_BEAT_MS = 30.0 * MINUTE_MS
_SLOWEST_MS = 2.5 * SECOND_MS
_CHAOS_MS = 4.0 * HOUR_MS
_CALM_MS = 4.0 * HOUR_MS


class IcebergScenario:
    """Everybody who has to do with Iceberg tables."""

    name = "iceberg"

    def __init__(self) -> None:
        self.notes = IcebergNotes()
        self._inboxes: dict[str, Inbox] = {}
        self._users_left = _USERS
        self._world: World
        self._objects: SimObjects
        self._exchange: Exchange

    def build(self, world: World) -> None:
        self._world = world
        weather = drawn(world.stream("weather"))
        # On a slow store everybody is in the middle of something when the others come.
        fastest_ms = world.stream("pace").choice((5.0, 50.0, 150.0, 300.0))
        slowest_ms = max(min(weather.slowest_ms, _SLOWEST_MS), 2 * fastest_ms)
        weather = replace(weather, fastest_ms=fastest_ms, slowest_ms=slowest_ms)
        self._objects = SimObjects(world, weather)
        self._exchange = Exchange(world, BAD.drawn(world.stream("wiring")))
        world.after(_CHAOS_MS, self._repair_wires)
        world.end_ms = _CHAOS_MS + _CALM_MS
        apis = [Process(world, f"api{n}", self._serve) for n in range(_APIS)]
        others = [
            Process(world, "compactor", self._compact),
            Process(world, "janitor", self._tidy),
        ]
        for process in (*apis, *others):
            process.start()
        for number in range(_USERS):
            Process(world, f"user{number}", self._user(number)).start()
        Process(world, "last", self._conclude).start()
        pranks = {
            "an API process dozes off": lambda: self._doze(apis),
            "an API process crashes": lambda: self._crash(apis),
            "an API process crashes again": lambda: self._crash(apis),
        }
        storm = Storm(every_ms=6 * MINUTE_MS, longest_sleep_ms=20 * MINUTE_MS)
        everybody = [*apis, *others]
        chaos = Chaos(
            world, self._objects, everybody, until_ms=_CHAOS_MS, storm=storm, pranks=pranks
        )
        chaos.start()

    def audit(self, world: World) -> list[str]:
        audit = IcebergAudit(self._objects, self.notes)
        found = audit.violations()
        world.tally.update(audit.tally)
        return found

    # chaos

    def _repair_wires(self) -> None:
        self._exchange.wires = Wires()

    def _doze(self, processes: list[Process]) -> None:
        """Suspend a process between two of its next steps, past a grace, a takeover or more."""
        rng = self._world.stream("dozing")
        victim, ms = rng.choice(processes), float(SECOND_MS * (600 ** rng.random()))

        def strike() -> None:
            victim.suspend(min(ms, max(0.0, _CHAOS_MS - self._world.now_ms)))

        if victim.life is not None:
            creates = rng.random() < 0.5
            steps = rng.randint(1, 8 if creates else 60)
            victim.life.ambush(Ambush(steps, strike, for_creates=creates))

    def _crash(self, processes: list[Process]) -> None:
        """End a process right after one of its next creates, and start it again soon."""
        rng = self._world.stream("crashing")
        victim, pause_ms = rng.choice(processes), float(100 * (600 ** rng.random()))

        def strike() -> None:
            if self._world.now_ms < _CHAOS_MS:
                victim.crash()
                self._world.after(pause_ms, victim.restart)

        if victim.life is not None:
            victim.life.ambush(Ambush(rng.randint(1, 8), strike, for_creates=True))

    # processes

    async def _serve(self, life: Life) -> None:
        store = await opened(self._objects, life, Role.API)
        api = self._api(life, store, RemotePort(self._exchange, life))
        await api.begin()
        name = life.name.partition(".")[0]
        inbox = self._inboxes[name] = Inbox([], life.runtime.tasks.event())
        life.runtime.tasks.spawn(api.iceberg.reconciler.run())
        await api.serve(inbox)

    def _api(
        self, life: Life, store: Store, port: RemotePort, *, janitor: Store | None = None
    ) -> IcebergApi:
        return IcebergApi(
            life,
            store,
            port,
            self.notes,
            self._objects,
            key_life_ms=round(KEY_LIFE_MS),
            janitor=janitor,
        )

    async def _compact(self, life: Life) -> None:
        store = await opened(self._objects, life, Role.COMPACTOR)
        compactor = CatalogCompactor(store, retention=UNDROP_FOR)
        self._exchange.open("compactor", life, compactor)
        rng = life.world.stream("merging whims")
        while True:
            await life.runtime.clock.sleep(rng.expovariate(1 / (40 * MINUTE_MS)))
            started_ms = life.world.now_ms
            try:
                if await compactor.merge() is not None:
                    life.world.tally["merges"] += 1
            except ArcoError as problem:
                self._judge(life, problem, started_ms)

    async def _tidy(self, life: Life) -> None:
        store = await opened(self._objects, life, Role.JANITOR)
        port = RemotePort(self._exchange, life)
        api = self._api(life, await opened(self._objects, life, Role.API), port, janitor=store)
        tables = api.iceberg.janitor(store, retention_ms=SHORTEST_RETENTION_MS)
        rng = life.world.stream("janitor whims")
        while True:
            await life.runtime.clock.sleep(6 * MINUTE_MS + rng.random() * HOUR_MS)
            started_ms = life.world.now_ms
            try:
                await collect_garbage(store, port, retention_ms=SHORTEST_RETENTION_MS)
                gone = await tables.collect()
                life.world.tally["metadata collected"] += gone.metadata
                life.world.tally["files purged"] += gone.purged
                life.world.tally["numbers collected"] += gone.numbers
            except ArcoError as problem:
                life.world.tally["collections given up"] += 1
                self._judge(life, problem, started_ms)

    def _judge(self, life: Life, problem: Exception, started_ms: float) -> None:
        """A store that does not answer is excused, and files that went while somebody slept."""
        if isinstance(problem, Unavailable | Unknown):
            return
        overslept = life.world.now_ms - started_ms >= SHORTEST_RETENTION_MS
        if isinstance(problem, Corrupt | NotFound) and overslept:
            return
        self.notes.complaints.append(f"{life.name} met {problem!r}")

    # users

    def _user(self, number: int) -> Callable[[Life], Coroutine[Any, Any, None]]:
        rng = self._world.stream(f"user{number} whims")
        whims = Whims(rng, self.notes, f"t{number + 1}" if number < _BEGUN else None)

        async def main(life: Life) -> None:
            book: list[Wish] = []
            for turn in range(_ROUNDS):
                await life.runtime.clock.sleep(self._pause_ms(rng) if turn else MINUTE_MS)
                several = rng.randint(1, _AT_ONCE) if turn else 1
                wanted = [
                    self._wish(f"u{number}w{len(book) + n}", whims, rng) for n in range(several)
                ]
                book += wanted
                await life.runtime.tasks.gather(*(self._pursue(life, wish, rng) for wish in wanted))
            for wish in book:  # a queue delivers again what it had kept for a while
                if wish.keyed and not wish.given_up and rng.random() < 0.3:
                    await self._repeat(life, wish, rng)
            self._users_left -= 1

        return main

    def _wish(self, name: str, whims: Whims, rng: random.Random) -> Wish:
        deed = whims.next(name)
        keyed = rng.random() < 0.6 and not isinstance(deed, Load | List)
        wish = Wish(name, deed, keyed=keyed, api=rng.randrange(_APIS))
        wish.sent, wish.sent_ms = len(self._objects.log), self._world.now_ms
        self.notes.wishes.append(wish)
        return wish

    def _pause_ms(self, rng: random.Random) -> float:
        now_ms = self._world.now_ms
        if now_ms > _CHAOS_MS:
            return rng.random() * 10 * SECOND_MS
        if rng.random() < 0.7:  # all at once, to make them race
            return _BEAT_MS - now_ms % _BEAT_MS + rng.random() * 300
        return float(SECOND_MS * (1_500 ** rng.random()))

    async def _repeat(self, life: Life, wish: Wish, rng: random.Random) -> None:
        if life.world.now_ms < wish.sent_ms + _PATIENCE_MS:
            await self._send(life, wish, rng)

    async def _pursue(self, life: Life, wish: Wish, rng: random.Random) -> None:
        """Send a wish; under a key, until there is an answer."""
        await self._send(life, wish, rng)
        pause_ms = 300.0
        while wish.keyed and wish.is_open:
            if life.world.now_ms > wish.sent_ms + _PATIENCE_MS:
                break
            await life.runtime.clock.sleep(pause_ms * (0.5 + rng.random()))
            pause_ms = min(2 * pause_ms, 5.0 * MINUTE_MS)
            await self._send(life, wish, rng)
        wish.given_up = wish.is_open
        if wish.keyed and not wish.given_up and rng.random() < 0.3:
            await self._repeat(life, wish, rng)  # a proxy sends again what was answered already

    async def _send(self, life: Life, wish: Wish, rng: random.Random) -> None:
        copies = 2 if wish.keyed and rng.random() < 0.25 else 1  # to two servers at once
        calls = [self._deliver(life, wish, rng) for _ in range(copies)]
        patience_ms = float(500 * (100 ** rng.random()))
        for call in calls:
            if call is None:
                continue
            try:
                await life.runtime.tasks.deadline(patience_ms, call.replied.wait())
            except TimeoutError:
                life.world.tally["answers lost"] += 1

    def _deliver(self, life: Life, wish: Wish, rng: random.Random) -> Call | None:
        api = wish.api if rng.random() < 0.5 else rng.randrange(_APIS)
        inbox = self._inboxes.get(f"api{api}")
        if inbox is None:
            return None
        call = Call(wish, life.runtime.tasks.event(), len(self._objects.log), life.world.now_ms)
        inbox.calls.append(call)
        inbox.rung.set()
        life.world.note(life.name, f"sends {wish.name} {wish.deed}")
        return call

    async def _conclude(self, life: Life) -> None:
        """When all users are done, see that every table can be read and changed, and stop."""
        await life.runtime.clock.sleep(_CHAOS_MS)
        while self._users_left:
            await life.runtime.clock.sleep(5 * MINUTE_MS)
        rng = life.world.stream("last whims")
        await life.runtime.clock.sleep(20 * SECOND_MS)
        for name in sorted(set(NAMES)):
            mark = Mark(name, f"m.last.{name}")
            deeds: list[Load | Mark | Create] = [Load(name), mark, Create(name), Load(name)]
            for number, deed in enumerate(deeds):
                if not await self._works(life, f"last{number}{name}", deed, rng):
                    return
        self.notes.finished = await self._reconcile(life)
        life.world.stop()

    async def _reconcile(self, life: Life) -> bool:
        """Finish what was left half done, as any process does once a day."""
        store = await opened(self._objects, life, Role.API)
        api = self._api(life, store, RemotePort(self._exchange, life))
        for _ in range(3):  # a doubt may be settled by the first
            done = await api.iceberg.reconciler.round(full=True)
        if done.problems:
            self.notes.complaints.append(f"{done.problems} tables cannot be reconciled")
        life.world.tally["told late"] += done.reported
        return True

    async def _works(
        self, life: Life, name: str, deed: Load | Mark | Create, rng: random.Random
    ) -> bool:
        """Whether a request gets an answer, now that everything works."""
        for attempt in range(10):
            wish = Wish(f"{name}x{attempt}", deed, keyed=False, api=attempt % _APIS)
            wish.sent, wish.sent_ms = len(self._objects.log), life.world.now_ms
            self.notes.wishes.append(wish)
            await self._send(life, wish, rng)
            if wish.is_answered:
                return True
            if any(reply.told is Told.UNKNOWN for reply in wish.replies):
                return True  # sending it again would be another wish
            await life.runtime.clock.sleep(MINUTE_MS)
        self.notes.complaints.append(f"{deed} gets no answer, though all works")
        return False
