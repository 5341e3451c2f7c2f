"""`arco gc`: garbage collection, with the janitor's role."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from msgspec import structs

from arco.cli.settings import Flag
from arco.server.locations import AllowedLocations
from arco.server.settings import MetadataRetention, RunRetention, check_all
from arco.server.workspace_address import WorkspaceAddress

if TYPE_CHECKING:
    from arco.catalog.compactor_port import CompactorPort
    from arco.compactor.garbage_collection import GcReport
    from arco.core.runtime import Runtime
    from arco.flow.coordinator.garbage_collection import RunGcReport
    from arco.flow.publish.gc import ParquetGcReport
    from arco.iceberg.garbage_collection import TableGcReport
    from arco.storage.backend import Backend

_KINDS = ("manifests", "commits", "files", "keys", "segments", "slots", "leases")


def gc(
    *,
    address: WorkspaceAddress | None = None,
    retention: MetadataRetention | None = None,
    runs: RunRetention | None = None,
    locations: AllowedLocations | None = None,
    dry_run: Flag = False,
    compactor: Annotated[str | None, Parameter(metavar="URL", env_var="ARCO_COMPACTOR_URL")] = None,
    json: Flag = False,
) -> None:
    """Delete versions that are older than the retention, and files that no manifest names.

    Parameters
    ----------
    address
        The store of the workspace.
    retention
        Retention of old versions.
    runs
        Retention of plans and logs of runs.
    locations
        Locations outside the store that hold tables; nothing is deleted in other locations.
    dry_run
        Only report what would be deleted.
    compactor
        The compactor that publishes the mark below which unreferenced files are deleted. Without it this
        process publishes the mark if its identity may; otherwise those files stay.
    json
        Print one JSON document.
    """
    from arco.cli.output import print_document
    from arco.core.tasks import run

    address, retention = address or WorkspaceAddress(), retention or MetadataRetention()
    runs, locations = runs or RunRetention(), locations or AllowedLocations()
    check_all(retention, runs, locations)
    work = _collect(address, retention, runs, locations, compactor, dry_run=dry_run, quiet=json)
    collections, tables, parquet, ran = run(work)
    if json:
        domains = {each.domain: structs.asdict(each) for each in collections}
        collected = {"domains": domains, "tables": asdict(tables), "parquet": asdict(parquet)}
        print_document({"dry_run": dry_run, **collected, "runs": asdict(ran)})
    else:
        _print_totals(collections)
        _print_iceberg_report(tables)
        _print_parquet_report(parquet)
        _print_run_report(ran)


async def _collect(
    address: WorkspaceAddress,
    retention: MetadataRetention,
    runs: RunRetention,
    locations: AllowedLocations,
    compactor_url: str | None,
    *,
    dry_run: bool,
    quiet: bool,
) -> "tuple[list[GcReport], TableGcReport, ParquetGcReport, RunGcReport]":
    from arco.api.metrics import Metrics
    from arco.api.remote_compactor import RemoteCompactor
    from arco.cli.output import progress_bar
    from arco.compactor.domains import DOMAINS
    from arco.compactor.garbage_collection import collect_garbage
    from arco.core.errors import Unavailable
    from arco.core.runtime import system_runtime
    from arco.flow.coordinator.garbage_collection import RunGcReport
    from arco.server.garbage_collection import collect_runs, parquet_janitor, table_janitor
    from arco.server.settings import service_token
    from arco.storage.open import open_store
    from arco.storage.roles import Role

    runtime = system_runtime()
    compactor: CompactorPort | None
    backend = address.backend(runtime)
    store = await open_store(backend, runtime, role=Role.JANITOR, scope=address.scope())
    if compactor_url is None:
        compactor = await _own_compactor(address, retention, backend, runtime)
    else:
        compactor = RemoteCompactor(compactor_url, service_token())
    collections = []
    for domain in DOMAINS:
        with progress_bar(f"collecting {domain}", quiet=quiet) as progress:
            done = await collect_garbage(
                store,
                compactor,
                domain=domain,
                retention_ms=retention.ms(),
                dry_run=dry_run,
                progress=progress,
            )
        collections.append(done)
    janitor = table_janitor(
        address, locations, store, metrics=Metrics(), retention_ms=retention.ms()
    )
    tables = await janitor.collect(dry_run=dry_run)
    parquet = await parquet_janitor(store, retention_ms=retention.ms()).collect(dry_run=dry_run)
    try:
        ran = await collect_runs(store, retention_ms=runs.ms(), dry_run=dry_run)
    except Unavailable as problem:  # what was done so far is still reported
        ran = RunGcReport(dry_run=dry_run, problem=str(problem))
    return collections, tables, parquet, ran


async def _own_compactor(
    address: WorkspaceAddress, retention: MetadataRetention, backend: "Backend", runtime: "Runtime"
) -> "CompactorPort | None":
    """A compactor in this process, if its identity may publish."""
    from arco.compactor.catalog_compactor import CatalogCompactor
    from arco.core.errors import Denied
    from arco.storage.open import open_store
    from arco.storage.roles import Role

    try:
        # Opening proves that this identity can create; a janitor's own identity cannot.
        store = await open_store(backend, runtime, role=Role.COMPACTOR, scope=address.scope())
    except Denied:
        return None
    return CatalogCompactor(store, retention=retention.span())


def _print_iceberg_report(tables: "TableGcReport") -> None:
    verb = "Would delete" if tables.dry_run else "Deleted"
    print(
        f"Iceberg tables: {verb.lower()} {tables.metadata} spent metadata files, {tables.purged} files of "
        f"purged tables, {tables.receipts} receipts, {tables.numbers} old pointers."
    )
    _print_failed_tables(tables.failed)


def _print_parquet_report(parquet: "ParquetGcReport") -> None:
    if parquet.total() == 0 and not parquet.failed:
        return
    verb = "would delete" if parquet.dry_run else "deleted"
    print(
        f"Parquet tables: {verb} {parquet.files} files of {parquet.bytes:,} bytes that no version names, "
        f"{parquet.numbers} old versions."
    )
    _print_failed_tables(parquet.failed)


def _print_run_report(runs: "RunGcReport") -> None:
    if runs.problem is not None:
        print(
            f"Runs: nothing was deleted, because it is not clear which runs are over: {runs.problem}"
        )
    if runs.total() == 0:
        return
    verb = "would delete" if runs.dry_run else "deleted"
    print(
        f"Runs: {verb} {runs.plans} plans, {runs.logs} parts of logs, "
        f"{runs.leases + runs.epochs} leases, {runs.bytes:,} bytes."
    )


def _print_failed_tables(failed: list[str]) -> None:
    if failed:
        print(f"{len(failed)} tables could not be looked at: {', '.join(failed[:5])}")


def _print_totals(collections: "list[GcReport]") -> None:
    from arco.compactor.collecting_store import add_object_counts

    total = add_object_counts(each.total() for each in collections)
    verb = "Would delete" if collections[0].dry_run else "Deleted"
    print(f"{verb} {total.objects} objects, {total.bytes:,} bytes.")
    for collection in collections:
        for kind in _KINDS:
            count = getattr(collection, kind)
            if count.objects:
                label = f"{collection.domain:<10} {kind:<10}"
                print(f"  {label} {count.objects:>8} objects {count.bytes:>14,} bytes")
    kept_files = sum(each.left.objects for each in collections)
    if kept_files:
        print(
            f"{kept_files} files that no manifest names were kept: pass --compactor URL, so that the "
            "compactor can mark them."
        )
