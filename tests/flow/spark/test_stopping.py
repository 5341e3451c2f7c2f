"""Stopping attempts: on request, and by the end of Spark itself."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from arco.flow.coordinator.messages import TaskStatus
from tests.flow.spark.harness import Harness, RecordingWatch

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


def _busy(harness: Harness) -> int:
    """How many tasks Spark works on."""
    tracker: Any = harness.shared.open().sparkContext._jsc.sc().statusTracker()
    return sum(
        tracker.getStageInfo(stage).get().numActiveTasks() for stage in tracker.getActiveStageIds()
    )


def test_an_interrupted_attempt_ends_within_two_seconds(harness: Harness) -> None:
    harness.project(SLEEPY)
    harness.materialize("$.quick")
    task, watch = harness.lease("$.slow"), RecordingWatch()
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(harness.execute, task, watch)
        _wait(lambda: "writing" in watch.phases and _busy(harness) > 0)
        begun = time.monotonic()
        harness.executor.interrupt(task.attempt_id)
        outcome = ending.result(30)
        assert time.monotonic() - begun < 2
    assert outcome.status is TaskStatus.CANCELLED
    assert outcome.outputs == ()
    assert harness.materialize("$.quick").outputs[0].rows == 1


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


def _jobs(harness: Harness) -> int:
    """How many jobs Spark itself says it has."""
    tracker: Any = harness.shared.open().sparkContext._jsc.sc().statusTracker()
    return len(tracker.getActiveJobIds())


def test_a_task_that_uses_rdds_ends_within_two_seconds(harness: Harness) -> None:
    harness.project(ON_ROWS)
    harness.materialize("$.quick")
    task, watch = harness.lease("on_rows"), RecordingWatch()
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(harness.execute, task, watch)
        _wait(lambda: _busy(harness) > 0)
        begun = time.monotonic()
        harness.executor.interrupt(task.attempt_id)
        _wait(lambda: _jobs(harness) == 0, seconds=2)
        outcome = ending.result(30)
        assert time.monotonic() - begun < 2
    assert outcome.status is TaskStatus.CANCELLED
    assert harness.materialize("$.quick").outputs[0].rows == 1


def test_stopping_one_task_on_rows_leaves_the_other_alone(harness: Harness) -> None:
    code = ON_ROWS.replace("range(0, 2, 1, 2)", "range(0, 1, 1, 1)")
    harness.project(code.replace("time.sleep(60)", "time.sleep(2)"))
    stopped, other = harness.lease("on_rows"), harness.lease("on_rows")
    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(harness.execute, each) for each in (stopped, other)]
        _wait(lambda: _jobs(harness) == 2)
        harness.executor.interrupt(stopped.attempt_id)
        statuses = [each.result(30).status for each in ends]
    assert statuses == [TaskStatus.CANCELLED, TaskStatus.SUCCESS]


def test_a_short_task_does_not_wait_until_a_long_one_is_through(harness: Harness) -> None:
    harness.project(
        ON_ROWS.replace("range(0, 2, 1, 2)", "range(0, 40, 1, 40)").replace("(60)", "(0.5)")
    )
    harness.materialize("$.quick")
    long = harness.lease("on_rows")
    with ThreadPoolExecutor(2) as pool:
        ending = pool.submit(harness.execute, long)
        _wait(lambda: _busy(harness) > 1)
        short = pool.submit(harness.materialize, "$.quick")
        short.result(60)
        assert not ending.done()
        harness.executor.interrupt(long.attempt_id)
        assert ending.result(30).status is TaskStatus.CANCELLED


def test_a_thread_is_free_of_its_task_once_that_is_over(harness: Harness) -> None:
    harness.project(SLEEPY)
    harness.materialize("$.quick")
    context = harness.shared.open().sparkContext
    assert not context.getJobTags()
    assert context.getLocalProperty("spark.scheduler.pool") is None


def test_what_was_stopped_meanwhile_is_not_published(harness: Harness) -> None:
    harness.project(SLEEPY)
    harness.materialize("$.quick")

    class StopsLate(RecordingWatch):
        def is_stopped(self) -> bool:
            return "checking" in self.phases

    outcome = harness.execute(harness.lease("$.quick"), StopsLate())
    assert outcome.status is TaskStatus.CANCELLED
    assert len(harness.rows("$.quick")) == 1


@pytest.mark.interop
def test_an_attempt_that_loses_its_jvm_is_given_back_and_the_next_one_has_a_new_one(
    harness: Harness,
) -> None:
    harness.project(SLEEPY)
    task, watch = harness.lease("$.slow"), RecordingWatch()
    opened = harness.shared.opened
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(harness.execute, task, watch)
        _wait(lambda: "writing" in watch.phases and _busy(harness) > 0)
        process: Any = harness.shared.open().sparkContext._gateway.proc  # type: ignore[union-attr]
        jvm = int(harness.spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
        os.kill(jvm, signal.SIGKILL)
        process.wait(10)
        begun = time.monotonic()
        outcome = ending.result(30)
        assert time.monotonic() - begun < 5
    assert (outcome.status, outcome.may_retry) == (TaskStatus.CANCELLED, True)
    assert (outcome.error or "").startswith(
        "Spark was lost while the task ran: its process has ended"
    )
    assert harness.materialize("$.quick").outputs[0].rows == 1
    assert harness.shared.opened == opened + 1
