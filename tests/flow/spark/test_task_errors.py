"""Errors of attempts: requeued if Arco or Spark cannot be reached, and hints for the user."""

import pytest

from arco.core.errors import ArcoError, StoreFull, Unavailable, Unknown
from arco.flow.coordinator.messages import TaskStatus
from arco.flow.spark.session import NoSpark
from arco.flow.spark.task_errors import infrastructure_error, memory_hint, requeued_outcome
from tests.flow.spark.harness import Harness

NOBODY = "http://127.0.0.1:9"  # no program listens there

WRITING = f"""
@asset("$.sales", format="iceberg")
def sales(spark):
    spark.conf.set("spark.sql.catalog.default.uri", "{NOBODY}/iceberg")
    return spark.range(2)
"""

READING_ELSEWHERE = """
@asset("$.sales", format="iceberg")
def sales(spark):
    spark._jvm.java.net.Socket("127.0.0.1", 9)
    return spark.range(2)
"""


def test_an_attempt_that_cannot_reach_arco_is_requeued(harness: Harness) -> None:
    outcome = harness.project(WRITING).run("$.sales")
    assert outcome.status is TaskStatus.CANCELLED
    assert outcome.may_retry
    assert outcome.error is not None
    assert outcome.error.startswith("Arco could not be reached while the task ran: ")
    assert "your code" not in outcome.error
    assert "sales" not in outcome.error


def test_what_the_users_own_code_cannot_reach_is_a_failure(harness: Harness) -> None:
    outcome = harness.project(READING_ELSEWHERE).run("$.sales")
    assert outcome.status is TaskStatus.FAILED
    assert outcome.error is not None
    assert "pipelines/all.py" in outcome.error


@pytest.mark.parametrize("problem", [Unavailable("not now"), Unknown("perhaps")])
def test_so_is_one_whose_calls_were_not_answered(problem: ArcoError) -> None:
    assert infrastructure_error(problem) is problem
    assert requeued_outcome(problem).pause_ms == 0


def test_an_attempt_without_spark_is_requeued_after_a_pause() -> None:
    problem = NoSpark("Spark at spark://host:7077 could not be reached or started: no answer")
    assert infrastructure_error(problem) is problem
    outcome = requeued_outcome(problem)
    assert (outcome.status, outcome.may_retry) == (TaskStatus.CANCELLED, True)
    assert outcome.error == str(problem)
    assert outcome.pause_ms >= 1_000


def test_any_other_problem_is_none_of_these() -> None:
    assert infrastructure_error(ValueError("mine")) is None
    assert infrastructure_error(StoreFull("the store is full")) is None


@pytest.mark.parametrize(
    "problem",
    [
        MemoryError(),
        RuntimeError("java.lang.OutOfMemoryError: Java heap space"),
        RuntimeError("SparkException: Python worker exited unexpectedly (crashed)"),
        RuntimeError("Container killed by YARN for exceeding memory limits. 5.5 GB used"),
        RuntimeError("The executor with id 1 exited with exit code 137(SIGKILL, possible OOM)"),
    ],
)
def test_memory_is_named(problem: Exception) -> None:
    assert "--memory" in (memory_hint(problem) or "")
    caused = ValueError("the step failed")
    caused.__cause__ = problem
    assert "--memory" in (memory_hint(caused) or "")


def test_other_errors_have_no_memory_hint() -> None:
    assert memory_hint(ValueError("x")) is None
