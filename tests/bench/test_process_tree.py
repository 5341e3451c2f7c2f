"""What a process tree uses, counted by Linux for real processes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.process_tree import Meter, cpu_s, process_tree

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="the counters are those of Linux"),
]

# Runs a child that computes to its end, then starts one that stays; prints the processor time of the first.
_PARENT = """
import os, subprocess, sys
burn = "import time\\nwhile time.process_time() < 0.2: pass"
sys.stdin.readline()
subprocess.run([sys.executable, "-c", burn], check=True)
used = os.times()
stays = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.readline()"], stdin=sys.stdin)
print(used.children_user + used.children_system, flush=True)
stays.wait()
"""


@contextmanager
def _parent() -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", _PARENT]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        yield process
        assert process.stdin is not None
        process.stdin.write("\n")


def _step(process: "subprocess.Popen[str]") -> float:
    """Let the parent run its first child to the end; the processor time of that."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def test_the_time_of_a_child_that_has_ended_still_counts_for_the_tree() -> None:
    with _parent() as process:
        with Meter(process.pid) as meter:
            child_s = _step(process)
        assert child_s >= 0.15
        assert meter.cpu_s >= child_s - 0.05  # the counters are in ticks
        assert cpu_s(process.pid) >= child_s - 0.05
        assert meter.root_cpu_s <= meter.cpu_s - child_s + 0.05


def test_the_tree_has_the_children_that_live_and_their_memory() -> None:
    with _parent() as process:
        with Meter(process.pid) as meter:
            _step(process)
        tree = process_tree(process.pid)
        assert [stat.parent for pid, stat in tree.items() if pid != process.pid] == [process.pid]
        assert meter.peak_rss_bytes >= tree[process.pid].rss_bytes


def test_a_process_that_waits_has_voluntary_context_switches() -> None:
    with _parent() as process:
        with Meter(process.pid) as meter:
            _step(process)
        assert meter.switches >= 1


def test_a_process_that_does_not_exist_has_an_empty_tree() -> None:
    assert process_tree(2**22 + 1) == {}
