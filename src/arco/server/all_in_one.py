"""All services of Arco in one process, except Spark: what `arco up` and embedded servers run."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from arco.api.health_monitor import CompactionStatus
from arco.api.http.telemetry import Log
from arco.api.metrics import Metrics
from arco.api.services import Services
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.compactor.janitor import Janitor
from arco.core.runtime import Runtime
from arco.core.tasks import AsyncEvent
from arco.flow.coordinator.garbage_collection import RunGarbageCollector
from arco.iceberg.service import Iceberg
from arco.ledger.writer import SegmentListener, ignore_segment
from arco.server.coordinator import CoordinatorService, open_coordinator
from arco.server.garbage_collection import collecting_garbage, make_janitor
from arco.server.listener import Auth, ListenSettings, LogLevel, log_to_stderr, serve_api
from arco.server.locations import AllowedLocations
from arco.server.reporting import failure_reporter, log_slow_startup
from arco.server.sample import append_sample_events, create_sample_objects
from arco.server.settings import CompactionSettings, MetadataRetention, RunRetention
from arco.server.spark_supervisor import ChildPolicy, make_event_compaction
from arco.server.workspace import (
    Workspace,
    make_rules,
    make_services,
    open_iceberg_catalog,
    open_observed_backend,
    open_workspace,
    reconciling,
)
from arco.server.workspace_address import WorkspaceAddress
from arco.storage.open import open_store
from arco.storage.roles import Role
from arco.storage.store import Store

_ROLES = (Role.API, Role.COMPACTOR, Role.FLOW, Role.JANITOR)
_CHILD_NICE = 5  # requests to the API come before compaction

Stores = dict[Role, Store]


@dataclass(frozen=True)
class ServerSettings:
    """The settings that a caller may change."""

    auth: Auth = Auth.NONE
    retention: MetadataRetention = field(default_factory=MetadataRetention)
    locations: AllowedLocations = field(default_factory=AllowedLocations)
    runs: RunRetention = field(default_factory=RunRetention)
    coordinates_runs: bool = True


@dataclass(frozen=True)
class ServerContext:
    """The workspace of a server, and its runtime, log and metrics."""

    address: WorkspaceAddress
    runtime: Runtime
    log: Log
    metrics: Metrics

    async def open_stores(self, *, create: bool = True) -> Stores:
        """The store in each role, after the backend was probed."""
        backend = open_observed_backend(self.address, self.runtime, self.metrics, create=create)
        scope = self.address.scope()
        return {
            role: await open_store(backend, self.runtime, role=role, scope=scope) for role in _ROLES
        }


@dataclass(frozen=True)
class AllInOneServer:
    """The opened services of one process."""

    services: Services
    workspace: Workspace
    iceberg: Iceberg
    coordinator: CoordinatorService
    compactor: CatalogCompactor
    janitor: Janitor

    @asynccontextmanager
    async def running(self) -> AsyncIterator[AsyncEvent]:
        """Run garbage collection, the reconciler and the coordinator beside a block, then close all.

        The event is set after the first attempt to open the coordinator.
        """
        runtime = self.services.runtime
        try:
            async with (
                collecting_garbage(self.janitor, runtime.tasks),
                reconciling(self.iceberg, self.services),
                self.coordinator.running(runtime) as attempted,
            ):
                yield attempted
        finally:
            await self.services.engine.close()
            await self.iceberg.close()
            await self.workspace.close()
            await self.compactor.close()


async def open_server(
    context: ServerContext,
    stores: Stores,
    settings: ServerSettings,
    retrying: Callable[[Exception], None],
    *,
    notify: SegmentListener = ignore_segment,
    compaction: CompactionStatus | None = None,
) -> AllInOneServer:
    """Open all services. Errors of the store that delay the start go to `retrying`."""
    address, log, metrics = context.address, context.log, context.metrics
    failed, retention_ms = failure_reporter(log, metrics), settings.retention.ms()
    compactor = CatalogCompactor(
        stores[Role.COMPACTOR], retention=settings.retention.span(), on_failure=failed
    )
    rules = make_rules(address, settings.retention.span(), settings.locations)
    workspace = open_workspace(stores[Role.API], compactor, rules, notify=notify)
    iceberg = open_iceberg_catalog(
        address,
        settings.locations,
        workspace,
        metrics=metrics,
        janitor=stores[Role.JANITOR],
        retention_ms=retention_ms,
    )
    await workspace.create_default_catalog(retrying)
    services = make_services(
        address,
        workspace,
        auth=settings.auth,
        runtime=context.runtime,
        log=log,
        metrics=metrics,
        iceberg=iceberg,
        compaction=compaction,
        makes_key=True,
    )
    coordinator = open_coordinator(
        address,
        services,
        workspace,
        iceberg,
        stores[Role.FLOW],
        failed=failed,
        retention_ms=retention_ms,
        coordinates_runs=settings.coordinates_runs,
    )
    janitor_store = stores[Role.JANITOR]
    runs = RunGarbageCollector(
        janitor_store, coordinator.context.runs, retention_ms=settings.runs.ms()
    )
    janitor = make_janitor(
        janitor_store,
        compactor,
        iceberg.janitor(janitor_store, retention_ms=retention_ms),
        runs.collect,
        retention_ms=retention_ms,
        log=log,
        metrics=metrics,
    )
    services = replace(services, flow=coordinator.context)
    return AllInOneServer(services, workspace, iceberg, coordinator, compactor, janitor)


async def serve_all_in_one(
    address: WorkspaceAddress,
    listen: ListenSettings,
    settings: ServerSettings,
    runtime: Runtime,
    *,
    compaction: CompactionSettings,
    spark_idle_ms: int | None,
    sample: bool,
    ready: Callable[[str], str],
) -> None:
    """Serve all of Arco, with Spark in a child process, until a signal: the body of `arco up`."""
    metrics, log = Metrics(), log_to_stderr(runtime, listen.log_level)
    context = ServerContext(address, runtime, log, metrics)
    async with log_slow_startup(runtime, log) as wait:
        stores = await context.open_stores()
        events = make_event_compaction(
            address,
            compaction,
            stores[Role.API],
            log=log,
            metrics=metrics,
            policy=ChildPolicy(idle_ms=spark_idle_ms),
            nice=_CHILD_NICE,
            log_spark_output=listen.log_level is LogLevel.DEBUG,
        )
        server = await open_server(
            context,
            stores,
            settings,
            wait.retrying,
            notify=events.notify,
            compaction=events.status,
        )
        is_sample_new = sample and await create_sample_objects(
            server.services.format_router, server.services.runtime.clock
        )
    if is_sample_new:
        await append_sample_events(server.services.ingestion, server.workspace.reader)
    async with server.running(), events.running():
        await serve_api(server.services, listen, ready)
