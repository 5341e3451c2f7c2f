"""Real clients while the servers are killed: what was acknowledged is there, once."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import RESTError

from tests.cli import command
from tests.figures import Figure
from tests.interop import duckdb_client, pyiceberg_client
from tests.interop.pyiceberg_client import IDS, ROWS, connect, ids
from tests.interop.rest import URI, Rest
from tests.interop.writers import WriteOutcomes, Writers, writing
from tests.processes.deployment import Deployment, all_in_one, apart

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(900),
    pytest.mark.skipif(URI in os.environ, reason=f"{URI} names a server that is not ours to kill"),
]

Maker = Callable[[tuple[str, ...], Path], Deployment]

WRITERS = 4
PATIENCE_S = 60.0


def client() -> str:
    return f"{pyiceberg_client.name()}, {duckdb_client.name()}"


@dataclass(frozen=True)
class Arena:
    """A deployment on a directory, its API servers, and the catalog as seen through the first of them."""

    deployment: Deployment
    store: Path
    servers: list[Rest]
    catalog: Catalog

    async def under_fire(self, writers: Writers, kills: int) -> WriteOutcomes:
        """The outcomes of the writes while one server after another is killed and started again."""
        dice = random.Random(7)
        for each in range(kills):
            await asyncio.sleep(dice.uniform(0.2, 2.0))
            assert writers.are_busy()
            victim = dice.choice(self.deployment.servers)
            if each % 2:
                await asyncio.to_thread(self.await_commit)
            victim.kill()
            await victim.start()
        return await asyncio.to_thread(writers.outcomes)

    def await_commit(self, within_s: float = 5.0) -> None:
        """Wait until a pointer appears. Its commit is not acknowledged yet: the worst time for a kill."""
        pointers = self.store / "tenant=default/workspace=default/_catalog/iceberg_pointers"
        before, until_s = _count(pointers), time.monotonic() + within_s
        while _count(pointers) == before and time.monotonic() < until_s:
            pass


# A single process that was killed starts again only after its lease has ended: that takes longer.
@pytest.mark.parametrize(("make", "kills"), [(all_in_one, 4), (apart, 16)])
async def test_no_row_is_lost_or_doubled(
    tmp_path: Path, namespace: str, figure: Figure, make: Maker, kills: int
) -> None:
    async with _arena(make, tmp_path, namespace, t=ROWS) as arena:
        target = f"{namespace}.t"
        with writing("tests.interop.appending", arena.servers, target, count=WRITERS) as writers:
            await asyncio.to_thread(_await_rows, arena.catalog, target)
            outcomes = await arena.under_fire(writers, kills)
        stored_ids = ids(arena.catalog.load_table(target))

    assert outcomes.faults(stored_ids) == []
    _verify(arena)
    figure(_figure_text(pyiceberg_client.name(), arena, kills, outcomes))


async def test_no_transaction_is_lost_doubled_or_halved(
    tmp_path: Path, namespace: str, figure: Figure
) -> None:
    kills = 12
    async with _arena(apart, tmp_path, namespace, a=IDS, b=IDS) as arena:
        with writing("tests.interop.pairing", arena.servers, namespace, count=WRITERS) as writers:
            await asyncio.to_thread(_await_rows, arena.catalog, f"{namespace}.a")
            outcomes = await arena.under_fire(writers, kills)
        a, b = (ids(arena.catalog.load_table((namespace, name))) for name in ("a", "b"))

    assert a == b
    assert outcomes.faults(a) == []
    _verify(arena)
    figure(_figure_text(duckdb_client.name(), arena, kills, outcomes))


@asynccontextmanager
async def _arena(
    make: Maker, tmp_path: Path, namespace: str, **tables: pa.Schema
) -> AsyncIterator[Arena]:
    store = tmp_path / "store"
    deployment = make(("--root", str(store)), tmp_path)
    async with deployment.up():
        servers = [Rest(f"{server.url}/iceberg", "default", tmp_path) for server in deployment.apis]
        catalog = await asyncio.to_thread(_first_look, servers[0])
        catalog.create_namespace(namespace)
        for name, schema in tables.items():
            catalog.create_table((namespace, name), schema)
        yield Arena(deployment, store, servers, catalog)


def _first_look(rest: Rest) -> Catalog:
    """The catalog, once there is one: apart from its compactor, an API is ready a little before."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return connect(rest)
        except RESTError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.1)


def _await_rows(catalog: Catalog, name: str) -> None:
    """Until every writer is at work: they take longer to start than the servers do."""
    until_s = time.monotonic() + PATIENCE_S
    while len({each // 100_000 for each in ids(catalog.load_table(name))}) < WRITERS:
        assert time.monotonic() < until_s, "the writers did not begin"
        time.sleep(0.1)


def _count(pointers: Path) -> int:
    return sum(len(os.listdir(folder)) for folder in os.scandir(pointers))  # noqa: PTH208 - to be quick


def _verify(arena: Arena) -> None:
    run = command.arco("verify", "--root", arena.store)
    assert run.returncode == 0, run.stdout + run.stderr


def _figure_text(name: str, arena: Arena, kills: int, outcomes: WriteOutcomes) -> str:
    return (
        f"{name} while {arena.deployment.name} was killed {kills} times: {len(outcomes.done)} commits "
        f"acknowledged, 0 lost, 0 doubled ({len(outcomes.unknown)} unknown)"
    )
