"""Spark with Iceberg's runtime: one small session, made by the lines that a user pastes."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import pytest

from arco.cli.connect import SnippetEngine
from arco.flow.spark.jars import SPARK_PACKAGE
from tests.iceberg_jar import iceberg_jar
from tests.interop.java import java
from tests.interop.rest import Rest

# What Spark's own client leaves open is its affair.
LEAKS = (
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
)

_SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.log.level": "ERROR",
}


def name() -> str:
    """Spark and the jar that makes it know Iceberg."""
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        spark = "not installed"
    return f"Spark {spark} with Iceberg {SPARK_PACKAGE.rpartition(':')[2]}"


@contextmanager
def running_spark(rest: Rest, scratch: Path) -> Iterator["Spark"]:
    """A session that knows the catalog as `arco`, until the block ends."""
    java()
    lines = _with_local_jar(rest.snippet(SnippetEngine.SPARK))
    settings = {
        **_SETTINGS,
        "spark.sql.warehouse.dir": str(scratch),
        "spark.local.dir": str(scratch),
    }
    flags = " ".join(f"--conf {key}={value}" for key, value in settings.items())
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable  # others may use this Spark after us
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--master local[2] {flags} pyspark-shell"
    try:
        import_module("pyspark")
    except ModuleNotFoundError:
        pytest.skip("Spark is not installed: use `make interop`")
    names: dict[str, Any] = {}
    exec(lines, names)
    try:
        yield Spark(names["spark"])
    finally:
        _end(names.pop("spark"))


def _end(session: Any) -> None:
    """Stop the session and its JVM, and let nothing of it linger: the client forgets to close sockets."""
    gateway = session.sparkContext._gateway
    # Tests of pipelines share the JVM, and may have ended it or its context.
    if gateway is not None and gateway.proc.poll() is None:
        session.stop()
        gateway.shutdown()
        gateway.proc.terminate()
        gateway.proc.wait()
    with catch_warnings():
        simplefilter("ignore", ResourceWarning)
        del session, gateway
        gc.collect()


class Spark:
    """The session, asked in SQL."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def run(self, sql: str) -> None:
        """Carry a statement out."""
        self.session.sql(sql).collect()

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return [tuple(row) for row in self.session.sql(sql).collect()]


def _with_local_jar(lines: str) -> str:
    """The lines with the jar from our folder instead of one that Spark would fetch itself."""
    package_line = f'.config("spark.jars.packages", "{SPARK_PACKAGE}")'
    assert package_line in lines
    return lines.replace(package_line, f'.config("spark.jars", "{iceberg_jar()}")')
