"""The executor: leased tasks carried out on Spark, each in the thread that calls, many side by side."""

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
from arco.flow.spark.asset_work import AssetWork
from arco.flow.spark.away import away
from arco.flow.spark.call import wants_spark
from arco.flow.spark.engine import SparkEngine, answers
from arco.flow.spark.hint import MEMORY_OF_LOST, hint, memory_hint
from arco.flow.spark.outcome import cancelled, failed, given_back
from arco.flow.spark.progress import Poller
from arco.flow.spark.running import Running, Stopped
from arco.flow.spark.table_turns import TableTurns
from arco.flow.spark.task_work import TaskWork
from arco.flow.spark.user_error import describe
from arco.flow.worker.ports import AttemptContext, Lake, project_code
from arco.flow.worker.stdout import log_prints

_POLL_S = 1.0


class SparkExecutor:
    """Carries out the tasks of one project; fills `arco.flow.worker.ports.Executor`."""

    def __init__(
        self,
        project: Project,
        lake: Lake,
        opener: Callable[[], SparkSession],
        clock: Clock,
        *,
        poll_s: float = _POLL_S,
    ) -> None:
        """`opener` starts Spark; it is called when the first task needs it, and again if Spark is lost."""
        self._lake = lake
        self._clock = clock
        self._engine = SparkEngine(opener)
        self._use(project)
        self._running: dict[str, Running] = {}
        self._lock = Lock()
        self._turns = TableTurns()
        self._poller = Poller(self._attempts, poll_s)

    def warm_up(self) -> None:
        """Start Spark now: what is missing for it is told before anything is begun."""
        self._engine.new_session()

    def switch(self, project: Project, modules: Mapping[str, bytes], *, reopen: bool) -> None:
        """Use the project as it was loaded again, while no task runs; its modules reach Spark's workers.

        `reopen`: Spark must be opened again, as what it was opened with is not what the project needs now.
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
        """Whether Spark was started and not let go of."""
        return self._engine.is_open

    def execute(self, task: LeasedTask, watch: AttemptContext) -> AttemptOutcome:
        """Carry a task out, whatever it comes to; one that was planned with other code is given back."""
        loaded = self._code.get(task.maker)
        code = None if loaded is None else loaded.code
        if task.code is not None and loaded is not None and loaded != task.code:
            return given_back(Unavailable(_other_code(task.code, loaded)))
        running = Running(stamp_outputs(task, code), watch)
        with self._known(running), log_prints(running.log):
            outcome = self._outcome(running)
        parts = self._project.code_parts.get(task.maker, {})
        return msgspec.structs.replace(
            outcome,
            code_fingerprint=code,
            code_parts=parts,
            column_changes=tuple(running.column_changes),
        )

    def interrupt(self, attempt_id: str) -> None:
        """Stop an attempt; what Spark does for it is gone at once."""
        with self._lock:
            running = self._running.get(attempt_id)
        if running is not None:
            running.stop()

    def lend(self) -> SparkSession | None:
        """A session of the Spark that tasks have opened, for whoever needs one too."""
        return self._engine.lend()

    def close(self) -> None:
        """Let go of Spark."""
        self._poller.close()
        self._engine.close()

    def _outcome(self, running: Running) -> AttemptOutcome:
        maker = self._makers.get(running.task.maker)
        work: AssetWork | TaskWork | None = None
        try:
            work = self._work(maker, running)
            return work.run()
        except Stopped:
            return cancelled(_published(work))
        except (Exception, SystemExit) as problem:  # what a script ends with ends its task alone
            if running.is_stopped:
                return cancelled(_published(work))
            gone = _lost(running) or away(problem)
            if gone is not None:
                return given_back(gone, _published(work))
            where = None if maker is None else maker.where
            text = describe(problem, self._project.folder, where)
            for more in (hint(problem, self._lake.find), memory_hint(problem)):
                text = text if more is None else f"{text}\n{more}"
            return failed(text, problem, _published(work))

    def _work(self, maker: AssetDef | TaskDef | None, running: Running) -> AssetWork | TaskWork:
        if maker is None:
            raise Invalid(
                f"the project {self._project.name!r} has no {running.task.maker} here: is the code of "
                "this worker older than the plan?"
            )
        if isinstance(maker, TaskDef):
            session = self._new_session if wants_spark(maker) else None
            return TaskWork(self._project, maker, running, self._lake, self._clock, session)
        return AssetWork(
            project=self._project,
            asset=maker,
            running=running,
            lake=self._lake,
            clock=self._clock,
            new_session=self._new_session,
            turns=self._turns,
        )

    def _new_session(self) -> SparkSession:
        opened = self._engine.new_session()
        self._poller.wake()
        return opened

    def _attempts(self) -> list[Running]:
        with self._lock:
            return list(self._running.values())

    @contextmanager
    def _known(self, running: Running) -> Iterator[None]:
        attempt_id = running.task.attempt_id
        with self._lock:
            taken = {each.slot for each in self._running.values()}
            running.slot = next(each for each in count() if each not in taken)
            self._running[attempt_id] = running
        try:
            yield
        finally:
            with self._lock:
                self._running.pop(attempt_id, None)
            running.close()


def _other_code(planned: CodeVersion, loaded: CodeVersion) -> str:
    """Why a task does not run here."""
    if planned.code == loaded.code:
        return "the worker has loaded other checks than the task was planned with"
    return (
        f"the task was planned with the code {planned.code[:12]}, and the worker has loaded "
        f"{loaded.code[:12]}"
    )


def _lost(running: Running) -> Unavailable | None:
    """That Spark is gone, if it is."""
    sessions = running.sessions
    if not sessions or answers(sessions[0]):
        return None
    return Unavailable(
        f"Spark was lost while it worked on this: its process has ended. {MEMORY_OF_LOST}"
    )


def _published(work: AssetWork | TaskWork | None) -> list[OutputResult]:
    """What everybody sees already of an attempt that came to an end before its time."""
    return [] if work is None else work.done
