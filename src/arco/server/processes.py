"""The processes of `arco api` and `arco compactor`, which share a workspace.

The API decides changes, and the compactor, in another process, publishes them.
"""

import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from arco.access.identity import ServiceToken
from arco.api.http.telemetry import Log
from arco.api.internal import InternalServices, make_internal_app
from arco.api.metrics import Metrics
from arco.api.remote_compactor import RemoteCompactor, RemoteNotifier
from arco.catalog.manifest import manifests_of
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.core.background import background
from arco.core.errors import Invalid
from arco.core.runtime import Runtime
from arco.fold.tier1 import DOMAIN
from arco.server.all_in_one import make_rules
from arco.server.coordinator import open_coordinator
from arco.server.garbage_collection import (
    collect_runs,
    collecting_garbage,
    make_janitor,
    table_janitor,
)
from arco.server.listener import ListenSettings, LogLevel, log_to_stderr, serve, serve_api
from arco.server.locations import AllowedLocations
from arco.server.reporting import failure_reporter, log_failure, log_slow_startup
from arco.server.settings import CompactionSettings, MetadataRetention, RunRetention
from arco.server.spark_supervisor import ChildPolicy, make_event_compaction
from arco.server.workspace import (
    Workspace,
    make_services,
    open_iceberg_catalog,
    open_observed_backend,
    open_workspace,
    reconciling,
)
from arco.server.workspace_address import WorkspaceAddress
from arco.storage.open import open_store
from arco.storage.roles import Role

SERVICE_TOKEN = "ARCO_SERVICE_TOKEN"  # noqa: S105 - the name of the variable


def service_token() -> str:
    """The secret by which Arco's processes authenticate each other, or `Invalid`."""
    token = os.environ.get(SERVICE_TOKEN, "")
    if not token:
        raise Invalid(
            f"set {SERVICE_TOKEN} to one secret for API and compactor, such as the output of "
            "`openssl rand -hex 32`"
        )
    return token


async def serve_api_process(
    address: WorkspaceAddress,
    listen: ListenSettings,
    retention: MetadataRetention,
    compactor_url: str,
    runtime: Runtime,
    *,
    locations: AllowedLocations,
    coordinates_runs: bool,
    ready: Callable[[str], str],
) -> None:
    """Serve the API until a signal."""
    metrics, log = Metrics(), log_to_stderr(runtime, listen.log_level)
    backend = open_observed_backend(address, runtime, metrics)
    store = await open_store(backend, runtime, role=Role.API, scope=address.scope())
    compactor = RemoteCompactor(compactor_url, service_token())
    notifier = RemoteNotifier(compactor, runtime)
    rules = make_rules(address, retention.span(), locations)
    workspace = open_workspace(store, compactor, rules, notify=notifier.notify)
    iceberg = open_iceberg_catalog(
        address, locations, workspace, metrics=metrics, retention_ms=retention.ms()
    )
    services = make_services(
        address,
        workspace,
        auth=listen.auth,
        runtime=runtime,
        log=log,
        metrics=metrics,
        iceberg=iceberg,
        compactor_health=compactor,
    )
    coordinator = None
    if coordinates_runs:
        flow_store = await open_store(backend, runtime, role=Role.FLOW, scope=address.scope())
        coordinator = open_coordinator(
            address,
            services,
            workspace,
            iceberg,
            flow_store,
            failed=failure_reporter(log, metrics),
            retention_ms=retention.ms(),
        )
        services = replace(services, flow=coordinator.context)
    try:
        async with AsyncExitStack() as running:
            beginning = partial(create_default_catalog, workspace, log, runtime)
            await running.enter_async_context(background(runtime.tasks, beginning))
            await running.enter_async_context(reconciling(iceberg, services))
            if coordinator is not None:
                await running.enter_async_context(coordinator.running(runtime))
            await serve_api(services, listen, ready)
    finally:
        await services.engine.close()
        await iceberg.close()
        await workspace.close()
        notifier.close()
        await compactor.close()


async def create_default_catalog(workspace: Workspace, log: Log, runtime: Runtime) -> None:
    """Create the catalog `default` while requests are served; an error that ends this is logged."""
    try:
        async with log_slow_startup(runtime, log) as wait:
            await workspace.create_default_catalog(wait.retrying)
    except Exception as problem:
        log_failure(log, "beginning", problem)


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
            own_store = await open_store(backend, runtime, role=Role.JANITOR, scope=scope)
            janitor = make_janitor(
                own_store,
                compactor,
                table_janitor(
                    address, locations, own_store, metrics=metrics, retention_ms=retention.ms()
                ),
                partial(collect_runs, own_store, retention_ms=runs.ms()),
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
        policy=ChildPolicy(start_at_once=True),  # warm before the first event
        loud=listen.log_level is LogLevel.DEBUG,
    )
    manifests = manifests_of(store, DOMAIN)

    async def head_number() -> int:
        return (await manifests.head()).number

    services = InternalServices(
        runtime=runtime,
        scope=scope,
        identity=identity,
        compactor=compactor,
        look=head_number,
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
