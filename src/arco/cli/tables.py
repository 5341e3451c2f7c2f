"""Opening the Iceberg catalog of a workspace for a process that serves it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from arco.catalog.model import TableFormat
from arco.cli.locations import AllowedLocations
from arco.cli.place import Place
from arco.cli.workspace import Workspace
from arco.iceberg.files import TableFiles
from arco.iceberg.location import Locations
from arco.iceberg.service import Iceberg, open_iceberg
from arco.storage.collect import DEFAULT_RETENTION_MS
from arco.storage.observed import ObservedBackend
from arco.storage.store import Store

if TYPE_CHECKING:
    from arco.api.metrics import Metrics
    from arco.api.services import Services
    from arco.flow.publish.gc import ParquetGarbageCollector
    from arco.flow.run.collection import RunCollection
    from arco.iceberg.collection import TableJanitor
    from arco.storage.backend import Backend

ICEBERG = TableFormat.ICEBERG
EXECUTIONS = "executions"


def open_tables(
    place: Place,
    locations: AllowedLocations,
    workspace: Workspace,
    *,
    metrics: "Metrics",
    janitor: Store | None = None,
    retention_ms: int = DEFAULT_RETENTION_MS,
) -> Iceberg:
    """The Iceberg catalog; with a janitor it may also remove files that tables have given up."""
    store, root = workspace.reader.store, place.location_root()
    runtime = store.runtime

    def watched(backend: "Backend") -> "Backend":
        return ObservedBackend(backend, metrics, runtime.clock)

    outside = locations.open(runtime, fsync=not place.no_fsync, watched=watched)
    return open_iceberg(
        workspace.committer,
        workspace.idempotency,
        TableFiles(store, root, outside, janitor=janitor),
        Locations(root, locations.urls()),
        config=client_settings(place),
        writer=workspace.writers.of(EXECUTIONS),
        retention_ms=retention_ms,
    )


def table_janitor(
    place: Place,
    locations: AllowedLocations,
    store: Store,
    *,
    metrics: "Metrics",
    retention_ms: int,
) -> "TableJanitor":
    """Who collects what tables leave behind, for a process that does not serve them.

    It reads tables with the janitor's own handle; nothing is changed through this workspace.
    """
    from arco.catalog.decision import Rules
    from arco.cli.workspace import open_workspace
    from arco.compactor.compactor import Compactor

    workspace = open_workspace(store, Compactor(store), Rules())
    iceberg = open_tables(place, locations, workspace, metrics=metrics, janitor=store)
    return iceberg.janitor(store, retention_ms=retention_ms)


def parquet_janitor(store: Store, *, retention_ms: int) -> "ParquetGarbageCollector":
    """Who collects what plain Parquet tables leave behind."""
    from arco.catalog.reader import SnapshotReader
    from arco.flow.publish.gc import ParquetGarbageCollector

    return ParquetGarbageCollector(SnapshotReader(store), store, retention_ms=retention_ms)


async def collect_runs(
    store: Store, *, retention_ms: int, dry_run: bool = False
) -> "RunCollection":
    """Collect what runs leave behind, in a process that does not serve them.

    The ledger is asked with the janitor's own handle which of them are not over.
    """
    from arco.catalog.reader import SnapshotReader
    from arco.flow.read.run_reader import SqlRunReader
    from arco.flow.run.collection import RunJanitor
    from arco.query.engine import SqlEngine

    engine = SqlEngine(SnapshotReader(store))
    try:
        janitor = RunJanitor(store, SqlRunReader(engine), retention_ms=retention_ms)
        return await janitor.collect(dry_run=dry_run)
    finally:
        await engine.close()


@asynccontextmanager
async def reconciling(iceberg: Iceberg, services: "Services") -> AsyncIterator[None]:
    """A block beside which whatever was left half done is finished."""
    from arco.cli.reconciler_report import ReconcilerReport

    report = ReconcilerReport(services.log, services.metrics, services.runtime.clock)
    iceberg.reconciler.observe(report)
    running = services.runtime.tasks.spawn(iceberg.reconciler.run())
    try:
        yield
    finally:
        iceberg.reconciler.close()
        running.cancel()  # a round may end anywhere; the next finds what it has left


def client_settings(place: Place) -> dict[str, str]:
    """What clients need to know to reach the store, and would have to be told otherwise; no secrets."""
    address = place.address()
    if address.scheme != "s3":
        return {}
    settings = {}
    if "endpoint" in address.options:
        settings["s3.endpoint"] = address.options["endpoint"]
    if "region" in address.options:
        settings["client.region"] = settings["s3.region"] = address.options["region"]
    # As we reach it ourselves. Only of AWS every client knows that each bucket has a name of its own.
    if address.options.get("path_style", str("endpoint" in address.options).lower()) == "true":
        settings["s3.path-style-access"] = "true"
    return settings
