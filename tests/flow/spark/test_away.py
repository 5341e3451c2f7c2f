"""An Arco, or a Spark, that is away: the attempt is given back, and nobody is blamed."""

import pytest

from arco.core.errors import ArcoError, StoreFull, Unavailable, Unknown
from arco.flow.coordinator.messages import TaskStatus
from arco.flow.spark.away import away
from arco.flow.spark.outcome import given_back
from arco.flow.spark.session import NoSpark
from tests.flow.spark.house import House

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


def test_an_attempt_during_which_arco_is_away_is_given_back(house: House) -> None:
    outcome = house.project(WRITING).run("$.sales")
    assert outcome.status is TaskStatus.CANCELLED
    assert outcome.may_retry
    assert outcome.error is not None
    assert outcome.error.startswith("Arco was away while this was worked on: ")
    assert "your code" not in outcome.error
    assert "sales" not in outcome.error


def test_what_the_users_own_code_cannot_reach_is_a_failure(house: House) -> None:
    outcome = house.project(READING_ELSEWHERE).run("$.sales")
    assert outcome.status is TaskStatus.FAILED
    assert outcome.error is not None
    assert "pipelines/all.py" in outcome.error


@pytest.mark.parametrize("problem", [Unavailable("not now"), Unknown("perhaps")])
def test_so_is_one_whose_calls_were_not_answered(problem: ArcoError) -> None:
    assert away(problem) is problem
    assert given_back(problem).pause_ms == 0


def test_so_is_one_for_which_spark_does_not_start_and_the_next_is_not_made_at_once() -> None:
    problem = NoSpark("Spark at spark://host:7077 could not be reached or started: nobody answers")
    assert away(problem) is problem
    outcome = given_back(problem)
    assert (outcome.status, outcome.may_retry) == (TaskStatus.CANCELLED, True)
    assert outcome.error == str(problem)
    assert outcome.pause_ms >= 1_000


def test_any_other_problem_is_none_of_these() -> None:
    assert away(ValueError("mine")) is None
    assert away(StoreFull("somebody has to make room")) is None
