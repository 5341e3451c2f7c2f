"""The engine on Spark keeps the promises of every engine, in one task as in two stages."""

import pytest

from arco.compactor.spark.engine import JobSizes
from tests.compactor.engine_contract import *  # noqa: F403
from tests.compactor.engine_contract import EngineSetup
from tests.spark.spark_engines import SparkEngines


@pytest.fixture(params=["small", "large"])
def engine_setup(request: pytest.FixtureRequest, spark_engines: SparkEngines) -> EngineSetup:
    if request.param == "small":
        return spark_engines.engine_setup()
    return spark_engines.engine_setup(JobSizes(small=1_000, task=60_000, shard=60_000))
