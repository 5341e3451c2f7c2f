"""One session of Spark for all tests of this folder: a JVM takes seconds to start."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from arco.core.errors import Unsupported
from arco.core.java import check_java
from arco.core.runtime import Runtime, system_runtime
from tests.spark.shared_session import shared_session
from tests.spark.spark_engines import SparkEngines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process of `pytest -n` runs them all, so that one JVM is started."""
    directory = Path(__file__).parent
    for item in items:
        if directory in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))  # a JVM starts slowly on a busy machine


@pytest.fixture
def session() -> "SparkSession":
    try:
        check_java()
    except Unsupported as missing:
        pytest.skip(str(missing))
    return shared_session()


@pytest.fixture(scope="session")
def spark_runtime() -> Runtime:
    """One for all: a thread keeps its connection to the JVM for as long as it lives."""
    return system_runtime()


@pytest.fixture
def spark_engines(session: "SparkSession", spark_runtime: Runtime, tmp_path: Path) -> SparkEngines:
    return SparkEngines(session, spark_runtime, str(tmp_path / "store"))
