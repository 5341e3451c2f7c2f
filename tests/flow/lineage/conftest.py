"""What needs Spark here takes the one that runs in its process, with a database of its own."""

import gc
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from arco.compactor.spark.java import spark_installed
from arco.core.errors import Unsupported
from arco.core.java import check_java
from tests.flow.lineage.world import fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process of `pytest -n` runs all that need a JVM."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and "flow/lineage" in item.path.as_posix():
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.timeout(300))
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A session of the Spark of this process, which stays open for others, with the tables filled."""
    if not spark_installed():
        pytest.skip("Spark is not installed")
    try:
        check_java()
    except Unsupported as missing:
        pytest.skip(str(missing))
    from arco.compactor.spark.session import open_session

    session = open_session("local[2]").newSession()
    fill(session, tmp_path_factory.mktemp("lineage"), iceberg=False)
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
