"""An attempt while it runs: its Spark sessions and jobs, its progress, and whether it has to stop."""

import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from math import isnan
from threading import Event, Lock, Thread
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from arco.flow.coordinator.messages import LeasedTask, Progress
from arco.flow.define.context import Context
from arco.flow.plan.table_state import ColumnChange
from arco.flow.spark.jvm import session_tag
from arco.flow.worker.outcome import escape_text, to_metric, to_number
from arco.flow.worker.ports import AttemptContext

_MAX_METRIC_NAME = 255  # as in events
_POOL = "spark.scheduler.pool"
_MAX_STAGES = 20


class Stopped(BaseException):
    """The attempt was cancelled, timed out or lost: it starts nothing more.

    It is no `Exception`, so that user code which catches any `Exception` does not continue.
    """


class RunningAttempt:
    """One attempt. Its own thread and the progress poller may call it at the same time."""

    def __init__(self, task: LeasedTask, watch: AttemptContext) -> None:
        self.task = task
        self.slot = 0  # unique among the running attempts
        self.metrics: dict[str, float | str] = {}
        self.column_changes: list[ColumnChange] = []
        self._watch = watch
        self._sessions: list[SparkSession] = []
        self._jobs: _AttemptJobs | None = None
        self._is_stopped = False
        self._progress = Progress()
        self._lock = Lock()

    def add_session(self, session: SparkSession) -> SparkSession:
        """Add a session of the attempt; `Stopped` if it comes too late. For the thread of the attempt."""
        jobs = self._jobs or _AttemptJobs(session, f"arco-{self.slot}")
        with self._lock:
            self._jobs = jobs
            self._sessions.append(session)
        self.raise_if_stopped()
        return session

    @property
    def sessions(self) -> tuple[SparkSession, ...]:
        """The sessions of the attempt."""
        with self._lock:
            return tuple(self._sessions)

    @property
    def is_stopped(self) -> bool:
        """Whether the attempt must not start anything more."""
        return self._is_stopped or self._watch.is_stopped()

    def raise_if_stopped(self) -> None:
        """`Stopped` if the attempt was stopped."""
        if self.is_stopped:
            raise Stopped

    def begin(self, phase: str) -> None:
        """Begin a phase, unless the attempt was stopped."""
        self.raise_if_stopped()
        self.report_progress(Progress(phase=phase))

    def stop(self) -> None:
        """Stop it from another thread; its Spark jobs end at once."""
        self._is_stopped = True
        self.interrupt()

    def interrupt(self) -> None:
        """End its current Spark jobs."""
        for session in self.sessions:
            session.interruptAll()
        if self._jobs is not None:
            self._jobs.cancel()

    def close(self) -> None:
        """Release its thread for other attempts."""
        if self._jobs is not None:
            self._jobs.close()

    def report_progress(self, progress: Progress) -> None:
        """Report the progress of the attempt."""
        with self._lock:
            self._progress = progress
        self._watch.progress(progress)

    def report_spark_progress(self, done: float | None, rows: int | None) -> None:
        """Report how far Spark is with the current phase, if that has changed."""
        with self._lock:
            before = self._progress
            self._progress = after = msgspec.structs.replace(before, done=done, rows=rows)
        if after != before:
            self._watch.progress(after)

    def context(self, values: dict[str, str]) -> Context:
        """What a user's function gets to know of its run."""
        return Context(
            partition=values,
            attempt=self.task.attempt,
            params=self.task.params,
            log=_logger(self._log_from_code),
            report=self,
        )

    def log(self, line: str) -> None:
        """Write a line to the log of the attempt."""
        self._watch.log(line)

    def metric(self, name: str, value: float) -> None:
        self._raise_if_stopped_in_code()
        if not 0 < len(name) <= _MAX_METRIC_NAME:
            raise ValueError(f"the name of a metric has 1 to {_MAX_METRIC_NAME} characters")
        self.metrics[name] = to_metric(value)

    def progress(self, done: float, message: str) -> None:
        number = to_number(done)
        share = None if isnan(number) else min(max(number, 0.0), 1.0)
        text = escape_text(str(message))
        self.report_progress(msgspec.structs.replace(self._progress, done=share, message=text))
        self._raise_if_stopped_in_code()

    def _log_from_code(self, line: str) -> None:
        self.log(line)
        self._raise_if_stopped_in_code()

    def _raise_if_stopped_in_code(self) -> None:
        """End user code of a stopped attempt; its `finally` blocks may still log and report."""
        if not isinstance(sys.exception(), Stopped):
            self.raise_if_stopped()


def _logger(write: Callable[[str], None]) -> logging.Logger:
    """A logger of one attempt, whose lines go only to `write`."""
    logger = logging.Logger("arco.task", logging.INFO)  # noqa: LOG001 - not shared
    handler = _LineHandler(write)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    return logger


class _LineHandler(logging.Handler):
    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # a mistake in a log line fails no task
            line = f"{record.levelname} {record.msg} {record.args!r}"
        self._write(line)


class _AttemptJobs:
    """All Spark jobs that this thread starts until `close`, which the same thread has to call.

    Interrupting a session ends its queries only. But each job bears the tags of the thread that started it,
    so jobs without a query (`df.rdd.foreach`) are cancelled by a tag. The thread also has a scheduler pool,
    so that a long task does not keep short ones waiting. Spark never removes a pool, hence pools are named
    after slots, of which there are few, and not after attempts.
    """

    def __init__(self, session: SparkSession, pool: str) -> None:
        self._context = session.sparkContext
        self._tag = f"arco-attempt-{session_tag(session)}"
        self._context.addJobTag(self._tag)
        self._context.setInterruptOnCancel(True)
        self._context.setLocalProperty(_POOL, pool)

    def cancel(self) -> None:
        """End the running jobs; from any thread."""
        self._context.cancelJobsWithTag(self._tag)

    def close(self) -> None:
        """Remove the tag and the pool from this thread."""
        with suppress(Exception):  # the JVM may have ended
            self._context.removeJobTag(self._tag)
            self._context.setInterruptOnCancel(False)
            self._context._jsc.setLocalProperty(_POOL, None)  # noqa: SLF001 - PySpark's own takes no None


class ProgressPoller:
    """Reports the progress of Spark jobs about once a second, while there are attempts.

    It also interrupts a stopped attempt repeatedly: its code may start one job after another.
    """

    def __init__(self, attempts: Callable[[], Iterable[RunningAttempt]], pause_s: float) -> None:
        self._attempts = attempts
        self._pause_s = pause_s
        self._lock = Lock()
        self._thread: Thread | None = None
        self._closed = Event()

    def wake(self) -> None:
        """Start polling, as an attempt has begun to use Spark."""
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = Thread(target=self._poll, name="arco-progress", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop polling."""
        self._closed.set()
        thread = self._thread
        if thread is not None:
            thread.join(self._pause_s + 1)

    def _poll(self) -> None:
        while not self._closed.wait(self._pause_s):
            with self._lock:
                attempts = [*self._attempts()]  # one may be about to get its session
                if not attempts:
                    self._thread = None
                    return
            for each in attempts:
                with suppress(Exception):  # if the JVM has ended, the attempt itself finds out
                    _update(each)


def _update(attempt: RunningAttempt) -> None:
    if not attempt.sessions:
        return
    if attempt.is_stopped:
        attempt.interrupt()
        return
    done, rows = _spark_progress(attempt.sessions[0])
    attempt.report_spark_progress(done, rows)


def _spark_progress(session: SparkSession) -> tuple[float | None, int | None]:
    """The share of completed tasks of the newest job, and the number of rows it has written."""
    context: Any = session.sparkContext._jsc.sc()  # noqa: SLF001 - pyspark has no public access
    tracker = context.statusTracker()
    jobs = [int(each) for each in tracker.getJobIdsForTag(session_tag(session))]
    if not jobs:
        return None, None
    job_info = tracker.getJobInfo(max(jobs))
    stages = [] if job_info.isEmpty() else list(job_info.get().stageIds())[:_MAX_STAGES]
    tasks = completed = rows = 0
    for stage in stages:
        stage_info = tracker.getStageInfo(stage)
        if not stage_info.isEmpty():
            tasks += stage_info.get().numTasks()
            completed += stage_info.get().numCompletedTasks()
            with suppress(Exception):  # Spark may have dropped the stage by now
                rows += int(context.statusStore().lastStageAttempt(stage).outputRecords())
    return (completed / tasks if tasks else None), rows or None
