"""Sessions: Spark set up for moving a few large blobs, and for nothing else of what it can do.

It gets no cloud jars and no metastore: tasks reach the store by themselves. On a cluster, Arco must be
installed for the Python of its workers, and the store's credentials stand in their environment.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from arco.compactor.spark.memory import LIMIT_VARIABLE as WORKER_MEMORY
from arco.compactor.spark.memory import default_limit_mb
from arco.core.environment import compaction_environment, started_with
from arco.core.errors import Unavailable
from arco.core.java import quieten_gateway

Session = SparkSession  # for rooms that hand one on and know no Spark

HEAP = "1g"
LOCAL = "local[*]"

_LOCAL_CORES = re.compile(r"local\[(\*|\d+)\]")
_TRIES = 4

# What a job needs of SQL; a session of Spark Connect can set these and no others.
_SQL = {
    "spark.sql.adaptive.enabled": "false",  # shards are decided by us
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4",  # blobs of megabytes
    "spark.sql.session.timeZone": "UTC",
}
_OWN = {
    "spark.app.name": "arco-compactor",
    # A JVM that only moves blobs gains nothing from compiling its code well, or from collecting beside it.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.log.level": "ERROR",
    "spark.python.daemon.module": "arco.compactor.spark.daemon",
    "spark.python.worker.reuse": "true",
    "spark.scheduler.mode": "FAIR",  # a large job of one domain leaves room for the others
    "spark.shuffle.compress": "false",  # blobs are compressed already
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled": "true",
    "spark.task.maxFailures": str(_TRIES),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A service runs for months: it need not remember all it has done.
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

    `settings` are Spark's own and win over ours. With a `store_scheme` the JVM, and the Python workers
    below it, get no more of our environment than compaction on such a store needs. `Unavailable` if Spark
    does not start or is not there.
    """
    builder = SparkSession.builder
    given = dict(settings or {})
    conf = {**_SQL, **given} if remote else {**_SQL, **_OWN, **_place(master, heap), **given}
    for name, value in conf.items():
        builder = builder.config(name, value)
    quieten_gateway()
    try:
        if remote:
            return builder.remote(remote).getOrCreate()
        _set_for_workers(master)
        environment = dict(os.environ)
        if store_scheme is not None:
            environment = compaction_environment(environment, store_scheme)
        with started_with(environment):
            return builder.master(_with_tries(master)).getOrCreate()
    except Exception as problem:
        where = remote or master
        raise Unavailable(f"Spark at {where} could not be reached or started") from problem


def _set_for_workers(master: str) -> None:
    """Variables that Spark's Python workers go by, unless somebody has set them."""
    if master.startswith(("local", "spark://")):
        # The workers need the libraries that this process has; elsewhere only the cluster knows.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault(WORKER_MEMORY, str(default_limit_mb(_cores(master))))


def open_sibling_session(session: SparkSession) -> SparkSession:
    """A session for jobs beside somebody's own, in the same Spark; whoever has opened that stops it.

    Its workers load what they need with the first job: our own daemon is for Sparks of our own.
    """
    made = session.newSession()
    for name, value in _SQL.items():
        made.conf.set(name, value)
    return made


def _place(master: str, heap: str) -> dict[str, str]:
    """What depends on where the tasks run."""
    log4j = Path(__file__).with_name("log4j2.properties")
    conf = {
        "spark.driver.memory": heap,
        "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={log4j.as_uri()}"',
    }
    if master.startswith("local"):
        conf["spark.driver.host"] = conf["spark.driver.bindAddress"] = "127.0.0.1"
    return conf


def _cores(master: str) -> int:
    """How many tasks run at once on this machine."""
    found = _LOCAL_CORES.fullmatch(master)
    if found is None:
        return 1
    return len(os.sched_getaffinity(0)) if found[1] == "*" else int(found[1])


def _with_tries(master: str) -> str:
    """On one machine, a task whose worker died is tried again as it is on a cluster."""
    cores = _LOCAL_CORES.fullmatch(master)
    return master if cores is None else f"local[{cores[1]},{_TRIES}]"
