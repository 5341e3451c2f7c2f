"""The state after a disturbed run: all rows of all tables, and runs that have not ended.

Tables are read by other programs: Iceberg's by PyIceberg, plain files by Arrow.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog

from arco.client.task_catalog import HttpTaskCatalog
from arco.core.runtime import Runtime, system_runtime
from arco.flow.coordinator.coordinator import RunCoordinator
from arco.flow.coordinator.messages import LEASE_MS, RunStatus
from arco.flow.worker.ports import CatalogTable
from arco.server.embedded import EmbeddedServer, embedded_server
from arco.server.workspace_address import WorkspaceAddress as Root
from tests.flow.faults.pipeline import MADE, TOTAL, Row, Rows

T = TypeVar("T")

ENDED = {"SUCCESS", "FAILED", "SKIPPED", "BLOCKED", "CANCELLED"}

_COLUMNS = ["ds", "id", "amount", "origin"]
_FILES = "pyiceberg.io.pyarrow.PyArrowFileIO"


def rows_at(root: Path, tables: Iterable[str] = (*MADE, TOTAL)) -> Rows:
    """All rows of tables that are there, in order."""

    async def look(server: EmbeddedServer, runtime: Runtime) -> Rows:
        return await asyncio.to_thread(read_rows, server.url, tuple(tables), runtime)

    return with_arco(root, look)


def read_rows(url: str, tables: Iterable[str], runtime: Runtime) -> Rows:
    """The same of an Arco that runs."""
    catalog = HttpTaskCatalog(url, runtime)
    try:
        tables_by_name = {table: catalog.find(f"default.{table}") for table in tables}
        return {
            name: _of_iceberg(url, name) if table.format == "iceberg" else _of_files(catalog, table)
            for name, table in tables_by_name.items()
            if table is not None
        }
    finally:
        catalog.close()


def left_over(root: Path, runs: Iterable[str]) -> dict[str, str]:
    """Runs and attempts that have not ended after their leases; the next server of the root ends them.

    Waits for as long as a lease lasts, and no longer than it has to.
    """

    async def look(server: EmbeddedServer, runtime: Runtime) -> dict[str, str]:
        ends = runtime.clock.elapsed_ms() + 3 * LEASE_MS
        left: dict[str, str] = {}
        while runtime.clock.elapsed_ms() < ends:
            views = [await server.coordinator.get_run(each) for each in runs]
            left = {
                each.run_id: each.status.value
                for each in views
                if each.status in (RunStatus.PENDING, RunStatus.RUNNING)
            }
            assert isinstance(server.coordinator, RunCoordinator)
            if server.coordinator.at_work:
                left["attempts"] = str(server.coordinator.at_work)
            if not left:
                break
            await runtime.clock.sleep(200)
        return left

    return with_arco(root, look)


def with_arco(root: Path, look: Callable[[EmbeddedServer, Runtime], Coroutine[Any, Any, T]]) -> T:
    async def within() -> T:
        runtime = system_runtime()
        async with embedded_server(Root(root=str(root), no_fsync=True), runtime) as server:
            return await look(server, runtime)

    return asyncio.run(within())


def _of_iceberg(url: str, table: str) -> list[Row]:
    catalog = load_catalog(
        "arco", type="rest", uri=f"{url}/iceberg", warehouse="default", **{"py-io-impl": _FILES}
    )
    rows = catalog.load_table(table).scan(selected_fields=tuple(_COLUMNS)).to_arrow()
    return _sorted(rows.to_pylist())


def _of_files(catalog: HttpTaskCatalog, table: CatalogTable) -> list[Row]:
    now = catalog.files(table.table_id)
    place = now.location.removeprefix("file://").rstrip("/")
    paths = [f"{place}/{file.path}" for files in now.files.values() for file in files]
    read = [pq.ParquetFile(each).read(columns=_COLUMNS).to_pylist() for each in paths]
    return _sorted([row for rows in read for row in rows])


def _sorted(rows: list[dict[str, object]]) -> list[Row]:
    return sorted(tuple(row[name] for name in _COLUMNS) for row in rows)  # type: ignore[misc]
