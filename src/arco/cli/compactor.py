"""`arco compactor`: the sole writer of published state, as a service of its own for one workspace."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.keep import Keep
from arco.cli.locations import AllowedLocations
from arco.cli.pacing import CompactEvery
from arco.cli.place import Place
from arco.cli.retention import Retention, RunRetention, pause_ms
from arco.cli.serve import AdminPort, Auth, Listening, LogLevel
from arco.cli.settings import Flag
from arco.cli.spark import Spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from arco.core.runtime import Runtime

_READY = "The compactor of Arco is ready at {url}, on {store}, for {tenant}/{workspace}."


def compactor(
    *,
    place: Place | None = None,
    host: str = "127.0.0.1",
    port: int = 8182,
    retention: Retention | None = None,
    runs: RunRetention | None = None,
    locations: AllowedLocations | None = None,
    spark: Spark | None = None,
    keep: Keep | None = None,
    pacing: CompactEvery | None = None,
    once: Flag = False,
    rebuild: Flag = False,
    domain: Annotated[str | None, Parameter(metavar="NAME")] = None,
    collect_every: Annotated[float, Parameter(metavar="HOURS")] = 0,
    log_level: LogLevel = LogLevel.INFO,
    admin_port: AdminPort = None,
    admin_host: str = "127.0.0.1",
) -> None:
    """Run the compactor of one workspace. The service token comes from ARCO_SERVICE_TOKEN.

    It publishes changes of the catalog as the API asks for them, and folds events on Spark as they come,
    in a process of its own that is started again whenever it ends.

    Parameters
    ----------
    place
        Where the metadata are: ARCO_STORAGE_BUCKET, ARCO_TENANT_ID and ARCO_WORKSPACE_ID work too.
    host
        The address to listen on.
    port
        The port to listen on; 0 for any that is free.
    retention
        How long the past is kept.
    runs
        How long what runs leave behind is kept, for collecting it here.
    locations
        Where tables may lie outside the store, for collecting what they leave behind.
    spark
        Where events are compacted.
    keep
        How long rows are kept.
    pacing
        How often few events are compacted.
    once
        Compact all events that there are, serve nobody, and end: for cron. No service token is needed.
    rebuild
        Make the tables of events anew from the ledger, and end.
    domain
        With --once or --rebuild: this domain alone (executions, lineage or search).
    collect_every
        Collect garbage here too, so often; 0 for never. The identity of this process then needs the role
        janitor besides its own.
    log_level
        Which log lines to write to stderr.
    admin_port
        A second port for health and metrics alone; 0 for any that is free. By default there is none.
    admin_host
        The address that the admin port listens on.
    """
    from arco.cli.serve import check_listening
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run

    place, spark, keep = place or Place(), spark or Spark(), keep or Keep()
    listening = Listening(host, port, Auth.LOCAL, log_level, admin_port, admin_host)
    retention = retention or Retention()
    retention.span()  # refused before anything is opened
    runs = runs or RunRetention()
    runs.ms()
    keep.spans()
    pacing = pacing or CompactEvery()
    pacing.pace()
    if once or rebuild or domain is not None:
        from arco.cli.tier2.here import compact_here

        compact_here(place, spark, keep, once=once, rebuild=rebuild, domain=domain)
        return
    every_ms = pause_ms(collect_every)
    check_listening(listening)
    locations = locations or AllowedLocations()
    locations.urls()
    spark.check()
    work = _serve(
        place,
        listening,
        retention,
        every_ms,
        system_runtime(),
        runs=runs,
        locations=locations,
        spark=spark,
        keep=keep,
        pacing=pacing,
    )
    run(work)


async def _serve(
    place: Place,
    listening: Listening,
    retention: Retention,
    every_ms: int | None,
    runtime: "Runtime",
    *,
    runs: RunRetention,
    locations: AllowedLocations,
    spark: Spark,
    keep: Keep,
    pacing: CompactEvery,
) -> None:
    from functools import partial

    from arco.access.identity import ServiceToken
    from arco.api.internal import InternalServices, make_internal_app
    from arco.api.metrics import Metrics
    from arco.catalog.manifest import manifests_of
    from arco.cli.api import service_token
    from arco.cli.cleaning import cleaning
    from arco.cli.inspecting import reporter
    from arco.cli.serve import log_to_stderr, serve, watched_backend
    from arco.cli.tables import collect_runs, parquet_janitor, table_janitor
    from arco.cli.tier2.keeper import Care
    from arco.cli.tier2.keeping import compaction, keeping, make_keeper, ringing
    from arco.cli.trouble import patience, table_teller, teller
    from arco.compactor.compactor import Compactor
    from arco.compactor.janitor import Janitor
    from arco.fold.tier1 import DOMAIN
    from arco.storage.open import open_store
    from arco.storage.roles import Role

    scope = place.scope()
    identity = ServiceToken(service_token(), scope)
    metrics, log = Metrics(), log_to_stderr(runtime, listening.log_level)
    tell, backend = teller(log, metrics), watched_backend(place, runtime, metrics)
    janitor: Janitor | None = None
    async with patience(runtime, log):
        store = await open_store(backend, runtime, role=Role.COMPACTOR, scope=scope)
        worker = Compactor(store, retention=retention.span(), tell=tell)
        if every_ms is not None:
            own = await open_store(backend, runtime, role=Role.JANITOR, scope=scope)
            tables = table_janitor(
                place, locations, own, metrics=metrics, retention_ms=retention.ms()
            )
            parquet = parquet_janitor(own, retention_ms=retention.ms())
            tell_of_table = table_teller(log, metrics)
            janitor = Janitor(
                own,
                worker,
                retention_ms=retention.ms(),
                every_ms=every_ms,
                tell=tell,
                found=reporter(log, metrics),
                others=(
                    partial(tables.collect, tell=tell_of_table),
                    partial(parquet.collect, tell=tell_of_table),
                    partial(collect_runs, own, retention_ms=runs.ms()),
                ),
            )
    if janitor is not None:
        metrics.health.watch_maintenance(janitor)
    keeper = make_keeper(
        place,
        spark,
        keep,
        store,
        pacing=pacing,
        log=log,
        metrics=metrics,
        care=Care(at_once=True),  # warm before the first event
        loud=listening.log_level is LogLevel.DEBUG,
    )
    manifests = manifests_of(store, DOMAIN)

    async def look() -> int:
        return (await manifests.head()).number

    services = InternalServices(
        runtime=runtime,
        scope=scope,
        identity=identity,
        compactor=worker,
        look=look,
        store=store,
        log=log,
        compaction=compaction(keeper, place, spark),
        disk=place.disk(),
        ring=ringing(keeper),
        metrics=metrics,
    )
    try:
        async with cleaning(janitor, runtime.tasks), keeping(keeper):
            await serve(
                make_internal_app(services),
                listening,
                log,
                _ready(place),
                runtime=runtime,
                metrics=metrics,
                admin=None if listening.admin_port is None else listening.admin(),
            )
    finally:
        await worker.close()


def _ready(place: Place) -> "Callable[[str], str]":
    scope, store = place.scope(), place.describe()

    def sentence(url: str) -> str:
        return _READY.format(url=url, store=store, tenant=scope.tenant, workspace=scope.workspace)

    return sentence
