"""What `arco worker` says of its attempts, and how it counts them."""

from collections.abc import Callable

from arco.cli.flow.run_execution import CountingExecutor
from arco.flow.run.wire import LeasedTask, Outcome, TaskStatus
from arco.flow.work.port import Watch
from arco.flow.work.said import Said
from tests.flow.work.leased import TASK


class Stopping:
    """An executor to which something happens while it works."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def execute(self, task: LeasedTask, watch: Watch) -> Outcome:
        self._then()
        return Outcome(status=TaskStatus.CANCELLED, error="it was stopped")

    def interrupt(self, attempt_id: str) -> None:
        """It hears of it."""

    def close(self) -> None:
        """Nothing was opened."""


def test_an_attempt_that_is_stopped_is_told_of() -> None:
    said: list[str] = []
    counted = CountingExecutor(Stopping(lambda: counted.interrupt(TASK.attempt_id)), said.append)
    counted.execute(TASK, Said())
    assert said == ["start     t", "stopping  t", "cancelled t  it was stopped"]
    assert counted.counts == {"CANCELLED": 1}


def test_one_that_does_not_stop_is_told_of_when_it_is_given_up_and_counted_once() -> None:
    said: list[str] = []
    counted = CountingExecutor(Stopping(lambda: counted.gave_up(TASK)), said.append)
    counted.execute(TASK, Said())
    assert said[1] == "given up  t  its code does not stop, and goes on alone"
    assert said[2].startswith("cancelled t")
    assert counted.counts == {"GIVEN_UP": 1}
