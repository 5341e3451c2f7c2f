"""Runs leased tasks on Spark, each in the thread that calls, many at the same time."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from threading import Lock

import msgspec
from pyspark.sql import SparkSession

from arco.core.clock import Clock
from arco.core.errors import Invalid, Unavailable
from arco.flow.coordinator.attempt_events import stamp_outputs
from arco.flow.coordinator.messages import AttemptOutcome, CodeVersion, LeasedTask, OutputResult
from arco.flow.define import AssetDef, Project, TaskDef
from arco.flow.spark.asset_attempt import AssetAttempt
from arco.flow.spark.commit_queue import CommitQueues
from arco.flow.spark.engine import WorkerSpark, is_alive
from arco.flow.spark.running_attempt import ProgressPoller, RunningAttempt, Stopped
from arco.flow.spark.task_attempt import TaskAttempt
from arco.flow.spark.task_errors import (
    LOST_SPARK_HINT,
    cancelled_outcome,
    describe_error,
    failed_outcome,
    infrastructure_error,
    memory_hint,
    requeued_outcome,
    table_hint,
)
from arco.flow.spark.user_code import needs_spark
from arco.flow.worker.ports import AttemptContext, TaskCatalog, project_code
from arco.flow.worker.stdout import log_prints

_POLL_S = 1.0


class SparkExecutor:
    """Runs the tasks of one project; implements `arco.flow.worker.ports.Executor`."""

    def __init__(
        self,
        project: Project,
        catalog: TaskCatalog,
        opener: Callable[[], SparkSession],
        clock: Clock,
        *,
        poll_s: float = _POLL_S,
    ) -> None:
        """`opener` starts Spark; it is called when the first task needs it, and again if Spark is lost."""
        self._catalog = catalog
        self._clock = clock
        self._engine = WorkerSpark(opener)
        self._use(project)
        self._running: dict[str, RunningAttempt] = {}
        self._lock = Lock()
        self._commit_queues = CommitQueues()
        self._poller = ProgressPoller(self._attempts, poll_s)

    def warm_up(self) -> None:
        """Start Spark now, so that a missing requirement is reported before any task begins."""
        self._engine.new_session()

    def switch(self, project: Project, modules: Mapping[str, bytes], *, reopen: bool) -> None:
        """Use the project as it was reloaded, while no task runs; its modules reach Spark's workers.

        `reopen`: restart Spark, as the project needs other settings than it was started with.
        """
        if reopen:
            self._engine.close()
        else:
            self._engine.send_modules(modules)
        self._use(project)

    def _use(self, project: Project) -> None:
        self._project = project
        self._makers = {each.name: each for each in project.makers()}
        self._code = project_code(project)

    @property
    def is_open(self) -> bool:
        """Whether Spark was started and not closed."""
        return self._engine.is_open

    def execute(self, task: LeasedTask, watch: AttemptContext) -> AttemptOutcome:
        """Run a task; one that was planned with other code than this worker has is requeued."""
        loaded = self._code.get(task.maker)
        code = None if loaded is None else loaded.code
        if task.code is not None and loaded is not None and loaded != task.code:
            return requeued_outcome(Unavailable(_other_code(task.code, loaded)))
        attempt = RunningAttempt(stamp_outputs(task, code), watch)
        with self._register(attempt), log_prints(attempt.log):
            outcome = self._run(attempt)
        return msgspec.structs.replace(
            outcome,
            code_fingerprint=code,
            code_parts=self._project.code_parts.get(task.maker, {}),
            column_changes=tuple(attempt.column_changes),
        )

    def interrupt(self, attempt_id: str) -> None:
        """Stop an attempt; its Spark jobs end at once."""
        with self._lock:
            attempt = self._running.get(attempt_id)
        if attempt is not None:
            attempt.stop()

    def lend(self) -> SparkSession | None:
        """A session for other purposes than tasks, if Spark runs."""
        return self._engine.lend()

    def close(self) -> None:
        """Stop Spark."""
        self._poller.close()
        self._engine.close()

    def _run(self, attempt: RunningAttempt) -> AttemptOutcome:
        maker = self._makers.get(attempt.task.maker)
        work: AssetAttempt | TaskAttempt | None = None
        try:
            work = self._attempt_of(maker, attempt)
            return work.run()
        except Stopped:
            return cancelled_outcome(_published(work))
        except (Exception, SystemExit) as problem:  # sys.exit() in user code ends only its task
            if attempt.is_stopped:
                return cancelled_outcome(_published(work))
            reason = _lost_spark(attempt) or infrastructure_error(problem)
            if reason is not None:
                return requeued_outcome(reason, _published(work))
            where = None if maker is None else maker.where
            text = describe_error(problem, self._project.folder, where)
            for hint in (table_hint(problem, self._catalog.find), memory_hint(problem)):
                text = text if hint is None else f"{text}\n{hint}"
            return failed_outcome(text, problem, _published(work))

    def _attempt_of(
        self, maker: AssetDef | TaskDef | None, attempt: RunningAttempt
    ) -> AssetAttempt | TaskAttempt:
        if maker is None:
            raise Invalid(
                f"the project {self._project.name!r} of this worker has no {attempt.task.maker}: is its "
                "code older than the plan?"
            )
        if isinstance(maker, TaskDef):
            session = self._new_session if needs_spark(maker) else None
            return TaskAttempt(self._project, maker, attempt, self._catalog, self._clock, session)
        return AssetAttempt(
            project=self._project,
            asset=maker,
            attempt=attempt,
            catalog=self._catalog,
            clock=self._clock,
            new_session=self._new_session,
            commit_queues=self._commit_queues,
        )

    def _new_session(self) -> SparkSession:
        session = self._engine.new_session()
        self._poller.wake()
        return session

    def _attempts(self) -> list[RunningAttempt]:
        with self._lock:
            return list(self._running.values())

    @contextmanager
    def _register(self, attempt: RunningAttempt) -> Iterator[None]:
        attempt_id = attempt.task.attempt_id
        with self._lock:
            taken = {each.slot for each in self._running.values()}
            attempt.slot = next(each for each in count() if each not in taken)
            self._running[attempt_id] = attempt
        try:
            yield
        finally:
            with self._lock:
                self._running.pop(attempt_id, None)
            attempt.close()


def _other_code(planned: CodeVersion, loaded: CodeVersion) -> str:
    """Why this worker does not run a task."""
    if planned.code == loaded.code:
        return "the worker has loaded other checks than the task was planned with"
    return (
        f"the task was planned with the code {planned.code[:12]}, and the worker has loaded "
        f"{loaded.code[:12]}"
    )


def _lost_spark(attempt: RunningAttempt) -> Unavailable | None:
    """The error to report if the JVM of an attempt has ended."""
    sessions = attempt.sessions
    if not sessions or is_alive(sessions[0]):
        return None
    return Unavailable(
        f"Spark was lost while the task ran: its process has ended. {LOST_SPARK_HINT}"
    )


def _published(work: AssetAttempt | TaskAttempt | None) -> list[OutputResult]:
    """The outputs that an unfinished attempt has published."""
    return [] if work is None else work.done
