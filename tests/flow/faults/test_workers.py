"""Workers and servers as real processes that are killed, stopped and restarted while they work."""

import asyncio
import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from arco.flow.coordinator.messages import RunStatus
from tests.figures import Figure
from tests.flow.faults.audit import rows_at
from tests.flow.faults.cluster import ArcoProcess, start_cluster, until
from tests.flow.faults.pipeline import FIRST, NAP, SECOND, rows_after
from tests.flow.faults.project_root import ProjectRoot
from tests.flow.faults.spark_flags import FLAGS

pytestmark = pytest.mark.interop

BOTH = ("made.iceberg_append", "made.parquet_append")
NAP_MS = 8_000


async def test_what_a_killed_worker_held_is_taken_over_after_one_lease(
    place: ProjectRoot, jar: None, tmp_path: Path, figure: Figure
) -> None:
    async with start_cluster(place, tmp_path, "one", "two") as cluster:
        run_id = cluster.submit(*BOTH, partitions=FIRST, nap_ms=NAP_MS)
        task = await cluster.at_work(run_id)
        assert task.worker in cluster.processes
        begun = time.monotonic()
        cluster.processes[task.worker].end()
        view = await cluster.over(run_id)
        took = time.monotonic() - begun
        assert view.status is RunStatus.SUCCESS, view
        assert await cluster.rows(*BOTH) == rows_after([FIRST], BOTH)
        second = next(each for each in view.changed if each.key == task.key)
        assert second.attempt == 2
        assert second.worker != task.worker
        figure(f"worker killed: the run ended {took:.0f} s later, nothing lost or doubled")


async def test_a_worker_that_was_paused_cannot_publish_after_another(
    place: ProjectRoot, jar: None, tmp_path: Path
) -> None:
    async with start_cluster(place, tmp_path, "one", "two") as cluster:
        for table in BOTH:
            run_id = cluster.submit(table, partitions=FIRST, nap_ms=NAP_MS)
            task = await cluster.at_work(run_id)
            assert task.worker is not None
            still = cluster.processes[task.worker]
            still.send(signal.SIGSTOP)
            try:
                view = await cluster.over(run_id)
            finally:
                still.send(signal.SIGCONT)
            assert view.status is RunStatus.SUCCESS, view
            # It notices and reports that its task was leased to another worker.
            await until(partial(_says_twice, still, task.key))
            assert f"success   {task.key}" not in still.output
            assert await cluster.rows(table) == rows_after([FIRST], [table])


def _says_twice(process: ArcoProcess, key: str) -> bool:
    """That it has begun with a task, and how that ended."""
    return process.output.count(key) >= 2


async def test_a_run_goes_on_after_the_server_was_killed_and_begun_again(
    tmp_path: Path, jar: None
) -> None:
    # Spark itself speaks to the catalog: what it meets while that is away costs an attempt.
    place = ProjectRoot(tmp_path, retries=1)
    async with start_cluster(place, tmp_path, "one", "two") as cluster:
        run_id = cluster.submit(*BOTH, partitions=f"{FIRST}..{SECOND}", nap_ms=NAP_MS)
        await cluster.at_work(run_id)
        cluster.server.kill()
        await asyncio.sleep(2)
        await cluster.server.start()
        view = await cluster.over(run_id)
        assert view.status is RunStatus.SUCCESS, view
        assert await cluster.rows(*BOTH) == rows_after([FIRST, SECOND], BOTH)


async def test_a_run_whose_jvm_is_killed_starts_another_and_goes_on(
    tmp_path: Path, jar: None
) -> None:
    place = ProjectRoot(tmp_path)
    flags = ("--project", str(place.project), "--root", str(place.root), "--no-fsync")
    naps = ("--param", f"{NAP}={NAP_MS}", "--partitions", FIRST)
    process = ArcoProcess(["run", *BOTH, *flags, *naps, *FLAGS], tmp_path / "run.log")
    try:
        # A part is written, another naps.
        await until(lambda: any(place.root.rglob("warehouse/*/data/**/*.parquet")))
        jvm = process.jvm()
        assert jvm is not None
        os.kill(jvm, signal.SIGKILL)
        assert await asyncio.to_thread(process.process.wait, 600) == 0, process.output
    finally:
        process.end()
    rows = await asyncio.to_thread(rows_at, place.root, BOTH)
    assert rows == rows_after([FIRST], BOTH)
