"""One Spark and one Arco for all tests of this folder: both take seconds to start."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from arco.core.errors import Unsupported
from arco.core.java import check_java
from arco.core.runtime import system_runtime
from tests.cli.serving import serving
from tests.iceberg_jar import iceberg_jar

if TYPE_CHECKING:
    from tests.flow.spark.harness import Harness
    from tests.flow.spark.shared_spark import SharedSpark

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process of `pytest -n` runs them all, one after the other, so that one JVM is started."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark-iceberg"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))  # a JVM starts slowly on a busy machine
    items.sort(key=lambda item: _HERE in item.path.parents)


@pytest.fixture(scope="package")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SharedSpark"]:
    try:
        check_java()
    except Unsupported as missing:
        pytest.skip(str(missing))
    from tests.flow.spark.shared_spark import SharedSpark

    scratch = tmp_path_factory.mktemp("flow")
    with serving(scratch / "store", "--log-level", "warning") as served:
        spark = SharedSpark(served.url, iceberg_jar(), scratch, system_runtime())
        yield spark
        spark.close()


@pytest.fixture
def harness(shared: "SharedSpark", tmp_path: Path, request: pytest.FixtureRequest) -> "Harness":
    """A project of one test, with its own schemas."""
    from tests.flow.spark.harness import Harness

    return Harness(shared, tmp_path / "project")
