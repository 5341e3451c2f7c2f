import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.flow.lineage.cases import CASES
from tests.flow.lineage.expected_lineage import Case
from tests.flow.lineage.matrix import run_case
from tests.iceberg_jar import iceberg_jar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = [case for case in CASES if "quick" in case.tags]


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
def test_what_was_observed_is_the_truth(spark: "SparkSession", case: Case) -> None:
    outcome = run_case(spark, case)
    assert outcome.is_right, outcome.difference()
    assert not outcome.observation.note
    assert outcome.spent_ms < 150


def test_each_case_has_a_name_of_its_own_and_there_are_many() -> None:
    names = {case.name for case in CASES}
    assert len(names) == len(CASES) >= 34
    assert len(QUICK) == 8


@pytest.mark.interop
@pytest.mark.timeout(600)
def test_the_whole_matrix_holds_with_iceberg_on_a_spark_of_its_own() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.flow.lineage.matrix", str(iceberg_jar())],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr[-2_000:]
    assert f"{len(CASES)} of {len(CASES)} right" in ran.stdout
