"""A workspace without a server: the real coordinator over real tables of plain files, in memory.

The coordinator can be closed and opened again, as when its process ends. Threads of tasks call the catalog
on the event loop of the workspace.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from random import Random
from typing import Any, TypeVar

from arco.catalog.ddl import CreateTable
from arco.catalog.model import TableFormat
from arco.catalog.publication import DispatchedAttempt, NumberedPublication
from arco.core.clock import Clock
from arco.core.errors import AlreadyExists
from arco.core.runtime import Runtime
from arco.events.registry import DOMAINS
from arco.flow.coordinator.coordinator import RunCoordinator
from arco.flow.coordinator.event_writer import LedgerEventWriter
from arco.flow.coordinator.messages import RunStatus, RunView
from arco.flow.coordinator.ports import TableHead
from arco.flow.publish.tables import ParquetTables
from arco.flow.publish.wire import FilesPublished, FilesStaged, TableVersionFiles
from arco.ledger.writer import DomainWriters
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.catalog.catalog_setup import SCOPE, CatalogSetup, S, as_table, open_setup, started
from tests.flow.coordinator.ledger_reader import LedgerReader
from tests.flow.worker.scripted_executor import FastClock, FastTasks

T = TypeVar("T")

TIMES = 20  # the clock of a workspace is so much faster than the machine's


class Workspace:
    """All that a run needs but Spark."""

    def __init__(self, runtime: Runtime, shop: CatalogSetup, store: dict[Role, Store]) -> None:
        self.runtime = runtime
        self.shop = shop
        self.tables = ParquetTables(shop.api_process().reader, store[Role.FLOW])
        self.ids: dict[str, str] = {}  # of tables, by their full names
        self._store = store
        self.reader = LedgerReader(store[Role.API], self.ids)
        self.coordinator = self._new()
        self.starts = 1

    @classmethod
    async def open(cls, seed: int, clock: Clock | None = None) -> "Workspace":
        """An empty workspace."""
        runtime = Runtime(clock or FastClock(TIMES), Random(seed), FastTasks(TIMES))
        shop = await started(open_setup())
        store = {
            role: Store(shop.backend, runtime, scope=SCOPE, role=role)
            for role in (Role.API, Role.FLOW)
        }
        workspace = cls(runtime, shop, store)
        await workspace.coordinator.begin()
        return workspace

    def _new(self) -> RunCoordinator:
        return RunCoordinator(
            self._store[Role.FLOW],
            events=LedgerEventWriter(DomainWriters(self._store[Role.API], DOMAINS)),
            fences=self,
            versions=self,
            states=self.reader,
            runs=self.reader,
        )

    async def restart(self) -> None:
        """The process of the coordinator ends, and another one starts."""
        await self.coordinator.close()
        self.starts += 1
        self.coordinator = self._new()
        await self.coordinator.begin()

    async def over(self, run_id: str) -> RunView:
        """A run once it is over."""
        view = await self.coordinator.get_run(run_id)
        while view.status is RunStatus.RUNNING:
            view = await self.coordinator.get_run(run_id, view.number, 1_000)
        return view

    async def close(self) -> None:
        await self.coordinator.close()
        await self.tables.close()
        await self.shop.close()

    # Ports of the coordinator.

    async def head(self, table: str) -> TableHead | None:
        table_id = self.ids.get(table)
        if table_id is None:
            return None
        return TableHead(table_id, "PARQUET", await self.tables.number(table_id))

    async def fence(
        self, table_id: str, attempt: DispatchedAttempt, since: int
    ) -> NumberedPublication | int:
        return await self.tables.fence(table_id, attempt, since)

    async def versions(
        self, table_id: str, table_format: str, /
    ) -> tuple[str | None, Mapping[str, str]]:
        return await self.tables.versions(table_id)

    # What attempts ask of it.

    async def make(self, table: str) -> str:
        """The id of a table that is there once this returns."""
        if table not in self.ids:
            name = table.rpartition(".")[2]
            try:
                done = await self.shop.do(
                    CreateTable(schema=S, name=name, format=TableFormat.PARQUET)
                )
                self.ids[table] = as_table(done).table_id
            except AlreadyExists:
                while table not in self.ids:  # noqa: ASYNC110 - another task has created it
                    await asyncio.sleep(0.001)
        return self.ids[table]

    async def write(self, table_id: str, path: str, body: bytes) -> None:
        """A file in the folder of a table."""
        await self._store[Role.FLOW].create(f"warehouse/{table_id}/{path}", body)

    async def read(self, table_id: str, path: str) -> bytes:
        """The same back."""
        body = await self._store[Role.FLOW].find(f"warehouse/{table_id}/{path}")
        assert body is not None
        return body


class WorkspaceLake:
    """A workspace as the threads of tasks see it; every call blocks."""

    def __init__(self, workspace: Workspace, loop: asyncio.AbstractEventLoop) -> None:
        self._hut = workspace
        self._loop = loop

    def make(self, table: str) -> str:
        return self._ask(self._hut.make(table))

    def find(self, table: str) -> str | None:
        return self._hut.ids.get(table)

    def write(self, table_id: str, path: str, body: bytes) -> None:
        self._ask(self._hut.write(table_id, path, body))

    def read(self, table_id: str, path: str) -> bytes:
        return self._ask(self._hut.read(table_id, path))

    def files(self, table_id: str) -> TableVersionFiles:
        return self._ask(self._hut.tables.files(table_id))

    def publish(self, staged: FilesStaged) -> FilesPublished:
        return self._ask(self._hut.tables.publish(staged))

    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
