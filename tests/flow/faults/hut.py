"""A workspace without any server: the real book of runs over real tables of plain files, in memory.

The book can be dropped and opened again, as when its process ends. Threads of tasks ask the catalog through
the loop that all of it runs on.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from random import Random
from typing import Any, TypeVar

from arco.catalog.ddl import CreateTable
from arco.catalog.model import TableFormat
from arco.catalog.publication import Attempt, Numbered
from arco.core.clock import Clock
from arco.core.errors import AlreadyExists
from arco.core.runtime import Runtime
from arco.events.kinds import DOMAINS
from arco.flow.publish.tables import ParquetTables
from arco.flow.publish.wire import FilesPublished, FilesStaged, TableVersionFiles
from arco.flow.run.book import RunBook
from arco.flow.run.facts import LedgerFacts
from arco.flow.run.ports import Place
from arco.flow.run.wire import RunStatus, RunView
from arco.ledger.writers import Writers
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.catalog.workshop import SCOPE, S, Workshop, as_table, open_workshop, started
from tests.flow.run.reading import LedgerReader
from tests.flow.work.scripted import HurriedClock, HurriedTasks

T = TypeVar("T")

TIMES = 20  # so much faster than the machine's does the clock of a hut go


class Hut:
    """All that a run needs but Spark."""

    def __init__(self, runtime: Runtime, shop: Workshop, store: dict[Role, Store]) -> None:
        self.runtime = runtime
        self.shop = shop
        self.tables = ParquetTables(shop.office().reader, store[Role.FLOW])
        self.ids: dict[str, str] = {}  # of tables, by their full names
        self._store = store
        self.reader = LedgerReader(store[Role.API], self.ids)
        self.book = self._new()
        self.books = 1

    @classmethod
    async def open(cls, seed: int, clock: Clock | None = None) -> "Hut":
        """A hut with nothing in it."""
        runtime = Runtime(clock or HurriedClock(TIMES), Random(seed), HurriedTasks(TIMES))
        shop = await started(open_workshop())
        store = {
            role: Store(shop.backend, runtime, scope=SCOPE, role=role)
            for role in (Role.API, Role.FLOW)
        }
        hut = cls(runtime, shop, store)
        await hut.book.begin()
        return hut

    def _new(self) -> RunBook:
        return RunBook(
            self._store[Role.FLOW],
            facts=LedgerFacts(Writers(self._store[Role.API], DOMAINS)),
            fences=self,
            versions=self,
            states=self.reader,
            runs=self.reader,
        )

    async def restart(self) -> None:
        """The process that keeps the book ends, and another one begins."""
        await self.book.close()
        self.books += 1
        self.book = self._new()
        await self.book.begin()

    async def over(self, run_id: str) -> RunView:
        """A run once it is over."""
        view = await self.book.look(run_id)
        while view.status is RunStatus.RUNNING:
            view = await self.book.look(run_id, view.number, 1_000)
        return view

    async def close(self) -> None:
        await self.book.close()
        await self.tables.close()
        await self.shop.close()

    # What the book asks of tables.

    async def place(self, table: str) -> Place | None:
        table_id = self.ids.get(table)
        if table_id is None:
            return None
        return Place(table_id, "PARQUET", await self.tables.number(table_id))

    async def fence(self, table_id: str, attempt: Attempt, since: int) -> Numbered | int:
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
                while table not in self.ids:  # noqa: ASYNC110 - whoever was faster is about to tell
                    await asyncio.sleep(0.001)
        return self.ids[table]

    async def write(self, table_id: str, path: str, body: bytes) -> None:
        """A file in the folder of a table."""
        await self._store[Role.FLOW].create(f"warehouse/{table_id}/{path}", body)

    async def read(self, table_id: str, path: str) -> bytes:
        """The same back."""
        found = await self._store[Role.FLOW].find(f"warehouse/{table_id}/{path}")
        assert found is not None
        return found


class HutLake:
    """A hut as the threads of tasks see it; every call blocks."""

    def __init__(self, hut: Hut, loop: asyncio.AbstractEventLoop) -> None:
        self._hut = hut
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
