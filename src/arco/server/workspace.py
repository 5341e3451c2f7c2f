"""The catalog of a workspace and its services, put together for a process that serves them."""

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from arco.catalog.change import ensure_default
from arco.catalog.committer import Committer
from arco.catalog.compactor_port import CompactorPort
from arco.catalog.decision import WorkspaceRules
from arco.catalog.format_router import FormatRouter
from arco.catalog.lease import Lease
from arco.catalog.model import TableFormat
from arco.catalog.reader import SnapshotReader
from arco.core.background import background
from arco.core.errors import Unavailable, Unknown
from arco.core.ids import new_ulid
from arco.events.registry import CLIENT_TYPES, DOMAINS, find_domain
from arco.fold.tier1 import DOMAIN
from arco.fold.tier2 import EXECUTIONS_DOMAIN
from arco.iceberg.files import TableFiles
from arco.iceberg.location import Locations
from arco.iceberg.service import Iceberg, open_iceberg
from arco.ledger.idempotency import Idempotency
from arco.ledger.ingestion import EventIngestion
from arco.ledger.writer import DomainWriters, LedgerWriter, SegmentListener, ignore_segment
from arco.server.listener import Auth
from arco.server.locations import AllowedLocations
from arco.server.workspace_address import WorkspaceAddress
from arco.storage.backend import ObservedBackend
from arco.storage.chain_gc import DEFAULT_RETENTION_MS
from arco.storage.store import Store

if TYPE_CHECKING:
    from arco.access.identity import Identity
    from arco.api.health_monitor import CompactionStatus, CompactorHealth
    from arco.api.http.telemetry import Log
    from arco.api.metrics import Metrics
    from arco.api.services import Services
    from arco.core.runtime import Runtime
    from arco.storage.backend import Backend

_ROUTED_FORMATS = frozenset({TableFormat.ICEBERG})  # whose changes go through the Iceberg catalog

_RETRY_MS = 1_000


@dataclass(frozen=True)
class Workspace:
    """The catalog of one API process: how it is read and changed."""

    reader: SnapshotReader
    committer: Committer
    idempotency: Idempotency
    writers: DomainWriters

    async def close(self) -> None:
        """Finish the work under way, and release leases and streams."""
        await self.committer.close()
        # A request that was just answered records its outcome now; otherwise a retry would have to.
        await self.reader.store.runtime.tasks.turn()
        await self.idempotency.close()
        await self.writers.close()

    async def create_default_catalog(self, retrying: Callable[[Exception], None]) -> None:
        """Create the catalog `default` in a new workspace, as soon as the compactor answers.

        Errors that may pass go to `retrying`, and it is tried again.
        """
        runtime = self.reader.store.runtime
        runtime.tasks.spawn(self.committer.prepare())
        while True:
            try:
                return await ensure_default(self.committer)
            except (Unavailable, Unknown) as problem:
                retrying(problem)
                await runtime.clock.sleep(_RETRY_MS)


def make_rules(
    address: WorkspaceAddress, retention: timedelta, locations: AllowedLocations
) -> WorkspaceRules:
    """The rules of the catalog's changes in a workspace."""
    return WorkspaceRules(
        retention=retention,
        own_roots=address.own_roots(),
        routed_formats=_ROUTED_FORMATS,
        declared=locations.urls(),
    )


def open_workspace(
    store: Store,
    compactor: CompactorPort,
    rules: WorkspaceRules,
    *,
    notify: SegmentListener = ignore_segment,
) -> Workspace:
    """A workspace whose catalog a compactor publishes; `notify` receives new segments of events."""
    reader = SnapshotReader(store)
    holder = f"{socket.gethostname()}:{os.getpid()}:{new_ulid(store.runtime)}"
    lease = Lease(store, DOMAIN, holder=holder)
    committer = Committer(reader, LedgerWriter(store, DOMAIN), compactor, lease, rules)
    return Workspace(
        reader, committer, Idempotency(store), DomainWriters(store, DOMAINS, notify=notify)
    )


def open_iceberg_catalog(
    address: WorkspaceAddress,
    locations: AllowedLocations,
    workspace: Workspace,
    *,
    metrics: "Metrics",
    janitor: Store | None = None,
    retention_ms: int = DEFAULT_RETENTION_MS,
) -> Iceberg:
    """The Iceberg catalog; with the store of a janitor it also deletes files that tables gave up."""
    store, root = workspace.reader.store, address.location_root()
    runtime = store.runtime

    def observed(backend: "Backend") -> "Backend":
        return ObservedBackend(backend, metrics, runtime.clock)

    outside = locations.open(runtime, fsync=not address.no_fsync, watched=observed)
    return open_iceberg(
        workspace.committer,
        workspace.idempotency,
        TableFiles(store, root, outside, janitor=janitor),
        Locations(root, locations.urls()),
        config=client_settings(address),
        writer=workspace.writers.of(EXECUTIONS_DOMAIN),
        retention_ms=retention_ms,
    )


@asynccontextmanager
async def reconciling(iceberg: Iceberg, services: "Services") -> AsyncIterator[None]:
    """Run the reconciler, which completes interrupted changes, beside a block."""
    from arco.server.reporting import ReconcilerReport, failure_reporter

    log, metrics, reconciler = services.log, services.metrics, iceberg.reconciler
    report_failure = failure_reporter(log, metrics)
    reconciler.observe(ReconcilerReport(log, metrics, services.runtime.clock))
    async with background(
        services.runtime.tasks,
        reconciler.run,
        lambda problem: report_failure("reconciler", problem),
    ):
        try:
            yield
        finally:
            reconciler.close()


def client_settings(address: WorkspaceAddress) -> dict[str, str]:
    """The settings by which Iceberg clients reach the store; no secrets."""
    store_address = address.address()
    options = store_address.options
    if store_address.scheme != "s3":
        return {}
    settings = {}
    if "endpoint" in options:
        settings["s3.endpoint"] = options["endpoint"]
    if "region" in options:
        settings["client.region"] = settings["s3.region"] = options["region"]
    # As this process reaches it. Only at AWS every client uses the host name of the bucket.
    if options.get("path_style", str("endpoint" in options).lower()) == "true":
        settings["s3.path-style-access"] = "true"
    return settings


def open_observed_backend(
    address: WorkspaceAddress, runtime: "Runtime", metrics: "Metrics", *, create: bool = True
) -> "Backend":
    """The backend of the store, with every request counted; a server creates a missing local store."""
    backend = address.backend(runtime, create=create)
    return ObservedBackend(backend, metrics, runtime.clock, metrics.store_pending)


def make_format_router(committer: Committer, iceberg: Iceberg | None) -> FormatRouter:
    """Requests to change the catalog, with the table formats that are served."""
    return FormatRouter(
        committer, {} if iceberg is None else {TableFormat.ICEBERG: iceberg.table_format}
    )


def make_services(
    address: WorkspaceAddress,
    workspace: Workspace,
    *,
    auth: Auth,
    runtime: "Runtime",
    log: "Log",
    metrics: "Metrics",
    iceberg: Iceberg | None = None,
    compaction: "CompactionStatus | None" = None,
    compactor_health: "CompactorHealth | None" = None,
    makes_key: bool = False,
) -> "Services":
    """The services of the API. `makes_key` creates a signing key file that is named and missing."""
    from arco.api.health_monitor import ELSEWHERE
    from arco.api.services import LOOPBACK, OTHER_DOMAINS, Services
    from arco.query.engine import SqlEngine
    from arco.query.lineage.tracer import Tracer

    store = workspace.reader.store
    domains = {name: SnapshotReader(store, name) for name in OTHER_DOMAINS}
    engine = SqlEngine(workspace.reader, domains=domains)
    metrics.query.watch(engine.pool)
    return Services(
        runtime=runtime,
        scope=address.scope(),
        identity=_identity(address, auth, runtime, makes_key=makes_key),
        reader=workspace.reader,
        committer=workspace.committer,
        format_router=make_format_router(workspace.committer, iceberg),
        idempotency=workspace.idempotency,
        engine=engine,
        tracer=Tracer({**domains, workspace.reader.domain: workspace.reader}, engine),
        ingestion=EventIngestion(workspace.writers, CLIENT_TYPES, find_domain),
        log=log,
        metrics=metrics,
        domains=domains,
        location_root=address.location_root(),
        iceberg=iceberg,
        compaction=compaction or ELSEWHERE,
        compactor_health=compactor_health,
        disk=address.disk(),
        hosts=LOOPBACK if auth is Auth.NONE else None,
    )


def _identity(
    address: WorkspaceAddress, auth: Auth, runtime: "Runtime", *, makes_key: bool
) -> "Identity":
    from arco.access.identity import BearerIdentity, NoIdentity
    from arco.access.token import LocalTokens

    if auth is Auth.NONE:
        return NoIdentity(address.scope())
    key = address.signing_key(runtime.rng, make_named=makes_key)
    return BearerIdentity(LocalTokens(key, runtime), address.scope())
