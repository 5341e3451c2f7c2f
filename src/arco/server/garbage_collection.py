"""Garbage collection of a process: its collectors, the janitor that runs them, and one-off collections."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from arco.catalog.decision import WorkspaceRules
from arco.catalog.reader import SnapshotReader
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.compactor.janitor import DEFAULT_EVERY_MS, Janitor
from arco.core.background import background
from arco.core.tasks import Tasks
from arco.server.locations import AllowedLocations
from arco.server.workspace import open_iceberg_catalog, open_workspace
from arco.server.workspace_address import WorkspaceAddress
from arco.storage.store import Store

if TYPE_CHECKING:
    from arco.api.http.telemetry import Log
    from arco.api.metrics import Metrics
    from arco.flow.coordinator.garbage_collection import RunGcReport
    from arco.flow.publish.gc import ParquetGarbageCollector
    from arco.iceberg.garbage_collection import TableGarbageCollector


def make_janitor(
    store: Store,
    compactor: CatalogCompactor,
    iceberg_tables: "TableGarbageCollector",
    collect_runs: Callable[[], Awaitable[object]],
    *,
    retention_ms: int,
    log: "Log",
    metrics: "Metrics",
    every_ms: int = DEFAULT_EVERY_MS,
) -> Janitor:
    """The janitor of a server: it collects domains, Iceberg and Parquet tables, and runs."""
    from arco.server.reporting import (
        failure_reporter,
        inspection_reporter,
        table_failure_reporter,
    )

    report_table = table_failure_reporter(log, metrics)
    parquet_tables = parquet_janitor(store, retention_ms=retention_ms)
    janitor = Janitor(
        store,
        compactor,
        retention_ms=retention_ms,
        every_ms=every_ms,
        on_failure=failure_reporter(log, metrics),
        on_inspection=inspection_reporter(log, metrics),
        other_collections=(
            partial(iceberg_tables.collect, on_error=report_table),
            partial(parquet_tables.collect, on_error=report_table),
            collect_runs,
        ),
    )
    metrics.health.watch_maintenance(janitor)
    return janitor


@asynccontextmanager
async def collecting_garbage(janitor: Janitor | None, tasks: Tasks) -> AsyncIterator[None]:
    """Run a janitor, if there is one, beside a block."""
    if janitor is None:
        yield
        return
    async with background(tasks, janitor.run):  # an interrupted collection is resumed by the next
        try:
            yield
        finally:
            janitor.close()


def table_janitor(
    address: WorkspaceAddress,
    locations: AllowedLocations,
    store: Store,
    *,
    metrics: "Metrics",
    retention_ms: int,
) -> "TableGarbageCollector":
    """The collector of Iceberg tables, for a process that does not serve them.

    It reads tables with the janitor's store; nothing is changed through this workspace.
    """
    workspace = open_workspace(store, CatalogCompactor(store), WorkspaceRules())
    iceberg = open_iceberg_catalog(address, locations, workspace, metrics=metrics, janitor=store)
    return iceberg.janitor(store, retention_ms=retention_ms)


def parquet_janitor(store: Store, *, retention_ms: int) -> "ParquetGarbageCollector":
    """The collector of plain Parquet tables."""
    from arco.flow.publish.gc import ParquetGarbageCollector

    return ParquetGarbageCollector(SnapshotReader(store), store, retention_ms=retention_ms)


async def collect_runs(store: Store, *, retention_ms: int, dry_run: bool = False) -> "RunGcReport":
    """Collect plans and logs of completed runs, in a process that does not serve them.

    Which runs are complete is read from the ledger with the janitor's store.
    """
    from arco.flow.coordinator.garbage_collection import RunGarbageCollector
    from arco.flow.coordinator.run_reader import SqlRunReader
    from arco.query.engine import SqlEngine

    engine = SqlEngine(SnapshotReader(store))
    try:
        janitor = RunGarbageCollector(store, SqlRunReader(engine), retention_ms=retention_ms)
        return await janitor.collect(dry_run=dry_run)
    finally:
        await engine.close()
