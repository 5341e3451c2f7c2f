"""A workspace with all that changes it, in process, and an engine that reads it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arco.catalog.change import change, ensure_default
from arco.catalog.committer import Committer
from arco.catalog.ddl import (
    ColumnSpec,
    CreateCatalog,
    CreateSchema,
    CreateTable,
    Ddl,
    SchemaName,
    TableName,
)
from arco.catalog.lease import Lease
from arco.catalog.model import TableFormat
from arco.catalog.pending_request import ChangeResult
from arco.catalog.reader import SnapshotReader
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.core.runtime import Runtime, system_runtime
from arco.core.scope import Scope
from arco.ledger.writer import LedgerWriter
from arco.query.engine import SqlEngine
from arco.query.limits import QueryLimits
from arco.storage.address import parse_address
from arco.storage.backend import Backend
from arco.storage.open import open_backend
from arco.storage.roles import Role
from arco.storage.store import Store

ACTOR = "user:ada"


@dataclass(frozen=True)
class Workspace:
    """Everything of one workspace."""

    backend: Backend
    runtime: Runtime
    committer: Committer
    compactor: CatalogCompactor
    engine: SqlEngine
    root: Path | None

    def store(self, role: Role) -> Store:
        return Store(self.backend, self.runtime, scope=Scope(), role=role)

    def reader(self) -> SnapshotReader:
        """A reader that knows nothing yet."""
        return SnapshotReader(self.store(Role.READER))

    async def do(self, request: Ddl, actor: str = ACTOR) -> ChangeResult:
        return await change(self.committer, request, actor)

    async def ask(self, sql: str, as_of: str | None = None) -> list[dict[str, Any]]:
        table = await self.engine.query(sql, as_of=as_of)
        rows: list[dict[str, Any]] = table.to_pylist(maps_as_pydicts="strict")
        return rows

    async def column(self, sql: str, as_of: str | None = None) -> list[Any]:
        """The first column of a result."""
        return [next(iter(row.values())) for row in await self.ask(sql, as_of)]

    async def catalog(self, name: str) -> ChangeResult:
        return await self.do(CreateCatalog(name=name))

    async def schema(self, *path: str, catalog: str = "default") -> ChangeResult:
        return await self.do(CreateSchema(catalog=catalog, parent=path[:-1], name=path[-1]))

    async def table(self, *path: str, catalog: str = "default", **columns: str) -> ChangeResult:
        specs = tuple(ColumnSpec(name=name, data_type=kind) for name, kind in columns.items())
        return await self.do(
            CreateTable(
                schema=SchemaName(catalog, path[:-1]),
                name=path[-1],
                format=TableFormat.PARQUET,
                properties={"made": "here"},
                columns=specs,
            )
        )


def table_name(*path: str, catalog: str = "default") -> TableName:
    return TableName(catalog, path[:-1], path[-1])


@asynccontextmanager
async def workspace(
    root: Path | None = None, *, limits: QueryLimits | None = None
) -> AsyncIterator[Workspace]:
    """A fresh workspace with the catalog `default`, in memory or below a directory."""
    runtime = system_runtime()
    address = parse_address("memory://" if root is None else str(root))
    backend = open_backend(address, runtime, fsync=False)

    def store(role: Role) -> Store:
        return Store(backend, runtime, scope=Scope(), role=role)

    api = store(Role.API)
    compactor = CatalogCompactor(store(Role.COMPACTOR))
    committer = Committer(
        SnapshotReader(api),
        LedgerWriter(api, "catalog"),
        compactor,
        Lease(api, "catalog", holder="test"),
    )
    # The engine has a reader of its own: it sees what is published, and nothing of the writer's memory.
    engine = SqlEngine(SnapshotReader(store(Role.READER)), limits=limits)
    made = Workspace(backend, runtime, committer, compactor, engine, root)
    try:
        await ensure_default(committer)
        yield made
    finally:
        await engine.close()
        await committer.close()
        await compactor.close()
