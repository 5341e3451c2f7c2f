"""The scenario of Tier 2: writers, two compactors, a rebuilder and a janitor, all of them real but Spark.

Writers append events of every kind under crashes and sleeps, some past the end of life of their stream.
Compactors race to fold and publish them and to merge their tails; from time to time the state is rebuilt.
The janitor marks and collects files, segments and slots, ends streams that were left, and looks for what
was lost. When the storm is over, one of the compactors may stay away for good: the other must go on alone.
"""

from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from arco.compactor.catalog_compactor import CatalogCompactor
from arco.compactor.domain_compactor import CycleReport
from arco.compactor.event_compactor import EventCompactor
from arco.compactor.garbage_collection import collect_garbage
from arco.compactor.inspection import InspectionProblemKind, inspect_domain
from arco.compactor.rebuild import rebuild
from arco.compactor.tail_merge import TailPolicy
from arco.core.errors import ArcoError, Conflict, Invalid, NotFound, Unavailable, Unknown
from arco.fold.tier2 import EXECUTIONS_DOMAIN, LINEAGE_DOMAIN, SEARCH_DOMAIN, TIER2
from arco.ledger.writer import LedgerWriter
from arco.storage.chain import SHORTEST_RETENTION_MS
from arco.storage.roles import Role
from tests.compactor.in_process_engine import InProcessEngine

from .chaos import Chaos, Storm
from .faults import drawn
from .objects import SimObjects
from .opening import opened
from .operations_audit import OperationsAudit
from .operations_events import Sender
from .operations_history import History
from .operations_notes import Acknowledged, OperationsNotes
from .process import Ambush, Incarnation, Process
from .world import HOUR_MS, MINUTE_MS, SECOND_MS, World

_WRITERS = 2
_CLIENTS = 2
_CALLS = 7  # of one client
_LIFE_MS = 20 * MINUTE_MS  # of a stream: short, so that writers sleep past its end
_CHAOS_MS = 7.0 * HOUR_MS
_CALM_MS = 8.0 * HOUR_MS
_CHOICES = (
    (EXECUTIONS_DOMAIN,),
    (EXECUTIONS_DOMAIN,),
    (LINEAGE_DOMAIN,),
    (SEARCH_DOMAIN,),
    (EXECUTIONS_DOMAIN, SEARCH_DOMAIN),
)


class OperationsScenario:
    """All processes that write or fold events."""

    name = "operations"

    def __init__(self) -> None:
        self.notes = OperationsNotes()
        self._world: World
        self._objects: SimObjects
        self._domains: tuple[str, ...] = ()
        self._retention: dict[str, timedelta] = {}
        self._forgetful = "nobody"  # the compactor that does not know what is retained
        self._policy = TailPolicy()
        self._most = 0
        self._shards = 1
        self._senders: dict[str, Sender] = {}
        self._compactors: list[Process] = []

    def build(self, world: World) -> None:
        self._world = world
        self._objects = SimObjects(world, drawn(world.stream("weather")))
        world.end_ms = _CHAOS_MS + _CALM_MS
        self._draw()
        writers = [Process(world, f"writer{n}", self._writer(n)) for n in range(_WRITERS)]
        self._compactors = [Process(world, f"compactor{n}", self._compact) for n in range(2)]
        janitor = Process(world, "janitor", self._tidy)
        processes = [*writers, *self._compactors, janitor]
        if world.stream("rebuilding").random() < 0.5:
            processes.append(Process(world, "rebuilder", self._rebuild))
        for process in processes:
            process.start()
        pranks: dict[str, Callable[[], None]] = {
            "a writer dozes off": lambda: self._doze(writers),
            "a compactor dozes off": lambda: self._doze(self._compactors),
            "a compactor takes a nap": lambda: self._nap(self._compactors),
        }
        if len(processes) > len(writers) + 3:
            pranks["a rebuilder takes a nap"] = lambda: self._nap(processes[-1:])
        storm = Storm(every_ms=12 * MINUTE_MS, longest_sleep_ms=4 * HOUR_MS)
        Chaos(
            world, self._objects, processes, until_ms=_CHAOS_MS, storm=storm, pranks=pranks
        ).start()
        world.after(_CHAOS_MS + 1, self._retire)
        Process(world, "last", self._conclude).start()

    def audit(self, world: World) -> list[str]:
        violations = list(self.notes.complaints)
        if not self.notes.caught_up:
            violations.append("not everything was appended and published in the calm")
        for domain in self._domains:
            history = History.of(self._objects, domain)
            audit = OperationsAudit(history, self.notes)
            violations += [f"{domain}: {each}" for each in audit.violations()]
            world.tally.update(audit.tally)
        return violations

    # chaos

    def _draw(self) -> None:
        rng = self._world.stream("settings")
        self._domains = rng.choice(_CHOICES)
        self._policy = TailPolicy(longest=4, longest_behind=6, many_rows=rng.choice((3, 10, 30)))
        self._most = rng.choice((1, 3, 8))
        self._shards = rng.choice((1, 1, 4))
        if rng.random() < 0.6:
            tables = sorted({name for domain in self._domains for name in TIER2[domain]})
            self._retention = {
                name: timedelta(hours=rng.choice((1, 3)))
                for name in rng.sample(tables, rng.randint(1, len(tables)))
            }
        self._forgetful = rng.choice(("nobody", "nobody", "compactor0"))
        self._senders = {each: Sender(rng, each) for each in self._domains}

    def _retire(self) -> None:
        """One of the compactors may go for good, so that none does the work of the other."""
        draw = self._world.stream("retiring").random()
        if draw < 0.6:
            self._compactors[draw < 0.3].crash()

    def _doze(self, processes: list[Process]) -> None:
        """Suspend a process between two steps, past the seal and the retention."""
        rng = self._world.stream("dozing")
        victim, ms = rng.choice(processes), rng.uniform(2.2, 4.0) * HOUR_MS
        if victim.incarnation is not None and self._world.now_ms + ms < _CHAOS_MS:
            victim.incarnation.ambush(Ambush(rng.randint(1, 12), lambda: victim.suspend(ms)))

    def _nap(self, processes: list[Process]) -> None:
        """Suspend a process after one of its next creates: between its files and its manifest."""
        rng = self._world.stream("napping")
        victim, ms = rng.choice(processes), float(SECOND_MS * (300 ** rng.random()))
        if rng.random() < 0.5:
            ms = rng.uniform(2.2, 4.0) * HOUR_MS  # past all that may be collected meanwhile

        def strike() -> None:
            victim.suspend(min(ms, max(0.0, _CHAOS_MS - self._world.now_ms)))

        if victim.incarnation is not None:
            victim.incarnation.ambush(Ambush(rng.randint(1, 4), strike, for_creates=True))

    # processes

    def _writer(self, number: int) -> Callable[[Incarnation], Coroutine[Any, Any, None]]:
        calls = {(domain, n): _CALLS for domain in self._domains for n in range(_CLIENTS)}
        self.notes.senders += len(calls)

        async def main(incarnation: Incarnation) -> None:
            store = await opened(self._objects, incarnation, Role.API)
            writers = {each: LedgerWriter(store, each, life_ms=_LIFE_MS) for each in self._domains}

            async def client(domain: str, n: int) -> None:
                rng = incarnation.world.stream(f"w{number}c{n} of {domain}")
                while calls[domain, n]:
                    if incarnation.world.now_ms < _CHAOS_MS:
                        await incarnation.runtime.clock.sleep(float(50 * (2e5 ** rng.random())))
                    await self._tell(incarnation, writers[domain], domain)
                    calls[domain, n] -= 1
                    if not calls[domain, n]:
                        self.notes.senders -= 1

            await incarnation.runtime.tasks.gather(*(client(*each) for each in calls))
            for writer in writers.values():
                await writer.close()

        return main

    async def _tell(self, incarnation: Incarnation, writer: LedgerWriter, domain: str) -> None:
        """Send some events until they are acknowledged."""
        lines = self._senders[domain].lines(incarnation)
        while True:
            try:
                receipt = await writer.append_lines(lines)
            except (Unknown, Unavailable):
                incarnation.world.tally["appends retried"] += 1
                await incarnation.runtime.clock.sleep(SECOND_MS)
            else:
                self.notes.acknowledged.append(Acknowledged(domain, lines, receipt))
                incarnation.world.tally["acknowledged"] += len(lines)
                return

    async def _compact(self, incarnation: Incarnation) -> None:
        store = await opened(self._objects, incarnation, Role.COMPACTOR)
        tier2 = EventCompactor(
            store,
            InProcessEngine(store, shards=self._shards),
            domains=self._domains,
            retention={} if incarnation.name.startswith(self._forgetful) else self._retention,
            most_segments=self._most,
            policy=self._policy,
            on_failure=lambda what, problem: self._hear(incarnation, what, problem),
            report=lambda cycle: self._count(incarnation, cycle),
        )
        await tier2.run()

    def _hear(self, incarnation: Incarnation, what: str, problem: Exception) -> None:
        incarnation.world.tally["failures told"] += 1
        incarnation.world.note(incarnation.name, f"{what} failed: {problem!r}")
        if not isinstance(problem, Unknown | Unavailable):
            self._complain(incarnation, f"{what}: {problem!r}")

    def _complain(self, incarnation: Incarnation, what: str) -> None:
        self.notes.complaints.append(
            f"{incarnation.name} at {incarnation.world.now_ms:.0f} ms: {what}"
        )

    def _count(self, incarnation: Incarnation, cycle: CycleReport) -> None:
        incarnation.world.tally[f"published: {cycle.kind}"] += 1

    async def _rebuild(self, incarnation: Incarnation) -> None:
        store = await opened(self._objects, incarnation, Role.COMPACTOR)
        engine = InProcessEngine(store, shards=self._shards)
        rng = incarnation.world.stream("rebuilder whims")
        while True:
            await incarnation.runtime.clock.sleep((0.2 + 2 * rng.random()) * HOUR_MS)
            for domain in self._domains:
                try:
                    await rebuild(store, domain, engine, most_segments=self._most)
                    incarnation.world.tally["rebuilds"] += 1
                except (Unknown, Unavailable, NotFound, Invalid):
                    incarnation.world.tally["rebuilds given up"] += 1
                except ArcoError as problem:
                    self._complain(incarnation, f"rebuild: {problem!r}")

    async def _tidy(self, incarnation: Incarnation) -> None:
        store = await opened(self._objects, incarnation, Role.JANITOR)
        compactor = CatalogCompactor(await opened(self._objects, incarnation, Role.COMPACTOR))
        rng = incarnation.world.stream("janitor whims")
        while True:
            for domain in self._domains:
                try:
                    collected = await collect_garbage(
                        store, compactor, domain=domain, retention_ms=SHORTEST_RETENTION_MS
                    )
                    counted = {
                        "files": collected.files,
                        "segments": collected.segments,
                        "slots": collected.slots,
                    }
                    incarnation.world.tally.update(
                        {f"{name} collected": pile.objects for name, pile in counted.items()}
                    )
                    incarnation.world.tally["seals"] += collected.seals
                    await self._inspect(incarnation, domain)
                except (Unknown, Unavailable, Conflict, NotFound):
                    incarnation.world.tally["collections given up"] += 1
                except ArcoError as problem:
                    self._complain(incarnation, f"collection: {problem!r}")
            await incarnation.runtime.clock.sleep((0.1 + rng.random()) * HOUR_MS)

    async def _inspect(self, incarnation: Incarnation, domain: str) -> None:
        """Nothing is ever lost, so the inspection has nothing to report but that a process is slow."""
        inspection = await inspect_domain(
            await opened(self._objects, incarnation, Role.JANITOR), domain
        )
        for trouble in inspection.troubles:
            if trouble.kind is not InspectionProblemKind.LAG:
                self._complain(incarnation, f"inspection: {trouble.path} {trouble.explanation}")

    async def _conclude(self, incarnation: Incarnation) -> None:
        """Wait until all that was acknowledged is published."""
        await incarnation.runtime.clock.sleep(_CHAOS_MS)
        while not self.notes.caught_up:
            await incarnation.runtime.clock.sleep(10 * MINUTE_MS)
            self.notes.caught_up = not self.notes.senders and all(
                History.of(self._objects, domain).is_caught_up() for domain in self._domains
            )
        incarnation.world.stop()
