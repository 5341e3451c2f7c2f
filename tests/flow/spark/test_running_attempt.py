"""What a function reports by its context, and the progress of Spark; no JVM is needed."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from arco.flow.coordinator.messages import Progress
from arco.flow.define import Context
from arco.flow.spark.running_attempt import ProgressPoller, RunningAttempt, Stopped
from arco.flow.worker.reporter import AttemptLog
from tests.flow.worker.leased_task import TASK


def test_metrics_are_numbers_of_pythons_own_or_their_names() -> None:
    attempt, count = RunningAttempt(TASK, AttemptLog()), np.array([1, 2]).sum()
    ctx = attempt.context({})
    ctx.metric("rows", 7)
    ctx.metric("seen", count)
    ctx.metric("mean", np.float64("nan"))
    assert attempt.metrics == {"rows": 7, "seen": 3, "mean": "nan"}
    assert {type(each) for each in attempt.metrics.values()} == {int, str}


def test_a_slip_in_a_line_of_the_log_fails_nothing() -> None:
    watch = AttemptLog()
    RunningAttempt(TASK, watch).context({}).log.warning("%d rows", "many")
    assert watch.take().text == "WARNING %d rows ('many',)\n"


@pytest.mark.parametrize(("name", "value"), [("", 1), ("x" * 256, 1), ("many", "lots")])
def test_an_invalid_metric_is_an_error(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"the name of a metric|is no number"):
        RunningAttempt(TASK, AttemptLog()).context({}).metric(name, value)


@pytest.mark.parametrize(
    ("done", "share"), [(np.float32(0.5), 0.5), (7, 1.0), (-1, 0.0), (float("nan"), None)]
)
def test_progress_is_a_share_of_pythons_own(done: Any, share: float | None) -> None:
    watch = AttemptLog()
    RunningAttempt(TASK, watch).context({}).progress(done, os.fsdecode(b"caf\xe9"))
    assert watch.latest == Progress(done=share, message="caf\\udce9")
    assert type(watch.latest.done) in (float, type(None))


SPEAKS: list[Callable[[Context], None]] = [
    lambda ctx: ctx.progress(0.5, "half"),
    lambda ctx: ctx.log.info("at it"),
    lambda ctx: ctx.metric("rows", 1),
]


@pytest.mark.parametrize("speak", SPEAKS, ids=["progress", "log", "metric"])
def test_stopped_code_ends_when_it_reports_even_if_it_catches_errors(
    speak: Callable[[Context], None],
) -> None:
    attempt = RunningAttempt(TASK, AttemptLog())
    ctx = attempt.context({})
    speak(ctx)
    attempt.stop()
    with pytest.raises(Stopped), suppress(Exception):
        speak(ctx)


def test_stopped_code_may_log_while_it_cleans_up() -> None:
    watch, put_away = AttemptLog(), False
    attempt = RunningAttempt(TASK, watch)
    ctx = attempt.context({})

    def work() -> None:
        nonlocal put_away
        try:
            ctx.progress(0.5)
        finally:
            ctx.log.info("closing")
            put_away = True

    attempt.stop()
    with pytest.raises(Stopped):
        work()
    assert put_away
    assert watch.take().text == "INFO closing\n"


def test_what_is_logged_after_the_end_is_kept_though_it_ends_the_code() -> None:
    watch = AttemptLog()
    attempt = RunningAttempt(TASK, watch)
    attempt.stop()
    with pytest.raises(Stopped):
        attempt.context({}).log.info("last words")
    assert watch.take().text == "INFO last words\n"


_SOON_S = 10.0
_PAUSE_S = 0.01


class Session:
    """Counts interrupts; `interrupted_twice` is set at the second."""

    def __init__(self) -> None:
        self._jsparkSession = SimpleNamespace(sessionUUID=lambda: "one")
        self.sparkContext = SimpleNamespace(
            addJobTag=lambda _: None,
            setInterruptOnCancel=lambda _: None,
            setLocalProperty=lambda *_: None,
            cancelJobsWithTag=lambda _: None,
        )
        self.interrupted_twice = threading.Event()
        self._asked = 0

    def interruptAll(self) -> None:  # noqa: N802 - as Spark calls it
        self._asked += 1
        if self._asked > 1:
            self.interrupted_twice.set()


def test_an_attempt_that_gets_its_session_late_is_polled() -> None:
    looks, attempt = threading.Semaphore(0), RunningAttempt(TASK, AttemptLog())

    def attempts() -> list[RunningAttempt]:
        looks.release()
        return [attempt]

    poller, session = ProgressPoller(attempts, _PAUSE_S), Session()
    poller.wake()
    try:
        for _ in range(3):  # it has looked more than once before there was a session
            assert looks.acquire(timeout=_SOON_S)
        late: Any = session
        attempt.add_session(late)
        attempt.stop()
        assert session.interrupted_twice.wait(_SOON_S)
    finally:
        poller.close()
