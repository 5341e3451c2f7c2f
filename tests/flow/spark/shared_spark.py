"""The Spark and the Arco that the tests of this folder share."""

from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from arco.client.task_catalog import HttpTaskCatalog
from arco.core.runtime import Runtime
from arco.flow.spark.engine import WorkerSpark, is_alive, reset_gateway
from arco.flow.spark.jars import Jars
from arco.flow.spark.session import CatalogSettings, open_session

# Compiling code well costs more than what these few rows would gain from it.
SETTINGS = {
    "spark.default.parallelism": "2",
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}


class SharedSpark:
    """A session that is opened when it is first used, and after a test has ended its JVM."""

    def __init__(self, url: str, jar: Path, scratch: Path, runtime: Runtime) -> None:
        self.url = url
        self.runtime = runtime
        self.catalog = HttpTaskCatalog(url, runtime)
        self._jar = jar
        self._scratch = scratch
        self._session: SparkSession | None = None
        self.opened = 0

    def open(self) -> SparkSession:
        """What an executor is given to start Spark with."""
        if self._session is None or not is_alive(self._session):
            if SparkContext._gateway is not None:  # of tests elsewhere, whose JVM has no Iceberg
                reset_gateway()
            folder = str(self._scratch)
            self._session = open_session(
                "local[2]",
                catalogs=(CatalogSettings("default", self.url),),
                jars=Jars((self._jar,)),
                settings={**SETTINGS, "spark.local.dir": folder, "spark.sql.warehouse.dir": folder},
                memory="1g",
            )
            self.opened += 1
        return self._session

    def close(self) -> None:
        engine = WorkerSpark(self.open)
        if self._session is not None:
            engine.new_session()
        engine.close()
        self.catalog.close()
