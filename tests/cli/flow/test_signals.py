"""Ctrl-C and SIGTERM: a run is over soon after, whatever its tasks are at."""

import re
import signal
import time
from pathlib import Path

import pytest

from tests.cli.command import arco
from tests.cli.flow.stuck import stuck

_SOON_S = 9.0  # it is 2 s; a machine that is busy takes longer, and the tasks would take for ever


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_ends_soon_and_the_next_begins_at_once(
    tmp_path: Path, asked: signal.Signals
) -> None:
    with stuck(tmp_path) as running:
        running.send_signal(asked)
        said, _ = running.communicate(timeout=_SOON_S)
        assert running.returncode == 130
        assert "cancelled" in said
    (tmp_path / "go").touch()
    again = arco("run", "--root", "place", cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    # A lease that nobody had given back would have held it up for 15 s.
    assert re.search(r"success in \d\.\ds", again.stdout), again.stdout


def test_a_second_interrupt_is_obeyed_at_once(tmp_path: Path) -> None:
    with stuck(tmp_path) as running:
        running.send_signal(signal.SIGINT)
        time.sleep(0.3)
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=1.5) == 130
