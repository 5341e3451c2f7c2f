"""The scenario of the Iceberg catalog: users, API processes, compactors behind a network, and a janitor.

Users make, change, drop, restore and rename tables, one at a time and several at once, with and without
idempotency keys, at any API process. All but the users crash, sleep and stall; the store and the network
lose, delay and double. Afterwards every chain, name and answer is held against the log.
"""

import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from arco.catalog.compactor_port import CompactorPort
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
from .iceberg_notes import IcebergNotes, Intent, Outcome
from .iceberg_operations import Create, List, Load, Mark
from .iceberg_requests import NAMES, RandomOperations
from .objects import SimObjects
from .opening import opened
from .process import Ambush, Incarnation, Process
from .rpc import BAD, Exchange, LocalPort, RemotePort, Wires
from .world import HOUR_MS, MINUTE_MS, SECOND_MS, World

_APIS = 3
_ALL_IN_ONE = 0.4  # of the API processes publish by themselves
_USERS = 4
_BEGUN = 2  # tables that are there soon
_ROUNDS = 6
_AT_ONCE = 3  # intents of one user
_PATIENCE_MS = 2.5 * HOUR_MS
_BEAT_MS = 30.0 * MINUTE_MS
_SLOWEST_MS = 2.5 * SECOND_MS
_CHAOS_MS = 4.0 * HOUR_MS
_CALM_MS = 4.0 * HOUR_MS


class IcebergScenario:
    """All processes that use Iceberg tables."""

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
        # On a slow store every process is in the middle of something when the others come.
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
        all_processes = [*apis, *others]
        chaos = Chaos(
            world, self._objects, all_processes, until_ms=_CHAOS_MS, storm=storm, pranks=pranks
        )
        chaos.start()

    def audit(self, world: World) -> list[str]:
        audit = IcebergAudit(self._objects, self.notes)
        violations = audit.violations()
        world.tally.update(audit.tally)
        return violations

    # chaos

    def _repair_wires(self) -> None:
        self._exchange.wires = Wires()

    def _doze(self, processes: list[Process]) -> None:
        """Suspend a process between two of its next steps, past a grace, a takeover or more."""
        rng = self._world.stream("dozing")
        victim, ms = rng.choice(processes), float(SECOND_MS * (600 ** rng.random()))

        def strike() -> None:
            victim.suspend(min(ms, max(0.0, _CHAOS_MS - self._world.now_ms)))

        if victim.incarnation is not None:
            creates = rng.random() < 0.5
            steps = rng.randint(1, 8 if creates else 60)
            victim.incarnation.ambush(Ambush(steps, strike, for_creates=creates))

    def _crash(self, processes: list[Process]) -> None:
        """End a process right after one of its next creates, and start it again soon."""
        rng = self._world.stream("crashing")
        victim, pause_ms = rng.choice(processes), float(100 * (600 ** rng.random()))

        def strike() -> None:
            if self._world.now_ms < _CHAOS_MS:
                victim.crash()
                self._world.after(pause_ms, victim.restart)

        if victim.incarnation is not None:
            victim.incarnation.ambush(Ambush(rng.randint(1, 8), strike, for_creates=True))

    # processes

    async def _serve(self, incarnation: Incarnation) -> None:
        store = await opened(self._objects, incarnation, Role.API)
        port: CompactorPort = RemotePort(self._exchange, incarnation)
        if incarnation.world.stream("publishing").random() < _ALL_IN_ONE:
            publishing = await opened(self._objects, incarnation, Role.COMPACTOR)
            compactor = CatalogCompactor(publishing, retention=UNDROP_FOR)
            port = LocalPort(self._exchange, incarnation, compactor)
        api = self._api(incarnation, store, port)
        await api.begin()
        name = incarnation.name.partition(".")[0]
        inbox = self._inboxes[name] = Inbox([], incarnation.runtime.tasks.event())
        incarnation.runtime.tasks.spawn(api.iceberg.reconciler.run())
        await api.serve(inbox)

    def _api(
        self,
        incarnation: Incarnation,
        store: Store,
        port: CompactorPort,
        *,
        janitor: Store | None = None,
    ) -> IcebergApi:
        return IcebergApi(
            incarnation,
            store,
            port,
            self.notes,
            self._objects,
            key_life_ms=round(KEY_LIFE_MS),
            janitor=janitor,
        )

    async def _compact(self, incarnation: Incarnation) -> None:
        store = await opened(self._objects, incarnation, Role.COMPACTOR)
        compactor = CatalogCompactor(store, retention=UNDROP_FOR)
        self._exchange.open("compactor", incarnation, compactor)
        rng = incarnation.world.stream("merging whims")
        while True:
            await incarnation.runtime.clock.sleep(rng.expovariate(1 / (40 * MINUTE_MS)))
            started_ms = incarnation.world.now_ms
            try:
                if await compactor.merge() is not None:
                    incarnation.world.tally["merges"] += 1
            except ArcoError as problem:
                self._judge(incarnation, problem, started_ms)

    async def _tidy(self, incarnation: Incarnation) -> None:
        store = await opened(self._objects, incarnation, Role.JANITOR)
        port = RemotePort(self._exchange, incarnation)
        api = self._api(
            incarnation, await opened(self._objects, incarnation, Role.API), port, janitor=store
        )
        tables = api.iceberg.janitor(store, retention_ms=SHORTEST_RETENTION_MS)
        rng = incarnation.world.stream("janitor whims")
        while True:
            await incarnation.runtime.clock.sleep(6 * MINUTE_MS + rng.random() * HOUR_MS)
            started_ms = incarnation.world.now_ms
            try:
                await collect_garbage(store, port, retention_ms=SHORTEST_RETENTION_MS)
                collected = await tables.collect()
                incarnation.world.tally["metadata collected"] += collected.metadata
                incarnation.world.tally["files purged"] += collected.purged
                incarnation.world.tally["numbers collected"] += collected.numbers
            except ArcoError as problem:
                incarnation.world.tally["collections given up"] += 1
                self._judge(incarnation, problem, started_ms)

    def _judge(self, incarnation: Incarnation, problem: Exception, started_ms: float) -> None:
        """A store that does not answer is excused, and files collected while the process slept."""
        if isinstance(problem, Unavailable | Unknown):
            return
        overslept = incarnation.world.now_ms - started_ms >= SHORTEST_RETENTION_MS
        if isinstance(problem, Corrupt | NotFound) and overslept:
            return
        self.notes.complaints.append(f"{incarnation.name} met {problem!r}")

    # users

    def _user(self, number: int) -> Callable[[Incarnation], Coroutine[Any, Any, None]]:
        rng = self._world.stream(f"user{number} whims")
        random_operations = RandomOperations(
            rng, self.notes, f"t{number + 1}" if number < _BEGUN else None
        )

        async def main(incarnation: Incarnation) -> None:
            earlier: list[Intent] = []
            for turn in range(_ROUNDS):
                await incarnation.runtime.clock.sleep(self._pause_ms(rng) if turn else MINUTE_MS)
                several = rng.randint(1, _AT_ONCE) if turn else 1
                wanted = [
                    self._new_intent(f"u{number}w{len(earlier) + n}", random_operations, rng)
                    for n in range(several)
                ]
                earlier += wanted
                await incarnation.runtime.tasks.gather(
                    *(self._pursue(incarnation, intent, rng) for intent in wanted)
                )
            for intent in earlier:  # a queue delivers again what it had kept for a while
                if intent.keyed and not intent.given_up and rng.random() < 0.3:
                    await self._repeat(incarnation, intent, rng)
            self._users_left -= 1

        return main

    def _new_intent(
        self, name: str, random_operations: RandomOperations, rng: random.Random
    ) -> Intent:
        operation = random_operations.next(name)
        keyed = rng.random() < 0.6 and not isinstance(operation, Load | List)
        intent = Intent(name, operation, keyed=keyed, api=rng.randrange(_APIS))
        intent.sent, intent.sent_ms = len(self._objects.log), self._world.now_ms
        self.notes.intents.append(intent)
        return intent

    def _pause_ms(self, rng: random.Random) -> float:
        now_ms = self._world.now_ms
        if now_ms > _CHAOS_MS:
            return rng.random() * 10 * SECOND_MS
        if rng.random() < 0.7:  # all at once, to make them race
            return _BEAT_MS - now_ms % _BEAT_MS + rng.random() * 300
        return float(SECOND_MS * (1_500 ** rng.random()))

    async def _repeat(self, incarnation: Incarnation, intent: Intent, rng: random.Random) -> None:
        if incarnation.world.now_ms < intent.sent_ms + _PATIENCE_MS:
            await self._send(incarnation, intent, rng)

    async def _pursue(self, incarnation: Incarnation, intent: Intent, rng: random.Random) -> None:
        """Send an intent; under a key, until there is an answer."""
        await self._send(incarnation, intent, rng)
        pause_ms = 300.0
        while intent.keyed and intent.is_open:
            if incarnation.world.now_ms > intent.sent_ms + _PATIENCE_MS:
                break
            await incarnation.runtime.clock.sleep(pause_ms * (0.5 + rng.random()))
            pause_ms = min(2 * pause_ms, 5.0 * MINUTE_MS)
            await self._send(incarnation, intent, rng)
        intent.given_up = intent.is_open
        if intent.keyed and not intent.given_up and rng.random() < 0.3:
            await self._repeat(
                incarnation, intent, rng
            )  # a proxy sends again what was answered already

    async def _send(self, incarnation: Incarnation, intent: Intent, rng: random.Random) -> None:
        copies = 2 if intent.keyed and rng.random() < 0.25 else 1  # to two servers at once
        calls = [self._deliver(incarnation, intent, rng) for _ in range(copies)]
        patience_ms = float(500 * (100 ** rng.random()))
        for call in calls:
            if call is None:
                continue
            try:
                await incarnation.runtime.tasks.deadline(patience_ms, call.replied.wait())
            except TimeoutError:
                incarnation.world.tally["answers lost"] += 1

    def _deliver(self, incarnation: Incarnation, intent: Intent, rng: random.Random) -> Call | None:
        api = intent.api if rng.random() < 0.5 else rng.randrange(_APIS)
        inbox = self._inboxes.get(f"api{api}")
        if inbox is None:
            return None
        call = Call(
            intent,
            incarnation.runtime.tasks.event(),
            len(self._objects.log),
            incarnation.world.now_ms,
        )
        inbox.calls.append(call)
        inbox.rung.set()
        incarnation.world.note(incarnation.name, f"sends {intent.name} {intent.operation}")
        return call

    async def _conclude(self, incarnation: Incarnation) -> None:
        """When all users are done, see that every table can be read and changed, and stop."""
        await incarnation.runtime.clock.sleep(_CHAOS_MS)
        while self._users_left:
            await incarnation.runtime.clock.sleep(5 * MINUTE_MS)
        rng = incarnation.world.stream("last whims")
        await incarnation.runtime.clock.sleep(20 * SECOND_MS)
        for name in sorted(set(NAMES)):
            mark = Mark(name, f"m.last.{name}")
            operations: list[Load | Mark | Create] = [Load(name), mark, Create(name), Load(name)]
            for number, operation in enumerate(operations):
                if not await self._works(incarnation, f"last{number}{name}", operation, rng):
                    return
        self.notes.finished = await self._reconcile(incarnation)
        incarnation.world.stop()

    async def _reconcile(self, incarnation: Incarnation) -> bool:
        """Finish what was left half done, as any process does once a day."""
        store = await opened(self._objects, incarnation, Role.API)
        api = self._api(incarnation, store, RemotePort(self._exchange, incarnation))
        for _ in range(3):  # a doubt may be settled by the first
            done = await api.iceberg.reconciler.round(full=True)
        if done.problems:
            self.notes.complaints.append(f"{done.problems} tables cannot be reconciled")
        incarnation.world.tally["told late"] += done.reported
        return True

    async def _works(
        self,
        incarnation: Incarnation,
        name: str,
        operation: Load | Mark | Create,
        rng: random.Random,
    ) -> bool:
        """Whether a request gets an answer, now that everything works."""
        for attempt in range(10):
            intent = Intent(f"{name}x{attempt}", operation, keyed=False, api=attempt % _APIS)
            intent.sent, intent.sent_ms = len(self._objects.log), incarnation.world.now_ms
            self.notes.intents.append(intent)
            await self._send(incarnation, intent, rng)
            if intent.is_answered:
                return True
            if any(reply.outcome is Outcome.UNKNOWN for reply in intent.replies):
                return True  # sending it again would be another intent
            await incarnation.runtime.clock.sleep(MINUTE_MS)
        self.notes.complaints.append(f"{operation} gets no answer, though all works")
        return False
