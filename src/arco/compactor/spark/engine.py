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
from arco.compactor.spark.parcel import SCHEMA, Kind, Large, Parcel
from arco.compactor.spark.store_spec import StoreSpec
from arco.compactor.spark.warm import Warm, WarmFinish
from arco.compactor.spark.worker import Finish, FoldSmall, Gather, MergeParts
from arco.compactor.work import add
from arco.core.errors import ArcoError, Unavailable
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime

_MOST_SHARDS = 64  # a bucket is the least that can be a shard, and most tables have so many

_WARM_TASKS = 4

_Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Sizes:
    """How a job is cut up, in bytes of its segments; a worker's memory holds each of them many times."""

    small: int = 8 * 1024 * 1024  # what one task does alone sooner than several with a shuffle
    task: int = 32 * 1024 * 1024  # about a second of work
    shard: int = 128 * 1024 * 1024


class SparkEngine:
    """Carries out jobs on a session; several side by side, if they are asked for at once."""

    def __init__(
        self, session: SparkSession, spec: StoreSpec, runtime: Runtime, sizes: Sizes | None = None
    ) -> None:
        self._session = session
        self._spec = spec
        self._runtime = runtime
        self._sizes = sizes or Sizes()
        self.is_lost = (
            False  # whether the session is gone for good: another process must begin anew
        )

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
        tasks = min(len(job.segments), -(-expected_bytes // self._sizes.task))
        shards = min(_MOST_SHARDS, max(2, -(-expected_bytes // self._sizes.shard)))
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
        tag = new_ulid(self._runtime)
        try:
            return Answers(await self._runtime.tasks.in_thread(lambda: self._collect(tag, plan)))
        except ArcoError:
            raise
        except BaseException:
            with suppress(Exception):  # there may be nobody left to tell
                self._session.interruptTag(tag)
            raise

    def _collect(self, tag: str, plan: Callable[[], DataFrame]) -> list[Parcel]:
        """Run a job in this thread, which is its own for as long as that takes."""
        try:
            self._session.addTag(tag)
            try:
                return [Parcel(*row) for row in plan().collect()]
            finally:
                self._session.removeTag(tag)
        except Exception as problem:
            self.is_lost = not self._answers()
            if self.is_lost:
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


# What a trace is made of, and the line in it that tells an error.
_NOISE = ("at ", "File ", "...", "Caused by")
_ERROR = re.compile(r"[A-Za-z_.]*(Error|Exception|Interrupt|Exit)\b")


def _reason(problem: Exception) -> str:
    """The line of a long report that says what was the matter."""
    lines = [line.strip() for line in str(problem).splitlines()]
    told = [line for line in lines if line and not line.startswith(_NOISE)]
    errors = [line for line in told if _ERROR.match(line)]
    return (errors or told or [type(problem).__name__])[-1]
