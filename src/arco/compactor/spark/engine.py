"""The engine: jobs as Spark's jobs, and what came of them.

A small job is one task, without a shuffle. A large one has two stages: tasks read segments and fold them
partly, Spark brings the blobs of each shard together, and one task a shard folds them again and creates its
files. Only references and counts come to the driver.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from arco.catalog.manifest import Counts
from arco.compactor.job import Folded, FoldJob, Merged, MergeJob
from arco.compactor.spark.answers import Answers
from arco.compactor.spark.ended import Ended, EndedTasks
from arco.compactor.spark.parcel import SCHEMA, Kind, Large, Parcel
from arco.compactor.spark.store_spec import StoreSpec
from arco.compactor.spark.warm import Warm, WarmFinish
from arco.compactor.spark.worker import Finish, FoldSmall, Gather, MergeParts
from arco.compactor.work import add
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
class Sizes:
    """How a job is cut up, in bytes of its segments; a worker's memory holds each of them many times."""

    small: int = 8 * 1024 * 1024  # what one task does alone sooner than several with a shuffle
    task: int = 128 * 1024 * 1024  # some seconds of work
    shard: int = 256 * 1024 * 1024


class SparkEngine:
    """Carries out jobs on a session; several side by side, if they are asked for at once."""

    def __init__(
        self,
        session: SparkSession,
        spec: StoreSpec,
        runtime: Runtime,
        sizes: Sizes | None = None,
        *,
        patience_ms: float = PATIENCE_MS,
    ) -> None:
        self._session = session
        self._spec = spec
        self._runtime = runtime
        self._sizes = sizes or Sizes()
        self._patience_ms = patience_ms
        self._ended = EndedTasks(session)
        self._farewell: Task[None] | None = None
        # Whether the session is of no use any more: another process must begin anew.
        self.is_lost = False

    async def fold(self, job: FoldJob) -> Folded:
        small = FoldSmall(self._spec, job, self._sizes.small)
        answers = await self._run(lambda: self._numbered(1, small))
        if large := answers.read(Kind.LARGE, Large):
            size = large[0].expected_bytes
            answers = await self._run(lambda: self._staged(job, size))
        counts = reduce(add, answers.read(Kind.COUNTS, Counts), Counts())
        return Folded(files=answers.files(), counts=counts)

    async def merge(self, job: MergeJob) -> Merged:
        if not job.parts:
            return Merged(files=())
        task = MergeParts(self._spec, job)
        answers = await self._run(lambda: self._numbered(len(job.parts), task))
        return Merged(files=answers.files(), forgotten=sum(answers.read(Kind.FORGOTTEN, int)))

    async def warm_up(self) -> None:
        """Let JVM and workers load all that they need, by a job that comes to nothing."""
        await self._run(lambda: self._shuffled(_WARM_TASKS, Warm(), 2, WarmFinish()))

    def _staged(self, job: FoldJob, expected_bytes: int) -> DataFrame:
        tasks = min(len(job.segments), _evenly(expected_bytes // self._sizes.task))
        shards = min(_MOST_SHARDS, _evenly(expected_bytes // self._sizes.shard))
        gather = Gather(self._spec, job, tasks, shards)
        finish = Finish(self._spec, msgspec.structs.replace(job, segments=()))
        return self._shuffled(tasks, gather, shards, finish)

    def _shuffled(self, tasks: int, first: _Task, shards: int, second: _Task) -> DataFrame:
        parcels = self._numbered(tasks, first).repartitionById(shards, "shard")
        return parcels.mapInArrow(second, SCHEMA)

    def _numbered(self, tasks: int, task: _Task) -> DataFrame:
        """`task`, so many times; each gets its number in a row."""
        return self._session.range(0, tasks, 1, tasks).mapInArrow(task, SCHEMA)

    async def _run(self, plan: Callable[[], DataFrame]) -> Answers:
        """The answers to a job of Spark. If whoever waits for them gives up, so does Spark."""
        tag, tasks = new_ulid(self._runtime), self._runtime.tasks
        work = tasks.spawn(tasks.in_thread(lambda: self._collect(tag, plan)))
        try:
            return Answers(await self._patiently(work))
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

    async def _patiently(self, work: Task[list[Parcel]]) -> list[Parcel]:
        """What comes of `work`, however long it takes; `TimeoutError` if it does not come on."""
        tasks, before = self._runtime.tasks, Ended()
        while True:
            try:
                return await tasks.deadline(self._patience_ms, work.wait())
            except TimeoutError:
                looking = tasks.in_thread(self._ended.look)
                now = await tasks.deadline(_SIGN_OF_LIFE_MS, looking)
                if now == before:
                    raise
                before = now

    def _give_up(self, tag: str, work: Task[list[Parcel]]) -> None:
        """Leave a job alone, and its thread, which ends when Spark has heard of it, or never."""
        work.cancel()
        self._farewell = self._runtime.tasks.spawn(self._interrupt(tag))

    async def _interrupt(self, tag: str) -> None:
        """Tell Spark that nobody waits for a job any more; there may be nobody left to tell."""
        with suppress(Exception):
            await self._runtime.tasks.in_thread(lambda: self._session.interruptTag(tag))

    def _collect(self, tag: str, plan: Callable[[], DataFrame]) -> list[Parcel]:
        """Run a job in this thread, which is its own for as long as that takes."""
        try:
            self._session.addTag(tag)
            try:
                return [Parcel(*row) for row in plan().collect()]
            finally:
                self._session.removeTag(tag)
        except Exception as problem:
            if not self._answers():
                self.is_lost = True
                raise Unavailable(
                    "Spark does not answer any more: its session is lost"
                ) from problem
            raise Unavailable(f"Spark could not carry out a job: {_reason(problem)}") from problem

    def _answers(self) -> bool:
        """Whether the session is still of use after a failure."""
        try:
            self._session.range(1).collect()
        except Exception:
            return False
        return True


def _evenly(parts: int) -> int:
    """At least so many, and a power of two: so that no core waits for one that has a part more."""
    return 1 << max(1, (parts - 1).bit_length())


# What a trace is made of, and the line in it that tells an error.
_NOISE = ("at ", "File ", "...", "Caused by")
_ERROR = re.compile(r"[A-Za-z_.]*(Error|Exception|Interrupt|Exit)\b")


def _reason(problem: Exception) -> str:
    """The line of a long report that says what was the matter."""
    lines = [line.strip() for line in str(problem).splitlines()]
    told = [line for line in lines if line and not line.startswith(_NOISE)]
    errors = [line for line in told if _ERROR.match(line)]
    return (errors or told or [type(problem).__name__])[-1]
