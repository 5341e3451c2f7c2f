"""The process of `arco api`, which decides changes; the compactor in another process publishes them."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from arco.api.http.telemetry import Log
from arco.api.metrics import Metrics
from arco.api.remote_compactor import RemoteCompactor, RemoteNotifier
from arco.core.background import background
from arco.core.runtime import Runtime
from arco.server.coordinator import open_coordinator
from arco.server.listener import ListenSettings, log_to_stderr, serve_api
from arco.server.locations import AllowedLocations
from arco.server.reporting import failure_reporter, log_failure, log_slow_startup
from arco.server.settings import MetadataRetention, service_token
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
            creating = partial(create_default_catalog, workspace, log, runtime)
            await running.enter_async_context(background(runtime.tasks, creating))
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
        log_failure(log, "creation of the default catalog", problem)
