"""The memory of a worker: one that takes too much ends itself, and says nothing about others."""

import os
import signal
import subprocess
import sys

import pytest

from arco.compactor.spark import memory
from arco.compactor.spark.memory import (
    LIMIT_VARIABLE,
    default_limit_mb,
    limit_mb,
    machine_mb,
    max_workers,
    used_mb,
)

_GREEDY = """
import time
from arco.compactor.spark.memory import limit_memory
limit_memory()
limit_memory()
taken = []
for _ in range({mb}):
    taken.append(bytearray(b"x" * 1024 * 1024))
    time.sleep(0.001)
time.sleep(0.3)
print("done")
"""


@pytest.mark.parametrize(("taken_mb", "code"), [(20, 0), (600, -signal.SIGKILL)])
def test_a_process_that_uses_more_than_it_may_is_ended(taken_mb: int, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _GREEDY.format(mb=taken_mb)],
        env={**os.environ, LIMIT_VARIABLE: "300"},
        check=False,
        capture_output=True,
    )
    assert done.returncode == code
    assert (b"done" in done.stdout) == (code == 0)


def test_each_worker_gets_its_share_of_what_the_others_leave() -> None:
    assert machine_mb() > 500
    assert used_mb() > 10
    assert default_limit_mb(10_000) == 768
    assert 768 <= default_limit_mb(2) <= 4_096


@pytest.mark.parametrize(("machine", "workers"), [(2_000, 1), (4_608, 3), (24_000, 29)])
def test_a_small_machine_has_no_worker_for_each_core(
    machine: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "machine_mb", lambda: machine)
    assert max_workers() == workers


@pytest.mark.parametrize(
    ("limit_text", "expected_mb"), [("", 0), ("1500", 1500), ("much", 0), ("-1", 0)]
)
def test_a_limit_that_is_no_number_is_none(
    limit_text: str, expected_mb: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, limit_text)
    assert limit_mb() == expected_mb
