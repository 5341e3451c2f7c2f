"""The scenario of the catalog: users, API processes, compactors behind a network, readers and a janitor.

Users send requests of every kind, with and without idempotency keys, to any API process; those decide and
have a compactor publish, which merges beside that. All but the users crash, sleep and stall. Dropped things
are forgotten, old manifests collected and unnamed files deleted while readers hold on to what
they have. Afterwards the model decides everything again.
"""

import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any

from arco.catalog.compactor_port import CompactorPort
from arco.catalog.ddl import CatalogName, UpdateCatalog
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.compactor.catalog_tail import shorten_tail
from arco.compactor.garbage_collection import collect_garbage
from arco.compactor.publisher import Publisher
from arco.core.errors import ArcoError, Corrupt, NotFound, Unavailable, Unknown
from arco.fold.tier1 import DOMAIN
from arco.storage.chain import SHORTEST_RETENTION_MS
from arco.storage.roles import Role

from .catalog_api import UNDROP_FOR, Api, Call, Inbox
from .catalog_audit import CatalogAudit
from .catalog_notes import CatalogNotes, Intent, Sighting
from .catalog_requests import RandomRequests
from .chaos import Chaos, Storm
from .faults import drawn
from .objects import SimObjects
from .opening import opened
from .process import Ambush, Incarnation, Process
from .rpc import BAD, Exchange, LocalPort, RemotePort, Wires
from .world import HOUR_MS, MINUTE_MS, SECOND_MS, World

FORGET_AFTER = timedelta(
    hours=2
)  # beyond the time for undropping: as far as two clocks may be apart

_APIS = 3
_COMPACTORS = 2
_ALL_IN_ONE = 0.4  # of the API processes publish by themselves
_SHORTENED = 0.4  # of the merges leave the base as it is
_USERS = 4
_ROUNDS = 3
_AT_ONCE = 3  # intents of one user
_KEY_LIFE_MS = 5 * HOUR_MS
_PATIENCE_MS = 2.5 * HOUR_MS  # users stop long before their key expires, whatever the clocks say
_BEAT_MS = 1.0 * HOUR_MS
_SLOWEST_MS = 2.5 * SECOND_MS
_CHAOS_MS = 8.0 * HOUR_MS
_CALM_MS = 10.0 * HOUR_MS


class CatalogScenario:
    """All processes that use the catalog."""

    name = "catalog"

    def __init__(self) -> None:
        self.notes = CatalogNotes()
        self._inboxes: dict[str, Inbox] = {}
        self._users_left = _USERS
        self._is_quiet = False
        self._world: World
        self._objects: SimObjects
        self._exchange: Exchange

    def build(self, world: World) -> None:
        self._world = world
        # Some seeds are quiet: then what a sleeper left half done is not overtaken by the next request.
        self._is_quiet = world.stream("pace").random() < 0.3
        weather = drawn(world.stream("weather"))
        # On a slower store no process holds a lease for as long as it takes to use it.
        weather = replace(weather, slowest_ms=min(weather.slowest_ms, _SLOWEST_MS))
        self._objects = SimObjects(world, weather)
        wires = BAD.drawn(world.stream("wiring"))
        self._exchange = Exchange(world, wires)
        world.after(_CHAOS_MS, self._repair_wires)
        world.end_ms = _CHAOS_MS + _CALM_MS
        apis = [Process(world, f"api{n}", self._serve) for n in range(_APIS)]
        compactors = [Process(world, f"compactor{n}", self._compact) for n in range(_COMPACTORS)]
        others = [Process(world, "janitor", self._tidy), Process(world, "reader", self._read)]
        for process in (*apis, *compactors, *others):
            process.start()
        for number in range(_USERS):
            Process(world, f"user{number}", self._user(number)).start()
        Process(world, "last", self._conclude).start()
        pranks = {
            "an API process dozes off": lambda: self._doze(apis),
            "a compactor dozes off": lambda: self._doze(compactors),
            "an API process crashes": lambda: self._crash(apis),
            "a compactor crashes": lambda: self._crash(compactors),
        }
        all_processes = [*apis, *compactors, *others]
        storm = Storm(every_ms=15 * MINUTE_MS, longest_sleep_ms=3 * HOUR_MS)
        if self._is_quiet:
            storm = replace(storm, **dict.fromkeys(("crash", "suspend", "stall", "lid"), 0.2))
            pranks["a compactor takes a nap"] = lambda: self._nap(compactors)
        until_ms = _CHAOS_MS
        Chaos(
            world, self._objects, all_processes, until_ms=until_ms, storm=storm, pranks=pranks
        ).start()

    def audit(self, world: World) -> list[str]:
        audit = CatalogAudit(self._objects, self.notes, self._exchange.calls, UNDROP_FOR)
        violations = audit.violations()
        world.tally.update(audit.tally)
        return violations

    # chaos

    def _repair_wires(self) -> None:
        self._exchange.wires = Wires()

    def _nap(self, compactors: list[Process]) -> None:
        """Suspend a compactor after some of its next creates, past all that may be collected."""
        rng = self._world.stream("napping")
        victim, ms = rng.choice(compactors), rng.uniform(2.5, 5.0) * HOUR_MS

        def strike() -> None:
            victim.suspend(min(ms, max(0.0, _CHAOS_MS - self._world.now_ms)))

        if victim.incarnation is not None:
            victim.incarnation.ambush(Ambush(rng.randint(2, 6), strike, for_creates=True))

    def _doze(self, processes: list[Process]) -> None:
        """Suspend a process between two of its next steps, past its lease, a takeover or more."""
        rng = self._world.stream("dozing")
        victim, ms = rng.choice(processes), float(SECOND_MS * (2_000 ** rng.random()))
        if rng.random() < 0.3:
            ms = rng.uniform(2.1, 4.0) * HOUR_MS  # past all that may be collected meanwhile

        def strike() -> None:
            victim.suspend(min(ms, max(0.0, _CHAOS_MS - self._world.now_ms)))

        if victim.incarnation is not None:
            creates = rng.random() < 0.5
            steps = rng.randint(1, 6 if creates else 60)
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
            victim.incarnation.ambush(Ambush(rng.randint(1, 6), strike, for_creates=True))

    # processes

    async def _serve(self, incarnation: Incarnation) -> None:
        store = await opened(self._objects, incarnation, Role.API)
        port: CompactorPort = RemotePort(self._exchange, incarnation)
        if incarnation.world.stream("publishing").random() < _ALL_IN_ONE:
            publishing = await opened(self._objects, incarnation, Role.COMPACTOR)
            compactor = CatalogCompactor(publishing, retention=UNDROP_FOR, grace=FORGET_AFTER)
            port = LocalPort(self._exchange, incarnation, compactor)
        api = Api(
            incarnation, store, port, self.notes, self._objects, key_life_ms=round(_KEY_LIFE_MS)
        )
        await api.begin()
        name = incarnation.name.partition(".")[0]
        inbox = self._inboxes[name] = Inbox([], incarnation.runtime.tasks.event())
        await api.serve(inbox)

    async def _compact(self, incarnation: Incarnation) -> None:
        store = await opened(self._objects, incarnation, Role.COMPACTOR)
        compactor = CatalogCompactor(store, retention=UNDROP_FOR, grace=FORGET_AFTER)
        self._exchange.open(incarnation.name.partition(".")[0], incarnation, compactor)
        rng = incarnation.world.stream("merging whims")
        while True:
            pause_ms = rng.expovariate(1 / (40 * MINUTE_MS))
            if rng.random() < 0.5:  # beside the users' requests, and other merges
                pause_ms += _BEAT_MS - (incarnation.world.now_ms + pause_ms) % _BEAT_MS
            await incarnation.runtime.clock.sleep(pause_ms + 2 * SECOND_MS * rng.random())
            started_ms = incarnation.world.now_ms
            try:
                if rng.random() < _SHORTENED:
                    if await shorten_tail(Publisher(store, DOMAIN)) is not None:
                        incarnation.world.tally["tails shortened"] += 1
                elif await compactor.merge() is not None:
                    incarnation.world.tally["merges"] += 1
            except ArcoError as problem:
                incarnation.world.tally["merges given up"] += 1
                self._judge(incarnation, problem, started_ms)
            beside = compactor.merge_problem  # of a merge that a long tail has begun, at any time
            if beside is not None and not isinstance(beside, ArcoError):
                self.notes.complaints.append(f"{incarnation.name} met {beside!r} in a merge")

    async def _tidy(self, incarnation: Incarnation) -> None:
        store = await opened(self._objects, incarnation, Role.JANITOR)
        port = RemotePort(self._exchange, incarnation)
        rng = incarnation.world.stream("janitor whims")
        while True:
            longest_ms = (0.4 if self._is_quiet else 1.0) * HOUR_MS
            await incarnation.runtime.clock.sleep(6 * MINUTE_MS + rng.random() * longest_ms)
            started_ms = incarnation.world.now_ms
            try:
                collected = await collect_garbage(store, port, retention_ms=SHORTEST_RETENTION_MS)
            except ArcoError as problem:
                incarnation.world.tally["collections given up"] += 1
                self._judge(incarnation, problem, started_ms)
                continue
            for kind in ("manifests", "commits", "files", "keys", "segments", "slots", "leases"):
                incarnation.world.tally[f"{kind} collected"] += getattr(collected, kind).objects

    async def _read(self, incarnation: Incarnation) -> None:
        store = await opened(self._objects, incarnation, Role.READER)
        rng = incarnation.world.stream("reader whims")
        while True:
            await incarnation.runtime.clock.sleep(float(SECOND_MS * (3_000 ** rng.random())))
            reader = SnapshotReader(store)
            sent, sent_ms = len(self._objects.log), incarnation.world.now_ms
            try:
                snapshot = await reader.head()
                if snapshot.number < 0:
                    continue
                answered = len(self._objects.log)
                # Held for a while before its files are read, though not as long as it is kept.
                hold_ms = SHORTEST_RETENTION_MS * 0.9 * rng.random() ** 3
                await incarnation.runtime.clock.sleep(hold_ms)
                live = await look_around(snapshot)
            except ArcoError as problem:
                self._judge(incarnation, problem, sent_ms)
                continue
            self.notes.sightings.append(
                Sighting(incarnation.name, snapshot.number, snapshot.sha256, sent, answered, live)
            )
            incarnation.world.tally["snapshots read"] += 1

    def _judge(self, incarnation: Incarnation, problem: Exception, started_ms: float) -> None:
        """A store that does not answer is excused, and files collected while the process slept."""
        if isinstance(problem, Unavailable | Unknown):
            return
        overslept = incarnation.world.now_ms - started_ms >= SHORTEST_RETENTION_MS
        if isinstance(problem, Corrupt | NotFound) and overslept:
            return
        self.notes.complaints.append(f"{incarnation.name} met {problem!r}")

    def _user(self, number: int) -> Callable[[Incarnation], Coroutine[Any, Any, None]]:
        rng = self._world.stream(f"user{number} whims")
        random_requests = RandomRequests(rng, self.notes)

        async def main(incarnation: Incarnation) -> None:
            earlier: list[Intent] = []
            for _ in range(2 if self._is_quiet else _ROUNDS):
                await incarnation.runtime.clock.sleep(self._pause_ms(rng))
                several = 1 if self._is_quiet else _AT_ONCE
                api = self._api(rng)
                wanted = [
                    self._new_intent(f"u{number}w{len(earlier) + n}", api, random_requests, rng)
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

    def _api(self, rng: random.Random) -> int:
        """Where a user goes first: at the beat mostly where the others go, to share a commit."""
        now_ms = self._world.now_ms
        if now_ms % _BEAT_MS < SECOND_MS and rng.random() < 0.7:
            return int(now_ms / _BEAT_MS) % _APIS
        return rng.randrange(_APIS)

    def _new_intent(
        self, name: str, api: int, random_requests: RandomRequests, rng: random.Random
    ) -> Intent:
        keyed = rng.random() < (0.1 if self._is_quiet else 0.5)
        intent = Intent(name, random_requests.next(), keyed=keyed, api=api)
        intent.sent, intent.sent_ms = len(self._objects.log), self._world.now_ms
        self.notes.intents.append(intent)
        return intent

    async def _repeat(self, incarnation: Incarnation, intent: Intent, rng: random.Random) -> None:
        if incarnation.world.now_ms < self._deadline_ms(intent):
            await self._send(incarnation, intent, rng)

    async def _pursue(self, incarnation: Incarnation, intent: Intent, rng: random.Random) -> None:
        """Send an intent; under a key, until there is an answer."""
        await self._send(incarnation, intent, rng)
        pause_ms = 300.0
        while intent.keyed and intent.is_open:
            if incarnation.world.now_ms > self._deadline_ms(intent):
                break
            await incarnation.runtime.clock.sleep(pause_ms * (0.5 + rng.random()))
            pause_ms = min(2 * pause_ms, 10.0 * MINUTE_MS)
            await self._send(incarnation, intent, rng)
        intent.given_up = intent.is_open
        if intent.keyed and not intent.given_up and rng.random() < 0.3:
            await self._repeat(
                incarnation, intent, rng
            )  # a proxy sends again what was answered already

    def _pause_ms(self, rng: random.Random) -> float:
        now_ms = self._world.now_ms
        if now_ms > _CHAOS_MS:
            return rng.random() * 10 * SECOND_MS
        if self._is_quiet:
            return rng.random() * 4 * HOUR_MS
        if rng.random() < 0.6:  # all at once, to make them race
            return _BEAT_MS - now_ms % _BEAT_MS + rng.random() * 200
        return float(SECOND_MS * (4_000 ** rng.random()))

    def _deadline_ms(self, intent: Intent) -> float:
        return intent.sent_ms + _PATIENCE_MS

    async def _send(self, incarnation: Incarnation, intent: Intent, rng: random.Random) -> None:
        copies = 2 if intent.keyed and rng.random() < 0.25 else 1  # to two servers at once
        calls = [self._deliver(incarnation, intent, rng) for _ in range(copies)]
        patience_ms = float(500 * (200 ** rng.random()))
        for call in calls:
            if call is None:
                continue
            try:
                await incarnation.runtime.tasks.deadline(patience_ms, call.replied.wait())
            except TimeoutError:
                incarnation.world.tally["answers lost"] += 1

    def _deliver(self, incarnation: Incarnation, intent: Intent, rng: random.Random) -> Call | None:
        api = intent.api if rng.random() < 0.5 else rng.randrange(_APIS)
        if intent.sent_ms == incarnation.world.now_ms:
            api = intent.api
        inbox = self._inboxes.get(f"api{api}")
        if inbox is None:
            return None
        sent = len(self._objects.log)
        call = Call(intent, incarnation.runtime.tasks.event(), sent, incarnation.world.now_ms)
        inbox.calls.append(call)
        inbox.rung.set()
        incarnation.world.note(incarnation.name, f"sends {intent.name} {intent.request}")
        return call

    async def _conclude(self, incarnation: Incarnation) -> None:
        """When all users are done, read what there is from an empty process, and stop."""
        await incarnation.runtime.clock.sleep(_CHAOS_MS)
        reader = SnapshotReader(await opened(self._objects, incarnation, Role.READER))
        while self._users_left:
            await incarnation.runtime.clock.sleep(10 * MINUTE_MS)
        if not await self._can_change(incarnation):
            return
        sent = len(self._objects.log)
        snapshot = await reader.head()
        answered = len(self._objects.log)
        live = await look_around(snapshot)
        self.notes.sightings.append(
            Sighting(incarnation.name, snapshot.number, snapshot.sha256, sent, answered, live)
        )
        self.notes.finished = True
        incarnation.world.stop()

    async def _can_change(self, incarnation: Incarnation) -> bool:
        """Whether one more change is made, now that everything works."""
        rng = incarnation.world.stream("last whims")
        for attempt in range(10):
            request = UpdateCatalog(target=CatalogName("default"), comment="the end")
            intent = Intent(f"last{attempt}", request, keyed=False, api=attempt % _APIS)
            intent.sent, intent.sent_ms = len(self._objects.log), incarnation.world.now_ms
            self.notes.intents.append(intent)
            await self._send(incarnation, intent, rng)
            if not intent.is_open:
                return True
            await incarnation.runtime.clock.sleep(MINUTE_MS)
        self.notes.complaints.append("nothing can be changed any more, though all works")
        return False


async def look_around(snapshot: Snapshot) -> list[tuple[str, str, int]]:
    """Everything that is live in a snapshot, found by walking down from the catalogs."""
    seen: list[tuple[str, str, int]] = []
    for catalog in await snapshot.catalogs():
        seen.append((catalog.row.name, catalog.row.catalog_id, catalog.commit))
        parents: list[str | None] = [None]
        while parents:
            for schema in await snapshot.schemas(catalog.row.catalog_id, parents.pop()):
                name = ".".join((catalog.row.name, *schema.row.path))
                seen.append((name, schema.row.schema_id, schema.commit))
                parents.append(schema.row.schema_id)
                seen += await _tables(snapshot, schema.row.schema_id, name)
    return sorted(seen)


async def _tables(
    snapshot: Snapshot, schema_id: str, schema_path: str
) -> list[tuple[str, str, int]]:
    seen: list[tuple[str, str, int]] = []
    for table in await snapshot.tables(schema_id):
        name = f"{schema_path}.{table.row.name}"
        details = await snapshot.find(table.row.table_id)
        seen.append((name, table.row.table_id, details.commit))
        seen += [
            (f"{name}:{column.row.position}:{column.row.name}", column.row.column_id, column.commit)
            for column in await snapshot.columns(table.row.table_id)
        ]
    return seen
