"""A whole Arco in one process, but for Spark: what `arco up` serves, and a command may bring along."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from arco.api.health_monitor import CompactionStatus
from arco.api.http.telemetry import Log
from arco.api.metrics import Metrics
from arco.api.services import Services
from arco.catalog.decision import Rules
from arco.cli.cleaning import cleaning
from arco.cli.flow.wiring import Flow, keeping_the_book, open_flow
from arco.cli.inspecting import reporter
from arco.cli.locations import AllowedLocations
from arco.cli.place import Place
from arco.cli.retention import Retention, RunRetention
from arco.cli.serve import Auth, make_services, watched_backend
from arco.cli.tables import ICEBERG, open_tables, parquet_janitor, reconciling
from arco.cli.trouble import table_teller, teller
from arco.cli.workspace import Workspace, open_workspace
from arco.compactor.compactor import Compactor
from arco.compactor.janitor import Janitor
from arco.core.runtime import Runtime
from arco.core.tasks import Event
from arco.flow.coordinator.garbage_collection import RunGarbageCollector
from arco.iceberg.service import Iceberg
from arco.ledger.writers import Ring, nobody
from arco.storage.open import open_store
from arco.storage.roles import Role
from arco.storage.store import Store

_ROLES = (Role.API, Role.COMPACTOR, Role.FLOW, Role.JANITOR)

Stores = dict[Role, Store]


@dataclass(frozen=True)
class Terms:
    """What whoever starts it may want otherwise."""

    auth: Auth = Auth.NONE
    retention: Retention = field(default_factory=Retention)
    locations: AllowedLocations = field(default_factory=AllowedLocations)
    runs: RunRetention = field(default_factory=RunRetention)
    keeps_book: bool = True


@dataclass(frozen=True)
class Ground:
    """What everything stands on: a place and who watches over it."""

    place: Place
    runtime: Runtime
    log: Log
    metrics: Metrics

    async def stores(self) -> Stores:
        """A handle for each role, on a store that was proven sound."""
        backend = watched_backend(self.place, self.runtime, self.metrics)
        scope = self.place.scope()
        return {
            role: await open_store(backend, self.runtime, role=role, scope=scope) for role in _ROLES
        }


@dataclass(frozen=True)
class Whole:
    """All parts, opened; `living` is the time that they live."""

    services: Services
    workspace: Workspace
    iceberg: Iceberg
    flow: Flow
    compactor: Compactor
    janitor: Janitor

    @asynccontextmanager
    async def living(self) -> AsyncIterator[Event]:
        """A block beside which the store is cleaned and what was left half done is finished.

        The event is set once the book of runs is open, or could not be opened for the first time.
        """
        tasks = self.services.runtime.tasks
        try:
            async with (
                cleaning(self.janitor, tasks),
                reconciling(self.iceberg, self.services),
                keeping_the_book(self.flow, self.services) as tried,
            ):
                yield tried
        finally:
            await self.services.engine.close()
            await self.iceberg.close()
            await self.workspace.close()
            await self.compactor.close()


async def open_whole(
    ground: Ground,
    stores: Stores,
    terms: Terms,
    met: Callable[[Exception], None],
    *,
    ring: Ring = nobody,
    compaction: CompactionStatus | None = None,
) -> Whole:
    """All parts; what keeps the start waiting is handed to `met`."""
    place, metrics = ground.place, ground.metrics
    tell, kept = teller(ground.log, metrics), terms.retention.span()
    compactor = Compactor(stores[Role.COMPACTOR], retention=kept, tell=tell)
    rules = Rules(
        retention=kept,
        own_roots=place.own_roots(),
        ruled=frozenset({ICEBERG}),
        declared=terms.locations.urls(),
    )
    workspace = open_workspace(stores[Role.API], compactor, rules, ring=ring)
    iceberg = open_tables(
        place,
        terms.locations,
        workspace,
        metrics=metrics,
        janitor=stores[Role.JANITOR],
        retention_ms=terms.retention.ms(),
    )
    await workspace.begin(met)
    services = make_services(
        place,
        workspace,
        auth=terms.auth,
        runtime=ground.runtime,
        log=ground.log,
        metrics=metrics,
        iceberg=iceberg,
        compaction=compaction,
        makes_key=True,
    )
    flow = open_flow(
        place,
        services,
        workspace,
        iceberg,
        stores[Role.FLOW],
        tell=tell,
        retention_ms=terms.retention.ms(),
        keeps_book=terms.keeps_book,
    )
    tables = iceberg.janitor(stores[Role.JANITOR], retention_ms=terms.retention.ms())
    parquet = parquet_janitor(stores[Role.JANITOR], retention_ms=terms.retention.ms())
    tell_of_table = table_teller(ground.log, metrics)
    runs = RunGarbageCollector(stores[Role.JANITOR], flow.desk.runs, retention_ms=terms.runs.ms())
    janitor = Janitor(
        stores[Role.JANITOR],
        compactor,
        retention_ms=terms.retention.ms(),
        tell=tell,
        found=reporter(ground.log, metrics),
        others=(
            partial(tables.collect, tell=tell_of_table),
            partial(parquet.collect, tell=tell_of_table),
            runs.collect,
        ),
    )
    metrics.health.watch_maintenance(janitor)
    return Whole(replace(services, flow=flow.desk), workspace, iceberg, flow, compactor, janitor)
