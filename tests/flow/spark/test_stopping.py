"""Stopping: by the word to stop, and by the end of Spark itself."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from arco.flow.coordinator.messages import TaskStatus
from tests.flow.spark.house import House, Watched

SLEEPY = """
import time

def nap(x):
    time.sleep(60)
    return x

@asset("$.slow")
def slow(spark):
    return spark.range(0, 2, 1, 2).select(F.udf(nap, "long")("id").alias("id"))

@asset("$.quick")
def quick(spark, ctx):
    return spark.range(1)
"""


def _wait(until: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.02)


def _busy(house: House) -> int:
    """How many tasks Spark works on."""
    tracker: Any = house.shared.open().sparkContext._jsc.sc().statusTracker()
    return sum(
        tracker.getStageInfo(stage).get().numActiveTasks() for stage in tracker.getActiveStageIds()
    )


def test_an_interrupted_attempt_is_gone_within_two_seconds(house: House) -> None:
    house.project(SLEEPY)
    house.made("$.quick")
    task, watch = house.lease("$.slow"), Watched()
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(house.carry_out, task, watch)
        _wait(lambda: "writing" in watch.phases and _busy(house) > 0)
        begun = time.monotonic()
        house.executor.interrupt(task.attempt_id)
        outcome = ending.result(30)
        assert time.monotonic() - begun < 2
    assert outcome.status is TaskStatus.CANCELLED
    assert outcome.outputs == ()
    assert house.made("$.quick").outputs[0].rows == 1


ON_ROWS = """
import time

def nap(row):
    time.sleep(60)

@task(writes=["$.outside"])
def on_rows(spark, ctx):
    ctx.report.progress(0.5, "at it")
    spark.range(0, 2, 1, 2).rdd.foreach(nap)

@asset("$.quick")
def quick(spark):
    return spark.range(1)
"""


def _jobs(house: House) -> int:
    """How many jobs Spark itself says it has."""
    tracker: Any = house.shared.open().sparkContext._jsc.sc().statusTracker()
    return len(tracker.getActiveJobIds())


def test_a_task_that_works_on_rows_without_a_query_is_gone_within_two_seconds(house: House) -> None:
    house.project(ON_ROWS)
    house.made("$.quick")
    task, watch = house.lease("on_rows"), Watched()
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(house.carry_out, task, watch)
        _wait(lambda: _busy(house) > 0)
        begun = time.monotonic()
        house.executor.interrupt(task.attempt_id)
        _wait(lambda: _jobs(house) == 0, seconds=2)
        outcome = ending.result(30)
        assert time.monotonic() - begun < 2
    assert outcome.status is TaskStatus.CANCELLED
    assert house.made("$.quick").outputs[0].rows == 1


def test_stopping_one_task_on_rows_leaves_the_other_alone(house: House) -> None:
    code = ON_ROWS.replace("range(0, 2, 1, 2)", "range(0, 1, 1, 1)")
    house.project(code.replace("time.sleep(60)", "time.sleep(2)"))
    stopped, other = house.lease("on_rows"), house.lease("on_rows")
    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(house.carry_out, each) for each in (stopped, other)]
        _wait(lambda: _jobs(house) == 2)
        house.executor.interrupt(stopped.attempt_id)
        found = [each.result(30).status for each in ends]
    assert found == [TaskStatus.CANCELLED, TaskStatus.SUCCESS]


def test_a_short_task_does_not_wait_until_a_long_one_is_through(house: House) -> None:
    house.project(
        ON_ROWS.replace("range(0, 2, 1, 2)", "range(0, 40, 1, 40)").replace("(60)", "(0.5)")
    )
    house.made("$.quick")
    long = house.lease("on_rows")
    with ThreadPoolExecutor(2) as pool:
        ending = pool.submit(house.carry_out, long)
        _wait(lambda: _busy(house) > 1)
        short = pool.submit(house.made, "$.quick")
        short.result(60)
        assert not ending.done()
        house.executor.interrupt(long.attempt_id)
        assert ending.result(30).status is TaskStatus.CANCELLED


def test_a_thread_is_free_of_its_task_once_that_is_over(house: House) -> None:
    house.project(SLEEPY)
    house.made("$.quick")
    context = house.shared.open().sparkContext
    assert not context.getJobTags()
    assert context.getLocalProperty("spark.scheduler.pool") is None


def test_what_was_stopped_meanwhile_is_not_published(house: House) -> None:
    house.project(SLEEPY)
    house.made("$.quick")

    class StopsLate(Watched):
        def is_stopped(self) -> bool:
            return "checking" in self.phases

    outcome = house.carry_out(house.lease("$.quick"), StopsLate())
    assert outcome.status is TaskStatus.CANCELLED
    assert len(house.rows("$.quick")) == 1


@pytest.mark.interop
def test_an_attempt_that_loses_its_jvm_is_given_back_and_the_next_one_has_a_new_one(
    house: House,
) -> None:
    house.project(SLEEPY)
    task, watch = house.lease("$.slow"), Watched()
    opened = house.shared.opened
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(house.carry_out, task, watch)
        _wait(lambda: "writing" in watch.phases and _busy(house) > 0)
        process: Any = house.shared.open().sparkContext._gateway.proc  # type: ignore[union-attr]
        jvm = int(house.spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
        os.kill(jvm, signal.SIGKILL)
        process.wait(10)
        begun = time.monotonic()
        outcome = ending.result(30)
        assert time.monotonic() - begun < 5
    assert (outcome.status, outcome.may_retry) == (TaskStatus.CANCELLED, True)
    assert outcome.error == "Spark was lost while it worked on this: its process has ended"
    assert house.made("$.quick").outputs[0].rows == 1
    assert house.shared.opened == opened + 1
