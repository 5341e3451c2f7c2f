"""The engine on Spark keeps the promises of every engine, in one task as in two stages."""

import pytest

from arco.compactor.spark.engine import JobSizes
from tests.compactor.engine_claims import *  # noqa: F403
from tests.compactor.engine_claims import Floor
from tests.spark.floors import Floors


@pytest.fixture(params=["small", "large"])
def floor(request: pytest.FixtureRequest, floors: Floors) -> Floor:
    if request.param == "small":
        return floors.floor()
    return floors.floor(JobSizes(small=1_000, task=60_000, shard=60_000))
