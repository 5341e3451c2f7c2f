"""Stopping: by the word to stop, and by the end of Spark itself."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from arco.flow.run.wire import TaskStatus
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
def test_a_lost_jvm_fails_the_attempt_and_the_next_one_has_a_new_one(house: House) -> None:
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
    assert outcome.status is TaskStatus.FAILED
    assert outcome.may_retry
    assert outcome.error == "Spark was lost while it worked on this: its process has ended"
    assert house.made("$.quick").outputs[0].rows == 1
    assert house.shared.opened == opened + 1
