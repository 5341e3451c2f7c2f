"""Tests that need Spark use the session of their process, with a separate database."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from arco.core.errors import Unsupported
from arco.core.imports import is_spark_installed
from arco.core.java import check_java
from tests.flow.lineage.sample_tables import create_tables, new_session
from tests.spark.shared_session import shared_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arco.flow.spark.lineage import Capture


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process of `pytest -n` runs all that need a JVM."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and "flow/lineage" in item.path.as_posix():
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "SparkSession":
    """A session of the Spark of this process, which stays open for others, with the tables filled."""
    if not is_spark_installed():
        pytest.skip("Spark is not installed")
    try:
        check_java()
    except Unsupported as missing:
        pytest.skip(str(missing))
    session = shared_session().newSession()
    create_tables(session, tmp_path_factory.mktemp("lineage"), iceberg=False)
    return session


@pytest.fixture
def session(spark: "SparkSession") -> "SparkSession":
    return new_session(spark)


@pytest.fixture
def capture(session: "SparkSession") -> Iterator["Capture"]:
    from arco.flow.spark.lineage import Capture

    opened = Capture(session)
    yield opened
    opened.close()
