"""What every test may use: an event loop, a runtime, and stores of every kind."""

import asyncio
import gc
import inspect
import os
import sys
import warnings
from collections.abc import Generator

import pytest
from hypothesis import settings

from arco.core.runtime import Runtime, system_runtime

# The clients of the clouds want credentials even for servers that do not check them.
os.environ.update(
    AWS_ACCESS_KEY_ID="test-only",
    AWS_SECRET_ACCESS_KEY="test-only",
    AWS_REGION="us-east-1",
    AWS_EC2_METADATA_DISABLED="true",
)

# No test is timed: a machine may be busy. `make sim` draws ten times as many examples.
settings.register_profile("arco", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile("arco")

pytest_plugins = ["tests.stores", "tests.figures", "tests.quick"]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Blame no test for what PySpark leaves to the collector.

    It closes neither the sockets of its gateway nor the pipes of its JVM. The collector finds them
    at any later moment, in whichever test of the process runs then.
    """
    grouped = item.get_closest_marker("xdist_group")
    if "pyspark" in sys.modules or (grouped and grouped.args[0].startswith("spark")):
        unraisable = "ignore::pytest.PytestUnraisableExceptionWarning"
        item.add_marker(pytest.mark.filterwarnings(unraisable))
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """What is left of it must not spoil the end either."""
    if "pyspark" in sys.modules:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test on a loop of its own; a plugin would do no more for us."""
    if not inspect.iscoroutinefunction(pyfuncitem.function):
        return None
    wanted = inspect.signature(pyfuncitem.function).parameters
    asyncio.run(pyfuncitem.function(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


@pytest.fixture
def runtime() -> Runtime:
    return system_runtime()
