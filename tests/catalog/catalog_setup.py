"""A catalog on a new store: API processes, a compactor, and a channel between them that can fail."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import msgspec

from arco.catalog.change import ChangeWork, ClaimId, Renderer, change, ensure_default
from arco.catalog.committer import Committer
from arco.catalog.compactor_port import Guard, PublishedCommit, SyncCompact, no_guard
from arco.catalog.ddl import (
    ColumnSpec,
    CreateCatalog,
    CreateSchema,
    CreateTable,
    Ddl,
    SchemaName,
    TableName,
)
from arco.catalog.decision import DEFAULT_RETENTION, WorkspaceRules, id_of
from arco.catalog.lease import Lease
from arco.catalog.manifest import Manifest, manifests_of, read_manifest
from arco.catalog.model import CatalogRow, SchemaRow, TableFormat, TableRow
from arco.catalog.pending_request import ChangeResult
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot
from arco.catalog.state_file import read_rows
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.core import json
from arco.core.clock import SystemClock
from arco.core.errors import ArcoError, Unavailable, Unknown
from arco.core.hashing import sha256_hex
from arco.core.ids import new_object_id
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.core.tasks import AsyncEvent
from arco.fold.fold import fold
from arco.fold.tier1 import DOMAIN, TIER1
from arco.ledger.claim import Answer, key_path
from arco.ledger.idempotency import Idempotency
from arco.ledger.writer import LedgerWriter
from arco.storage.backend import Backend
from arco.storage.retry import StoreRetryPolicy
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.storage.interposed import Interposed
from tests.stores import open_bench

ANN = "user:ann"
SCOPE = Scope()
IMPATIENT = StoreRetryPolicy(attempts=2, first_pause_ms=1, longest_pause_ms=2, budget_ms=500)

S = SchemaName("default", ("s",))


class WallClock(SystemClock):
    """The machine's clocks, but that the test can set them forward, and that sleep is light."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self.passed_ms = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def elapsed_ms(self) -> float:
        return super().elapsed_ms() + self.passed_ms

    async def sleep(self, ms: float) -> None:
        await super().sleep(ms / 20)

    def set_forward(self, by: timedelta) -> None:
        """Set the wall clock: no time goes by."""
        self.ahead_ms += round(by.total_seconds() * 1000)

    def pass_by(self, by: timedelta) -> None:
        """Let time go by."""
        self.set_forward(by)
        self.passed_ms += by.total_seconds() * 1000


Handling = Callable[["CompactorChannel", SyncCompact], Awaitable[PublishedCommit]]


class CompactorChannel:
    """The way to a compactor. What happens to the next calls can be arranged; then all arrive."""

    def __init__(self, inner: CatalogCompactor, runtime: Runtime) -> None:
        self.inner = inner
        self.runtime = runtime
        self.arranged: deque[Handling] = deque()
        self.always: Handling | None = None
        self.calls: list[SyncCompact] = []
        self.is_local = True  # the guard runs beside the work of the compactor
        self.published = 0  # what a handling of the test's own has seen published

    def next(self, *handling: Handling) -> None:
        self.arranged.extend(handling)

    async def sync_compact(self, call: SyncCompact, guard: Guard = no_guard) -> PublishedCommit:
        """As a compactor in another process: called once the guard has returned."""
        if not self.arranged and self.always is None and self.is_local:
            self.calls.append(call)
            return await self.inner.sync_compact(call, guard)
        await guard()
        self.calls.append(call)
        if self.arranged:
            return await self.arranged.popleft()(self, call)
        if self.always is not None:
            return await self.always(self, call)
        return await self.inner.sync_compact(call)

    async def mark_orphans(self, before: str, domain: str = DOMAIN) -> PublishedCommit:
        return await self.inner.mark_orphans(before, domain)

    async def merge(self) -> PublishedCommit | None:
        return await self.inner.merge()


async def arrives(channel: CompactorChannel, call: SyncCompact) -> PublishedCommit:
    """Nothing special."""
    return await channel.inner.sync_compact(call)


async def is_down(channel: CompactorChannel, call: SyncCompact) -> PublishedCommit:
    """The compactor does not listen, so the call has certainly no effect."""
    raise Unavailable("connection refused")


async def is_lost(channel: CompactorChannel, call: SyncCompact) -> PublishedCommit:
    """The call never arrives, and the caller cannot know."""
    raise Unknown("the connection broke")


async def answer_is_lost(channel: CompactorChannel, call: SyncCompact) -> PublishedCommit:
    await channel.inner.sync_compact(call)
    raise Unknown("the connection broke")


async def breaks(channel: CompactorChannel, call: SyncCompact) -> PublishedCommit:
    """The answer is lost by an unexpected exception."""
    await channel.inner.sync_compact(call)
    raise OSError("reset by peer")


async def arrives_twice(channel: CompactorChannel, call: SyncCompact) -> PublishedCommit:
    first = await channel.inner.sync_compact(call)
    assert await channel.inner.sync_compact(call) == first
    return first


async def arrives_twice_at_once(channel: CompactorChannel, call: SyncCompact) -> PublishedCommit:
    """As when a proxy repeats what it takes for lost; the caller gets the second answer."""
    first = channel.runtime.tasks.spawn(channel.inner.sync_compact(call))
    try:
        return await channel.inner.sync_compact(call)
    finally:
        await first.wait()


def refused(problem: ArcoError) -> Handling:
    async def handle(channel: CompactorChannel, call: SyncCompact) -> PublishedCommit:
        raise problem

    return handle


def after(step: Callable[[], Awaitable[object]]) -> Handling:
    """Something happens before the call arrives."""

    async def handle(channel: CompactorChannel, call: SyncCompact) -> PublishedCommit:
        await step()
        return await channel.inner.sync_compact(call)

    return handle


def delayed(until: AsyncEvent, then: Handling = arrives) -> Handling:
    """The call is on its way until the test lets it arrive."""

    async def handle(channel: CompactorChannel, call: SyncCompact) -> PublishedCommit:
        await until.wait()
        return await then(channel, call)

    return handle


class ChangeAnswer(msgspec.Struct, frozen=True):
    """The answer to a request that was carried out."""

    number: int
    commit_ulid: str
    operation: str
    id: str
    name: str
    commit: int
    columns: list[str]


class Plain:
    """Answers as a protocol would write them."""

    def done(self, done: ChangeResult) -> Answer:
        answer = ChangeAnswer(
            *(done.number, done.commit_ulid, done.operation, id_of(done.object.row)),
            *(done.object.row.name, done.object.commit, [each.name for each in done.columns]),
        )
        return Answer(status=200, body=msgspec.Raw(json.encode(answer)))

    def refused(self, problem: ArcoError) -> Answer:
        status = {"not_found": 404, "invalid": 400}.get(problem.code, 409)
        return Answer(status=status, body=msgspec.Raw(json.encode(problem.code)))


class Cutting:
    """A line to the store that can be cut."""

    def __init__(self, setup: "CatalogSetup", only: str = "") -> None:
        self.is_cut = False
        self._only = only
        self.backend = Interposed(setup.backend, before=self._check)

    async def _check(self, verb: str, key: str) -> None:
        if self.is_cut and self._only in key:
            raise Unavailable("the connection to the store is cut")


@dataclass
class ApiProcess:
    """One API process."""

    store: Store
    reader: SnapshotReader
    committer: Committer
    lease: Lease
    idempotency: Idempotency

    async def do(self, request: Ddl, actor: str = ANN) -> ChangeResult:
        return await change(self.committer, request, actor)

    async def do_once(
        self, request: Ddl, key: str, *, body: bytes | None = None, renderer: Renderer | None = None
    ) -> Answer:
        operation = type(request).__name__
        raw = json.encode(request) if body is None else body
        ids: dict[str, str] = {ClaimId.OBJECT: new_object_id(self.store.runtime)}
        return await self.idempotency.once(
            key_path(SCOPE, principal=ANN, api="native", operation=operation, key=key),
            sha256_hex(raw),
            ChangeWork(self.committer, lambda _: request, ANN, renderer or Plain(), ids),
            arrived_ms=self.store.runtime.clock.elapsed_ms(),
        )

    async def head(self) -> Snapshot:
        return await self.reader.head()


@dataclass
class CatalogSetup:
    """A catalog, and the processes that work on it."""

    backend: Backend
    runtime: Runtime
    clock: WallClock
    compactor: CatalogCompactor
    channel: CompactorChannel
    api: ApiProcess
    rules: WorkspaceRules
    api_processes: list[ApiProcess] = field(default_factory=list)

    def store(self, role: Role, backend: Backend | None = None) -> Store:
        return Store(backend or self.backend, self.runtime, scope=SCOPE, role=role, retry=IMPATIENT)

    def api_process(
        self, channel: CompactorChannel | None = None, *, backend: Backend | None = None
    ) -> ApiProcess:
        """One more API process."""
        api_process = _open_api_process(
            self.store(Role.API, backend), channel or self.channel, self.rules
        )
        self.api_processes.append(api_process)
        return api_process

    async def do(self, *requests: Ddl) -> ChangeResult:
        """Carry requests out one after the other; the last one's answer."""
        done = [await self.api.do(request) for request in requests]
        return done[-1]

    async def schema(self, *path: str, catalog: str = "default") -> SchemaRow:
        done = await self.do(CreateSchema(catalog=catalog, parent=path[:-1], name=path[-1]))
        assert isinstance(done.object.row, SchemaRow)
        return done.object.row

    async def table(
        self, name: str, *columns: str, schema: SchemaName = S, location: str | None = None
    ) -> TableRow:
        request = new_table(name, *columns, schema=schema)
        done = await self.do(msgspec.structs.replace(request, location=location))
        return as_table(done)

    async def head(self) -> Snapshot:
        return await self.api.head()

    def cold(self) -> SnapshotReader:
        """A reader without cached state, in the role that may only read."""
        return SnapshotReader(self.store(Role.READER))

    async def manifests(self) -> list[Manifest]:
        chain = manifests_of(self.store(Role.READER), DOMAIN)
        head = await chain.head()
        return [read_manifest(entry) for entry in await chain.history(0, head.number)]

    async def keys(self, prefix: str = "") -> list[str]:
        """What is in the store."""
        below = SCOPE.prefix + prefix
        return [meta.key.removeprefix(SCOPE.prefix) async for meta in self.backend.list(below)]

    async def close(self) -> None:
        for api_process in (self.api, *self.api_processes):
            await api_process.idempotency.close()
            await api_process.committer.close()
        await self.compactor.close()


def open_setup(
    backend: Backend | None = None,
    *,
    url: str = "memory://",
    retention: timedelta = DEFAULT_RETENTION,
    rules: WorkspaceRules | None = None,
) -> CatalogSetup:
    """A setup on an empty store, or on one that is there already."""
    clock = WallClock()
    runtime = open_runtime(clock)
    backend = backend or open_bench(url, runtime).backend
    stores = {
        role: Store(backend, runtime, scope=SCOPE, role=role, retry=IMPATIENT)
        for role in (Role.API, Role.COMPACTOR)
    }
    rules = replace(rules or WorkspaceRules(), retention=retention)
    compactor = CatalogCompactor(stores[Role.COMPACTOR], retention=retention)
    channel = CompactorChannel(compactor, runtime)
    api = _open_api_process(stores[Role.API], channel, rules)
    return CatalogSetup(backend, runtime, clock, compactor, channel, api, rules)


async def started(setup: CatalogSetup | None = None) -> CatalogSetup:
    """A setup with the catalog `default` and the schema `s`."""
    setup = setup or open_setup()
    await ensure_default(setup.api.committer)
    await setup.schema("s")
    return setup


def open_runtime(clock: WallClock) -> Runtime:
    from arco.core.runtime import system_runtime

    return replace(system_runtime(), clock=clock)


def _open_api_process(store: Store, channel: CompactorChannel, rules: WorkspaceRules) -> ApiProcess:
    reader = SnapshotReader(store)
    lease = Lease(store, DOMAIN, holder="test", life_ms=600)
    committer = Committer(reader, LedgerWriter(store, DOMAIN), channel, lease, rules)
    return ApiProcess(store, reader, committer, lease, Idempotency(store))


def new_table(name: str, *columns: str, schema: SchemaName = S) -> CreateTable:
    """A request for a table; columns are written `name type`."""
    specs = tuple(spec(column) for column in columns)
    return CreateTable(schema=schema, name=name, format=TableFormat.PARQUET, columns=specs)


def spec(text: str) -> ColumnSpec:
    name, _, data_type = text.partition(" ")
    return ColumnSpec(name=name, data_type=data_type or "bigint")


def t(name: str, *schema: str, catalog: str = "default") -> TableName:
    return TableName(catalog, schema or ("s",), name)


def new_catalog(name: str) -> CreateCatalog:
    return CreateCatalog(name=name)


def as_table(done: ChangeResult) -> TableRow:
    assert isinstance(done.object.row, TableRow)
    return done.object.row


def as_catalog(done: ChangeResult) -> CatalogRow:
    assert isinstance(done.object.row, CatalogRow)
    return done.object.row


async def until(is_so: Callable[[], bool]) -> None:
    """Run all tasks until a condition holds."""
    for _ in range(2_000):
        if is_so():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it never came to that")


async def all_rows(store: Store, snapshot: Snapshot) -> dict[str, list[dict[str, object]]]:
    """Every row of a snapshot, folded from all files that it names."""
    import pyarrow as pa

    rows = {}
    for name, table in TIER1.items():
        read = [await read_rows(store, table, ref) for ref in await snapshot.files_of(table)]
        folded = fold(table, pa.concat_tables([table.schema.empty_table(), *read]))
        rows[name] = folded.to_pylist(maps_as_pydicts="strict")
    return rows


def without_marks(rows: dict[str, list[dict[str, object]]]) -> dict[str, list[dict[str, object]]]:
    """The same rows without the marks of moved tables, which no reader returns."""
    return rows | {"tables": [row for row in rows["tables"] if not row["_moved"]]}


async def names_in(snapshot: Snapshot, *path: str, catalog: str = "default") -> Sequence[str]:
    """The names of a schema's tables."""
    schema = await snapshot.schema(SchemaName(catalog, path or ("s",)))
    return [table.row.name for table in await snapshot.tables(schema.row.schema_id)]
