"""The engine that runs compaction jobs on Spark.

A small job is one task, without a shuffle. A large one has two stages: tasks read segments and fold them
partially, Spark shuffles the blobs by shard, and one task per shard folds them again and creates its files.
Only references and counts come to the driver.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from typing import Protocol

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from arco.catalog.manifest import Counts
from arco.compactor.engine import (
    EngineCrashed,
    FoldJob,
    FoldResult,
    JobTooLarge,
    MergeJob,
    MergeResult,
    add_counts,
)
from arco.compactor.spark.memory import LIMIT_VARIABLE, limit_mb
from arco.compactor.spark.messages import (
    MESSAGE_SCHEMA,
    JobAnswers,
    LargeJob,
    MessageKind,
    TaskMessage,
)
from arco.compactor.spark.tasks import (
    FinishTask,
    FoldSmallTask,
    GatherTask,
    MergeTask,
    WarmUpFinishTask,
    WarmUpTask,
)
from arco.core.errors import ArcoError, Unavailable
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.core.tasks import Task
from arco.storage.open import StoreSpec

_MAX_SHARDS = 64  # most tables have 64 buckets, and a shard is at least a bucket

_WARM_TASKS = 4

# Tasks take seconds. A job is given up when none of its tasks has ended for this long (at most twice this
# long), whatever its total time.
PATIENCE_MS = 10 * 60_000.0
_PROGRESS_TIMEOUT_MS = 10_000

_Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class JobSizes:
    """How a job is divided, by bytes of its segments and by rows."""

    small: int = 8 * 1024 * 1024  # one task is faster than several with a shuffle
    small_rows: int = 200_000
    task: int = 128 * 1024 * 1024  # some seconds of work
    task_rows: int = 500_000
    shard: int = 256 * 1024 * 1024
    shard_rows: int = 1_000_000
    job_rows: int = 4_000_000  # the most that is published at once


class SparkEngine:
    """Runs jobs on a session, in parallel if they are requested in parallel."""

    def __init__(
        self,
        session: SparkSession,
        spec: StoreSpec,
        runtime: Runtime,
        sizes: JobSizes | None = None,
        *,
        patience_ms: float = PATIENCE_MS,
    ) -> None:
        self._session = session
        self._spec = spec
        self._runtime = runtime
        self._sizes = sizes or JobSizes()
        self._patience_ms = patience_ms
        self._progress = TaskProgress(session)
        # Only a reference, so that the task is not garbage collected before it ends.
        self._interruption: Task[None] | None = None
        # Whether the session is unusable, so that a new process must be started.
        self.is_lost = False

    async def fold(self, job: FoldJob) -> FoldResult:
        sizes, work = self._sizes, _described(job)
        small = FoldSmallTask(self._spec, job, sizes.small, sizes.small_rows, sizes.job_rows)
        answers = await self._run(lambda: self._numbered(1, small), job.domain, work)
        for large in answers.read(MessageKind.LARGE, LargeJob):
            if job.divisible and large.fitting_segments < len(job.segments):
                raise JobTooLarge(large.fitting_segments)
            plan = partial(self._staged, job, large)
            answers = await self._run(
                plan, job.domain, f"{work}, about {large.expected_rows:,} rows"
            )
        counts = reduce(add_counts, answers.read(MessageKind.COUNTS, Counts), Counts())
        return FoldResult(files=answers.files(), counts=counts)

    async def merge(self, job: MergeJob) -> MergeResult:
        if not job.parts:
            return MergeResult(files=())
        task = MergeTask(self._spec, job)
        plan = partial(self._numbered, len(job.parts), task)
        answers = await self._run(plan, job.domain, f"merged files of {job.domain}")
        return MergeResult(
            files=answers.files(), forgotten=sum(answers.read(MessageKind.FORGOTTEN, int))
        )

    async def warm_up(self) -> None:
        """Make the JVM and the workers load all that they need, by a job without a result."""
        plan = partial(self._shuffled, _WARM_TASKS, WarmUpTask(), 2, WarmUpFinishTask())
        await self._run(plan, "warm", "warmed up")

    def _staged(self, job: FoldJob, large: LargeJob) -> DataFrame:
        sizes, size, rows = self._sizes, large.expected_bytes, large.expected_rows
        tasks = _power_of_two(max(size // sizes.task, rows // sizes.task_rows))
        tasks = min(len(job.segments), tasks)
        shards = _power_of_two(max(size // sizes.shard, rows // sizes.shard_rows))
        shards = min(_MAX_SHARDS, shards)
        gather = GatherTask(self._spec, job, tasks, shards)
        finish = FinishTask(self._spec, msgspec.structs.replace(job, segments=()))
        return self._shuffled(tasks, gather, shards, finish)

    def _shuffled(self, tasks: int, first: _Task, shards: int, second: _Task) -> DataFrame:
        parcels = self._numbered(tasks, first).repartitionById(shards, "shard")
        return parcels.mapInArrow(second, MESSAGE_SCHEMA)

    def _numbered(self, tasks: int, task: _Task) -> DataFrame:
        """Run `task` so many times; each gets its number in a row."""
        return self._session.range(0, tasks, 1, tasks).mapInArrow(task, MESSAGE_SCHEMA)

    async def _run(self, plan: Callable[[], DataFrame], pool: str, doing: str) -> JobAnswers:
        """Run a Spark job and return its answers; cancelling this call cancels the job.

        Jobs of different pools share the cores. `doing` describes the job in errors.
        """
        tag, tasks = new_ulid(self._runtime), self._runtime.tasks
        work = tasks.spawn(tasks.in_thread(lambda: self._collect(tag, pool, doing, plan)))
        try:
            return JobAnswers(await self._wait_for(work))
        except EngineCrashed as crash:
            raise EngineCrashed(f"a Python worker of Spark: {crash}, while it {doing}") from crash
        except ArcoError:
            raise
        except TimeoutError as timeout:
            self._abandon(tag, work)
            # Hanging workers or a hanging JVM end with the process. If a cluster has no free executors, the
            # next process tries again, and meanwhile the metrics show that nothing is compacted.
            self.is_lost = True
            raise Unavailable(
                f"no task of Spark has ended for {self._patience_ms / 60_000:g} minutes: "
                "check that it has free executors, and that its workers can reach the store"
            ) from timeout
        except BaseException:
            self._abandon(tag, work)
            raise

    async def _wait_for(self, work: Task[list[TaskMessage]]) -> list[TaskMessage]:
        """The result of `work`, however long it takes; `TimeoutError` if no task ends any more."""
        tasks, before = self._runtime.tasks, CompletedTasks()
        while True:
            try:
                return await tasks.deadline(self._patience_ms, work.wait())
            except TimeoutError:
                reading = tasks.in_thread(self._progress.read)
                now = await tasks.deadline(_PROGRESS_TIMEOUT_MS, reading)
                if now == before:
                    raise
                before = now

    def _abandon(self, tag: str, work: Task[list[TaskMessage]]) -> None:
        """Abandon a job and its thread, which ends once Spark has cancelled the job, or never."""
        work.cancel()
        self._interruption = self._runtime.tasks.spawn(self._interrupt(tag))

    async def _interrupt(self, tag: str) -> None:
        """Cancel a Spark job; the session may be lost, so errors are ignored."""
        with suppress(Exception):
            await self._runtime.tasks.in_thread(lambda: self._session.interruptTag(tag))

    def _collect(
        self, tag: str, pool: str, doing: str, plan: Callable[[], DataFrame]
    ) -> list[TaskMessage]:
        """Run a job in this thread."""
        try:
            if not self._progress.is_remote:
                self._session.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
            self._session.addTag(tag)
            try:
                return [TaskMessage(*row) for row in plan().collect()]
            finally:
                self._session.removeTag(tag)
        except Exception as problem:
            if not self._is_alive():
                self.is_lost = True
                raise Unavailable(
                    "Spark does not answer any more: its session is lost"
                ) from problem
            if any(words in str(problem) for words in _WORKER_DIED):
                raise EngineCrashed(
                    f"a Python worker of Spark was killed, probably out of memory{_allowance()}, while "
                    f"it {doing}"
                ) from problem
            raise Unavailable(f"Spark could not carry out a job: {_reason(problem)}") from problem

    def _is_alive(self) -> bool:
        """Whether the session still works after a failure."""
        try:
            self._session.range(1).collect()
        except Exception:
            return False
        return True


def _allowance() -> str:
    """The memory limit of a worker for an error, if it is known."""
    most_mb = limit_mb()
    return f" (it may use {most_mb} MB: {LIMIT_VARIABLE})" if most_mb else ""


def _described(job: FoldJob) -> str:
    """What a job does, for errors."""
    if not job.segments:
        return f"expanded no segments of {job.domain}"
    first, others = job.segments[0], len(job.segments) - 1
    segment_text = f"expanded segment {first.seq} of stream {first.stream} of {job.domain}"
    return segment_text if not others else f"{segment_text} and {others} more"


def _power_of_two(parts: int) -> int:
    """The next power of two: so that no core waits for one that has a part more."""
    return 1 << max(1, (parts - 1).bit_length())


# Spark's messages when a worker, or the daemon that forks workers, was killed. A daemon that does not start
# for another reason, such as a missing library, is no crash: no segment caused it.
_WORKER_DIED = ("Python worker exited unexpectedly", "terminated with code: 137")

# Lines of a stack trace, and the line with the error.
_NOISE = ("at ", "File ", "...", "Caused by", "Driver stacktrace")
_ERROR = re.compile(r"[A-Za-z_.]*(Error|Exception|Interrupt|Exit)\b")


def _reason(problem: Exception) -> str:
    """The line of a long stack trace that has the error."""
    lines = [line.strip() for line in str(problem).splitlines()]
    useful = [line for line in lines if line and not line.startswith(_NOISE)]
    errors = [line for line in useful if _ERROR.match(line)]
    return (errors or useful or [type(problem).__name__])[-1]


CompletedTasks = frozenset[tuple[int, int]]  # by stage; without stages of which no task has ended


class _Stage(Protocol):
    """A stage in a progress report of Spark Connect."""

    stage_id: int
    num_completed_tasks: int


class TaskProgress:
    """How many tasks of each running stage have ended. Read only when a job takes long."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._reported: CompletedTasks = frozenset()
        # A classic session is polled; Spark Connect reports by itself, every few seconds.
        self.is_remote = type(session).__module__.startswith("pyspark.sql.connect.")
        if self.is_remote:
            session.registerProgressHandler(self._on_progress)

    def read(self) -> CompletedTasks:
        """The completed tasks of the running stages; this blocks."""
        if self.is_remote:
            return self._reported
        tracker = self._session.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return frozenset(
            (stage.stageId, stage.numCompletedTasks)
            for stage in stages
            if stage is not None and stage.numCompletedTasks
        )

    def _on_progress(self, stages: Iterable[_Stage] | None, **_others: object) -> None:
        self._reported = frozenset(
            (stage.stage_id, stage.num_completed_tasks)
            for stage in stages or ()
            if stage.num_completed_tasks
        )
