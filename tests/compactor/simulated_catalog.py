"""A catalog in virtual time: weeks of commits, merges and crashes, followed by garbage collection."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from arco.catalog.change import change, ensure_default
from arco.catalog.committer import Committer
from arco.catalog.compactor_port import CompactorPort, Guard, PublishedCommit, SyncCompact, no_guard
from arco.catalog.ddl import CreateSchema, Ddl, DropTable
from arco.catalog.lease import Lease
from arco.catalog.reader import SnapshotReader
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.compactor.garbage_collection import GcReport, collect_garbage
from arco.compactor.verification import verify
from arco.compactor.verification_report import VerificationReport
from arco.core.errors import ArcoError, Unavailable
from arco.core.scope import Scope
from arco.fold.tier1 import DOMAIN
from arco.ledger.writer import LedgerWriter
from arco.storage.backend import Backend
from arco.storage.retry import StoreRetryPolicy
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.catalog.catalog_setup import all_rows, new_table, t
from tests.ledger.simulated import Calm, simulate
from tests.sim.store import SimBackend
from tests.sim.world import HOUR_MS
from tests.storage.interposed import Interposed, Step, nothing

# A request may take as long as a test wants it to.
PATIENT = StoreRetryPolicy(attempt_ms=10 * HOUR_MS, budget_ms=10 * HOUR_MS)

RETENTION_MS = 24 * HOUR_MS
ANN = "user:ann"

Rows = dict[str, list[dict[str, object]]]


class PowerCut(Exception):
    """Nothing goes on after it."""


class OnlyMarks:
    """A compactor that publishes marks and has no time for anything else."""

    def __init__(self, inner: CatalogCompactor) -> None:
        self._inner = inner

    async def sync_compact(self, call: SyncCompact, guard: Guard = no_guard) -> PublishedCommit:
        raise Unavailable("no time")

    async def mark_orphans(self, before: str, domain: str = DOMAIN) -> PublishedCommit:
        return await self._inner.mark_orphans(before, domain)

    async def merge(self) -> PublishedCommit | None:
        return None


@dataclass
class SimulatedCatalog:
    """One store, one API process after another, and the rows of each manifest when it was new."""

    simulation: Calm
    compactor: CatalogCompactor
    rows_by_manifest: dict[int, Rows] = field(default_factory=dict)
    published_ms: dict[int, float] = field(default_factory=dict)
    tables: int = 0
    _committer: Committer | None = None

    def backend(self) -> Backend:
        return SimBackend(self.simulation.objects, self.simulation.incarnation)

    def store(self, role: Role, *, before: Step = nothing) -> Store:
        backend = Interposed(self.backend(), before=before)
        return Store(backend, self.simulation.runtime, scope=Scope(), role=role, retry=PATIENT)

    def committer(
        self, compactor: CompactorPort | None = None, *, life_ms: float = 6 * HOUR_MS
    ) -> Committer:
        """An API process; closed ones are followed by new ones."""
        store = self.store(Role.API)
        return Committer(
            SnapshotReader(store),
            LedgerWriter(store, DOMAIN, life_ms=int(life_ms)),
            compactor or self.compactor,
            Lease(store, DOMAIN, holder="sim"),
        )

    async def do(self, request: Ddl) -> None:
        """Carry a request out, and remember what the catalog then says."""
        self._committer = self._committer or self.committer()
        await change(self._committer, request, ANN)
        await self.remember()

    async def create(self) -> None:
        self.tables += 1
        await self.do(new_table(f"t{self.tables}", "x int"))

    async def drop(self) -> None:
        reader = SnapshotReader(self.store(Role.READER))
        for number in range(1, self.tables + 1):
            try:
                await (await reader.head()).table(t(f"t{number}"))
            except ArcoError:
                continue
            await self.do(DropTable(target=t(f"t{number}")))
            return

    async def merge(self) -> None:
        await self.compactor.merge()
        await self.remember()

    async def restart(self) -> None:
        """End the API process as one ends that is asked to."""
        if self._committer is not None:
            await self._committer.close()
        self._committer = None

    async def leave_orphans(self) -> None:
        """A commit whose compactor dies before the manifest, and whose API process dies with it."""

        async def die(verb: str, key: str) -> None:
            if verb == "create" and "/manifests/" in key:
                raise PowerCut

        dying = CatalogCompactor(self.store(Role.COMPACTOR, before=die))
        committer = self.committer(dying)
        with suppress(ArcoError, PowerCut):
            await change(committer, CreateSchema(catalog="default", name="never"), ANN)
        # Its lease is lost like everything else of it: others have to wait until it is over.
        await self.pass_hours(0.1)

    async def pass_hours(self, hours: float) -> None:
        await self.simulation.clock.sleep(hours * HOUR_MS)

    async def remember(self) -> None:
        """Note what is new; asked soon after each change, as it also notes the time."""
        reader = SnapshotReader(self.store(Role.READER))
        head = (await reader.head()).number
        for number in range(await reader.chain.floor(), head + 1):
            if number not in self.rows_by_manifest:
                snapshot = await reader.at_number(number)
                self.rows_by_manifest[number] = await all_rows(reader.store, snapshot)
                self.published_ms[number] = self.simulation.clock.elapsed_ms()

    async def collect(
        self,
        *,
        dry_run: bool = False,
        before: Step = nothing,
        with_compactor: bool = True,
        compactor: CompactorPort | None = None,
    ) -> GcReport:
        done = await collect_garbage(
            self.store(Role.JANITOR, before=before),
            compactor or (self.compactor if with_compactor else None),
            retention_ms=int(RETENTION_MS),
            dry_run=dry_run,
        )
        await self.remember()  # the merge and the mark
        return done

    async def verify(self) -> VerificationReport:
        return await verify(self.store(Role.JANITOR), DOMAIN, everything=True)

    async def assert_whole(self) -> None:
        """Kept manifests have the rows that they had; all that are younger than the retention are kept."""
        report = await self.verify()
        assert report.ok, report.problem
        await self.remember()
        reader = SnapshotReader(self.store(Role.READER))
        for number in range(report.floor, report.head + 1):
            snapshot = await reader.at_number(number)
            assert await all_rows(reader.store, snapshot) == self.rows_by_manifest[number]
        now_ms = self.simulation.clock.elapsed_ms()
        young = [
            n
            for n in self.rows_by_manifest
            if now_ms - self.published_ms.get(n + 1, now_ms) < RETENTION_MS
        ]
        assert report.floor <= min(young)

    def paths(self, prefix: str = "") -> list[str]:
        root = Scope().prefix
        return [
            key.removeprefix(root)
            for key in list(self.simulation.objects.keys())
            if key.startswith(root + prefix)
        ]


def in_simulated_catalog(
    scenario: Callable[[SimulatedCatalog], Coroutine[Any, Any, None]], *, hours: float = 10_000
) -> None:
    """Run a scenario on a new catalog with a schema `s`."""

    async def run_scenario(simulation: Calm) -> None:
        retention = timedelta(milliseconds=RETENTION_MS)
        backend = SimBackend(simulation.objects, simulation.incarnation)
        store = Store(backend, simulation.runtime, scope=Scope(), role=Role.COMPACTOR)
        sim = SimulatedCatalog(simulation, CatalogCompactor(store, retention=retention))
        sim._committer = sim.committer()
        await ensure_default(sim._committer)
        await sim.do(CreateSchema(catalog="default", name="s"))
        await scenario(sim)
        await sim.restart()

    simulate(run_scenario, hours=hours)
