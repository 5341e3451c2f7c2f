"""The two stages of a fold job, as every engine runs them.

`fold_partially` reads segments and folds them block by block; `ShardFileWriter` folds the rows of each
shard of a table again and creates its files. Folding is idempotent (law 7), so it does not matter which
task reads which segment, or how many files a shard becomes. Memory holds only a few blocks at a time.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from arco.catalog.manifest import Counts
from arco.compactor.engine import EngineCrashed, FoldJob, NewStateFile, SegmentRef, add_counts
from arco.compactor.shards import Blob, pack_rows, unpack_rows
from arco.compactor.state_file_writer import create_state_file
from arco.core.errors import Corrupt
from arco.events.read import DecodedSegment, SegmentRows, reject_segment
from arco.fold.fold import fold
from arco.fold.table import StateTable
from arco.fold.tier2 import TIER2
from arco.ledger.segment import MAX_BYTES, Segment, decode_segment, segment_key
from arco.storage.store import Store

# Rows of one task in memory, as Arrow; folding needs a multiple of that.
BLOCK_ROWS = 250_000
BLOCK_BYTES = 96 * 1024 * 1024
# Rows of one file.
FILE_ROWS = 500_000
FILE_BYTES = 128 * 1024 * 1024


# Segments in memory while the next ones are read.
CHUNK_BYTES = 16 * 1024 * 1024

_FIRST_WAVE = 8
_MAX_WAVE = 64


@dataclass(frozen=True)
class RawSegment:
    """The bytes of a segment."""

    ref: SegmentRef
    raw: bytes

    def decode(self) -> Segment:
        """The segment, or `Corrupt`."""
        return decode_segment(self.raw, self.ref.stream, self.ref.seq)


class SegmentReader:
    """Reads existing segments in chunks, with parallel requests and bounded memory.

    The size of a segment is unknown before it is read, so each wave of requests is sized by those before.
    """

    def __init__(self, store: Store, domain: str, segments: Sequence[SegmentRef]) -> None:
        self._store = store
        self._domain = domain
        self._segments = segments
        self._segments_read = 0
        self._bytes_read = 0

    async def chunk(self, most_bytes: int | None = None) -> list[RawSegment]:
        """The next segments; empty at the end. `Corrupt` if one is missing (law 14)."""
        chunk: list[RawSegment] = []
        size, most = 0, CHUNK_BYTES if most_bytes is None else most_bytes
        while size < most and self._segments_read < len(self._segments):
            wave = await self._wave(most - size)
            size += sum(len(each.raw) for each in wave)
            chunk += wave
        return chunk

    @property
    def expected_bytes(self) -> int:
        """The estimated size of all segments, from those that were read."""
        return self._bytes_read * len(self._segments) // max(1, self._segments_read)

    async def _wave(self, free_bytes: int) -> list[RawSegment]:
        width = _FIRST_WAVE
        if self._bytes_read:
            mean = self._bytes_read / self._segments_read
            width = max(1, min(int(free_bytes / mean), _MAX_WAVE))
        refs = self._segments[self._segments_read : self._segments_read + width]
        wave = await self._store.runtime.tasks.gather(*(self._read(ref) for ref in refs))
        self._segments_read += len(wave)
        self._bytes_read += sum(len(each.raw) for each in wave)
        return wave

    async def _read(self, ref: SegmentRef) -> RawSegment:
        if ref.raw is not None:
            return RawSegment(ref, ref.raw)
        key = segment_key(self._domain, ref.stream, ref.seq)
        raw = await self._store.find(key, size_bytes=MAX_BYTES)
        if raw is None:
            raise Corrupt(f"{key} is missing, although it was found before")
        return RawSegment(ref, raw)


@dataclass(frozen=True)
class PartialFold:
    """The partly folded rows of some segments, and what was counted."""

    blobs: list[Blob]
    counts: Counts


async def fold_partially(
    store: Store, job: FoldJob, segments: Sequence[SegmentRef], shards: int
) -> AsyncIterator[PartialFold]:
    """Read these segments of a job and fold each block of rows."""
    reader = SegmentReader(store, job.domain, segments)
    async for gathered in fold_partially_from(reader, store, job, shards, await reader.chunk()):
        yield gathered


async def fold_partially_from(
    reader: SegmentReader, store: Store, job: FoldJob, shards: int, first: list[RawSegment]
) -> AsyncIterator[PartialFold]:
    """Fold the first chunk and all that follow; the next chunk is read while one is folded."""
    tasks, chunk = store.runtime.tasks, first
    while chunk:
        next_chunk = tasks.spawn(reader.chunk())
        try:
            blocks = _blocks(job, chunk, shards)
            while (gathered := await tasks.in_thread(lambda: next(blocks, None))) is not None:  # noqa: B023
                yield gathered
        except BaseException:
            next_chunk.cancel()
            raise
        chunk = await next_chunk.wait()


class ShardFileWriter:
    """Creates the files of a job from blobs: rows are folded and stored once they are enough for a file."""

    def __init__(self, store: Store, job: FoldJob) -> None:
        self._store = store
        self._job = job
        self._pending: dict[tuple[str, int], _PendingRows] = defaultdict(_PendingRows)

    async def add(self, table: str, shard: int, blob: bytes) -> NewStateFile | None:
        """Add the rows of a blob; returns a file if there were enough rows for one."""
        pending = self._pending[table, shard]
        pending.add(unpack_rows(TIER2[self._job.domain][table], [blob]))
        if pending.rows < FILE_ROWS and pending.size_bytes < FILE_BYTES:
            return None
        return await self._create(table, shard)

    async def finish(self) -> AsyncIterator[NewStateFile]:
        """Create files of the remaining rows."""
        for table, shard in sorted(self._pending):
            yield await self._create(table, shard)

    async def _create(self, table: str, shard: int) -> NewStateFile:
        declared = TIER2[self._job.domain][table]
        parts = self._pending.pop((table, shard)).parts

        def folded() -> pa.Table:
            rows = pa.concat_tables(parts)
            parts.clear()
            return fold(declared, rows)

        try:
            rows = await self._store.runtime.tasks.in_thread(folded)
            return await create_state_file(self._store, self._job, declared, shard, rows)
        except MemoryError as problem:
            raise EngineCrashed(f"out of memory while writing rows of {table}") from problem


@dataclass
class _PendingRows:
    """Rows of a shard that are not in a file yet."""

    parts: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    size_bytes: int = 0

    def add(self, part: pa.Table) -> None:
        self.parts.append(part)
        self.rows += part.num_rows
        self.size_bytes += part.nbytes


class _Block:
    """Rows that are read and not folded yet, by table."""

    def __init__(self, domain: str) -> None:
        self._tables = TIER2[domain]
        self._rows: dict[str, list[pa.Table]] = {}
        self._count = self._size_bytes = 0

    def add(self, reading: SegmentRows) -> None:
        for name, rows in reading.rows.items():
            self._rows.setdefault(name, []).append(rows)
            self._count += rows.num_rows
            self._size_bytes += rows.nbytes

    def is_full(self) -> bool:
        return self._count >= BLOCK_ROWS or self._size_bytes >= BLOCK_BYTES

    def blobs(self, shards: int) -> list[Blob]:
        """The rows, folded."""
        return [
            blob
            for name in sorted(self._rows)
            for blob in self._packed(self._tables[name], self._rows.pop(name), shards)
        ]

    def _packed(self, table: StateTable, rows: list[pa.Table], shards: int) -> Iterator[Blob]:
        return pack_rows(table, fold(table, pa.concat_tables(rows)), shards)


def _blocks(job: FoldJob, chunk: Sequence[RawSegment], shards: int) -> Iterator[PartialFold]:
    """Parse and partly fold some segments."""
    block, counts = _Block(job.domain), Counts()
    for segment in chunk:
        try:
            late_events, part = 0, SegmentRows()
            for part in _readings(job, segment):
                block.add(part)
                late_events += part.late
                if block.is_full():
                    yield PartialFold(block.blobs(shards), Counts())
                    block = _Block(job.domain)
        except MemoryError as problem:
            raise EngineCrashed(_out_of_memory(segment)) from problem
        counts = add_counts(counts, _count(segment, part, late_events))
    try:
        blobs = block.blobs(shards)
    except MemoryError as problem:
        raise EngineCrashed(_out_of_memory(chunk[-1])) from problem
    yield PartialFold(blobs, counts)


def _readings(job: FoldJob, segment: RawSegment) -> Iterator[SegmentRows]:
    decoded = segment.decode()
    if job.quarantine_reason is not None:
        reason = job.quarantine_reason
        return iter([reject_segment(job.domain, decoded, job.retained_from, reason)])
    return DecodedSegment(job.domain, decoded, job.retained_from).parts()


def _out_of_memory(segment: RawSegment) -> str:
    ref = segment.ref
    return f"out of memory while expanding segment {ref.seq} of stream {ref.stream}"


def _count(segment: RawSegment, reading: SegmentRows, late_events: int) -> Counts:
    return Counts(
        segments=1,
        events=reading.events,
        late=late_events,
        quarantined=reading.quarantined,
        bytes=len(segment.raw),
        oldest_received=reading.oldest_received,
        newest_received=reading.newest_received,
    )
