"""What a function says of its run, by its context; no JVM is needed for it."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from arco.flow.coordinator.messages import Progress
from arco.flow.define import Context
from arco.flow.spark.running import Running, Stopped
from arco.flow.worker.reporter import AttemptLog
from tests.flow.worker.leased import TASK


def test_metrics_are_numbers_of_pythons_own_or_their_names() -> None:
    running, seen = Running(TASK, AttemptLog()), np.array([1, 2]).sum()
    ctx = running.context({})
    ctx.metric("rows", 7)
    ctx.metric("seen", seen)
    ctx.metric("mean", np.float64("nan"))
    assert running.metrics == {"rows": 7, "seen": 3, "mean": "nan"}
    assert {type(each) for each in running.metrics.values()} == {int, str}


def test_a_slip_in_a_line_of_the_log_fails_nothing() -> None:
    said = AttemptLog()
    Running(TASK, said).context({}).log.warning("%d rows", "many")
    assert said.take().text == "WARNING %d rows ('many',)\n"


@pytest.mark.parametrize(("name", "value"), [("", 1), ("x" * 256, 1), ("many", "lots")])
def test_what_no_metric_can_be_is_an_error_where_it_is_said(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"the name of a metric|is no number"):
        Running(TASK, AttemptLog()).context({}).metric(name, value)


@pytest.mark.parametrize(
    ("done", "share"), [(np.float32(0.5), 0.5), (7, 1.0), (-1, 0.0), (float("nan"), None)]
)
def test_progress_is_a_share_of_pythons_own(done: Any, share: float | None) -> None:
    said = AttemptLog()
    Running(TASK, said).context({}).progress(done, os.fsdecode(b"caf\xe9"))
    assert said.latest == Progress(done=share, message="caf\\udce9")
    assert type(said.latest.done) in (float, type(None))


SPEAKS: list[Callable[[Context], None]] = [
    lambda ctx: ctx.progress(0.5, "half"),
    lambda ctx: ctx.log.info("at it"),
    lambda ctx: ctx.metric("rows", 1),
]


@pytest.mark.parametrize("speak", SPEAKS, ids=["progress", "log", "metric"])
def test_code_that_speaks_after_it_was_stopped_ends_whatever_errors_it_goes_on_after(
    speak: Callable[[Context], None],
) -> None:
    running = Running(TASK, AttemptLog())
    ctx = running.context({})
    speak(ctx)
    running.stop()
    with pytest.raises(Stopped), suppress(Exception):
        speak(ctx)


def test_code_that_was_stopped_may_speak_while_it_puts_its_things_away() -> None:
    said, put_away = AttemptLog(), False
    running = Running(TASK, said)
    ctx = running.context({})

    def work() -> None:
        nonlocal put_away
        try:
            ctx.progress(0.5)
        finally:
            ctx.log.info("closing")
            put_away = True

    running.stop()
    with pytest.raises(Stopped):
        work()
    assert put_away
    assert said.take().text == "INFO closing\n"


def test_what_is_logged_after_the_end_is_kept_though_it_ends_the_code() -> None:
    said = AttemptLog()
    running = Running(TASK, said)
    running.stop()
    with pytest.raises(Stopped):
        running.context({}).log.info("last words")
    assert said.take().text == "INFO last words\n"
