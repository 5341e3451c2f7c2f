"""The port of compaction engines: the jobs, their results, and how a crashing job is divided.

An engine reads and creates files through the store and publishes nothing. It answers with references, and a
file does not count until a manifest names it (law 3). So a job may run twice or in part, and an engine may
crash at any point.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

import msgspec

from arco.catalog.manifest import Counts, FileRef
from arco.core.errors import ArcoError, Unavailable


class SegmentRef(msgspec.Struct, frozen=True):
    """A segment of the ledger that exists, with its bytes if they need not be read from the store."""

    stream: str
    seq: int
    raw: bytes | None = None


class FoldJob(msgspec.Struct, frozen=True, kw_only=True):
    """Fold these segments into new files of the tail."""

    domain: str
    attempt: str  # the ULID in the names of all new files (P27)
    segments: tuple[SegmentRef, ...]
    retained_from: dict[str, datetime]  # by table; older events are counted, not folded (P20)
    divisible: bool = False  # whether the engine may raise `JobTooLarge`
    # If set, all lines of the segments go into quarantine with this reason, without being parsed.
    quarantine_reason: str | None = None


class JobTooLarge(ArcoError):
    """A divisible job has more rows than one publication should wait for; nothing was done."""

    code = "job_too_large"

    def __init__(self, fitting_segments: int) -> None:
        super().__init__(f"the segments become too many rows; {fitting_segments} of them fit")
        self.fitting_segments = fitting_segments


class EngineCrashed(Unavailable):
    """A process of the engine ran out of memory or was killed; the same job may crash it again."""

    code = "engine_crashed"


class NewStateFile(msgspec.Struct, frozen=True):
    """A file that was created, and the table that it belongs to."""

    table: str
    file: FileRef


class FoldResult(msgspec.Struct, frozen=True, kw_only=True):
    """The new files of a fold job, and what was counted."""

    files: tuple[NewStateFile, ...]
    counts: Counts


class MergePart(msgspec.Struct, frozen=True, kw_only=True):
    """Some buckets of one table, whose rows in these files are folded into new files.

    `base` has the current base files of the buckets, by bucket (as text; "0" for a table without buckets).
    The files of the tail may also have rows of other buckets, which belong to other parts. With `into_base`
    the result is one file per bucket; without, one file in all (a shorter tail), and `base` is empty.
    """

    table: str
    buckets: tuple[int, ...]
    tail: tuple[FileRef, ...]
    base: dict[str, FileRef]
    into_base: bool


class MergeJob(msgspec.Struct, frozen=True, kw_only=True):
    """Merge files of one domain; rows older than `retained_from` are left out of base files."""

    domain: str
    attempt: str
    parts: tuple[MergePart, ...]
    retained_from: dict[str, datetime]


class MergeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The new files; a bucket without a file has no rows left. `forgotten` counts rows left out."""

    files: tuple[NewStateFile, ...]
    forgotten: int = 0


class CompactionEngine(Protocol):
    """Runs the jobs of event domains."""

    async def fold(self, job: FoldJob) -> FoldResult:
        """Fold segments into new files."""

    async def merge(self, job: MergeJob) -> MergeResult:
        """Fold files into fewer."""


MAX_CRASHES = 3

CrashCallback = Callable[[Exception], None]  # called for each crash; most are not raised


async def fold_isolating_crashes(
    engine: CompactionEngine, job: FoldJob, on_crash: CrashCallback | None = None
) -> FoldResult:
    """Fold a job; if the engine crashes, divide the job to find the segment that crashes it.

    Folding in parts gives the same rows (law 7). A segment that crashes the engine repeatedly when folded
    alone would block its domain for ever, so its lines go into quarantine with the reason;
    `arco quarantine replay` sends them again one by one.
    """
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
    """The sum of two counts."""
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
