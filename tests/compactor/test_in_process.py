"""The engine in process keeps the promises of every engine, in one shard as in several."""

import pytest

from arco.core.runtime import Runtime
from arco.storage.roles import Role
from tests.compactor.engine_claims import *  # noqa: F403
from tests.compactor.engine_claims import Floor
from tests.compactor.in_process_engine import InProcessEngine
from tests.stores import open_bench


@pytest.fixture(params=[1, 3])
def floor(request: pytest.FixtureRequest, runtime: Runtime) -> Floor:
    stores = open_bench("memory://", runtime)
    compactor = stores.store(Role.COMPACTOR)
    return Floor(
        stores.store(Role.API), compactor, InProcessEngine(compactor, shards=request.param)
    )
