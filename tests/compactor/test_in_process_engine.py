"""The engine in process keeps the contract of engines, with one shard and with several."""

import pytest

from arco.core.runtime import Runtime
from arco.storage.roles import Role
from tests.compactor.engine_contract import *  # noqa: F403
from tests.compactor.engine_contract import EngineSetup
from tests.compactor.in_process_engine import InProcessEngine
from tests.stores import open_bench


@pytest.fixture(params=[1, 3])
def engine_setup(request: pytest.FixtureRequest, runtime: Runtime) -> EngineSetup:
    stores = open_bench("memory://", runtime)
    compactor = stores.store(Role.COMPACTOR)
    return EngineSetup(
        stores.store(Role.API), compactor, InProcessEngine(compactor, shards=request.param)
    )
