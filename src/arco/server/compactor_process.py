"""The process of `arco compactor`, which publishes the changes that API processes decide."""

from collections.abc import Callable
from functools import partial

from arco.access.identity import ServiceToken
from arco.api.internal import InternalServices, make_internal_app
from arco.api.metrics import Metrics
from arco.catalog.manifest import manifests_of
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.core.runtime import Runtime
from arco.fold.tier1 import DOMAIN
from arco.server.garbage_collection import (
    collect_runs,
    collecting_garbage,
    make_janitor,
    table_janitor,
)
from arco.server.listener import ListenSettings, LogLevel, log_to_stderr, serve
from arco.server.locations import AllowedLocations
from arco.server.reporting import failure_reporter, log_slow_startup
from arco.server.settings import CompactionSettings, MetadataRetention, RunRetention, service_token
from arco.server.spark_supervisor import ChildPolicy, make_event_compaction
from arco.server.workspace import open_observed_backend
from arco.server.workspace_address import WorkspaceAddress
from arco.storage.open import open_store
from arco.storage.roles import Role


async def serve_compactor(
    address: WorkspaceAddress,
    listen: ListenSettings,
    retention: MetadataRetention,
    runtime: Runtime,
    *,
    collect_every_ms: int | None,
    runs: RunRetention,
    locations: AllowedLocations,
    compaction: CompactionSettings,
    spark_idle_ms: int | None,
    ready: Callable[[str], str],
) -> None:
    """Serve the compactor until a signal, with garbage collection if `collect_every_ms` is given."""
    scope = address.scope()
    identity = ServiceToken(service_token(), scope)
    metrics, log = Metrics(), log_to_stderr(runtime, listen.log_level)
    backend = open_observed_backend(address, runtime, metrics)
    janitor = None
    async with log_slow_startup(runtime, log):
        store = await open_store(backend, runtime, role=Role.COMPACTOR, scope=scope)
        compactor = CatalogCompactor(
            store, retention=retention.span(), on_failure=failure_reporter(log, metrics)
        )
        if collect_every_ms is not None:
            janitor_store = await open_store(backend, runtime, role=Role.JANITOR, scope=scope)
            janitor = make_janitor(
                janitor_store,
                compactor,
                table_janitor(
                    address, locations, janitor_store, metrics=metrics, retention_ms=retention.ms()
                ),
                partial(collect_runs, janitor_store, retention_ms=runs.ms()),
                retention_ms=retention.ms(),
                every_ms=collect_every_ms,
                log=log,
                metrics=metrics,
            )
    events = make_event_compaction(
        address,
        compaction,
        store,
        log=log,
        metrics=metrics,
        policy=ChildPolicy(idle_ms=spark_idle_ms),
        log_spark_output=listen.log_level is LogLevel.DEBUG,
    )
    manifests = manifests_of(store, DOMAIN)

    async def read_head_number() -> int:
        return (await manifests.head()).number

    services = InternalServices(
        runtime=runtime,
        scope=scope,
        identity=identity,
        compactor=compactor,
        read_head_number=read_head_number,
        store=store,
        log=log,
        compaction=events.status,
        disk=address.disk(),
        notify=events.notify,
        metrics=metrics,
    )
    try:
        async with collecting_garbage(janitor, runtime.tasks), events.running():
            await serve(
                make_internal_app(services),
                listen,
                ready,
                runtime=runtime,
                log=log,
                metrics=metrics,
                admin=None if listen.admin_port is None else listen.admin(),
            )
    finally:
        await compactor.close()
