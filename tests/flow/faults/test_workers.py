"""Workers and servers as real processes that are killed, stopped and begun again while they work."""

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
from tests.flow.faults.crew import Hand, crew_of, until
from tests.flow.faults.pipeline import FIRST, NAP, SECOND, rows_after
from tests.flow.faults.place import Place
from tests.flow.faults.spark import FLAGS

pytestmark = pytest.mark.interop

BOTH = ("made.iceberg_append", "made.parquet_append")
NAP_MS = 8_000


async def test_what_a_killed_worker_held_is_taken_over_after_one_lease(
    place: Place, jar: None, tmp_path: Path, figure: Figure
) -> None:
    async with crew_of(place, tmp_path, "one", "two") as crew:
        run_id = crew.submit(*BOTH, partitions=FIRST, nap_ms=NAP_MS)
        task = await crew.at_work(run_id)
        assert task.worker in crew.hands
        begun = time.monotonic()
        crew.hands[task.worker].end()
        view = await crew.over(run_id)
        took = time.monotonic() - begun
        assert view.status is RunStatus.SUCCESS, view
        assert await crew.rows(*BOTH) == rows_after([FIRST], BOTH)
        again = next(each for each in view.changed if each.key == task.key)
        assert again.attempt == 2
        assert again.worker != task.worker
        figure(f"worker killed: the run ended {took:.0f} s later, nothing lost or doubled")


async def test_a_worker_that_stood_still_cannot_publish_what_another_has_made(
    place: Place, jar: None, tmp_path: Path
) -> None:
    async with crew_of(place, tmp_path, "one", "two") as crew:
        for table in BOTH:
            run_id = crew.submit(table, partitions=FIRST, nap_ms=NAP_MS)
            task = await crew.at_work(run_id)
            assert task.worker is not None
            still = crew.hands[task.worker]
            still.send(signal.SIGSTOP)
            try:
                view = await crew.over(run_id)
            finally:
                still.send(signal.SIGCONT)
            assert view.status is RunStatus.SUCCESS, view
            # It notices that its task is gone, and says so of it.
            await until(partial(_says_twice, still, task.key))
            assert f"success   {task.key}" not in still.said
            assert await crew.rows(table) == rows_after([FIRST], [table])


def _says_twice(hand: Hand, key: str) -> bool:
    """That it has begun with a task, and how that ended."""
    return hand.said.count(key) >= 2


async def test_a_run_goes_on_after_the_server_was_killed_and_begun_again(
    tmp_path: Path, jar: None
) -> None:
    # Spark itself speaks to the catalog: what it meets while that is away costs an attempt.
    place = Place(tmp_path, retries=1)
    async with crew_of(place, tmp_path, "one", "two") as crew:
        run_id = crew.submit(*BOTH, partitions=f"{FIRST}..{SECOND}", nap_ms=NAP_MS)
        await crew.at_work(run_id)
        crew.server.kill()
        await asyncio.sleep(2)
        await crew.server.start()
        view = await crew.over(run_id)
        assert view.status is RunStatus.SUCCESS, view
        assert await crew.rows(*BOTH) == rows_after([FIRST, SECOND], BOTH)


async def test_a_run_whose_jvm_is_killed_starts_another_and_goes_on(
    tmp_path: Path, jar: None
) -> None:
    place = Place(tmp_path)
    flags = ("--project", str(place.project), "--root", str(place.root), "--no-fsync")
    naps = ("--param", f"{NAP}={NAP_MS}", "--partitions", FIRST)
    hand = Hand(["run", *BOTH, *flags, *naps, *FLAGS], tmp_path / "run.log")
    try:
        # A part is written, another naps.
        await until(lambda: any(place.root.rglob("warehouse/*/data/**/*.parquet")))
        jvm = hand.jvm()
        assert jvm is not None
        os.kill(jvm, signal.SIGKILL)
        assert await asyncio.to_thread(hand.process.wait, 600) == 0, hand.said
    finally:
        hand.end()
    rows = await asyncio.to_thread(rows_at, place.root, BOTH)
    assert rows == rows_after([FIRST], BOTH)
