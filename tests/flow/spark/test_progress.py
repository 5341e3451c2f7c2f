"""Looking on at attempts, with a session that is only counted on: no JVM is needed for it."""

import threading
from types import SimpleNamespace
from typing import Any

from arco.flow.spark.progress import Poller
from arco.flow.spark.running import Running
from arco.flow.worker.reporter import AttemptLog
from tests.flow.worker.leased import TASK

_SOON_S = 10.0
_PAUSE_S = 0.01


class Session:
    """As far as it is asked to stop: `again` is set once somebody has said it twice."""

    def __init__(self) -> None:
        self._jsparkSession = SimpleNamespace(sessionUUID=lambda: "one")
        self.sparkContext = SimpleNamespace(
            addJobTag=lambda _: None,
            setInterruptOnCancel=lambda _: None,
            setLocalProperty=lambda *_: None,
            cancelJobsWithTag=lambda _: None,
        )
        self.again = threading.Event()
        self._asked = 0

    def interruptAll(self) -> None:  # noqa: N802 - as Spark calls it
        self._asked += 1
        if self._asked > 1:
            self.again.set()


def test_an_attempt_that_gets_its_session_late_is_looked_after_all_the_same() -> None:
    looks, attempt = threading.Semaphore(0), Running(TASK, AttemptLog())

    def running() -> list[Running]:
        looks.release()
        return [attempt]

    poller, session = Poller(running, _PAUSE_S), Session()
    poller.wake()
    try:
        for _ in range(3):  # it has looked more than once before there was a session
            assert looks.acquire(timeout=_SOON_S)
        late: Any = session
        attempt.session(late)
        attempt.stop()
        assert session.again.wait(_SOON_S)
    finally:
        poller.close()
