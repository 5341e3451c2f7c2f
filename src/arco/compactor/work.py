"""Folding segments, piece by piece: what a task does, in whichever process it runs.

Segments are read and partly folded (`gather`), then the rows of each shard of a table are folded again and
become a file (`finish`). Folding twice is folding once (law 7), so it does not matter which task had which
segment. Nothing is published.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa

from arco.catalog.manifest import Counts
from arco.compactor.blob import Blob, pack, unpack
from arco.compactor.job import FoldJob, NewRef, SegmentRef
from arco.compactor.new_file import create_file
from arco.compactor.segment_reader import RawSegment, SegmentReader
from arco.events.read import Reading, read_segment
from arco.fold.fold import fold
from arco.fold.table import Table
from arco.fold.tier2 import TIER2
from arco.storage.store import Store


@dataclass(frozen=True)
class Gathered:
    """What some segments come to."""

    blobs: list[Blob]
    counts: Counts


async def gather(
    store: Store, job: FoldJob, segments: Sequence[SegmentRef], shards: int
) -> Gathered:
    """Read these segments of a job and fold them partly."""
    reader = SegmentReader(store, job.domain, segments)
    return await gather_from(reader, store, job, shards, await reader.chunk())


async def gather_from(
    reader: SegmentReader, store: Store, job: FoldJob, shards: int, first: list[RawSegment]
) -> Gathered:
    """Fold the first chunk of a reader and all that follow; while one is folded, the next is read."""
    tasks = store.runtime.tasks
    done: list[Gathered] = []
    ready, coming = first, list[RawSegment]()

    async def digest() -> None:
        done.append(await tasks.in_thread(lambda: _digest(job, ready, shards)))

    async def read_on() -> None:
        coming.extend(await reader.chunk())

    while ready:
        await tasks.gather(digest(), read_on())
        ready, coming = coming, []
    return Gathered(
        [blob for each in done for blob in each.blobs],
        reduce(add, (each.counts for each in done), Counts()),
    )


async def finish(
    store: Store, job: FoldJob, table: str, shard: int, blobs: Sequence[bytes]
) -> NewRef:
    """Fold what was gathered of one shard of a table, and create its file."""
    declared = TIER2[job.domain][table]
    rows = await store.runtime.tasks.in_thread(lambda: fold(declared, unpack(declared, blobs)))
    return await create_file(store, job, declared, shard, rows)


def add(some: Counts, more: Counts) -> Counts:
    """Both together."""
    oldest = [each.oldest_received for each in (some, more) if each.oldest_received is not None]
    newest = [each.newest_received for each in (some, more) if each.newest_received is not None]
    return Counts(
        segments=some.segments + more.segments,
        events=some.events + more.events,
        late=some.late + more.late,
        quarantined=some.quarantined + more.quarantined,
        bytes=some.bytes + more.bytes,
        oldest_received=min(oldest, default=None),
        newest_received=max(newest, default=None),
    )


def _digest(job: FoldJob, chunk: Sequence[RawSegment], shards: int) -> Gathered:
    """Parse and partly fold some segments."""
    readings = [read_segment(job.domain, each.decode(), job.retained_from) for each in chunk]
    names = sorted({name for reading in readings for name in reading.rows})
    tables = [TIER2[job.domain][name] for name in names]
    blobs = [blob for table in tables for blob in _blobs(table, readings, shards)]
    counts = [_count(*each) for each in zip(chunk, readings, strict=True)]
    return Gathered(blobs, reduce(add, counts, Counts()))


def _blobs(table: Table, readings: Sequence[Reading], shards: int) -> list[Blob]:
    rows = [reading.rows[table.name] for reading in readings if table.name in reading.rows]
    return list(pack(table, fold(table, pa.concat_tables(rows)), shards))


def _count(segment: RawSegment, reading: Reading) -> Counts:
    return Counts(
        segments=1,
        events=reading.events,
        late=reading.late,
        quarantined=reading.quarantined,
        bytes=len(segment.raw),
        oldest_received=reading.oldest_received,
        newest_received=reading.newest_received,
    )
