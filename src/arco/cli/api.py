"""`arco api`: the API alone, with an identity of its own; a compactor publishes for it."""

import os
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.locations import AllowedLocations
from arco.cli.place import Place
from arco.cli.retention import Retention
from arco.cli.serve import Listening
from arco.cli.settings import Flag

if TYPE_CHECKING:
    from arco.api.http.telemetry import Log
    from arco.cli.workspace import Workspace
    from arco.core.runtime import Runtime

SERVICE_TOKEN = "ARCO_SERVICE_TOKEN"  # noqa: S105 - the name of the variable

_READY = "The API of Arco is ready at {url}, on {store}; its compactor is {compactor}."


def api(
    *,
    place: Place | None = None,
    listening: Listening | None = None,
    retention: Retention | None = None,
    locations: AllowedLocations | None = None,
    compactor: Annotated[
        str, Parameter(metavar="URL", env_var="ARCO_COMPACTOR_URL")
    ] = "http://127.0.0.1:8182",
    no_runs: Flag = False,
) -> None:
    """Run the API alone. The service token comes from ARCO_SERVICE_TOKEN.

    Parameters
    ----------
    place
        Where the metadata are.
    listening
        How it is reached.
    retention
        How long the past is kept.
    locations
        Where tables may lie outside the store.
    compactor
        The compactor of this workspace; ARCO_COMPACTOR_URL works too.
    no_runs
        Leave runs of pipelines to another API of this workspace: one alone may keep their book.
    """
    from arco.cli.serve import check_listening
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run

    listening = listening or Listening()
    check_listening(listening)
    kept = (retention or Retention()).span()
    locations = locations or AllowedLocations()
    locations.urls()  # refused before anything is opened
    work = _serve(
        place or Place(),
        listening,
        kept,
        compactor,
        system_runtime(),
        locations=locations,
        no_runs=no_runs,
    )
    run(work)


def service_token() -> str:
    """The secret by which our own processes know each other, or `Invalid` with how to make one."""
    from arco.core.errors import Invalid

    token = os.environ.get(SERVICE_TOKEN, "")
    if not token:
        raise Invalid(
            f"set {SERVICE_TOKEN} to one secret for API and compactor, such as the output of "
            "`openssl rand -hex 32`"
        )
    return token


async def _begin(workspace: "Workspace", log: "Log", runtime: "Runtime") -> None:
    """Begin beside the requests; nobody waits for it, so what ends it is logged here."""
    from arco.cli.trouble import log_failure, patience

    try:
        async with patience(runtime, log) as wait:
            await workspace.begin(wait.met)
    except Exception as problem:
        log_failure(log, "beginning", problem)


async def _serve(
    place: Place,
    listening: Listening,
    retention: timedelta,
    compactor_url: str,
    runtime: "Runtime",
    *,
    locations: AllowedLocations,
    no_runs: bool,
) -> None:
    from arco.api.app import make_app
    from arco.api.metrics import Metrics
    from arco.api.remote_compactor import RemoteCompactor, RemoteNotifier
    from arco.catalog.decision import Rules
    from arco.cli.flow.wiring import Flow, keeping_the_book, open_flow
    from arco.cli.serve import (
        log_to_stderr,
        make_services,
        serve,
        watched_backend,
    )
    from arco.cli.tables import ICEBERG, open_tables, reconciling
    from arco.cli.trouble import teller
    from arco.cli.workspace import open_workspace
    from arco.storage.open import open_store
    from arco.storage.roles import Role

    metrics, log = Metrics(), log_to_stderr(runtime, listening.log_level)
    backend = watched_backend(place, runtime, metrics)
    store = await open_store(backend, runtime, role=Role.API, scope=place.scope())
    compactor = RemoteCompactor(compactor_url, service_token())
    rules = Rules(
        retention=retention,
        own_roots=place.own_roots(),
        ruled=frozenset({ICEBERG}),
        declared=locations.urls(),
    )
    bell = RemoteNotifier(compactor, runtime)
    workspace = open_workspace(store, compactor, rules, ring=bell.ring)
    kept_ms = retention // timedelta(milliseconds=1)
    iceberg = open_tables(place, locations, workspace, metrics=metrics, retention_ms=kept_ms)
    services = make_services(
        place,
        workspace,
        auth=listening.auth,
        runtime=runtime,
        log=log,
        metrics=metrics,
        iceberg=iceberg,
        compactor_health=compactor,
    )
    flow: Flow | None = None
    if not no_runs:
        flow_store = await open_store(backend, runtime, role=Role.FLOW, scope=place.scope())
        flow = open_flow(
            place,
            services,
            workspace,
            iceberg,
            flow_store,
            tell=teller(log, metrics),
            retention_ms=kept_ms,
        )
        services = replace(services, flow=flow.desk)
    beginning = runtime.tasks.spawn(_begin(workspace, log, runtime))

    def ready(url: str) -> str:
        return _READY.format(url=url, store=place.describe(), compactor=compactor_url)

    try:
        async with reconciling(iceberg, services), keeping_the_book(flow, services):
            await serve(
                make_app(services),
                listening,
                log,
                ready,
                runtime=runtime,
                metrics=metrics,
                admin=listening.admin(),
                stopping=services.stopping,
            )
    finally:
        beginning.cancel()
        await services.engine.close()
        await iceberg.close()
        await workspace.close()
        bell.close()
        await compactor.close()
