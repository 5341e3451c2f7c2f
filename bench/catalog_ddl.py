"""CREATE TABLE on a small and on a large catalog: its time, its bytes, its round trips, many at once."""

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from arco.catalog.change import ChangeWork, ClaimId, change
from arco.catalog.ddl import ColumnSpec, CreateTable, SchemaName
from arco.catalog.decision import WorkspaceRules
from arco.catalog.model import TableFormat
from arco.catalog.pending_request import ChangeResult
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.core.errors import ArcoError
from arco.core.hashing import sha256_hex
from arco.core.ids import new_object_id, new_ulid
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.ledger.claim import Answer, key_path
from arco.server.workspace import Workspace, open_workspace
from arco.storage.local import LocalBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from bench.figure import Figure, percentile
from bench.fill import CATALOG, Shape, filled, schema_name
from bench.spy import SpyBackend, round_trips

SMALL = Shape(tables=1_000, schemas=10)
LARGE = Shape(tables=100_000, schemas=1_000)

_TIMES = 80
_CLIENTS = 16
_SECONDS = 4.0
_LATENCY_MS = 100.0
_LONGEST_MS = 12  # one CREATE TABLE on a local disk, p50
_ACTOR = "user:bench"
_COLUMNS = tuple(ColumnSpec(name=f"column_{n}", data_type="bigint") for n in range(10))


@dataclass(frozen=True)
class _Cost:
    """What one DDL or one merge took."""

    ms: float
    written_bytes: int


class _Catalog:
    """A catalog whose store is spied on, in the hands of one process."""

    def __init__(self, runtime: Runtime, place: Path) -> None:
        self.spy = SpyBackend(LocalBackend(place, runtime), runtime)
        self.store = Store(self.spy, runtime, scope=Scope(), role=Role.API)
        publishing = Store(self.spy, runtime, scope=Scope(), role=Role.COMPACTOR)
        self._runtime = runtime
        self._compactor = CatalogCompactor(publishing)
        self._workspace: Workspace = open_workspace(self.store, self._compactor, WorkspaceRules())
        self._made = 0
        self.ddls: list[_Cost] = []
        self.merges: list[_Cost] = []

    async def create_table(self, schema: int | None = None) -> None:
        """One DDL, without a key; in one schema after the other, if none is given."""
        await change(self._workspace.committer, self._request(schema), _ACTOR)

    async def create_table_once(self, schema: int) -> None:
        """One DDL with a new key."""
        path = key_path(
            self.store.scope,
            principal=_ACTOR,
            api="v1",
            operation="create_table",
            key=new_ulid(self._runtime),
        )
        request = self._request(schema)
        ids: dict[str, str] = {ClaimId.OBJECT: new_object_id(self._runtime)}
        await self._workspace.idempotency.once(
            path,
            sha256_hex(path.encode()),
            ChangeWork(self._workspace.committer, lambda _: request, _ACTOR, _Plain(), ids),
            arrived_ms=self._runtime.clock.elapsed_ms(),
        )

    async def measure(self) -> None:
        """One DDL, and apart from it the merge that it may have set off."""
        began = self._runtime.clock.elapsed_ms()
        await self.create_table()
        answered = self._runtime.clock.elapsed_ms()
        self.ddls.append(self._cost(began, answered))
        if await self.settle():
            self.merges.append(self._cost(answered, self._runtime.clock.elapsed_ms()))

    async def round_trips(self, schema: int, *, keyed: bool, seen: bool = True) -> int:
        """Round trips of one DDL, one after the other, when the head is known.

        `seen`: whether a DDL in the same schema came before it, as it mostly does.
        """
        await self.create_table(schema if seen else 0)
        await self.settle()
        self.spy.latency_ms = _LATENCY_MS
        began = self._runtime.clock.elapsed_ms()
        await (self.create_table_once(schema) if keyed else self.create_table(schema))
        answered = self._runtime.clock.elapsed_ms()
        self.spy.latency_ms = 0.0
        await self._workspace.idempotency.close()
        await self.settle()
        return round_trips(self.spy.between(began, answered))

    async def settle(self) -> bool:
        """Wait for a merge that is under way; whether there was one."""
        merging = self._compactor._merging
        if merging is None or merging.done():
            return False
        await merging.wait()
        if self._compactor.merge_problem is not None:
            raise self._compactor.merge_problem
        return True

    async def close(self) -> None:
        """A clean end."""
        await self._workspace.close()
        await self._compactor.close()

    def _cost(self, began_ms: float, ended_ms: float) -> _Cost:
        requests = self.spy.between(began_ms, ended_ms)
        return _Cost(ended_ms - began_ms, sum(each.sent_bytes for each in requests))

    def _request(self, schema: int | None) -> CreateTable:
        self._made += 1
        number = self._made % SMALL.schemas if schema is None else schema
        return CreateTable(
            schema=SchemaName(CATALOG, (schema_name(number),)),
            name=f"made_{self._made}",
            format=TableFormat.PARQUET,
            columns=_COLUMNS,
        )


class _Plain:
    """Answers as short as they get."""

    def done(self, done: ChangeResult) -> Answer:
        return Answer(status=201, body=msgspec.Raw(b"%d" % done.number), headers={})

    def refused(self, problem: ArcoError) -> Answer:
        raise problem


async def run(runtime: Runtime, scratch: Path) -> list[Figure]:
    """Measure on two catalogs by turns."""
    with TemporaryDirectory(dir=scratch) as folder:
        place = Path(folder)
        small = _Catalog(runtime, await filled(runtime, scratch, SMALL, place / "small"))
        large = _Catalog(runtime, await filled(runtime, scratch, LARGE, place / "large"))
        plain = max([await large.round_trips(0, keyed=False) for _ in range(2)])
        keyed = max([await large.round_trips(0, keyed=True) for _ in range(2)])
        new_schema = await large.round_trips(500, keyed=False, seen=False)
        creates_ms = []
        for _ in range(_TIMES):
            await small.measure()
            await large.measure()
            creates_ms.append(await _durable_create_ms(runtime, large.store))
        alone = await _rate(runtime, large, 1)
        together = await _rate(runtime, large, _CLIENTS)
        alone = (alone + await _rate(runtime, large, 1)) / 2
        await small.close()
        await large.close()
    create_ms = percentile(creates_ms, 0.5)
    return [
        _against("one CREATE TABLE at 100,000 tables (baseline: 1,000), p50 ms", small, large),
        _written(small, large),
        _merged(small, large),
        Figure(
            "  its round trips: without a key / with one",
            f"{plain} / {keyed}",
            promised="3 / 5",
            met=plain <= 3 and keyed <= 5,
        ),
        Figure("  the first in a schema whose names are not in memory", str(new_schema)),
        _against_creates(large, plain, create_ms),
        Figure(
            "CREATE TABLE by 16 clients (baseline: one), tables/s",
            f"{together:.0f}",
            f"{alone:.0f}",
            f"{together / alone:.1f} x",
            "5 x",
            together >= 5 * alone,
        ),
    ]


def _against(what: str, small: _Catalog, large: _Catalog) -> Figure:
    ours, base = _p50_ms(large.ddls), _p50_ms(small.ddls)
    return Figure(
        what, f"{ours:.2f}", f"{base:.2f}", f"{ours / base:.2f}", "1.3", ours <= 1.3 * base
    )


def _written(small: _Catalog, large: _Catalog) -> Figure:
    ours, base = _mean_bytes(large.ddls), _mean_bytes(small.ddls)
    met = ours <= 1.3 * base
    return Figure(
        "  bytes written", f"{ours:,.0f}", f"{base:,.0f}", f"{ours / base:.2f}", "1.3", met
    )


def _merged(small: _Catalog, large: _Catalog) -> Figure:
    """Beside the commits, so nothing is promised; each is for as many commits as a tail is long."""
    ours, base = large.merges, small.merges
    return Figure(
        "  merge in the background, p50 ms; bytes",
        f"{_p50_ms(ours):.0f}; {_mean_bytes(ours):,.0f}",
        f"{_p50_ms(base):.0f}; {_mean_bytes(base):,.0f}",
        f"{_p50_ms(ours) / _p50_ms(base):.1f}; {_mean_bytes(ours) / _mean_bytes(base):.1f}",
    )


def _against_creates(large: _Catalog, trips: int, create_ms: float) -> Figure:
    ours, base = _p50_ms(large.ddls), trips * create_ms
    return Figure(
        f"  p50 ms (baseline: {trips} x a durable create, {create_ms:.2f} ms)",
        f"{ours:.2f}",
        f"{base:.2f}",
        f"{ours / base:.2f}",
        f"{_LONGEST_MS} ms",
        ours <= _LONGEST_MS,
    )


def _p50_ms(costs: list[_Cost]) -> float:
    return percentile([cost.ms for cost in costs], 0.5)


def _mean_bytes(costs: list[_Cost]) -> float:
    return sum(cost.written_bytes for cost in costs) / len(costs)


async def _durable_create_ms(runtime: Runtime, store: Store) -> float:
    body = runtime.rng.randbytes(2_048)
    began = runtime.clock.elapsed_ms()
    await store.create(f"ledger/bench/{new_ulid(runtime)}.jsonl", body)
    return runtime.clock.elapsed_ms() - began


async def _rate(runtime: Runtime, catalog: _Catalog, clients: int) -> float:
    """Tables made a second by so many clients, each of whom waits for its answer."""
    began = time.perf_counter()
    made = 0

    async def client() -> None:
        nonlocal made
        while time.perf_counter() - began < _SECONDS:
            await catalog.create_table()
            made += 1

    await runtime.tasks.gather(*(client() for _ in range(clients)))
    rate = made / (time.perf_counter() - began)
    await catalog.settle()
    return rate
