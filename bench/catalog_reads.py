"""A table by name with its columns, and by id, at 100,000 tables: warm, and from an empty process."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from arco.catalog.ddl import TableName
from arco.catalog.reader import SnapshotReader
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.local import LocalBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from bench.catalog_ddl import LARGE
from bench.figure import Figure, percentile
from bench.fill import CATALOG, filled, schema_name, table_name
from bench.spy import SpyBackend, round_trips

_COLD_TIMES = 20
_WARM_TIMES = 2_000
_LATENCY_MS = 50.0

Look = Callable[[SnapshotReader], Awaitable[None]]


async def run(runtime: Runtime, scratch: Path) -> list[Figure]:
    """Measure on one local directory."""
    with TemporaryDirectory(dir=scratch) as folder:
        place = await filled(runtime, scratch, LARGE, Path(folder) / "large")
        reads = _Reads(runtime, SpyBackend(LocalBackend(place, runtime), runtime))
        table_id = await reads.an_id()
        return [
            await reads.measure("table by name with its columns", _by_name),
            await reads.measure("table by id", lambda reader: _by_id(reader, table_id)),
        ]


async def _by_name(reader: SnapshotReader) -> None:
    snapshot = await reader.head()
    table = await snapshot.table(TableName(CATALOG, (schema_name(777),), table_name(7)))
    columns = await snapshot.columns(table.row.table_id)
    if len(columns) != LARGE.columns:
        raise AssertionError(f"{len(columns)} columns were found, not {LARGE.columns}")


async def _by_id(reader: SnapshotReader, table_id: str) -> None:
    await (await reader.head()).find(table_id)


class _Reads:
    def __init__(self, runtime: Runtime, spy: SpyBackend) -> None:
        self._runtime = runtime
        self._spy = spy

    async def an_id(self) -> str:
        """The id of some table."""
        snapshot = await self._empty().head()
        table = await snapshot.table(TableName(CATALOG, (schema_name(500),), table_name(50)))
        return table.row.table_id

    async def measure(self, what: str, look: Look) -> Figure:
        """Round trips and times of a look-up."""
        reader = self._empty()
        cold_trips = await self._trips(reader, look)
        warm_trips = await self._trips(reader, look)
        warm_ms = [await self._ms(reader, look) for _ in range(_WARM_TIMES)]
        cold_ms = [await self._ms(self._empty(), look) for _ in range(_COLD_TIMES)]
        return Figure(
            f"{what}: round trips, p50 ms (baseline: from an empty process)",
            f"{warm_trips}, {percentile(warm_ms, 0.5):.2f}",
            f"{cold_trips}, {percentile(cold_ms, 0.5):.1f}",
            promised="1, empty 5",
            met=warm_trips <= 1 and cold_trips <= 5,
        )

    async def _trips(self, reader: SnapshotReader, look: Look) -> int:
        self._spy.latency_ms = _LATENCY_MS
        began = self._runtime.clock.elapsed_ms()
        await look(reader)
        ended = self._runtime.clock.elapsed_ms()
        self._spy.latency_ms = 0.0
        return round_trips(self._spy.between(began, ended))

    async def _ms(self, reader: SnapshotReader, look: Look) -> float:
        began = self._runtime.clock.elapsed_ms()
        await look(reader)
        return self._runtime.clock.elapsed_ms() - began

    def _empty(self) -> SnapshotReader:
        return SnapshotReader(Store(self._spy, self._runtime, scope=Scope(), role=Role.READER))
