"""Figure 3: `kill -9` at random moments, with 4 writers: nothing lost, nothing doubled, no fork."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from arco.core.runtime import Runtime
from tests.figures import Figure
from tests.processes.audit import audit, direct_reader
from tests.processes.deployment import Deployment, all_in_one, apart, place_of
from tests.processes.journal import Journal, Outcome
from tests.processes.load_run import Killer, recovery, under_load
from tests.stores import store_url

Maker = Callable[[tuple[str, ...], Path], Deployment]

KILLS = int(os.environ.get("KILLS", "200"))  # of the long run, which makes about 40 a minute

# Alone, nobody can take over from one that was killed before its lease has ended: that takes longer.
_SHARES = {"up": 0.2, "apart": 0.4, "minio": 0.4}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("make", "kills"), [(all_in_one, 2), pytest.param(apart, 3, marks=pytest.mark.interop)]
)
async def test_kill_9_on_local_disk_loses_nothing_and_doubles_nothing(
    tmp_path: Path, runtime: Runtime, figure: Figure, make: Maker, kills: int
) -> None:
    url = str(tmp_path / "store")
    figure(await killed(make(place_of(url), tmp_path), url, runtime, kills=kills, seed=3))


@pytest.mark.interop
@pytest.mark.timeout(300)
async def test_kill_9_on_an_s3_server_loses_nothing_and_doubles_nothing(
    tmp_path: Path, runtime: Runtime, figure: Figure, request: pytest.FixtureRequest
) -> None:
    url = store_url("moto", request)
    figure(await killed(apart(place_of(url), tmp_path), url, runtime, kills=4, seed=5))


@pytest.mark.interop
@pytest.mark.timeout(3_600)
async def test_kill_9_again_and_again(
    tmp_path: Path, runtime: Runtime, figure: Figure, request: pytest.FixtureRequest
) -> None:
    """Three deployments beside each other: each mostly waits for a lease of somebody who was killed."""
    places = {
        "up": str(tmp_path / "up"),
        "apart": str(tmp_path / "apart"),
        "minio": store_url("minio", request),
    }
    working = []
    for seed, (name, url) in enumerate(places.items()):
        logs = tmp_path / f"logs-{name}"
        logs.mkdir()
        deployment = (all_in_one if name == "up" else apart)(place_of(url), logs)
        kills = round(KILLS * _SHARES[name])
        working.append(killed(deployment, url, runtime, kills=kills, seed=seed))
    for text in await asyncio.gather(*working):
        figure(text)


async def killed(
    deployment: Deployment, url: str, runtime: Runtime, *, kills: int, seed: int
) -> str:
    """The figure of one run, if nothing is wrong."""
    async with deployment.up():
        killer = Killer(deployment, kills=kills, seed=seed)
        journal = await under_load(deployment, killer, seed=seed)
        wrong = await audit(deployment, direct_reader(url, runtime), journal)
    assert wrong == [], "\n".join([f"{len(wrong)} things are wrong (seed {seed})", *wrong[:20]])
    assert (
        len(journal.with_outcome(Outcome.DONE)) > kills
    )  # or the kills came too early to mean anything
    where = "S3" if "://" in url else "local disk"
    return f"kill -9, {deployment.name} on {where}: {summary(journal)}"


def summary(journal: Journal) -> str:
    took = recovery(journal)
    count = {outcome: len(journal.with_outcome(outcome)) for outcome in Outcome}
    return (
        f"{len(journal.kills)} kills, {count[Outcome.DONE]} acknowledged: 0 lost, 0 doubled "
        f"({count[Outcome.REFUSED]} refused, {count[Outcome.UNKNOWN]} unknown, "
        f"{journal.replays} repeated under their key); recovery p50/p99 "
        f"{took.since_kill[0]}/{took.since_kill[1]} ms from the kill, "
        f"{took.since_ready[0]}/{took.since_ready[1]} ms from the ready line"
    )
