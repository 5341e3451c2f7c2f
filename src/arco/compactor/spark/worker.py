"""What runs in Spark's Python workers: tasks over record batches, as `mapInArrow` calls them.

A task knows its number from the one row that it is given, and all else from itself, as it was sent. An
error of ours is an answer like any other: to try the same again would not help, and its message should
arrive in one piece. Any other error is raised, and Spark tries the task again.
"""

import gc
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import pyarrow as pa

from arco.compactor.job import FoldJob, MergeJob
from arco.compactor.merge_part import merge_part
from arco.compactor.segment_reader import SegmentReader
from arco.compactor.spark.parcel import Kind, Large, Parcel, failed, from_batches, to_batches, told
from arco.compactor.spark.store_spec import StoreSpec
from arco.compactor.work import finish, gather, gather_from
from arco.core import json
from arco.core.errors import ArcoError
from arco.core.runtime import system_runtime
from arco.core.tasks import run
from arco.storage.store import Store

Batches = Iterable[pa.RecordBatch]
T = TypeVar("T")


class NumberedTask(ABC):
    """A task of the first stage, which reads no parcels but its own number."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with _undisturbed():
                    answers = _done(self._answers(number))
                yield from to_batches(answers)

    async def _answers(self, number: int) -> list[Parcel]:
        try:
            return await self.work(number)
        except ArcoError as problem:
            return [failed(problem)]

    @abstractmethod
    async def work(self, number: int, /) -> list[Parcel]:
        """Do the work of task `number`."""


@dataclass(frozen=True)
class FoldSmall(NumberedTask):
    """Fold a whole job in one task, unless it turns out to be large."""

    spec: StoreSpec
    job: FoldJob
    most_bytes: int

    async def work(self, _number: int, /) -> list[Parcel]:
        store = open_once(self.spec)
        reader = SegmentReader(store, self.job.domain, self.job.segments)
        first = await reader.chunk(self.most_bytes)
        if reader.expected_bytes > self.most_bytes:
            return [told(Kind.LARGE, Large(reader.expected_bytes))]
        gathered = await gather_from(reader, store, self.job, 1, first)
        blobs: dict[str, list[bytes]] = defaultdict(list)
        for blob in gathered.blobs:
            blobs[blob.table].append(blob.data)
        files = [await finish(store, self.job, table, 0, data) for table, data in blobs.items()]
        return [told(Kind.COUNTS, gathered.counts), *(told(Kind.FILE, file) for file in files)]


@dataclass(frozen=True)
class Gather(NumberedTask):
    """The first stage of a large job: task n of many reads every n-th segment."""

    spec: StoreSpec
    job: FoldJob
    tasks: int
    shards: int

    async def work(self, number: int, /) -> list[Parcel]:
        mine = self.job.segments[number :: self.tasks]
        gathered = await gather(open_once(self.spec), self.job, mine, self.shards)
        parcels = (Parcel(blob.shard, Kind.BLOB, blob.table, blob.data) for blob in gathered.blobs)
        return [told(Kind.COUNTS, gathered.counts), *parcels]


@dataclass(frozen=True)
class Finish:
    """The second stage: each task has all blobs of a shard, and makes its files."""

    spec: StoreSpec
    job: FoldJob  # without its segments

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        blobs: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        for parcel in from_batches(batches):
            if parcel.kind == Kind.BLOB:
                blobs[parcel.table, parcel.shard].append(parcel.data)
            else:
                yield from to_batches([parcel])
        for table, shard in sorted(blobs):
            yield from to_batches([_done(self._file(table, shard, blobs.pop((table, shard))))])

    async def _file(self, table: str, shard: int, blobs: list[bytes]) -> Parcel:
        try:
            return told(
                Kind.FILE, await finish(open_once(self.spec), self.job, table, shard, blobs)
            )
        except ArcoError as problem:
            return failed(problem)


@dataclass(frozen=True)
class MergeParts(NumberedTask):
    """Merge: task n carries out part n."""

    spec: StoreSpec
    job: MergeJob

    async def work(self, number: int, /) -> list[Parcel]:
        part = self.job.parts[number]
        files, forgotten = await merge_part(open_once(self.spec), self.job, part)
        return [told(Kind.FORGOTTEN, forgotten), *(told(Kind.FILE, file) for file in files)]


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Without Python's search for cycles: it goes through millions of rows, a fifth of the time, for none.

    Spark's workers search after each task.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _done(work: Coroutine[Any, Any, T]) -> T:
    """What `work` comes to, on a loop of its own.

    A loop that ends has Python spell out the result of its main task, for an error message that nobody
    sees; megabytes of it take longer than the work itself. So that result is nothing.
    """
    results: list[T] = []

    async def keep() -> None:
        results.append(await work)

    run(keep())
    return results[0]


def open_once(spec: StoreSpec) -> Store:
    """The store, opened once in the life of a worker, which many tasks share."""
    return _opened(json.encode(spec))


@cache
def _opened(spec: bytes) -> Store:
    return json.decode(spec, StoreSpec).open(system_runtime())
