"""`arco compactor`: the only writer of published state, as a service for one workspace.

The hidden command `arco tier2-worker` is its Spark child, which compacts events.
"""

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.settings import Flag
from arco.core.errors import Invalid
from arco.server.listener import AdminPort, Auth, ListenSettings, LogLevel
from arco.server.locations import AllowedLocations
from arco.server.settings import (
    CompactionInterval,
    CompactionSettings,
    MetadataRetention,
    RowRetention,
    RunRetention,
    SparkIdleTimeout,
    SparkSettings,
    check_all,
    parse_collect_every,
    require_spark,
)
from arco.server.workspace_address import WorkspaceAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from arco.compactor.domain_compactor import CycleReport
    from arco.compactor.rebuild import RebuildReport

_NOTHING_TO_REBUILD = "Nothing was compacted yet, so there is nothing to rebuild."


def compactor(
    *,
    address: WorkspaceAddress | None = None,
    host: str = "127.0.0.1",
    port: int = 8182,
    retention: MetadataRetention | None = None,
    runs: RunRetention | None = None,
    locations: AllowedLocations | None = None,
    spark: SparkSettings | None = None,
    idle: SparkIdleTimeout | None = None,
    rows: RowRetention | None = None,
    interval: CompactionInterval | None = None,
    once: Flag = False,
    rebuild: Flag = False,
    domain: Annotated[str | None, Parameter(metavar="NAME")] = None,
    collect_every: Annotated[float, Parameter(metavar="HOURS")] = 0,
    log_level: LogLevel = LogLevel.INFO,
    admin_port: AdminPort = None,
    admin_host: str = "127.0.0.1",
) -> None:
    """Run the compactor of one workspace. The service token comes from ARCO_SERVICE_TOKEN.

    It publishes changes of the catalog as the API asks for them, and folds events on Spark, in a separate
    process that is started with the first of them.

    Parameters
    ----------
    address
        The store of the workspace: ARCO_STORAGE_BUCKET, ARCO_TENANT_ID and ARCO_WORKSPACE_ID work too.
    host
        The address to listen on.
    port
        The port to listen on; 0 for any free port.
    retention
        Retention of old versions.
    runs
        Retention of plans and logs of runs, for collecting them here.
    locations
        Locations outside the store that hold tables, for collecting their garbage.
    spark
        The Spark on which events are compacted.
    idle
        How long Spark runs without events.
    rows
        Retention of rows of the event tables.
    interval
        How long small batches of events wait to be compacted.
    once
        Compact all events once, then exit (for cron). Needs no service token and no port.
    rebuild
        Rebuild the event tables from the ledger, then exit.
    domain
        With --once or --rebuild: only this domain (executions, lineage or search).
    collect_every
        Collect garbage in this process, with this interval; 0 for never. Its identity then also needs
        the role janitor.
    log_level
        Which log lines to write to stderr.
    admin_port
        A second port for health and metrics only; 0 for any free port. By default there is none.
    admin_host
        The address that the admin port listens on.
    """
    address, retention = address or WorkspaceAddress(), retention or MetadataRetention()
    runs, locations = runs or RunRetention(), locations or AllowedLocations()
    spark, rows = spark or SparkSettings(), rows or RowRetention()
    interval, idle = interval or CompactionInterval(), idle or SparkIdleTimeout()
    check_all(retention, runs, rows, interval, idle)
    if once or rebuild or domain is not None:
        _compact(address, spark, rows, once=once, rebuild=rebuild, domain=domain)
        return
    collect_every_ms = parse_collect_every(collect_every)
    listen = ListenSettings(host, port, Auth.LOCAL, log_level, admin_port, admin_host)
    check_all(listen, locations, spark)

    from arco.core.runtime import system_runtime
    from arco.core.tasks import run
    from arco.server.compactor_process import serve_compactor

    scope, store = address.scope(), address.describe()
    run(
        serve_compactor(
            address,
            listen,
            retention,
            system_runtime(),
            collect_every_ms=collect_every_ms,
            runs=runs,
            locations=locations,
            compaction=CompactionSettings(spark, rows, interval),
            spark_idle_ms=idle.ms(),
            ready=lambda url: (
                f"The compactor of Arco is ready at {url}, on {store}, "
                f"for {scope.tenant}/{scope.workspace}."
            ),
        )
    )


def _compact(
    address: WorkspaceAddress,
    spark: SparkSettings,
    rows: RowRetention,
    *,
    once: bool,
    rebuild: bool,
    domain: str | None,
) -> None:
    """Compact or rebuild in this process, and print what was done."""
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run
    from arco.server.compaction import compact_once, parse_event_domain, rebuild_domains

    domains = parse_event_domain(domain)
    if once == rebuild:
        wrong = "exclude each other" if once else "are what --domain is for"
        raise Invalid(f"--once and --rebuild {wrong}: give one of them")
    if spark.no_spark:
        raise Invalid("--no-spark leaves nothing to do: leave it out, or serve without --once")
    require_spark()
    spark.check()
    runtime, settings = system_runtime(), CompactionSettings(spark, rows)
    with _status_line() as show:
        if once:
            outcome = _compacted(run(compact_once(address, settings, domains, runtime, show=show)))
        else:
            work = rebuild_domains(
                address, settings, domains, runtime, show=show, report=_print_rebuilt
            )
            outcome = "" if run(work) else _NOTHING_TO_REBUILD
    if outcome:
        print(outcome)


@contextmanager
def _status_line() -> "Iterator[Callable[[str], None]]":
    """A function that shows what is being done, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console

    # A duplicate of stderr: while the JVM starts, stderr itself leads to /dev/null.
    with (
        os.fdopen(os.dup(sys.stderr.fileno()), "w") as terminal,
        Console(file=terminal).status("") as status,
    ):
        yield status.update


def _compacted(cycles: "list[CycleReport]") -> str:
    if not cycles:
        return "There is nothing to compact."
    events = sum(cycle.counts.events for cycle in cycles)
    late = sum(cycle.counts.late for cycle in cycles)
    quarantined = sum(cycle.counts.quarantined for cycle in cycles)
    files = sum(cycle.files for cycle in cycles)
    size_bytes = sum(cycle.size_bytes for cycle in cycles)
    return (
        f"Compacted {events:,} events in {len(cycles)} commits: {files} files, {size_bytes:,} bytes; "
        f"{late:,} events were late, {quarantined:,} are in quarantine."
    )


def _print_rebuilt(rebuilt: "RebuildReport") -> None:
    start = "nothing" if rebuilt.start < 0 else f"manifest {rebuilt.start}"
    print(
        f"Rebuilt {rebuilt.domain} from {start} as manifest {rebuilt.manifest}: "
        f"{rebuilt.counts.events:,} events, {rebuilt.files} files, {rebuilt.size_bytes:,} bytes."
    )


def worker(
    *,
    address: WorkspaceAddress | None = None,
    spark: SparkSettings | None = None,
    rows: RowRetention | None = None,
    interval: CompactionInterval | None = None,
    nice: Annotated[int, Parameter(metavar="N")] = 0,
) -> None:
    """Compact events for the parent process.

    Parameters
    ----------
    address
        The store of the workspace.
    spark
        Where the work is done.
    rows
        Retention of rows of the event tables.
    interval
        How long small batches of events wait to be compacted.
    nice
        The niceness of this process.
    """
    os.nice(nice)  # before there are threads and child processes, which inherit it
    require_spark()
    from arco.server.spark_worker import run_worker

    settings = CompactionSettings(
        spark or SparkSettings(), rows or RowRetention(), interval or CompactionInterval()
    )
    run_worker(address or WorkspaceAddress(), settings)
