"""`arco cancel` while Spark works: its job is gone at once, for good, and `arco retry` makes the rest."""

import asyncio
import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from arco.flow.coordinator.messages import RunStatus
from tests.cli.serving import Served
from tests.figures import Figure
from tests.flow.faults.crew import Crew, Hand, crew_of, until
from tests.flow.faults.pipeline import FIRST, NAP, rows_after
from tests.flow.faults.place import Place
from tests.flow.faults.spark import FLAGS
from tests.processes.server import free_port

NAP_MS = 30_000  # its retry takes as long
QUICK, SLOW = "made.parquet_replace", "made.parquet_append"


def _asked(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=10) as answer:
        return json.load(answer)


def running_jobs(port: int) -> int:
    """How many jobs Spark works on, as it says itself."""
    try:
        [app] = _asked(port, "applications")
        return len(_asked(port, f"applications/{app['id']}/jobs?status=running"))
    except (OSError, ValueError):
        return 0  # it is not up yet


async def _run_of(crew: Crew, hand: Hand) -> str:
    await until(lambda: "start " in hand.said)
    found = crew.place.arco("runs", "--url", crew.server.url, "--json").document()
    return str(found["items"][0]["execution_id"])


@pytest.mark.interop
async def test_a_cancelled_job_is_gone_and_the_rest_is_made_by_a_retry(
    place: Place, tmp_path: Path, figure: Figure
) -> None:
    async with crew_of(place, tmp_path) as crew:
        port, url = free_port(), ("--url", crew.server.url)
        seen = ("--conf", "spark.ui.enabled=true", "--conf", f"spark.ui.port={port}")
        flags = ("--project", str(place.project), *url, *FLAGS)
        naps = ("--partitions", FIRST, "--param", f"{NAP}={NAP_MS}")
        assert place.arco("run", QUICK, *flags, "--partitions", FIRST).code == 0
        hand = Hand(["run", SLOW, *flags, *naps, *seen], tmp_path / "run.log")
        crew.hands["runner"] = hand
        run_id = await _run_of(crew, hand)
        await until(lambda: running_jobs(port) > 0)
        begun = time.monotonic()
        served = Served(crew.server.url, place.root)  # in this process: starting one takes longer
        cancelling = asyncio.create_task(asyncio.to_thread(served.arco, "cancel", run_id))
        await until(lambda: running_jobs(port) == 0, within_s=5)
        took = time.monotonic() - begun
        assert (await cancelling).returncode == 0
        figure(f"cancel: Spark's job was gone {took:.2f} s after `arco cancel`")
        assert (await crew.over(run_id)).status is RunStatus.CANCELLED
        await asyncio.to_thread(hand.process.wait, 120)
        assert (await crew.book.get_run(run_id)).status is RunStatus.CANCELLED
        assert await crew.rows(SLOW) in ({}, {SLOW: []})
        again = await asyncio.to_thread(place.arco, "retry", run_id, *flags, "--json")
        assert again.code == 0, again.complained
        assert (await crew.book.get_run(run_id)).status is RunStatus.CANCELLED
        assert await crew.rows(QUICK, SLOW) == rows_after([FIRST], [QUICK, SLOW])
