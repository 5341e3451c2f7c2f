"""Real clients while the servers are killed: what was acknowledged is there, once."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import RESTError

from tests.cli import command
from tests.figures import Figure
from tests.interop import duckdb_client, pyiceberg_client
from tests.interop.pyiceberg_client import IDS, ROWS, connect, ids
from tests.interop.rest import URI, Rest
from tests.interop.writers import Said, Writers
from tests.processes.deployment import Deployment, all_in_one, apart

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.skipif(URI in os.environ, reason=f"{URI} names a server that is not ours to kill"),
]

Maker = Callable[[tuple[str, ...], Path], Deployment]

MOST_WAIT_S = 60


def client() -> str:
    return f"{pyiceberg_client.name()}, {duckdb_client.name()}"


# Alone, nobody can take over from one that was killed before its lease has ended: that takes longer.
@pytest.mark.parametrize(("make", "kills"), [(all_in_one, 3), (apart, 12)])
async def test_no_row_is_lost_or_doubled(
    tmp_path: Path, namespace: str, figure: Figure, make: Maker, kills: int
) -> None:
    async with _deployed(make, tmp_path) as (deployment, rest):
        catalog = await asyncio.to_thread(_prepare, rest, namespace, "t")
        writers = Writers("tests.interop.appending", rest, f"{namespace}.t", count=3)
        await _kill(deployment, writers, kills)
        said = writers.said(stop=True)
        found = ids(catalog.load_table((namespace, "t")))

    assert said.wrong(found) == []
    _verify(tmp_path)
    figure(_told(pyiceberg_client.name(), deployment, kills, said))


async def test_no_transaction_is_lost_doubled_or_halved(
    tmp_path: Path, namespace: str, figure: Figure
) -> None:
    async with _deployed(apart, tmp_path) as (deployment, rest):
        catalog = await asyncio.to_thread(_prepare, rest, namespace, "a", "b")
        writers = Writers("tests.interop.pairing", rest, namespace, count=2)
        await _kill(deployment, writers, 12)
        said = writers.said(stop=True)
        a, b = (ids(catalog.load_table((namespace, name))) for name in ("a", "b"))

    assert a == b
    assert said.wrong(a) == []
    _verify(tmp_path)
    figure(_told(duckdb_client.name(), deployment, 12, said))


@asynccontextmanager
async def _deployed(make: Maker, tmp_path: Path) -> AsyncIterator[tuple[Deployment, Rest]]:
    deployment = make(("--root", str(tmp_path / "store")), tmp_path)
    async with deployment.up():
        yield deployment, Rest(f"{deployment.doors[0].url}/iceberg", "default", tmp_path)


def _prepare(rest: Rest, namespace: str, *tables: str) -> Catalog:
    catalog = _first(rest)
    catalog.create_namespace(namespace)
    for name in tables:
        catalog.create_table((namespace, name), ROWS if name == "t" else IDS)
    return catalog


def _first(rest: Rest) -> Catalog:
    """The catalog, once there is one: apart from the compactor, an API is ready a little before."""
    until_s = time.monotonic() + MOST_WAIT_S
    while True:
        try:
            return connect(rest)
        except RESTError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.1)


async def _kill(deployment: Deployment, writers: Writers, kills: int) -> None:
    """Kill one server after another while all write, and start it again."""
    dice = random.Random(7)
    for _ in range(kills):
        await asyncio.sleep(dice.uniform(0.5, 2.5))
        assert writers.are_busy()
        victim = dice.choice(deployment.servers)
        victim.kill()
        await victim.start()
    await asyncio.sleep(2)  # and once more in peace


def _verify(tmp_path: Path) -> None:
    run = command.arco("verify", "--root", tmp_path / "store")
    assert run.returncode == 0, run.stdout + run.stderr


def _told(name: str, deployment: Deployment, kills: int, said: Said) -> str:
    return (
        f"{name} while {deployment.name} was killed {kills} times: {len(said.done)} commits acknowledged, "
        f"0 lost, 0 doubled ({len(said.unknown)} unknown)"
    )
