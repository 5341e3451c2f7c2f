"""What runs in Spark's Python workers: tasks over record batches, as `mapInArrow` calls them.

A task knows its number from the one row that it is given, and all else from itself, as it was sent. An
error of ours is an answer like any other: to try the same again would not help, and its message should
arrive in one piece. Any other error is raised, and Spark tries the task again.
"""

import gc
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import msgspec
import pyarrow as pa

from arco.catalog.manifest import Counts
from arco.compactor.engine import EngineCrashed, FoldJob, MergeJob, add_counts
from arco.compactor.fold_segments import (
    RawSegment,
    SegmentReader,
    ShardFileWriter,
    fold_partially,
    fold_partially_from,
)
from arco.compactor.merge_part import merge_part
from arco.compactor.shards import pack_rows, unpack_rows
from arco.compactor.spark.memory import limit_memory
from arco.compactor.spark.messages import (
    LargeJob,
    MessageKind,
    TaskMessage,
    failure_message,
    from_batches,
    to_batches,
    to_message,
)
from arco.compactor.spark.store_spec import StoreSpec
from arco.compactor.state_file_writer import encode_state_file
from arco.core import json
from arco.core.clock import utc
from arco.core.errors import ArcoError
from arco.core.runtime import system_runtime
from arco.core.tasks import iterate
from arco.events.read import read_segment
from arco.events.registry import DOMAINS, KINDS, EventKind, count_segment
from arco.fold.fold import fold
from arco.fold.tier2 import TIER2
from arco.ledger.envelope import Envelope, Source
from arco.ledger.segment import Segment
from arco.storage.store import Store

Batches = Iterable[pa.RecordBatch]


class NumberedTask(ABC):
    """A task of the first stage, which reads no parcels but its own number."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        limit_memory()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with _undisturbed():
                    yield from to_batches(iterate(self._answers(number)))

    async def _answers(self, number: int) -> AsyncIterator[TaskMessage]:
        try:
            async for parcel in self.work(number):
                yield parcel
        except ArcoError as problem:
            yield failure_message(problem)
        except MemoryError:
            yield failure_message(EngineCrashed("out of memory"))

    @abstractmethod
    def work(self, number: int, /) -> AsyncIterator[TaskMessage]:
        """Do the work of task `number`."""


@dataclass(frozen=True)
class FoldSmallTask(NumberedTask):
    """Fold a whole job in one task, unless it turns out to be large."""

    spec: StoreSpec
    job: FoldJob
    most_bytes: int
    most_rows: int
    job_rows: int  # what one job should become at most, if it can be divided

    async def work(self, _number: int, /) -> AsyncIterator[TaskMessage]:
        store = open_once(self.spec)
        reader = SegmentReader(store, self.job.domain, self.job.segments)
        first = await reader.chunk(self.most_bytes)
        large = self._measure(reader, first)
        if large.expected_bytes > self.most_bytes or large.expected_rows > self.most_rows:
            yield to_message(MessageKind.LARGE, large)
            return
        files, counts = ShardFileWriter(store, self.job), Counts()
        async for gathered in fold_partially_from(reader, store, self.job, 1, first):
            counts = add_counts(counts, gathered.counts)
            for blob in gathered.blobs:
                if file := await files.add(blob.table, blob.shard, blob.data):
                    yield to_message(MessageKind.FILE, file)
        async for file in files.finish():
            yield to_message(MessageKind.FILE, file)
        yield to_message(MessageKind.COUNTS, counts)

    def _measure(self, reader: SegmentReader, first: list[RawSegment]) -> LargeJob:
        """How large the whole job is, judged by its first segments."""
        rows = [count_segment(each.decode()).rows for each in first]
        expected_rows = sum(rows) * len(self.job.segments) // max(1, len(rows))
        fitting, left = 0, self.job_rows
        for count in rows:
            left -= count
            if left < 0:
                break
            fitting += 1
        else:
            fitting = self.job_rows * len(rows) // max(1, sum(rows))
        return LargeJob(reader.expected_bytes, expected_rows, max(1, fitting))


@dataclass(frozen=True)
class GatherTask(NumberedTask):
    """The first stage of a large job: task n of many reads every n-th segment."""

    spec: StoreSpec
    job: FoldJob
    tasks: int
    shards: int

    async def work(self, number: int, /) -> AsyncIterator[TaskMessage]:
        mine = self.job.segments[number :: self.tasks]
        async for gathered in fold_partially(open_once(self.spec), self.job, mine, self.shards):
            yield to_message(MessageKind.COUNTS, gathered.counts)
            for blob in gathered.blobs:
                yield TaskMessage(blob.shard, MessageKind.BLOB, blob.table, blob.data)


@dataclass(frozen=True)
class FinishTask:
    """The second stage: each task has all blobs of a shard, and makes its files."""

    spec: StoreSpec
    job: FoldJob  # without its segments

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        limit_memory()
        yield from to_batches(iterate(self._answers(from_batches(batches))))

    async def _answers(self, parcels: Iterator[TaskMessage]) -> AsyncIterator[TaskMessage]:
        files = ShardFileWriter(open_once(self.spec), self.job)
        try:
            for parcel in parcels:
                if parcel.kind != MessageKind.BLOB:
                    yield parcel
                elif file := await files.add(parcel.table, parcel.shard, parcel.data):
                    yield to_message(MessageKind.FILE, file)
            async for file in files.finish():
                yield to_message(MessageKind.FILE, file)
        except ArcoError as problem:
            yield failure_message(problem)
        except MemoryError:
            yield failure_message(EngineCrashed("out of memory"))


@dataclass(frozen=True)
class MergeTask(NumberedTask):
    """Merge: task n carries out part n."""

    spec: StoreSpec
    job: MergeJob

    async def work(self, number: int, /) -> AsyncIterator[TaskMessage]:
        part = self.job.parts[number]
        files, forgotten = await merge_part(open_once(self.spec), self.job, part)
        yield to_message(MessageKind.FORGOTTEN, forgotten)
        for file in files:
            yield to_message(MessageKind.FILE, file)


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


def open_once(spec: StoreSpec) -> Store:
    """The store, opened once in the life of a worker, which many tasks share."""
    return _opened(json.encode(spec))


@cache
def _opened(spec: bytes) -> Store:
    return json.decode(spec, StoreSpec).open(system_runtime())


@dataclass(frozen=True)
class WarmUpTask(NumberedTask):
    """Reads the examples of all events, as if they had been sent."""

    async def work(self, _number: int, /) -> AsyncIterator[TaskMessage]:
        for domain in DOMAINS:
            for parcel in _parcels(domain):
                yield parcel


@dataclass(frozen=True)
class WarmUpFinishTask:
    """Makes files of what it is given, and throws them away."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for parcel in from_batches(batches):
            domain, _, name = parcel.table.partition("/")
            table = TIER2[domain][name]
            encode_state_file(table, fold(table, unpack_rows(table, [parcel.data])), parcel.table)
        yield from ()


def _parcels(domain: str) -> Iterator[TaskMessage]:
    lines = [_line(kind) for kind in KINDS if kind.domain == domain]
    segment = Segment.of("warm", 0, lines)
    for name, rows in read_segment(domain, segment, {}).rows.items():
        table = TIER2[domain][name]
        for blob in pack_rows(table, fold(table, rows), 2):
            yield TaskMessage(blob.shard, MessageKind.BLOB, f"{domain}/{name}", blob.data)


def _line(kind: EventKind) -> bytes:
    event = Envelope(
        event_id="0" * 26,
        event_type=kind.name,
        event_version=kind.version,
        occurred_at=utc(0),
        received_at=utc(0),
        idempotency_key="warm",
        source=Source("arco"),
        payload=msgspec.Raw(json.encode(kind.example)),
    )
    return json.encode(event)
