"""The engine on Spark keeps the promises of every engine, in one task as in two stages."""

import pytest

from tests.compactor.engine_claims import *  # noqa: F403
from tests.compactor.engine_claims import Floor
from tests.spark.floors import Floors


@pytest.fixture(params=["small", "large"])
def floor(request: pytest.FixtureRequest, floors: Floors) -> Floor:
    return floors.floor() if request.param == "small" else floors.floor(small_bytes=10_000)
