"""All that starts Spark runs in one process of `pytest -n`, one test after the other."""

from pathlib import Path

import pytest

from arco.core.errors import Unsupported
from arco.core.java import check_java
from tests.flow.faults.pipeline import FIRST, MADE
from tests.flow.faults.project_root import ProjectRoot
from tests.iceberg_jar import iceberg_jar

_HERE = Path(__file__).parent
_WITHOUT_SPARK = ("test_attempts.py", "test_clocks.py", "test_random.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == _HERE and item.path.name not in _WITHOUT_SPARK:
            item.add_marker(pytest.mark.xdist_group("spark-commands"))
            item.add_marker(pytest.mark.timeout(2_400))  # a JVM starts slowly on a busy machine


@pytest.fixture(scope="session")
def java() -> None:
    """A skip that says what is missing."""
    try:
        check_java()
    except Unsupported as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def jar(java: None) -> None:
    iceberg_jar()


@pytest.fixture
def place(java: None, tmp_path: Path) -> ProjectRoot:
    """A root with nothing in it."""
    return ProjectRoot(tmp_path)


@pytest.fixture(scope="session")
def seeded(jar: None, tmp_path_factory: pytest.TempPathFactory) -> ProjectRoot:
    """A root in which the first day was made; every test begins with `restore`."""
    made = ProjectRoot(tmp_path_factory.mktemp("seeded"))
    run_command = made.run(*MADE, partitions=FIRST, also=("--parallel", "3"))
    assert run_command.code == 0, run_command.errors
    made.keep()
    return made
