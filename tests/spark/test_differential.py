"""A handful of random histories on Spark: what it publishes is what this process makes of them."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from arco.core.runtime import Runtime
from tests.differential.spark import SparkSites, check_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("seed", [1, 2])
async def test_spark_publishes_the_same_rows(
    seed: int, session: "SparkSession", spark_runtime: Runtime, tmp_path: Path
) -> None:
    result = await check_on_spark(seed, SparkSites(session, spark_runtime, tmp_path))
    assert result.problems == []
    assert result.tally["cycles"] > 0
