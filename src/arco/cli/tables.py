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
from arco.storage.observed import ObservedBackend
from arco.storage.store import Store

if TYPE_CHECKING:
    from arco.api.metrics import Metrics
    from arco.core.tasks import Tasks
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
        config=_client_settings(place),
        writer=workspace.writers.of(EXECUTIONS),
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


@asynccontextmanager
async def reconciling(iceberg: Iceberg, tasks: "Tasks") -> AsyncIterator[None]:
    """A block beside which whatever was left half done is finished."""
    running = tasks.spawn(iceberg.reconciler.run())
    try:
        yield
    finally:
        iceberg.reconciler.close()
        running.cancel()  # a round may end anywhere; the next finds what it has left


def _client_settings(place: Place) -> dict[str, str]:
    """What clients need to know to reach the store, and would have to be told otherwise; no secrets."""
    address = place.address()
    if address.scheme != "s3":
        return {}
    settings = {}
    if "endpoint" in address.options:
        settings["s3.endpoint"] = address.options["endpoint"]
    if "region" in address.options:
        settings["client.region"] = settings["s3.region"] = address.options["region"]
    if address.options.get("path_style") == "true":
        settings["s3.path-style-access"] = "true"
    return settings
