"""Opens Spark sessions for pipelines, with Arco's catalogs under their own names.

`spark.table("silver.orders")` finds the table `default.silver.orders` of Arco. Settings of the caller take
precedence over Arco's: for a cluster, a store with other credentials, or tuning.
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
from arco.flow.spark.jars import SPARK_PACKAGE, VARIABLE, WITHOUT_IT, Jars
from arco.flow.spark.jvm import java_message
from arco.flow.table_name import DEFAULT_CATALOG

LOCAL = "local[*]"
MEMORY = "2g"
STAGING_CATALOG = "arco_staging"  # for data files that are not part of a table yet

_DEFAULTS = {
    "spark.app.name": "arco",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.log.level": "ERROR",
    "spark.scheduler.mode": "FAIR",  # with a pool for each task: see `running_attempt`
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A worker runs for months: Spark need not keep its whole history.
    "spark.sql.ui.retainedExecutions": "50",
    "spark.ui.retainedJobs": "1000",  # lineage looks among them for jobs without a query
    "spark.ui.retainedStages": "2000",
    "spark.ui.retainedTasks": "1000",
}
# pyspark logs each error that it raises; the caller reports it already.
_ERROR_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_OFF = logging.CRITICAL + 1

# Spark's default of 200 shuffle partitions is meant for clusters.
_LOCAL_DEFAULTS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "32",
}


class NoSpark(Unavailable):
    """Spark could not be reached or started."""

    code = "no_spark"


@dataclass(frozen=True)
class CatalogSettings:
    """A catalog of Arco: its name, the URL of the server, and a token if it requires one."""

    name: str
    url: str
    token: str | None = None
    store: Mapping[str, str] = field(default_factory=dict)  # settings that the server does not send

    def settings(self) -> dict[str, str]:
        """The settings of Spark for it."""
        prefix = f"spark.sql.catalog.{self.name}"
        settings = {
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            f"{prefix}.type": "rest",
            f"{prefix}.uri": f"{self.url.rstrip('/')}/iceberg",
            f"{prefix}.warehouse": self.name,
            # A table may have changed since the last task in the same JVM.
            f"{prefix}.cache-enabled": "false",
            **{f"{prefix}.{name}": value for name, value in self.store.items()},
        }
        return settings if self.token is None else {**settings, f"{prefix}.token": self.token}


def open_session(
    master: str = LOCAL,
    *,
    catalogs: Sequence[CatalogSettings] = (),
    jars: Jars | None = None,
    settings: Mapping[str, str] | None = None,
    memory: str = MEMORY,
) -> SparkSession:
    """A session of a master; `Unsupported` if a requirement is missing, `NoSpark` if it does not start.

    Without `catalogs` it has no Iceberg tables. Jars of the caller's settings are added.
    """
    if master.startswith("sc://"):
        raise Unsupported(
            "pipelines need a Spark that runs their driver here: name a master such as local[*], "
            "spark://host:7077, yarn or k8s://https://host"
        )
    check_java()
    conf = {**_DEFAULTS, **_driver(master, memory), **_iceberg(catalogs), **(settings or {})}
    if jars is not None:
        conf |= _join_lists(jars.settings(), conf)
    if master.startswith(("local", "spark://")):
        # Workers need the libraries of this process; on other masters the cluster decides.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    quieten_gateway()
    for logger in _ERROR_LOGGERS:
        PySparkLogger.getLogger(logger).setLevel(_OFF)
    builder = SparkSession.builder.master(master)
    for name, value in conf.items():
        builder = builder.config(name, value)
    try:
        # User code must not see the credentials of Arco or its operator; catalogs have their tokens in the
        # settings.
        with started_with(pipeline_environment(os.environ)):
            return builder.getOrCreate()
    except Exception as problem:
        if jars is not None and jars.package is not None:
            raise Unsupported(
                f"Spark did not start, probably because {SPARK_PACKAGE} could not be fetched: go "
                f"online, set {VARIABLE} to the jar, {WITHOUT_IT}"
            ) from problem
        message = f"Spark at {master} could not be reached or started: {java_message(problem)}"
        raise NoSpark(message) from problem


def _iceberg(catalogs: Sequence[CatalogSettings]) -> dict[str, str]:
    if not catalogs:
        return {}
    conf = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.defaultCatalog": DEFAULT_CATALOG,
        f"spark.sql.catalog.{STAGING_CATALOG}": "org.apache.iceberg.spark.SparkRewriteTableCatalog",
        # Iceberg's parser does not support `spark.sql(..., args=...)` unless Spark binds them afterwards.
        "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
    }
    for catalog in catalogs:
        conf |= catalog.settings()
    return conf


def _join_lists(jars: Mapping[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """Lists of jars, Arco's and those of the settings."""
    return {name: ",".join(filter(None, (ours, conf.get(name)))) for name, ours in jars.items()}


def _driver(master: str, memory: str) -> dict[str, str]:
    log4j = Path(__file__).with_name("log4j2.properties")
    conf = {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={log4j.as_uri()}"',
    }
    return {**conf, **_LOCAL_DEFAULTS} if master.startswith("local") else conf
