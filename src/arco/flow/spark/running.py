"""An attempt while it is carried out: which sessions it has, how far it is, and whether it is to stop."""

import logging
import sys
from collections.abc import Callable
from math import isnan
from threading import Lock

import msgspec
from pyspark.sql import SparkSession

from arco.flow.coordinator.messages import LeasedTask, Progress
from arco.flow.define.context import Context
from arco.flow.plan.table_state import ColumnChange
from arco.flow.spark.thread_jobs import ThreadJobs
from arco.flow.worker.outcome import escape_text, to_metric, to_number
from arco.flow.worker.ports import AttemptContext

_LONGEST_NAME = 255  # of a metric, as events have it


class Stopped(BaseException):
    """The attempt was cancelled, timed out or lost: nothing more is begun.

    Code that goes on after any `Exception` of its own does not go on after this one.
    """


class Running:
    """One attempt. What is told of it may come from the thread that works and from one that looks on."""

    def __init__(self, task: LeasedTask, watch: AttemptContext) -> None:
        self.task = task
        self.slot = 0  # no other attempt under way has the same
        self.metrics: dict[str, float | str] = {}
        self.column_changes: list[ColumnChange] = []
        self._watch = watch
        self._sessions: list[SparkSession] = []
        self._jobs: ThreadJobs | None = None
        self._is_stopped = False
        self._progress = Progress()
        self._lock = Lock()

    def session(self, opened: SparkSession) -> SparkSession:
        """Take a session on; one that comes too late is stopped at once. For the thread that works."""
        jobs = self._jobs or ThreadJobs(opened, f"arco-{self.slot}")
        with self._lock:
            self._jobs = jobs
            self._sessions.append(opened)
        self.go_on()
        return opened

    @property
    def sessions(self) -> tuple[SparkSession, ...]:
        """Those that the attempt has."""
        with self._lock:
            return tuple(self._sessions)

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more may be begun."""
        return self._is_stopped or self._watch.is_stopped()

    def heed(self) -> None:
        """End code that speaks though the attempt was stopped; what it says on its way out is heard."""
        if not isinstance(sys.exception(), Stopped):
            self.go_on()

    def go_on(self, phase: str | None = None) -> None:
        """Begin a phase, unless the attempt was stopped."""
        if self.is_stopped:
            raise Stopped
        if phase is not None:
            self.tell(Progress(phase=phase))

    def stop(self) -> None:
        """Stop it from another thread: what Spark does for it ends at once."""
        self._is_stopped = True
        self.interrupt()

    def interrupt(self) -> None:
        """End what Spark does for it now."""
        for session in self.sessions:
            session.interruptAll()
        if self._jobs is not None:
            self._jobs.stop()

    def close(self) -> None:
        """It is over, and its thread free for others."""
        if self._jobs is not None:
            self._jobs.close()

    def tell(self, progress: Progress) -> None:
        """How far it is."""
        with self._lock:
            self._progress = progress
        self._watch.progress(progress)

    def tell_share(self, done: float | None, rows: int | None) -> None:
        """How far Spark is with the phase that is under way."""
        with self._lock:
            now = self._progress
            told = msgspec.structs.replace(now, done=done, rows=rows)
            self._progress = told
        if told != now:
            self._watch.progress(told)

    def context(self, values: dict[str, str]) -> Context:
        """What a function learns of its own run."""
        return Context(
            partition=values,
            attempt=self.task.attempt,
            params=self.task.params,
            log=_logger(self._say),
            report=self,
        )

    def log(self, line: str) -> None:
        """Keep a line with the attempt."""
        self._watch.log(line)

    def _say(self, line: str) -> None:
        self.log(line)
        self.heed()

    def metric(self, name: str, value: float) -> None:
        self.heed()
        if not 0 < len(name) <= _LONGEST_NAME:
            raise ValueError(f"the name of a metric has 1 to {_LONGEST_NAME} characters")
        self.metrics[name] = to_metric(value)

    def progress(self, done: float, message: str) -> None:
        number = to_number(done)
        share = None if isnan(number) else min(max(number, 0.0), 1.0)
        words = escape_text(str(message))
        self.tell(msgspec.structs.replace(self._progress, done=share, message=words))
        self.heed()


def _logger(keep: Callable[[str], None]) -> logging.Logger:
    """A logger of one attempt alone, whose lines go nowhere else."""
    logger = logging.Logger("arco.task", logging.INFO)  # noqa: LOG001 - not shared
    handler = _Kept(keep)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    return logger


class _Kept(logging.Handler):
    def __init__(self, keep: Callable[[str], None]) -> None:
        super().__init__()
        self._keep = keep

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # a slip in a line of the log fails no task
            line = f"{record.levelname} {record.msg} {record.args!r}"
        self._keep(line)
