"""A plain Parquet table on a store of its own, and API processes whose lines to the store can fail."""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

from arco.catalog.ddl import CreateTable
from arco.catalog.model import TableFormat
from arco.catalog.publication import DispatchedAttempt
from arco.flow.publish.pointer import Files, ParquetPointer, parquet_pointer_of, pointers_of
from arco.flow.publish.tables import ParquetTables
from arco.flow.publish.wire import FilesPublished, FilesStaged, StagedFile, TableVersionFiles
from arco.storage.backend import Backend, Meta
from arco.storage.chain import SHORTEST_RETENTION_MS
from arco.storage.roles import Role
from tests.catalog.catalog_setup import CatalogSetup, S, as_table, open_setup, started
from tests.iceberg.iceberg_setup import StoreConnection
from tests.storage.interposed import Interposed

ROOT = "s3://bucket/"
TASK = "run/s.t@ds=1"


class Aging(Interposed):
    """A store in which what is there becomes old at a word."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._backend = inner
        self._old: set[str] = set()

    async def grow_old(self, part: str = "") -> None:
        """From now on, what is there is older than any retention."""
        keys = [meta.key async for meta in self._backend.list("")]
        # But for the object whose stamp is the store's clock.
        self._old |= {key for key in keys if part in key and "/_probe/" not in key}

    async def head(self, key: str) -> Meta:
        return self._aged(await super().head(key))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Meta]:
        async for meta in super().list(prefix, after):
            yield self._aged(meta)

    def _aged(self, meta: Meta) -> Meta:
        if meta.key not in self._old:
            return meta
        return replace(meta, modified_ms=meta.modified_ms - 2 * SHORTEST_RETENTION_MS)


@dataclass
class Process:
    """One API process."""

    connection: StoreConnection
    tables: ParquetTables


@dataclass
class Bench:
    """A table, and who works on it."""

    setup: CatalogSetup
    aging: Aging
    table_id: str

    def process(self) -> Process:
        """One more API process."""
        connection = StoreConnection(self.aging)
        reader = self.setup.api_process(backend=connection.backend).reader
        store = self.setup.store(Role.FLOW, connection.backend)
        return Process(connection, ParquetTables(reader, store, location_root=ROOT))

    def attempt(self, name: str, number: int = -1, **more: Any) -> DispatchedAttempt:
        """An attempt that was dispatched when a number was the head, just now."""
        wanted: dict[str, Any] = {"task": TASK, "partitions": ("ds=1",), **more}
        wanted.setdefault("dispatched_at_ms", self.setup.clock.now_ms())
        return DispatchedAttempt(attempt_id=id_of(name), dispatched_at_number=number, **wanted)

    async def stage(
        self,
        attempt: DispatchedAttempt,
        *keys: str,
        mode: str = "replace_partition",
        rows: int = 10,
    ) -> FilesStaged:
        """Files of an attempt, one for each partition, by default for those that it holds."""
        store = self.setup.store(Role.FLOW)
        files: Files = {}
        for number, key in enumerate(keys or attempt.partitions):
            path = f"data/{attempt.attempt_id}/{key or 'all'}/part-{number}.parquet"
            body = path.encode()
            await store.create(f"warehouse/{self.table_id}/{path}", body)
            files[key] = (StagedFile(path=path, rows=rows, bytes=len(body)),)
        return FilesStaged(table_id=self.table_id, attempt=attempt, mode=mode, files=files)

    async def publish(self, attempt: DispatchedAttempt, *keys: str, **more: Any) -> FilesPublished:
        return await self.process().tables.publish(await self.stage(attempt, *keys, **more))

    async def now(self) -> TableVersionFiles:
        """The table as a process with an empty cache reads it."""
        return await self.process().tables.files(self.table_id)

    async def pointers(self) -> list[ParquetPointer]:
        chain = pointers_of(self.setup.store(Role.FLOW, self.aging), self.table_id)
        head = await chain.head()
        floor = await chain.floor()
        return [parquet_pointer_of(each) for each in await chain.history(floor, head.number)]

    async def data(self) -> set[str]:
        """The files in the table's folder."""
        folder = f"warehouse/{self.table_id}/"
        return {key.removeprefix(folder) for key in await self.setup.keys(folder)}

    def key(self, number: int) -> str:
        return f"parquet_pointers/{self.table_id}/{number:020d}.json"


def id_of(name: str) -> str:
    """The id of an attempt, by a short name."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]


async def with_table(format_: TableFormat = TableFormat.PARQUET) -> Bench:
    """A bench with one table that has no version yet."""
    setup = await started(open_setup())
    done = await setup.do(CreateTable(schema=S, name="t", format=format_))
    return Bench(setup, Aging(setup.backend), as_table(done).table_id)
