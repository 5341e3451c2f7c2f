"""Sessions: Spark set up for pipelines, with the catalogs of Arco under their own names.

`spark.table("silver.orders")` finds what Arco calls `default.silver.orders`. Settings of the caller win
over ours: a cluster, a store with other credentials and Spark's own tuning are theirs to say.
"""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from arco.core.environment import pipeline_environment, started_with
from arco.core.errors import Unavailable, Unsupported
from arco.core.java import check_java, quieten_gateway
from arco.flow.define.table_name import DEFAULT_CATALOG
from arco.flow.spark.jars import SPARK_PACKAGE, VARIABLE, WITHOUT_IT, Jars
from arco.flow.spark.jvm import java_message

LOCAL = "local[*]"
MEMORY = "2g"
STAGING_CATALOG = "arco_staging"  # where files are written that no table has yet

_OURS = {
    "spark.app.name": "arco",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.log.level": "ERROR",
    "spark.scheduler.mode": "FAIR",  # a pool for each task: see `thread_jobs`
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A worker runs for months: it need not remember all it has done.
    "spark.sql.ui.retainedExecutions": "50",
    "spark.ui.retainedJobs": "1000",  # lineage looks among them for rows that no query tells of
    "spark.ui.retainedStages": "2000",
    "spark.ui.retainedTasks": "1000",
}
# What pyspark logs of each error that it raises; whoever gets the error tells it once.
_TOLD_ANYWAY = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_SILENT = logging.CRITICAL + 1

# Two hundred parts are for clusters: what one machine can hold in memory is sorted in fewer.
_OURS_HERE = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "32",
}


class NoSpark(Unavailable):
    """Spark could not be reached or started."""

    code = "no_spark"


@dataclass(frozen=True)
class CatalogDoor:
    """A catalog of Arco: its name, the URL of that Arco, and a token if it asks for one."""

    name: str
    url: str
    token: str | None = None
    store: Mapping[str, str] = field(default_factory=dict)  # what it does not tell of its store

    def settings(self) -> dict[str, str]:
        """What makes Spark know it."""
        prefix = f"spark.sql.catalog.{self.name}"
        said = {
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            f"{prefix}.type": "rest",
            f"{prefix}.uri": f"{self.url.rstrip('/')}/iceberg",
            f"{prefix}.warehouse": self.name,
            # A table may have changed since the last task, which was in the same JVM.
            f"{prefix}.cache-enabled": "false",
            **{f"{prefix}.{name}": value for name, value in self.store.items()},
        }
        return said if self.token is None else {**said, f"{prefix}.token": self.token}


def open_session(
    master: str = LOCAL,
    *,
    catalogs: Sequence[CatalogDoor] = (),
    jars: Jars | None = None,
    settings: Mapping[str, str] | None = None,
    memory: str = MEMORY,
) -> SparkSession:
    """A session of a master; `Unsupported` if something is missing, `NoSpark` if it does not start.

    Without `catalogs` no table of Iceberg is known. Jars of the caller's settings are taken along.
    """
    if master.startswith("sc://"):
        raise Unsupported(
            "pipelines need a Spark that runs their driver here: name a master such as local[*], "
            "spark://host:7077, yarn or k8s://https://host"
        )
    check_java()
    conf = {**_OURS, **_place(master, memory), **_iceberg(catalogs), **(settings or {})}
    if jars is not None:
        conf |= _together(jars.settings(), conf)
    if master.startswith(("local", "spark://")):
        # The workers need the libraries that this process has; elsewhere only the cluster knows.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    quieten_gateway()
    for told in _TOLD_ANYWAY:
        PySparkLogger.getLogger(told).setLevel(_SILENT)
    builder = SparkSession.builder.master(master)
    for name, value in conf.items():
        builder = builder.config(name, value)
    try:
        # What proves that a caller is Arco, or its user, is not for the code of pipelines: catalogs have
        # their tokens in the settings.
        with started_with(pipeline_environment(os.environ)):
            return builder.getOrCreate()
    except Exception as problem:
        if jars is not None and jars.package is not None:
            raise Unsupported(
                f"Spark did not start, as it seems because {SPARK_PACKAGE} could not be fetched: go "
                f"online, set {VARIABLE} to the jar, {WITHOUT_IT}"
            ) from problem
        said = f"Spark at {master} could not be reached or started: {java_message(problem)}"
        raise NoSpark(said) from problem


def _iceberg(catalogs: Sequence[CatalogDoor]) -> dict[str, str]:
    if not catalogs:
        return {}
    conf = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.defaultCatalog": DEFAULT_CATALOG,
        f"spark.sql.catalog.{STAGING_CATALOG}": "org.apache.iceberg.spark.SparkRewriteTableCatalog",
        # Iceberg's parser knows nothing of `spark.sql(..., args=...)` unless Spark binds them afterwards.
        "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
    }
    for door in catalogs:
        conf |= door.settings()
    return conf


def _together(jars: Mapping[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """Lists of jars, ours and those of the settings."""
    return {name: ",".join(filter(None, (ours, conf.get(name)))) for name, ours in jars.items()}


def _place(master: str, memory: str) -> dict[str, str]:
    """What depends on where the tasks run."""
    log4j = Path(__file__).with_name("log4j2.properties")
    conf = {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={log4j.as_uri()}"',
    }
    return {**conf, **_OURS_HERE} if master.startswith("local") else conf
