"""Real clients while the servers are killed: what was acknowledged is there, once."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

from tests.cli import command
from tests.figures import Figure
from tests.interop import duckdb_client, pyiceberg_client
from tests.interop.pyiceberg_client import connect, ids, numbered
from tests.interop.rest import URI, Rest
from tests.interop.writers import Said, Writers
from tests.processes.deployment import Deployment, all_in_one, apart

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.skipif(URI in os.environ, reason=f"{URI} names a server that is not ours to kill"),
]

Maker = Callable[[tuple[str, ...], Path], Deployment]

LEAST_KILLS = 4


def client() -> str:
    return f"{pyiceberg_client.name()}, {duckdb_client.name()}"


@pytest.mark.parametrize("make", [all_in_one, apart])
async def test_no_row_is_lost_or_doubled(
    tmp_path: Path, namespace: str, figure: Figure, make: Maker
) -> None:
    async with _deployed(make, tmp_path) as (deployment, rest):
        catalog = await asyncio.to_thread(_prepare, rest, namespace, "t")
        writers = Writers("tests.interop.appending", rest, f"{namespace}.t", count=3, rows=60)
        kills = await _kill(deployment, writers)
        said = writers.said()
        found = ids(catalog.load_table((namespace, "t")))

    assert said.wrong(found) == []
    _verify(tmp_path)
    figure(_told(pyiceberg_client.name(), deployment, kills, said))


async def test_no_transaction_is_lost_doubled_or_halved(
    tmp_path: Path, namespace: str, figure: Figure
) -> None:
    async with _deployed(apart, tmp_path) as (deployment, rest):
        catalog = await asyncio.to_thread(_prepare, rest, namespace, "a", "b")
        writers = Writers("tests.interop.pairing", rest, namespace, count=2, rows=25)
        kills = await _kill(deployment, writers)
        said = writers.said()
        a, b = (ids(catalog.load_table((namespace, name))) for name in ("a", "b"))

    assert a == b
    assert said.wrong(a) == []
    _verify(tmp_path)
    figure(_told(duckdb_client.name(), deployment, kills, said))


@asynccontextmanager
async def _deployed(make: Maker, tmp_path: Path) -> AsyncIterator[tuple[Deployment, Rest]]:
    deployment = make(("--root", str(tmp_path / "store")), tmp_path)
    async with deployment.up():
        yield deployment, Rest(f"{deployment.doors[0].url}/iceberg", "default", tmp_path)


def _prepare(rest: Rest, namespace: str, *tables: str) -> Catalog:
    catalog = connect(rest)
    catalog.create_namespace(namespace)
    for name in tables:
        catalog.create_table((namespace, name), numbered().schema)
    return catalog


async def _kill(deployment: Deployment, writers: Writers) -> int:
    """Kill one server after another, and start it again, for as long as anybody writes."""
    dice, kills = random.Random(7), 0
    while writers.are_busy():
        await asyncio.sleep(dice.uniform(0.5, 2.0))
        victim = dice.choice(deployment.servers)
        victim.kill()
        await victim.start()
        kills += 1
    assert kills >= LEAST_KILLS
    return kills


def _verify(tmp_path: Path) -> None:
    run = command.arco("verify", "--root", tmp_path / "store")
    assert run.returncode == 0, run.stdout + run.stderr


def _told(name: str, deployment: Deployment, kills: int, said: Said) -> str:
    return (
        f"{name} while {deployment.name} was killed {kills} times: {len(said.done)} commits acknowledged, "
        f"0 lost, 0 doubled ({len(said.unknown)} unknown)"
    )
