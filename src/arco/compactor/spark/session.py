"""Spark sessions for compaction, configured to move a few large blobs.

They have no cloud jars and no metastore: tasks open the store themselves. On a cluster, Arco must be
installed for the Python of the workers, and the credentials of the store must be in their environment.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from arco.compactor.spark.memory import LIMIT_VARIABLE as WORKER_MEMORY
from arco.compactor.spark.memory import default_limit_mb, max_workers
from arco.core.environment import compaction_environment, started_with
from arco.core.errors import Unavailable
from arco.core.java import quieten_gateway

Session = SparkSession  # for packages that pass a session on and do not import Spark

HEAP = "1g"
LOCAL = "local[*]"

_LOCAL_CORES = re.compile(r"local\[(\*|\d+)\]")
_TRIES = 4

# SQL settings for jobs; a session of Spark Connect can set no others.
_SQL = {
    "spark.sql.adaptive.enabled": "false",  # the engine chooses the number of shards
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4",  # blobs of megabytes
    "spark.sql.session.timeZone": "UTC",
}
# The JVM only moves blobs, and workers do the rest. So it gains nothing from an optimising compiler or a
# parallel collector, nor from the memory that Java takes by default because the machine has it. The heap
# grows to its limit if blobs need it.
_JAVA_OPTIONS = " ".join(
    (
        *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        *("-Xms64m", "-Xmn16m", "-XX:MinHeapFreeRatio=20", "-XX:MaxHeapFreeRatio=40"),
        "-XX:MetaspaceSize=128m",  # what Spark's classes take; below it each growth is a full collection
    )
)
_MALLOC_ARENAS = "2"  # glibc keeps freed memory in up to 8 for each core
_OWN = {
    "spark.app.name": "arco-compactor",
    "spark.driver.defaultJavaOptions": _JAVA_OPTIONS,
    "spark.log.level": "ERROR",
    "spark.python.daemon.module": "arco.compactor.spark.daemon",
    "spark.python.worker.reuse": "true",
    "spark.scheduler.mode": "FAIR",  # a large job of one domain leaves cores to the others
    "spark.shuffle.compress": "false",  # blobs are compressed already
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled": "true",
    "spark.task.maxFailures": str(_TRIES),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A service runs for months: keep little history.
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
}


def open_session(
    master: str = LOCAL,
    remote: str | None = None,
    *,
    heap: str = HEAP,
    settings: Mapping[str, str] | None = None,
    store_scheme: str | None = None,
) -> SparkSession:
    """A session of a master (`local[*]`, `spark://`, `yarn`, `k8s://`) or of Spark Connect (`sc://`).

    `settings` are Spark settings that override the defaults here. With a `store_scheme` the JVM and its
    Python workers get only the environment variables that compaction on such a store needs. `Unavailable`
    if Spark does not start or cannot be reached.
    """
    builder = SparkSession.builder
    custom_settings = dict(settings or {})
    conf = (
        {**_SQL, **custom_settings}
        if remote
        else {**_SQL, **_OWN, **_master_settings(master, heap), **custom_settings}
    )
    for name, value in conf.items():
        builder = builder.config(name, value)
    quieten_gateway()
    try:
        if remote:
            return builder.remote(remote).getOrCreate()
        _set_for_children(master)
        environment = dict(os.environ)
        if store_scheme is not None:
            environment = compaction_environment(environment, store_scheme)
        with started_with(environment):
            return builder.master(_with_tries(master)).getOrCreate()
    except Exception as problem:
        spark_url = remote or master
        raise Unavailable(f"Spark at {spark_url} could not be reached or started") from problem


def _set_for_children(master: str) -> None:
    """Set environment variables of the JVM and of Spark's Python workers, unless they are set."""
    os.environ.setdefault("MALLOC_ARENA_MAX", _MALLOC_ARENAS)
    if master.startswith(("local", "spark://")):
        # Workers on this machine use the Python of this process; a cluster has its own.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault(WORKER_MEMORY, str(default_limit_mb(_cores(master))))


def open_sibling_session(session: SparkSession) -> SparkSession:
    """A second session in the Spark of a caller, who stops it.

    Its workers import what they need in the first job, since the daemon of Arco is not used there.
    """
    sibling = session.newSession()
    for name, value in _SQL.items():
        sibling.conf.set(name, value)
    return sibling


def _master_settings(master: str, heap: str) -> dict[str, str]:
    """Settings that depend on the master."""
    log4j = Path(__file__).with_name("log4j2.properties")
    conf = {
        "spark.driver.memory": heap,
        "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={log4j.as_uri()}"',
    }
    if master.startswith("local"):
        conf["spark.driver.host"] = conf["spark.driver.bindAddress"] = "127.0.0.1"
    return conf


def _cores(master: str) -> int:
    """How many tasks run in parallel on this machine: `*` is a task for each core that memory allows."""
    match = _LOCAL_CORES.fullmatch(master)
    if match is None:
        return 1
    if match[1] != "*":
        return int(match[1])
    return min(len(os.sched_getaffinity(0)), max_workers())


def _with_tries(master: str) -> str:
    """A local master that retries a task whose worker died, as clusters do."""
    is_local = _LOCAL_CORES.fullmatch(master) is not None
    return f"local[{_cores(master)},{_TRIES}]" if is_local else master
