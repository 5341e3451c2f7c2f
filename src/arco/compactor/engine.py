"""Jobs: what an engine is asked to do, and what it answers. They travel to other processes as JSON.

An engine reads and creates files by itself, through the storage seam; it publishes nothing. What comes
back are references, and nothing exists until a manifest names them (law 3). So a job may be carried out
twice, or half, and an engine may die at any point of it.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

import msgspec

from arco.catalog.manifest import Counts, FileRef
from arco.core.errors import ArcoError, Unavailable


class SegmentRef(msgspec.Struct, frozen=True):
    """A segment of the ledger that is known to be there, and its bytes, if they need not be read."""

    stream: str
    seq: int
    raw: bytes | None = None


class FoldJob(msgspec.Struct, frozen=True, kw_only=True):
    """Fold these segments into new files of the tail."""

    domain: str
    attempt: str  # the ULID that all new files bear (P27)
    segments: tuple[SegmentRef, ...]
    retained_from: dict[str, datetime]  # by table; older events are counted and not folded (P20)
    divisible: bool = False  # whether `JobTooLarge` may be the answer
    # Why all lines of the segments go into quarantine, unread; None: they are folded.
    quarantine_reason: str | None = None


class JobTooLarge(ArcoError):
    """A divisible job would become more rows than one publication should wait for; nothing was done."""

    code = "job_too_large"

    def __init__(self, fitting_segments: int) -> None:
        super().__init__(f"the segments become too many rows; {fitting_segments} of them fit")
        self.fitting_segments = fitting_segments


class EngineCrashed(Unavailable):
    """A process of the engine ran out of memory or was killed: the same work may end like this again."""

    code = "engine_crashed"


class NewStateFile(msgspec.Struct, frozen=True):
    """A file that was created, and the table that it belongs to."""

    table: str
    file: FileRef


class FoldResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the segments."""

    files: tuple[NewStateFile, ...]
    counts: Counts


class MergePart(msgspec.Struct, frozen=True, kw_only=True):
    """Some buckets of one table: fold all rows that these files have of them into new files.

    `base` are the present base files of those buckets, by bucket (as text; "0" for a table in one piece).
    The tail's files may hold rows of other buckets too, which are another part's. With `into_base` one
    file is made a bucket; without, one file of all (a tail made shorter), and `base` is empty.
    """

    table: str
    buckets: tuple[int, ...]
    tail: tuple[FileRef, ...]
    base: dict[str, FileRef]
    into_base: bool


class MergeJob(msgspec.Struct, frozen=True, kw_only=True):
    """Merge files of one domain; rows that are no longer retained are left out of base files."""

    domain: str
    attempt: str
    parts: tuple[MergePart, ...]
    retained_from: dict[str, datetime]


class MergeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The new files; a bucket without one has no rows left. `forgotten` counts rows that have left."""

    files: tuple[NewStateFile, ...]
    forgotten: int = 0


class CompactionEngine(Protocol):
    """Who does the work of Tier 2: this process, or Spark."""

    async def fold(self, job: FoldJob) -> FoldResult:
        """Fold segments into new files."""

    async def merge(self, job: MergeJob) -> MergeResult:
        """Fold files into fewer."""


MAX_CRASHES = 3

CrashCallback = Callable[[Exception], None]  # is told of every crash, most of which are not raised


async def fold_isolating_crashes(
    engine: CompactionEngine, job: FoldJob, on_crash: CrashCallback | None = None
) -> FoldResult:
    """Fold a job, in parts if the engine crashes; a segment that does it alone goes into quarantine."""
    tries = MAX_CRASHES if len(job.segments) == 1 else 1
    crash: EngineCrashed | None = None
    for _ in range(tries):
        try:
            return await engine.fold(job)
        except EngineCrashed as problem:
            crash = problem
            if on_crash is not None:
                on_crash(problem)
    if len(job.segments) > 1:
        middle = len(job.segments) // 2
        first = await fold_isolating_crashes(engine, _slice_job(job, 0, middle), on_crash)
        second = await fold_isolating_crashes(
            engine, _slice_job(job, middle, len(job.segments)), on_crash
        )
        return FoldResult(
            files=(*first.files, *second.files), counts=add_counts(first.counts, second.counts)
        )
    reason = f"compaction of its segment failed {tries} times: {crash}"
    return await engine.fold(msgspec.structs.replace(job, quarantine_reason=reason))


def _slice_job(job: FoldJob, start: int, end: int) -> FoldJob:
    return msgspec.structs.replace(job, segments=job.segments[start:end], divisible=False)


def add_counts(some: Counts, more: Counts) -> Counts:
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
