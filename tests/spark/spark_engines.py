"""Engines on Spark, and the stores that they work on."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.address import parse_address
from arco.storage.open import make_store_spec
from arco.storage.roles import Role
from tests.compactor.engine_contract import EngineSetup
from tests.stores import open_bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arco.compactor.spark.engine import JobSizes


@dataclass(frozen=True)
class SparkEngines:
    """Engines of one session, over one store."""

    session: "SparkSession"
    runtime: Runtime
    url: str

    def engine_setup(
        self, sizes: "JobSizes | None" = None, *, patience_ms: float = 600_000
    ) -> EngineSetup:
        from arco.compactor.spark.engine import SparkEngine

        stores = open_bench(self.url, self.runtime)
        spec = make_store_spec(parse_address(self.url), Scope(), fsync=False)
        engine = SparkEngine(self.session, spec, self.runtime, sizes, patience_ms=patience_ms)
        return EngineSetup(stores.store(Role.API), stores.store(Role.COMPACTOR), engine)
