"""Which tests `make quick` leaves out: those that start a process, Spark or a server, and long
simulations.

They have the mark `process`: by their path, by the kind of store that they run on, or in their file. With
`--no-processes` every other test fails if it starts a process or listens on a port.

The marked tests of a file run in one process of `pytest -n`, so that its server is started once. Spark has
larger groups, which the conftest of each folder names.
"""

import os
import sys
from functools import cache
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
_PATHS = (
    *("api", "cli", "client", "differential", "faults", "interop", "models", "processes", "query"),
    *("server", "sim", "spark", "tools", "flow/faults", "flow/spark", "flow/worker"),
    *(
        "compactor/test_tamper.py",
        "compactor/test_event_verification.py",
    ),  # every change of every byte
    *(
        "core/test_environment.py",
        "core/test_imports.py",
        "core/test_java.py",
        "flow/define/test_fingerprint.py",
    ),
    *(
        "flow/coordinator/test_clearing.py",
        "flow/coordinator/test_run_reader.py",
        "flow/plan/test_state_reader.py",
    ),
    *("iceberg/test_native.py", "storage/test_processes.py", "storage/test_scratch.py"),
)
_SPARK_FOLDERS = ("spark", "flow/faults", "flow/lineage", "flow/spark")
_STORES = {"azurite", "fault-azure", "fault-gcs", "fault-s3", "minio", "moto"}
_FIXTURES = {"faults", "fault_server", "azurite_url", "minio_url", "moto_url", "spark"}
_FORBIDDEN_EVENTS = {"os.exec", "os.fork", "os.posix_spawn", "socket.bind", "subprocess.Popen"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-processes", action="store_true", help="fail a test that starts a process or a server"
    )


def pytest_configure(config: pytest.Config) -> None:
    if missing := [path for path in (*_PATHS, *_SPARK_FOLDERS) if not (_TESTS / path).exists()]:
        raise pytest.UsageError(
            f"tests/quick.py names {', '.join(missing)}, which do not exist: correct the names"
        )
    if config.getoption("--no-processes"):
        sys.addaudithook(_refuse)


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _starts_processes(item):
            item.add_marker(pytest.mark.process)
            if not _is_below(item, _SPARK_FOLDERS) and not item.get_closest_marker("xdist_group"):
                item.add_marker(pytest.mark.xdist_group(item.path.relative_to(_TESTS).as_posix()))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail if groups have no effect: each process would start the servers and Sparks of all files."""
    if not session.config.getoption("loadgroup", default=False):
        return
    grouped = [item for item in session.items if item.get_closest_marker("xdist_group")]
    if lost := [item.nodeid for item in grouped if "@" not in item.nodeid]:
        raise pytest.UsageError(f"pytest-xdist ignores the group of {lost[0]}")


def _is_below(item: pytest.Item, paths: tuple[str, ...]) -> bool:
    return _is_file_below(item.path, paths)


@cache
def _is_file_below(file: Path, paths: tuple[str, ...]) -> bool:
    path = file.relative_to(_TESTS)
    return any(path.is_relative_to(each) for each in paths)


def _starts_processes(item: pytest.Item) -> bool:
    if _is_below(item, _PATHS):
        return True
    assert isinstance(item, pytest.Function)
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    stores = {each for each in parameters if isinstance(each, str)}
    return bool(_STORES & stores) or bool(_FIXTURES & set(item.fixturenames))


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    # A Unix socket has a path.
    is_local = event == "socket.bind" and isinstance(arguments[1], str | bytes)
    # xdist starts its workers before the first test.
    is_in_test = "PYTEST_CURRENT_TEST" in os.environ
    if event in _FORBIDDEN_EVENTS and not is_local and is_in_test:
        raise RuntimeError(
            f"{event} in a test that `make quick` runs: mark it with pytest.mark.process, "
            "or name its file in tests/quick.py"
        )
