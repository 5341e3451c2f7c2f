"""An Iceberg catalog on its own store, and API processes whose connections to the store can fail.

Everything is the real thing but the store's answers. A process dies at a request by never coming back from
it; whatever it was about to do does not happen.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from arco.api.iceberg.errors import error_of
from arco.catalog.committer import Committer
from arco.catalog.compactor_port import PublishedCommit, SyncCompact
from arco.catalog.decision import WorkspaceRules
from arco.catalog.format_router import FormatRouter
from arco.catalog.lease import Lease
from arco.catalog.model import TableFormat
from arco.catalog.pending_request import Caller
from arco.catalog.reader import SnapshotReader
from arco.core import json
from arco.core.errors import ArcoError, Invalid, NoSuchTable, Unavailable
from arco.core.json import Json
from arco.events.table import DOMAIN as EVENTS
from arco.events.table import IcebergCommitted
from arco.fold.tier1 import DOMAIN
from arco.iceberg.context import IcebergContext
from arco.iceberg.drop import UndropWork
from arco.iceberg.files import TableFiles
from arco.iceberg.idempotency import OperationResult, run_once
from arco.iceberg.loaded_metadata import LoadedMetadata
from arco.iceberg.location import Locations
from arco.iceberg.pointer import Pointer, pointer_of
from arco.iceberg.service import Iceberg, open_iceberg
from arco.iceberg.wire import (
    CommitTableRequest,
    CommitTransactionRequest,
    CreateNamespaceRequest,
    CreateTableRequest,
    Identifier,
    RegisterTableRequest,
    RenameRequest,
)
from arco.ledger.envelope import Envelope
from arco.ledger.idempotency import Idempotency
from arco.ledger.segment import decode_event, find_segment, parse_segment_key
from arco.ledger.writer import LedgerWriter
from arco.storage.backend import Backend
from arco.storage.entry import Entry
from arco.storage.external_location import ExternalLocation
from arco.storage.retry import RetryingBackend
from arco.storage.roles import Role
from tests.catalog.catalog_setup import (
    ANN,
    IMPATIENT,
    SCOPE,
    ApiProcess,
    CatalogSetup,
    CompactorChannel,
    WallClock,
    started,
)
from tests.catalog.catalog_setup import arrives as arrives_there
from tests.catalog.catalog_setup import open_setup as open_catalog
from tests.iceberg.engine.sample_metadata import ORDERS, update
from tests.storage.interposed import Interposed
from tests.stores import open_bench

T = TypeVar("T")

CATALOG = "default"
NS = ("s",)
ELSEWHERE = "s3://elsewhere/tables/"

POINTERS = "iceberg_pointers/"
OUTCOME = "/outcome.json"
KEYS = "_catalog/idempotency/"
MANIFESTS = f"manifests/{DOMAIN}/"

Step = Callable[[], Awaitable[object]]


@dataclass
class _Rule:
    """What happens to requests of one kind, before or after the store has seen them."""

    verb: str
    part: str
    is_after: bool
    step: Step
    times: int

    def fits(self, verb: str, key: str, *, is_after: bool) -> bool:
        same = verb.startswith(self.verb) and self.part in key and is_after is self.is_after
        return same and self.times > 0


class StoreConnection:
    """The way of one process to the store."""

    def __init__(self, backend: Backend) -> None:
        self.backend = Interposed(backend, before=self._before, after=self._after)
        self.seen: list[tuple[str, str]] = []
        self.is_dead = False
        self.died = asyncio.Event()
        self._rules: list[_Rule] = []

    def before(self, verb: str, part: str, step: Step, *, times: int = 1) -> None:
        """Something happens first, when the next such request is on its way."""
        self._rules.append(_Rule(verb, part, is_after=False, step=step, times=times))

    def after(self, verb: str, part: str, step: Step, *, times: int = 1) -> None:
        """Something happens before the answer comes back."""
        self._rules.append(_Rule(verb, part, is_after=True, step=step, times=times))

    def fail(self, verb: str, part: str, problem: Exception, *, times: int = 1_000_000) -> None:
        """Such requests do not reach the store."""

        async def step() -> None:
            raise problem

        self.before(verb, part, step, times=times)

    def hide(self, part: str, verb: str = "create") -> None:
        """The next such request is carried out, but its answer, and every look at that, is lost."""

        async def step() -> None:
            self.fail("", part, Unavailable("the connection to the store is cut"))
            raise Unavailable("the answer was lost")

        self.after(verb, part, step)

    def die(self, verb: str, part: str, *, after: bool = False) -> None:
        """The process dies before such a request reaches the store, or before it hears the answer."""

        async def step() -> None:
            self.is_dead = True
            self.died.set()
            await asyncio.Event().wait()

        (self.after if after else self.before)(verb, part, step)

    def mend(self) -> None:
        """From now on everything works."""
        self._rules.clear()

    def count_requests(self, verb: str, part: str) -> int:
        """How often the store was asked for this."""
        return sum(each.startswith(verb) and part in key for each, key in self.seen)

    async def _before(self, verb: str, key: str) -> None:
        if self.is_dead:
            await asyncio.Event().wait()
        self.seen.append((verb, key))
        await self._go(verb, key, is_after=False)

    async def _after(self, verb: str, key: str) -> None:
        await self._go(verb, key, is_after=True)

    async def _go(self, verb: str, key: str, *, is_after: bool) -> None:
        for rule in list(self._rules):
            if rule.fits(verb, key, is_after=is_after):
                rule.times -= 1
                await rule.step()


@dataclass
class Api:
    """One API process."""

    connection: StoreConnection
    api_process: ApiProcess
    iceberg: Iceberg
    clock: WallClock

    @property
    def context(self) -> IcebergContext:
        return self.iceberg.context

    @property
    def changes(self) -> FormatRouter:
        return FormatRouter(
            self.context.committer, {TableFormat.ICEBERG: self.iceberg.table_format}
        )

    def caller(self, operation: str, key: str | None = None) -> Caller:
        arrived_ms = self.clock.elapsed_ms()
        key = None if key is None else key_of(key)
        return Caller(ANN, "test/1", key, operation, arrived_ms, "iceberg_rest")

    async def create(
        self, name: str, *, key: str | None = None, ns: Sequence[str] = NS, **more: Any
    ) -> LoadedMetadata:
        request = CreateTableRequest(name=name, **{"schema": ORDERS, **more})
        caller = self.caller("createTable", key)
        return await self.iceberg.tables.create(CATALOG, tuple(ns), request, caller)

    async def load(self, name: str, ns: Sequence[str] = NS) -> LoadedMetadata:
        return await self.iceberg.tables.load(CATALOG, tuple(ns), name)

    async def exists(self, name: str) -> bool:
        try:
            await self.iceberg.tables.exists(CATALOG, NS, name)
        except NoSuchTable:
            return False
        return True

    async def names(self, ns: Sequence[str] = NS) -> list[str]:
        return await self.iceberg.tables.page(CATALOG, tuple(ns), after=None, limit=None)

    async def commit(
        self,
        name: str,
        *updates: dict[str, Json],
        require: Sequence[dict[str, Json]] = (),
        key: str | None = None,
    ) -> LoadedMetadata:
        request = CommitTableRequest(requirements=tuple(require), updates=updates)
        caller = self.caller("updateTable", key)
        return await self.iceberg.tables.commit(CATALOG, NS, name, request, caller)

    async def mark(self, name: str, *marks: str, key: str | None = None) -> LoadedMetadata:
        """A commit that nothing but a missing table can refuse."""
        return await self.commit(name, marking(*marks), key=key)

    async def drop(self, name: str, *, key: str | None = None, purge: bool = False) -> None:
        caller = self.caller("dropTable", key)
        await self.iceberg.tables.drop(CATALOG, NS, name, caller, purge=purge)

    async def undrop(
        self, table_id: str, name: str | None = None, key: str | None = None
    ) -> OperationResult:
        caller = self.caller("undrop", key)
        work = UndropWork(self.context, table_id, name, caller)
        return await run_once(self.context, caller, work, [table_id, name])

    async def rename(
        self, source: str, target: str, *, key: str | None = None, to: Sequence[str] = NS
    ) -> None:
        request = RenameRequest(
            source=Identifier(namespace=NS, name=source),
            destination=Identifier(namespace=tuple(to), name=target),
        )
        await self.iceberg.tables.rename(CATALOG, request, self.caller("renameTable", key))

    async def register(
        self, name: str, location: str, *, key: str | None = None, overwrite: bool | None = None
    ) -> LoadedMetadata:
        request = RegisterTableRequest(name=name, metadata_location=location, overwrite=overwrite)
        caller = self.caller("registerTable", key)
        return await self.iceberg.tables.register(CATALOG, NS, request, caller)

    async def transact(self, *changes: CommitTableRequest, key: str | None = None) -> None:
        request = CommitTransactionRequest(table_changes=changes)
        caller = self.caller("commitTransaction", key)
        await self.iceberg.transactions.commit(CATALOG, request, caller)

    async def make_namespace(
        self, *levels: str, key: str | None = None, properties: dict[str, str] | None = None
    ) -> dict[str, str]:
        request = CreateNamespaceRequest(namespace=levels, properties=properties or {})
        caller = self.caller("createNamespace", key)
        return await self.iceberg.namespaces.create(CATALOG, request, caller)

    async def drop_namespace(self, *levels: str, key: str | None = None) -> None:
        await self.iceberg.namespaces.drop(CATALOG, levels, self.caller("dropNamespace", key))

    async def settle(self) -> None:
        """Wait for what goes on beside the answers."""
        for task in list(self.context.after_commit._running):
            await task.wait()
        await self.api_process.idempotency.close()


class IcebergSetup:
    """A catalog, and two API processes on it."""

    def __init__(self, inner: CatalogSetup, outside: Backend, root_url: str) -> None:
        self.inner = inner
        self.root_url = root_url
        self.outside = outside
        self.a = self.api()
        self.b = self.api()

    def api(self) -> Api:
        """One more API process."""
        connection, runtime = StoreConnection(self.inner.backend), self.inner.runtime
        api_process = self._open_api_process(connection)
        beyond = ExternalLocation(
            RetryingBackend(self.outside, runtime, retry=IMPATIENT), role=Role.API
        )
        files = TableFiles(api_process.store, self.root_url, {ELSEWHERE: beyond})
        locations = Locations(self.root_url, (ELSEWHERE,))
        iceberg = open_iceberg(api_process.committer, api_process.idempotency, files, locations)
        return Api(connection, api_process, iceberg, self.inner.clock)

    def _open_api_process(self, connection: StoreConnection) -> ApiProcess:
        """The parts below, with a lease that is over soon: many die here, and others wait for them."""
        store = self.inner.store(Role.API, connection.backend)
        reader, writer = SnapshotReader(store), LedgerWriter(store, DOMAIN)
        lease = Lease(store, DOMAIN, holder="test", life_ms=100)
        committer = Committer(reader, writer, self.inner.channel, lease, self.inner.rules)
        return ApiProcess(store, reader, committer, lease, Idempotency(store))

    def pass_by(self, seconds: float) -> None:
        """Let time go by."""
        self.inner.clock.pass_by(timedelta(seconds=seconds))

    async def chain(self, table_id: str) -> list[Entry]:
        """All entries of a table's pointer chain, read without a cache."""
        chain = self.api().context.pointers.chain(table_id)
        head = await chain.head()
        return await chain.history(0, head.number)

    async def pointers(self, table_id: str) -> list[Pointer]:
        return [pointer_of(entry) for entry in await self.chain(table_id)]

    async def events(self) -> list[Envelope]:
        """All events of commits, in the order of streams."""
        result = []
        for key in await self.inner.keys(f"ledger/{EVENTS}/"):
            parsed = parse_segment_key(key)
            assert parsed is not None
            segment = await find_segment(self.inner.store(Role.API), *parsed)
            assert segment is not None
            result += [decode_event(line) for line in segment.lines]
        return result

    async def reported(self, table_id: str) -> list[tuple[int, str]]:
        """The pointer numbers of one table that were reported as events, with their operations."""
        payloads = [
            json.decode(bytes(each.payload), IcebergCommitted) for each in await self.events()
        ]
        return sorted((p.pointer_number, p.operation) for p in payloads if p.table_id == table_id)

    async def stored(self) -> list[str]:
        """Everything in the store but leases and hints, which are written at any time."""
        keys = await self.inner.keys()
        return [key for key in keys if not key.startswith("locks/") and "/head." not in key]

    async def files(self, part: str = "") -> list[str]:
        """The metadata files in our warehouse."""
        return [key for key in await self.inner.keys("warehouse/") if part in key]


def open_setup(url: str = "memory://", store_url: str = "s3://bucket/") -> IcebergSetup:
    """A setup on an empty store with this URL."""
    inner = open_catalog(
        url=url, rules=WorkspaceRules(routed_formats=frozenset({TableFormat.ICEBERG}))
    )
    outside = open_bench("memory://", inner.runtime).backend
    return IcebergSetup(inner, outside, f"{store_url}{SCOPE.prefix}")


async def begun() -> IcebergSetup:
    """A setup with the namespace `s`."""
    setup = open_setup()
    await started(setup.inner)
    return setup


async def with_table(*names: str) -> tuple[IcebergSetup, list[str]]:
    """A setup with tables, and their ids."""
    setup = await begun()
    created_tables = [await setup.a.create(name) for name in names or ("t",)]
    return setup, [id_of(each) for each in created_tables]


async def dies(api: Api, work: Coroutine[Any, Any, object]) -> None:
    """Have a process work until it dies, as was arranged."""
    task = asyncio.ensure_future(work)
    death = asyncio.ensure_future(api.connection.died.wait())
    await asyncio.wait({task, death}, return_when=asyncio.FIRST_COMPLETED, timeout=10)
    if not api.connection.is_dead:
        death.cancel()
        raise AssertionError(f"it lives: {task!r}")
    task.cancel()
    await asyncio.wait({task})


async def dies_at_the_compactor(
    setup: IcebergSetup, api: Api, work: Coroutine[Any, Any, object], *, arrives: bool, nth: int = 1
) -> None:
    """A process is gone when its nth change of the catalog is on its way, or just after it was made."""

    async def handle(channel: CompactorChannel, call: SyncCompact) -> PublishedCommit:
        if arrives:
            await channel.inner.sync_compact(call)
        api.connection.is_dead = True
        api.connection.died.set()
        await asyncio.Event().wait()
        raise AssertionError("the process was killed here")

    setup.inner.channel.next(*[arrives_there] * (nth - 1), handle)
    await dies(api, work)


class Refusal(NamedTuple):
    """A refusal as an Iceberg client receives it."""

    status: int
    kind: str
    message: str


def refusal_of(error: ArcoError) -> Refusal:
    """An error as an Iceberg client receives it; one that is not the answer to the request is raised."""
    if not error.has_public_message:
        raise error
    model = error_of(error, "none")
    return Refusal(model.code, model.type, model.message)


async def refusal(work: Awaitable[object]) -> Refusal:
    """What a request is refused with."""
    try:
        await work
    except ArcoError as refused:
        return refusal_of(refused)
    raise AssertionError("it was not refused")


async def bad_request(work: Awaitable[object]) -> None:
    """The error of a request that is invalid at any time, of whichever layer checks it first."""
    try:
        await work
    except Invalid as refused:
        model = error_of(refused, "none")
        assert (model.code, model.type) == (400, "BadRequestException")
        return
    raise AssertionError("nothing was wrong with it")


def id_of(loaded: LoadedMetadata) -> str:
    """The id of a table that was made here, and not registered."""
    return str(loaded.metadata["table-uuid"])


def marks_of(loaded: LoadedMetadata) -> set[str]:
    """The marks that were made on a table."""
    properties = loaded.metadata["properties"]
    assert isinstance(properties, dict)
    return {key for key, value in properties.items() if value == "made"}


async def set_unreserved(setup: IcebergSetup, name: str, properties: dict[str, str]) -> None:
    """Give a table properties as a version of Arco did that reserved no paths."""
    api = setup.api()
    loaded = await api.load(name)
    table_id = id_of(loaded)
    metadata = {**loaded.metadata, "properties": properties}
    location = f"{loaded.metadata['location']}/metadata/00001-old.metadata.json"
    await api.context.files.create(location, json.encode(metadata))
    chain = api.context.pointers.chain(table_id)
    head = await chain.head()
    assert head.entry is not None
    pointer = msgspec.structs.replace(pointer_of(head.entry), metadata_location=location)
    await chain.append(head, pointer)


def marking(*marks: str) -> dict[str, Json]:
    return update("set-properties", updates=dict.fromkeys(marks, "made"))


def on(
    name: str, *updates: dict[str, Json], require: Sequence[dict[str, Json]] = ()
) -> CommitTableRequest:
    """What a transaction asks of one table."""
    identifier = Identifier(namespace=NS, name=name)
    return CommitTableRequest(requirements=tuple(require), updates=updates, identifier=identifier)


def making(name: str, uuid: str | None = None) -> CommitTableRequest:
    """The commit that ends a staged create."""
    assign = [] if uuid is None else [update("assign-uuid", uuid=uuid)]
    return on(
        name,
        *assign,
        update("upgrade-format-version", format_version=2),
        update("add-schema", schema={**ORDERS, "schema-id": 0}, last_column_id=3),
        update("set-current-schema", schema_id=-1),
        update("add-spec", spec={"spec-id": 0, "fields": []}),
        update("set-default-spec", spec_id=-1),
        update("add-sort-order", sort_order={"order-id": 0, "fields": []}),
        update("set-default-sort-order", sort_order_id=-1),
        require=[{"type": "assert-create"}],
    )


def key_of(name: str) -> str:
    """A key as clients send them, by a short name."""
    return str(UUID(int=int.from_bytes(name.encode()[:16], "big")))


def pointer_key(table_id: str, number: int) -> str:
    return f"{POINTERS}{table_id}/{number:020d}.json"
