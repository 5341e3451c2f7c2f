"""What Iceberg's operations cost: round trips to the store, the time of an answer, a create among many."""

import gc
import json
import os
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from arco.catalog.decision import WorkspaceRules
from arco.catalog.model import TableFormat
from arco.catalog.pending_request import Caller
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.core.ids import new_object_id
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.iceberg.files import TableFiles
from arco.iceberg.loaded_metadata import LoadedMetadata, SnapshotsMode
from arco.iceberg.location import Locations
from arco.iceberg.service import Iceberg, open_iceberg
from arco.iceberg.wire import CommitTableRequest, CreateNamespaceRequest, CreateTableRequest
from arco.server.workspace import Workspace, open_workspace
from arco.storage.local import LocalBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from bench.figure import Figure, percentile
from bench.load import Connection, Plan, Write, load, request
from bench.process import Server, arco_up, await_calm
from bench.rest import Catalog, new_table, with_snapshots
from bench.spy import SpyBackend, round_trips

_CATALOG = "default"
_NAMESPACE = ("db",)
_LATENCY_MS = 100.0
_FEW, _MANY = 10, 10_000
_NAMESPACES = 20  # over which they are spread
_CREATES = 160
_FILLERS = 64


async def run(runtime: Runtime, scratch: Path) -> list[Figure]:
    """Measure in this process, then over HTTP."""
    with TemporaryDirectory(dir=scratch) as folder:
        place = Path(folder)
        trips = await _trips(runtime, place / "trips")
        creates = await runtime.tasks.in_thread(lambda: _creates(place))
        return [*trips, _answer(), *creates]


class _Process:
    """An API process whose store is spied on; its tables lie in what it takes for a bucket."""

    def __init__(self, runtime: Runtime, place: Path) -> None:
        self._runtime = runtime
        self.spy = SpyBackend(LocalBackend(place, runtime), runtime)
        store = Store(self.spy, runtime, scope=Scope(), role=Role.API)
        self._compactor = CatalogCompactor(
            Store(self.spy, runtime, scope=Scope(), role=Role.COMPACTOR)
        )
        rules = WorkspaceRules(routed_formats=frozenset({TableFormat.ICEBERG}))
        self.workspace: Workspace = open_workspace(store, self._compactor, rules)
        root = f"s3://bucket/{Scope().prefix}"
        self.iceberg: Iceberg = open_iceberg(
            self.workspace.committer,
            self.workspace.idempotency,
            TableFiles(store, root, {}),
            Locations(root, ()),
        )
        self._made = 0

    def caller(self, operation: str, *, keyed: bool = False) -> Caller:
        key = str(new_object_id(self._runtime)) if keyed else None
        arrived_ms = self._runtime.clock.elapsed_ms()
        return Caller("user:bench", None, key, operation, arrived_ms, "iceberg_rest")

    async def create(self, name: str, *, keyed: bool = False) -> None:
        table = new_table(name)
        request = CreateTableRequest(name=name, schema=table["schema"])
        caller = self.caller("create", keyed=keyed)
        await self.iceberg.tables.create(_CATALOG, _NAMESPACE, request, caller)

    async def commit(self, name: str, *, keyed: bool = False) -> None:
        self._made += 1
        change = {"action": "set-properties", "updates": {"bench": str(self._made)}}
        request = CommitTableRequest(updates=(change,))
        caller = self.caller("commit", keyed=keyed)
        await self.iceberg.tables.commit(_CATALOG, _NAMESPACE, name, request, caller)

    async def load(self, name: str) -> None:
        await self.iceberg.tables.load(_CATALOG, _NAMESPACE, name)

    async def settle(self) -> None:
        """Wait for what goes on beside the answers."""
        for task in list(self.iceberg.context.after_commit._running):
            await task.wait()
        await self.workspace.idempotency.close()
        merging = self._compactor._merging
        if merging is not None:
            await merging.wait()

    async def close(self) -> None:
        await self.settle()
        await self.iceberg.close()
        await self.workspace.close()
        await self._compactor.close()


async def _trips(runtime: Runtime, place: Path) -> list[Figure]:
    first = _Process(runtime, place)
    await first.workspace.create_default_catalog(_refuse)
    namespace = CreateNamespaceRequest(namespace=_NAMESPACE)
    await first.iceberg.namespaces.create(_CATALOG, namespace, first.caller("create"))
    for name in ("known", "other"):
        await first.create(name)
        await first.commit(name)
    await first.close()
    process = _Process(runtime, place)
    await process.load("known")
    await process.create("warm")
    cold = await _counted(runtime, process, process.load("other"))
    warm = await _counted(runtime, process, process.load("known"))
    plain, keyed, made = [], [], []
    for number in range(2):
        plain.append(await _counted(runtime, process, process.commit("known")))
        keyed.append(await _counted(runtime, process, process.commit("known", keyed=True)))
        made.append(await _counted(runtime, process, process.create(f"made_{number}")))
    await process.close()
    return [
        _counts("loadTable, round trips: warm / a table never looked at", (warm, cold), (1, 3)),
        _counts("commit, round trips: without a key / with one", (max(plain), max(keyed)), (4, 6)),
        Figure("createTable, round trips", str(max(made))),
    ]


def _refuse(problem: Exception) -> None:
    raise problem  # no other process could delay this one


async def _counted(runtime: Runtime, process: _Process, work) -> int:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Round trips of one operation, one after the other."""
    await process.settle()
    process.spy.latency_ms = _LATENCY_MS
    began = runtime.clock.elapsed_ms()
    await work
    answered = runtime.clock.elapsed_ms()
    process.spy.latency_ms = 0.0
    await process.settle()
    return round_trips(process.spy.between(began, answered))


def _counts(what: str, counted: tuple[int, int], promised: tuple[int, int]) -> Figure:
    return Figure(
        what,
        f"{counted[0]} / {counted[1]}",
        promised=f"{promised[0]} / {promised[1]}",
        met=counted[0] <= promised[0] and counted[1] <= promised[1],
    )


def _answer() -> Figure:
    """The answer to a load from the bytes of a metadata file, which are in memory."""
    raw = json.dumps(with_snapshots(9_000)).encode()
    times_ms = []
    gc.disable()  # whose garbage it would collect is not ours
    for _ in range(100):
        began = time.perf_counter()
        loaded = LoadedMetadata("s3://bucket/warehouse/table/metadata/00001-x.metadata.json", raw)
        body = loaded.body(SnapshotsMode.ALL)
        times_ms.append((time.perf_counter() - began) * 1000)
        if len(body) < len(raw):
            raise AssertionError("the answer does not hold the metadata")
    gc.enable()
    p50 = percentile(times_ms, 0.5)
    return Figure(
        f"loadTable, the answer from {len(raw) / 1e6:.1f} MB (9,000 snapshots) in memory, p50 ms",
        f"{p50:.2f}",
        promised="1 ms",
        met=p50 <= 1,
    )


def _creates(place: Path) -> list[Figure]:
    """A createTable on a small and on a large catalog, by turns."""
    for name, count in (("few", _FEW), ("many", _MANY)):
        with arco_up(place / name, "--no-fsync") as server:
            _fill(server, count)
    os.sync()  # or what is measured next would wait for all of it
    few_ms: list[float] = []
    many_ms: list[float] = []
    with arco_up(place / "few") as few, arco_up(place / "many") as many:
        catalogs = [(Catalog(each, "/iceberg", _CATALOG), each) for each in (few, many)]
        for each in (few, many):
            await_calm(each)
        for number in range(_CREATES):
            for times_ms, (catalog, server) in zip((few_ms, many_ms), catalogs, strict=True):
                path = catalog.tables(_namespace(number))
                ms = _create_ms(server, path, f"made_{number}")
                if number >= _CREATES // 4:
                    times_ms.append(ms)
    ours, base = percentile(many_ms, 0.5), percentile(few_ms, 0.5)
    return [
        Figure(
            f"createTable at {_MANY:,} tables (baseline: {_FEW}), p50 ms",
            f"{ours:.1f}",
            f"{base:.1f}",
            f"{ours / base:.2f}",
            "1.3",
            ours <= 1.3 * base,
        )
    ]


def _fill(server: Server, count: int) -> None:
    catalog = Catalog(server, "/iceberg", _CATALOG)
    paths = tuple(catalog.tables(_namespace(number)) for number in range(_NAMESPACES))
    for number in range(_NAMESPACES):
        catalog.make_namespace(_namespace(number))
    for number in range(_FEW):
        catalog.make_table(_namespace(number), f"first_{number}")
    made, rounds = _FEW, 0
    while made < count:
        rounds += 1
        body = json.dumps(new_table(f"table_{rounds}_@writer@_@count@"))
        write = Write(paths=paths, bodies=(body,) * len(paths))
        filled = load(server, Plan(port=server.port, seconds=4, connections=_FILLERS, write=write))
        if filled.error:
            raise AssertionError(filled.error)
        made += filled.statuses[200]


def _namespace(number: int) -> str:
    return f"db_{number % _NAMESPACES}"


def _create_ms(server: Server, path: str, name: str) -> float:
    raw = request("POST", path, {}, json.dumps(new_table(name)).encode())
    with closing(Connection(server.port)) as connection:
        began = time.perf_counter()
        connection.send(raw)
        status, _, answer = connection.answer()
        if status != 200:
            raise AssertionError(f"{status}: {answer[:300]!r}")
        return (time.perf_counter() - began) * 1000
