"""One session of Spark for all tests of this folder: a JVM takes seconds to start."""

import gc
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from arco.compactor.spark.java import check_java
from arco.core.errors import Unsupported
from arco.core.runtime import Runtime, system_runtime
from tests.spark.floors import Floors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process of `pytest -n` runs them all, so that one JVM is started."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))  # a JVM starts slowly on a busy machine
            # PySpark leaves the socket to the collector over which it has read a result.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def session() -> Iterator["SparkSession"]:
    try:
        check_java()
    except Unsupported as missing:
        pytest.skip(str(missing))
    from arco.compactor.spark.session import open_session

    opened = open_session("local[2]")
    yield opened
    with suppress(Exception):  # the tests of pipelines, which need another JVM, may have ended it
        opened.stop()


@pytest.fixture(scope="session")
def spark_runtime() -> Runtime:
    """One for all: a thread keeps its connection to the JVM for as long as it lives."""
    return system_runtime()


@pytest.fixture
def floors(session: "SparkSession", spark_runtime: Runtime, tmp_path: Path) -> Floors:
    return Floors(session, spark_runtime, str(tmp_path / "store"))


@pytest.fixture(autouse=True)
def _sockets_of_threads_that_ended() -> Iterator[None]:
    """Spark's gateway leaves one for each thread; whose test comes next must not be blamed for it."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
