"""When workers die or callers give up: the job is done all the same, or the session works on."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from arco.compactor.engine import JobTooLarge, MergePart
from arco.compactor.spark.engine import JobSizes, SparkEngine
from arco.core.errors import Unavailable
from tests.compactor.engine_contract import DOMAIN
from tests.compactor.histories import expected, fold_job
from tests.processes.server import eventually
from tests.spark.spark_engines import SparkEngines

SEVERAL = JobSizes(small=60_000, task=200_000, shard=1_000_000)


def python_workers() -> list[int]:
    """The Python processes below Spark's daemon, which is one of our grandchildren."""
    parents = {
        int(path.name): _parent(path) for path in Path("/proc").iterdir() if path.name.isdigit()
    }
    daemons = [pid for pid in parents if b"arco.compactor.spark.daemon" in _command(pid)]
    return [
        pid for pid in daemons if parents[pid] in daemons and os.getpid() in _line(pid, parents)
    ]


def _line(pid: int, parents: dict[int, int]) -> list[int]:
    ancestors = []
    while pid in parents:
        ancestors.append(pid := parents[pid])
    return ancestors


def _parent(path: Path) -> int:
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


# Abandoned threads leave open sockets, for which a later test in this process must not be blamed.
GIVES_UP = pytest.mark.interop


async def test_a_job_whose_workers_are_killed_is_done_all_the_same(
    spark_engines: SparkEngines,
) -> None:
    engine_setup = spark_engines.engine_setup(SEVERAL)
    segments = await engine_setup.segments(1, lines=4_000, each=20)
    await engine_setup.fold(dict(list(segments.items())[:1]))  # so that there are workers
    job = asyncio.ensure_future(
        engine_setup.engine.fold(fold_job(engine_setup.store, DOMAIN, segments))
    )
    killed = 0
    for _ in range(2):
        await asyncio.sleep(0.7)
        for pid in python_workers():
            os.kill(pid, signal.SIGKILL)
            killed += not job.done()
    folded = await job
    assert killed
    assert await engine_setup.rows(*folded.files) == expected(DOMAIN, segments)
    assert folded.counts.events == 4_000


async def test_a_divisible_job_of_too_many_rows_says_how_many_segments_fit(
    spark_engines: SparkEngines,
) -> None:
    engine_setup = spark_engines.engine_setup(JobSizes(small_rows=10, job_rows=200))
    segments = await engine_setup.segments(6, lines=400, each=20)
    job = fold_job(engine_setup.store, DOMAIN, segments)
    with pytest.raises(JobTooLarge) as caught:
        await engine_setup.engine.fold(replace(job, divisible=True))
    assert 0 < caught.value.fitting_segments < len(segments)
    folded = await engine_setup.engine.fold(job)
    assert await engine_setup.rows(*folded.files) == expected(DOMAIN, segments)


async def test_a_caller_that_gives_up_leaves_a_session_that_works(
    spark_engines: SparkEngines,
) -> None:
    engine_setup = spark_engines.engine_setup(SEVERAL)
    segments = await engine_setup.segments(2, lines=4_000, each=20)
    job = asyncio.ensure_future(
        engine_setup.engine.fold(fold_job(engine_setup.store, DOMAIN, segments))
    )
    await asyncio.sleep(0.7)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    few = dict(list(segments.items())[:3])
    assert await engine_setup.rows(*await engine_setup.fold(few)) == expected(DOMAIN, few)


@GIVES_UP
async def test_a_job_of_which_no_task_ends_is_given_up_and_with_it_the_session(
    spark_engines: SparkEngines,
) -> None:
    engine_setup = spark_engines.engine_setup(SEVERAL)
    segments = await engine_setup.segments(3, lines=4_000, each=20)
    hasty = spark_engines.engine_setup(SEVERAL, patience_ms=3)
    with pytest.raises(Unavailable, match=r"no task of Spark has ended for 5e-05 minutes"):
        await hasty.fold(segments)
    assert isinstance(hasty.engine, SparkEngine)
    assert hasty.engine.is_lost
    tracker = spark_engines.session.sparkContext.statusTracker()

    async def is_idle() -> bool:
        return not tracker.getActiveJobsIds()

    await eventually(is_idle, within_s=20)
    await asyncio.sleep(0.5)
    assert hasty.engine.is_lost, "the thread that was left has nothing to say in this"
    few = dict(list(segments.items())[:3])
    assert await engine_setup.rows(*await engine_setup.fold(few)) == expected(DOMAIN, few)


@GIVES_UP
async def test_a_jvm_that_hangs_is_given_up_and_delays_no_other_work(
    spark_engines: SparkEngines,
) -> None:
    engine_setup = spark_engines.engine_setup()
    segments = await engine_setup.segments(4, lines=20, each=10)
    hasty = spark_engines.engine_setup(patience_ms=1_000)
    jvm = spark_engines.session.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    os.kill(jvm, signal.SIGSTOP)
    try:
        with pytest.raises(Unavailable, match="no task of Spark has ended"):
            await hasty.fold(segments)
    finally:
        os.kill(jvm, signal.SIGCONT)
    assert isinstance(hasty.engine, SparkEngine)
    assert hasty.engine.is_lost
    assert await engine_setup.rows(*await engine_setup.fold(segments)) == expected(DOMAIN, segments)


@GIVES_UP
async def test_a_job_that_comes_on_may_take_as_long_as_it_needs(
    spark_engines: SparkEngines,
) -> None:
    many = JobSizes(small=10_000, task=10_000, shard=1_000_000)
    engine_setup = spark_engines.engine_setup(many)
    segments = await engine_setup.segments(5, lines=1_500, each=20)
    await engine_setup.fold(dict(list(segments.items())[:10]))  # so that there are workers
    began = time.monotonic()
    await engine_setup.fold(segments)
    took_ms = (time.monotonic() - began) * 1_000
    hasty = spark_engines.engine_setup(many, patience_ms=took_ms / 3)
    folded = await hasty.engine.fold(fold_job(hasty.store, DOMAIN, segments))
    assert folded.counts.events == 1_500


async def test_an_error_of_a_worker_is_printed_in_one_line(spark_engines: SparkEngines) -> None:
    part = MergePart(table="nobody_knows", buckets=(0,), tail=(), base={}, into_base=True)
    with pytest.raises(Unavailable) as met:
        await spark_engines.engine_setup().merge((part,))
    assert str(met.value) == "Spark could not carry out a job: KeyError: 'nobody_knows'"


async def test_warming_up_leaves_nothing_in_the_store(spark_engines: SparkEngines) -> None:
    engine = spark_engines.engine_setup().engine
    assert isinstance(engine, SparkEngine)
    await engine.warm_up()
    assert [path for path in Path(spark_engines.url).rglob("*") if path.is_file()] == []
