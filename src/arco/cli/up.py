"""`arco up`: all of Arco on one machine, in one process, and Spark in a child of it."""

from typing import Annotated

from cyclopts import Parameter

from arco.cli.settings import Flag
from arco.server.listener import ListenSettings
from arco.server.locations import AllowedLocations
from arco.server.settings import (
    CompactionInterval,
    CompactionSettings,
    MetadataRetention,
    RowRetention,
    RunRetention,
    SparkSettings,
    parse_spark_idle,
)
from arco.server.workspace_address import WorkspaceAddress


def up(
    *,
    address: WorkspaceAddress | None = None,
    listen: ListenSettings | None = None,
    retention: MetadataRetention | None = None,
    runs: RunRetention | None = None,
    locations: AllowedLocations | None = None,
    spark: SparkSettings | None = None,
    spark_idle: Annotated[float, Parameter(metavar="MINUTES")] = 10,
    rows: RowRetention | None = None,
    interval: CompactionInterval | None = None,
    sample: Flag = False,
) -> None:
    """Run everything on this machine: the API, the compactor and garbage collection.

    Events are compacted on Spark, in a separate process that is started with the first of them.

    Parameters
    ----------
    address
        Where the metadata are.
    listen
        How it is reached.
    retention
        How long the past is kept.
    runs
        How long what runs leave behind is kept.
    locations
        Where tables may be stored outside the store.
    spark
        Where events are compacted.
    spark_idle
        End Spark after so long without events, to free its memory; the next event starts it again.
        0 to keep it for good.
    rows
        How long rows are kept.
    interval
        How often few events are compacted.
    sample
        Put a small sample catalog in, for a first look around.
    """
    address, listen = address or WorkspaceAddress(), listen or ListenSettings()
    retention, runs = retention or MetadataRetention(), runs or RunRetention()
    locations, spark = locations or AllowedLocations(), spark or SparkSettings()
    rows, interval = rows or RowRetention(), interval or CompactionInterval()
    # Reject invalid settings before anything is opened.
    listen.check()
    retention.span()
    runs.ms()
    locations.urls()
    spark.check()
    rows.spans()
    interval.pace()
    spark_idle_ms = parse_spark_idle(spark_idle)

    from arco.cli.advice import first_steps
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run
    from arco.server.all_in_one import ServerSettings, serve_all_in_one

    run(
        serve_all_in_one(
            address,
            listen,
            ServerSettings(listen.auth, retention, locations, runs),
            system_runtime(),
            compaction=CompactionSettings(spark, rows, interval),
            spark_idle_ms=spark_idle_ms,
            sample=sample,
            ready=first_steps(address, listen, sample=sample),
        )
    )
