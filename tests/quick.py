"""Which tests `make quick` leaves out: those that start a process, Spark or a server, or explore for long.

They have the mark `process`: by their folder, by the kind of store that they run on, or in their file. With
`--no-processes` all others are held to it: one that starts a process or listens on a port fails.
"""

import os
import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
_FOLDERS = (
    *("api", "cli", "client", "differential", "faults", "interop", "models", "processes", "query"),
    *("server", "sim", "spark", "flow/faults", "flow/spark", "flow/worker"),
)
_STORES = {"azurite", "fault-azure", "fault-gcs", "fault-s3", "minio", "moto"}
_FIXTURES = {"faults", "fault_server", "azurite_url", "minio_url", "moto_url", "spark"}
_REFUSED = {"os.exec", "os.fork", "os.posix_spawn", "socket.bind", "subprocess.Popen"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-processes", action="store_true", help="fail a test that starts a process or a server"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--no-processes"):
        sys.addaudithook(_refuse)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _starts_processes(item):
            item.add_marker(pytest.mark.process)


def _starts_processes(item: pytest.Item) -> bool:
    folder = item.path.parent.relative_to(_TESTS)
    if any(folder.is_relative_to(each) for each in _FOLDERS):
        return True
    assert isinstance(item, pytest.Function)
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    stores = {each for each in parameters if isinstance(each, str)}
    return bool(_STORES & stores) or bool(_FIXTURES & set(item.fixturenames))


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event in _REFUSED and "PYTEST_CURRENT_TEST" in os.environ:  # xdist starts its own beforehand
        raise RuntimeError(
            f"{event} in a test that `make quick` runs: mark it with pytest.mark.process, "
            "or name its folder in tests/quick.py"
        )
