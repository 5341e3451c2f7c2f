"""`arco cancel` while Spark works: its job ends at once, and `arco retry` makes the rest."""

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
from tests.flow.faults.cluster import ArcoProcess, Cluster, start_cluster, until
from tests.flow.faults.pipeline import FIRST, NAP, rows_after
from tests.flow.faults.project_root import ProjectRoot
from tests.flow.faults.spark_flags import FLAGS
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


async def _run_of(cluster: Cluster, process: ArcoProcess) -> str:
    await until(lambda: "start " in process.output)
    document = cluster.place.arco("runs", "--url", cluster.server.url, "--json").document()
    return str(document["items"][0]["run_id"])


@pytest.mark.interop
async def test_a_cancelled_job_ends_and_a_retry_runs_the_rest(
    place: ProjectRoot, tmp_path: Path, figure: Figure
) -> None:
    async with start_cluster(place, tmp_path) as cluster:
        port, url = free_port(), ("--url", cluster.server.url)
        seen = ("--conf", "spark.ui.enabled=true", "--conf", f"spark.ui.port={port}")
        flags = ("--project", str(place.project), *url, *FLAGS)
        naps = ("--partitions", FIRST, "--param", f"{NAP}={NAP_MS}")
        assert place.arco("run", QUICK, *flags, "--partitions", FIRST).code == 0
        process = ArcoProcess(["run", SLOW, *flags, *naps, *seen], tmp_path / "run.log")
        cluster.processes["runner"] = process
        run_id = await _run_of(cluster, process)
        await until(lambda: running_jobs(port) > 0)
        begun = time.monotonic()
        served = Served(
            cluster.server.url, place.root
        )  # in this process: starting one takes longer
        cancelling = asyncio.create_task(asyncio.to_thread(served.arco, "cancel", run_id))
        await until(lambda: running_jobs(port) == 0, within_s=5)
        took = time.monotonic() - begun
        assert (await cancelling).returncode == 0
        figure(f"cancel: Spark's job was gone {took:.2f} s after `arco cancel`")
        assert (await cluster.over(run_id)).status is RunStatus.CANCELLED
        await asyncio.to_thread(process.process.wait, 120)
        assert (await cluster.coordinator.get_run(run_id)).status is RunStatus.CANCELLED
        assert await cluster.rows(SLOW) in ({}, {SLOW: []})
        retried = await asyncio.to_thread(place.arco, "retry", run_id, *flags, "--json")
        assert retried.code == 0, retried.errors
        assert (await cluster.coordinator.get_run(run_id)).status is RunStatus.CANCELLED
        assert await cluster.rows(QUICK, SLOW) == rows_after([FIRST], [QUICK, SLOW])
