"""The engine: jobs as Spark's jobs, and what came of them.

A small job is one task, without a shuffle. A large one has two stages: tasks read segments and fold them
partly, Spark brings the blobs of each shard together, and one task a shard folds them again and creates its
files. Only references and counts come to the driver.
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
from arco.compactor.spark.store_spec import StoreSpec
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

_MOST_SHARDS = 64  # a bucket is the least that can be a shard, and most tables have so many

_WARM_TASKS = 4

# Tasks take seconds, and jobs many of them: a job is given up when none has ended for so long, twice that
# at most, however long the whole takes.
PATIENCE_MS = 10 * 60_000.0
_SIGN_OF_LIFE_MS = 10_000

_Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class JobSizes:
    """How a job is cut up, in bytes of its segments and in rows that they become."""

    small: int = 8 * 1024 * 1024  # what one task does alone sooner than several with a shuffle
    small_rows: int = 200_000
    task: int = 128 * 1024 * 1024  # some seconds of work
    task_rows: int = 500_000
    shard: int = 256 * 1024 * 1024
    shard_rows: int = 1_000_000
    job_rows: int = 4_000_000  # what is published at once; the rest is for the next job


class SparkEngine:
    """Carries out jobs on a session; several side by side, if they are asked for at once."""

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
        self._ended = TaskProgress(session)
        self._farewell: Task[None] | None = None
        # Whether the session is of no use any more: another process must begin anew.
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
        """Let JVM and workers load all that they need, by a job that comes to nothing."""
        plan = partial(self._shuffled, _WARM_TASKS, WarmUpTask(), 2, WarmUpFinishTask())
        await self._run(plan, "warm", "warmed up")

    def _staged(self, job: FoldJob, large: LargeJob) -> DataFrame:
        sizes, size, rows = self._sizes, large.expected_bytes, large.expected_rows
        tasks = _power_of_two(max(size // sizes.task, rows // sizes.task_rows))
        tasks = min(len(job.segments), tasks)
        shards = _power_of_two(max(size // sizes.shard, rows // sizes.shard_rows))
        shards = min(_MOST_SHARDS, shards)
        gather = GatherTask(self._spec, job, tasks, shards)
        finish = FinishTask(self._spec, msgspec.structs.replace(job, segments=()))
        return self._shuffled(tasks, gather, shards, finish)

    def _shuffled(self, tasks: int, first: _Task, shards: int, second: _Task) -> DataFrame:
        parcels = self._numbered(tasks, first).repartitionById(shards, "shard")
        return parcels.mapInArrow(second, MESSAGE_SCHEMA)

    def _numbered(self, tasks: int, task: _Task) -> DataFrame:
        """`task`, so many times; each gets its number in a row."""
        return self._session.range(0, tasks, 1, tasks).mapInArrow(task, MESSAGE_SCHEMA)

    async def _run(self, plan: Callable[[], DataFrame], pool: str, doing: str) -> JobAnswers:
        """The answers to a job of Spark. If whoever waits for them gives up, so does Spark.

        Jobs of different pools share the cores. `doing` says in an error what the job did.
        """
        tag, tasks = new_ulid(self._runtime), self._runtime.tasks
        work = tasks.spawn(tasks.in_thread(lambda: self._collect(tag, pool, doing, plan)))
        try:
            return JobAnswers(await self._patiently(work))
        except EngineCrashed as crash:
            raise EngineCrashed(f"a Python worker of Spark: {crash}, while it {doing}") from crash
        except ArcoError:
            raise
        except TimeoutError as late:
            self._give_up(tag, work)
            # Workers that hang, or a JVM that does, end with the process; a cluster without room is asked
            # again by the next one, and until it has some everybody can see that nothing is compacted.
            self.is_lost = True
            raise Unavailable(
                f"no task of Spark has ended for {self._patience_ms / 60_000:g} minutes: "
                "look whether it has free executors, and whether the store answers its workers"
            ) from late
        except BaseException:
            self._give_up(tag, work)
            raise

    async def _patiently(self, work: Task[list[TaskMessage]]) -> list[TaskMessage]:
        """What comes of `work`, however long it takes; `TimeoutError` if it does not come on."""
        tasks, before = self._runtime.tasks, CompletedTasks()
        while True:
            try:
                return await tasks.deadline(self._patience_ms, work.wait())
            except TimeoutError:
                looking = tasks.in_thread(self._ended.look)
                now = await tasks.deadline(_SIGN_OF_LIFE_MS, looking)
                if now == before:
                    raise
                before = now

    def _give_up(self, tag: str, work: Task[list[TaskMessage]]) -> None:
        """Leave a job alone, and its thread, which ends when Spark has heard of it, or never."""
        work.cancel()
        self._farewell = self._runtime.tasks.spawn(self._interrupt(tag))

    async def _interrupt(self, tag: str) -> None:
        """Tell Spark that nobody waits for a job any more; there may be nobody left to tell."""
        with suppress(Exception):
            await self._runtime.tasks.in_thread(lambda: self._session.interruptTag(tag))

    def _collect(
        self, tag: str, pool: str, doing: str, plan: Callable[[], DataFrame]
    ) -> list[TaskMessage]:
        """Run a job in this thread, which is its own for as long as that takes."""
        try:
            if not self._ended.is_remote:
                self._session.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
            self._session.addTag(tag)
            try:
                return [TaskMessage(*row) for row in plan().collect()]
            finally:
                self._session.removeTag(tag)
        except Exception as problem:
            if not self._answers():
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

    def _answers(self) -> bool:
        """Whether the session is still of use after a failure."""
        try:
            self._session.range(1).collect()
        except Exception:
            return False
        return True


def _allowance() -> str:
    """How much a worker may use, if that is known."""
    most_mb = limit_mb()
    return f" (it may use {most_mb} MB: {LIMIT_VARIABLE})" if most_mb else ""


def _described(job: FoldJob) -> str:
    """What a job does, for an error that names it."""
    if not job.segments:
        return f"expanded no segments of {job.domain}"
    first, others = job.segments[0], len(job.segments) - 1
    where = f"expanded segment {first.seq} of stream {first.stream} of {job.domain}"
    return where if not others else f"{where} and {others} more"


def _power_of_two(parts: int) -> int:
    """At least so many, and a power of two: so that no core waits for one that has a part more."""
    return 1 << max(1, (parts - 1).bit_length())


# A worker was killed, or the daemon that forks them, in the words of Spark. A daemon that does not start
# for another reason, such as a missing library, is no crash: no segment is to blame for it.
_WORKER_DIED = ("Python worker exited unexpectedly", "terminated with code: 137")

# What a trace is made of, and the line in it that tells an error.
_NOISE = ("at ", "File ", "...", "Caused by", "Driver stacktrace")
_ERROR = re.compile(r"[A-Za-z_.]*(Error|Exception|Interrupt|Exit)\b")


def _reason(problem: Exception) -> str:
    """The line of a long report that says what was the matter."""
    lines = [line.strip() for line in str(problem).splitlines()]
    told = [line for line in lines if line and not line.startswith(_NOISE)]
    errors = [line for line in told if _ERROR.match(line)]
    return (errors or told or [type(problem).__name__])[-1]


CompletedTasks = frozenset[
    tuple[int, int]
]  # by stage; those of which no task has ended are left out


class _Stage(Protocol):
    """A stage as a server tells of it."""

    stage_id: int
    num_completed_tasks: int


class TaskProgress:
    """The tasks of a session that have ended."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._told: CompletedTasks = frozenset()
        # A classic session can be asked; a server tells by itself, every few seconds.
        self.is_remote = type(session).__module__.startswith("pyspark.sql.connect.")
        if self.is_remote:
            session.registerProgressHandler(self._hear)

    def look(self) -> CompletedTasks:
        """Those of the stages that are under way; this blocks."""
        if self.is_remote:
            return self._told
        tracker = self._session.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return frozenset(
            (stage.stageId, stage.numCompletedTasks)
            for stage in stages
            if stage is not None and stage.numCompletedTasks
        )

    def _hear(self, stages: Iterable[_Stage] | None, **_others: object) -> None:
        self._told = frozenset(
            (stage.stage_id, stage.num_completed_tasks)
            for stage in stages or ()
            if stage.num_completed_tasks
        )
