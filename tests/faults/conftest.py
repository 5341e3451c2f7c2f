"""A fresh server for each test: it starts in a few milliseconds."""

from collections.abc import Iterator

import pytest

from tests.faults.running import RunningServer, running_server


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with running_server() as running:
        yield running
