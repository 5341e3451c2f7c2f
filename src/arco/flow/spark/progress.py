"""How far Spark is: a thread that looks at the stages of the attempts under way, about once a second.

It also stops again what goes on after it was told to stop: code that starts one job after another.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any

from pyspark.sql import SparkSession

from arco.flow.spark.jvm import session_tag
from arco.flow.spark.running import Running

_MOST_STAGES = 20


class Poller:
    """Looks on as long as something runs; without attempts there is no thread."""

    def __init__(self, running: Callable[[], Iterable[Running]], pause_s: float) -> None:
        self._running = running
        self._pause_s = pause_s
        self._lock = Lock()
        self._thread: Thread | None = None
        self._closed = Event()

    def wake(self) -> None:
        """Somebody begins to work."""
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = Thread(target=self._look_on, name="arco-progress", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        thread = self._thread
        if thread is not None:
            thread.join(self._pause_s + 1)

    def _look_on(self) -> None:
        while not self._closed.wait(self._pause_s):
            with self._lock:
                attempts = [*self._running()]  # one may be about to get its session
                if not attempts:
                    self._thread = None
                    return
            for each in attempts:
                with suppress(Exception):  # a JVM that is gone is the attempt's own affair
                    _look(each)


def _look(attempt: Running) -> None:
    if not attempt.sessions:
        return
    if attempt.is_stopped:
        attempt.interrupt()
        return
    done, rows = progress_of(attempt.sessions[0])
    attempt.tell_share(done, rows)


def progress_of(session: SparkSession) -> tuple[float | None, int | None]:
    """Which share of the tasks of the newest job has ended, and how many rows were written by it."""
    context: Any = session.sparkContext._jsc.sc()  # noqa: SLF001 - there is no other way to it
    tracker = context.statusTracker()
    jobs = [int(each) for each in tracker.getJobIdsForTag(session_tag(session))]
    if not jobs:
        return None, None
    info = tracker.getJobInfo(max(jobs))
    stages = [] if info.isEmpty() else list(info.get().stageIds())[:_MOST_STAGES]
    tasks = ended = rows = 0
    for stage in stages:
        found = tracker.getStageInfo(stage)
        if not found.isEmpty():
            tasks += found.get().numTasks()
            ended += found.get().numCompletedTasks()
            with suppress(Exception):  # it may be forgotten already
                rows += int(context.statusStore().lastStageAttempt(stage).outputRecords())
    return (ended / tasks if tasks else None), rows or None
