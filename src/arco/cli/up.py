"""`arco up`: all of Arco on one machine, in one process, and Spark in a child of it."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.keep import Keep
from arco.cli.locations import AllowedLocations
from arco.cli.place import Place
from arco.cli.retention import Retention, RunRetention
from arco.cli.serve import Listening, LogLevel
from arco.cli.settings import Flag
from arco.cli.spark import Spark, idle_ms

if TYPE_CHECKING:
    from arco.core.runtime import Runtime

_NICE = 5  # the API comes first


def up(
    *,
    place: Place | None = None,
    listening: Listening | None = None,
    retention: Retention | None = None,
    runs: RunRetention | None = None,
    locations: AllowedLocations | None = None,
    spark: Spark | None = None,
    spark_idle: Annotated[float, Parameter(metavar="MINUTES")] = 10,
    keep: Keep | None = None,
    sample: Flag = False,
) -> None:
    """Run everything on this machine: the API, the compactor and garbage collection.

    Events are compacted on Spark, in a process of its own that is started with the first of them.

    Parameters
    ----------
    place
        Where the metadata are.
    listening
        How it is reached.
    retention
        How long the past is kept.
    runs
        How long what runs leave behind is kept.
    locations
        Where tables may lie outside the store.
    spark
        Where events are compacted.
    spark_idle
        End Spark after so long without events, to free its memory; the next event starts it again.
        0 to keep it for good.
    keep
        How long rows are kept.
    sample
        Put a small sample catalog in, for a first look around.
    """
    from arco.cli.serve import check_listening
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run

    listening, retention = listening or Listening(), retention or Retention()
    check_listening(listening)
    retention.span()  # refused before anything is opened
    runs = runs or RunRetention()
    runs.ms()
    locations = locations or AllowedLocations()
    locations.urls()
    spark, keep = spark or Spark(), keep or Keep()
    spark.check()
    keep.spans()
    work = _serve(
        place or Place(),
        listening,
        retention,
        system_runtime(),
        runs=runs,
        locations=locations,
        spark=spark,
        spark_idle_ms=idle_ms(spark_idle),
        keep=keep,
        sample=sample,
    )
    run(work)


async def _serve(
    place: Place,
    listening: Listening,
    retention: Retention,
    runtime: "Runtime",
    *,
    runs: RunRetention,
    locations: AllowedLocations,
    spark: Spark,
    spark_idle_ms: float | None,
    keep: Keep,
    sample: bool,
) -> None:
    from arco.api.app import make_app
    from arco.api.metrics import Metrics
    from arco.cli.advice import first_steps
    from arco.cli.sample import fill
    from arco.cli.sample_runs import tell_of_runs
    from arco.cli.serve import log_to_stderr, serve, stop_deadline
    from arco.cli.tier2.keeper import Care
    from arco.cli.tier2.keeping import compaction, keeping, make_keeper, ringing
    from arco.cli.trouble import patience
    from arco.cli.whole import Ground, Terms, open_whole
    from arco.storage.roles import Role

    metrics, log = Metrics(), log_to_stderr(runtime, listening.log_level)
    ground = Ground(place, runtime, log, metrics)
    async with patience(runtime, log) as wait:
        stores = await ground.stores()
        keeper = make_keeper(
            place,
            spark,
            keep,
            stores[Role.API],
            log=log,
            metrics=metrics,
            care=Care(idle_ms=spark_idle_ms),
            nice=_NICE,
            loud=listening.log_level is LogLevel.DEBUG,
        )
        whole = await open_whole(
            ground,
            stores,
            Terms(listening.auth, retention, locations, runs),
            wait.met,
            ring=ringing(keeper),
            compaction=compaction(keeper, place, spark),
        )
        is_new = False
        if sample:
            is_new = await fill(whole.workspace.committer, whole.iceberg.native)
    services = whole.services
    if is_new:
        await tell_of_runs(services.intake, whole.workspace.reader)
    async with whole.living(), keeping(keeper):
        ready = first_steps(place, listening, sample=sample)
        ending = stop_deadline(runtime, log, metrics)
        app = make_app(services)
        await serve(app, listening, log, ready, services.stopping, deadline=ending)
