"""The deadline of a stop does not kill a process that exits slowly."""

import subprocess
import sys

# What is left at the end is let go of after Python has put back the handlers of signals.
_STOPPED = """
import io, time
from arco.api.http.telemetry import Log
from arco.api.metrics import Metrics
from arco.server.listener import StopDeadline
from arco.core.runtime import system_runtime

class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(1.2)

left = Slow()
clock = system_runtime().clock
StopDeadline(clock, Log(io.BytesIO(), clock), Metrics()).begin()
"""


def test_a_process_that_takes_long_to_exit_is_not_killed_by_the_timer() -> None:
    command = [sys.executable, "-c", _STOPPED]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
