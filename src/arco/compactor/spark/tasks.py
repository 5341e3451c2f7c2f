"""The tasks in Spark's Python workers: functions of record batches, as `mapInArrow` calls them.

A task gets its number in one row, and the rest in its own fields. An error of Arco is sent to the driver as
a message: retrying would not help, and the text arrives unchanged. For any other error Spark retries.
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
from arco.storage.open import StoreSpec
from arco.storage.store import Store

Batches = Iterable[pa.RecordBatch]


class NumberedTask(ABC):
    """A task of the first stage, whose only input is its number."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        limit_memory()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with _without_cycle_collection():
                    yield from to_batches(iterate(self._answers(number)))

    async def _answers(self, number: int) -> AsyncIterator[TaskMessage]:
        try:
            async for message in self.work(number):
                yield message
        except ArcoError as problem:
            yield failure_message(problem)
        except MemoryError:
            yield failure_message(EngineCrashed("out of memory"))

    @abstractmethod
    def work(self, number: int, /) -> AsyncIterator[TaskMessage]:
        """Do the work of task `number`."""


@dataclass(frozen=True)
class FoldSmallTask(NumberedTask):
    """Fold a job in one task, unless it turns out to be large."""

    spec: StoreSpec
    job: FoldJob
    most_bytes: int
    most_rows: int
    job_rows: int  # the most rows of one job, if it can be divided

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
        """The estimated size of the job, from its first segments."""
        rows = [count_segment(each.decode()).rows for each in first]
        expected_rows = sum(rows) * len(self.job.segments) // max(1, len(rows))
        fitting, rows_left = 0, self.job_rows
        for count in rows:
            rows_left -= count
            if rows_left < 0:
                break
            fitting += 1
        else:
            fitting = self.job_rows * len(rows) // max(1, sum(rows))
        return LargeJob(reader.expected_bytes, expected_rows, max(1, fitting))


@dataclass(frozen=True)
class GatherTask(NumberedTask):
    """The first stage of a large job: task n reads every `tasks`-th segment from n on."""

    spec: StoreSpec
    job: FoldJob
    tasks: int
    shards: int

    async def work(self, number: int, /) -> AsyncIterator[TaskMessage]:
        segments = self.job.segments[number :: self.tasks]
        async for gathered in fold_partially(open_once(self.spec), self.job, segments, self.shards):
            yield to_message(MessageKind.COUNTS, gathered.counts)
            for blob in gathered.blobs:
                yield TaskMessage(blob.shard, MessageKind.BLOB, blob.table, blob.data)


@dataclass(frozen=True)
class FinishTask:
    """The second stage: each task gets all blobs of a shard, and creates its files."""

    spec: StoreSpec
    job: FoldJob  # without its segments

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        limit_memory()
        yield from to_batches(iterate(self._answers(from_batches(batches))))

    async def _answers(self, messages: Iterator[TaskMessage]) -> AsyncIterator[TaskMessage]:
        files = ShardFileWriter(open_once(self.spec), self.job)
        try:
            for message in messages:
                if message.kind != MessageKind.BLOB:
                    yield message
                elif file := await files.add(message.table, message.shard, message.data):
                    yield to_message(MessageKind.FILE, file)
            async for file in files.finish():
                yield to_message(MessageKind.FILE, file)
        except ArcoError as problem:
            yield failure_message(problem)
        except MemoryError:
            yield failure_message(EngineCrashed("out of memory"))


@dataclass(frozen=True)
class MergeTask(NumberedTask):
    """A merge: task n runs part n."""

    spec: StoreSpec
    job: MergeJob

    async def work(self, number: int, /) -> AsyncIterator[TaskMessage]:
        part = self.job.parts[number]
        files, forgotten = await merge_part(open_once(self.spec), self.job, part)
        yield to_message(MessageKind.FORGOTTEN, forgotten)
        for file in files:
            yield to_message(MessageKind.FILE, file)


@contextmanager
def _without_cycle_collection() -> Iterator[None]:
    """Without Python's cycle collector, which takes a fifth of the time and finds nothing here.

    Spark's workers run it after each task.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def open_once(spec: StoreSpec) -> Store:
    """The store, opened once per worker process and shared by its tasks."""
    return _opened(json.encode(spec))


@cache
def _opened(spec: bytes) -> Store:
    return json.decode(spec, StoreSpec).open(system_runtime())


@dataclass(frozen=True)
class WarmUpTask(NumberedTask):
    """Reads the examples of all events, in memory alone, so that workers load all that they need.

    Without it the first job would wait for imports, Arrow's kernels and the JVM compiling the plan.
    """

    async def work(self, _number: int, /) -> AsyncIterator[TaskMessage]:
        for domain in DOMAINS:
            for message in _messages(domain):
                yield message


@dataclass(frozen=True)
class WarmUpFinishTask:
    """Encodes files of the rows that it gets, and discards them."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for message in from_batches(batches):
            domain, _, name = message.table.partition("/")
            table = TIER2[domain][name]
            encode_state_file(table, fold(table, unpack_rows(table, [message.data])), message.table)
        yield from ()


def _messages(domain: str) -> Iterator[TaskMessage]:
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
