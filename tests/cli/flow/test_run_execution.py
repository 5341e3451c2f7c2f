"""Carrying out a run: lines and counts of attempts, and what Ctrl-C and SIGTERM do."""

import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from arco.cli.flow.run_execution import CountingExecutor
from arco.flow.coordinator.messages import AttemptOutcome, LeasedTask, TaskStatus
from arco.flow.worker.ports import AttemptContext
from arco.flow.worker.reporter import AttemptLog
from tests.cli.command import arco
from tests.cli.flow.slow_run import stuck
from tests.flow.worker.leased_task import TASK


class Stopping:
    """An executor to which something happens while it works."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def execute(self, task: LeasedTask, watch: AttemptContext) -> AttemptOutcome:
        self._then()
        return AttemptOutcome(status=TaskStatus.CANCELLED, error="it was stopped")

    def interrupt(self, attempt_id: str) -> None:
        """It hears of it."""

    def close(self) -> None:
        """Nothing was opened."""


def test_an_attempt_that_is_stopped_is_reported() -> None:
    lines: list[str] = []
    counted = CountingExecutor(Stopping(lambda: counted.interrupt(TASK.attempt_id)), lines.append)
    counted.execute(TASK, AttemptLog())
    assert lines == ["start     t", "stopping  t", "cancelled t  it was stopped"]
    assert counted.counts == {"CANCELLED": 1}


def test_a_task_that_does_not_stop_is_reported_when_given_up_and_counted_once() -> None:
    lines: list[str] = []
    counted = CountingExecutor(Stopping(lambda: counted.on_abandoned(TASK)), lines.append)
    counted.execute(TASK, AttemptLog())
    assert lines[1] == "given up  t  its code does not stop, and goes on alone"
    assert lines[2].startswith("cancelled t")
    assert counted.counts == {"GIVEN_UP": 1}


_SOON_S = 9.0  # it is 2 s; a machine that is busy takes longer, and the tasks would take for ever


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_ends_soon_and_the_next_begins_at_once(
    tmp_path: Path, asked: signal.Signals
) -> None:
    with stuck(tmp_path) as running:
        running.send_signal(asked)
        output, _ = running.communicate(timeout=_SOON_S)
        assert running.returncode == 130
        assert "cancelled" in output
    (tmp_path / "go").touch()
    second_run = arco("run", "--root", "place", cwd=tmp_path)
    assert second_run.returncode == 0, second_run.stdout + second_run.stderr
    # A lease that nobody had given back would have held it up for 15 s.
    assert re.search(r"success in \d\.\ds", second_run.stdout), second_run.stdout


def test_a_second_interrupt_is_obeyed_at_once(tmp_path: Path) -> None:
    with stuck(tmp_path) as running:
        running.send_signal(signal.SIGINT)
        time.sleep(0.3)
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=1.5) == 130
