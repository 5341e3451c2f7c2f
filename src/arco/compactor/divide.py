"""Dividing a job whose engine crashes, until the segment that does it is found and put into quarantine.

Files of parts of a job are as good as files of the whole (law 7). A segment that has crashed the engine
several times when it was folded alone would do so for ever, and everything behind it would wait. So its
lines go into quarantine with the reason; `arco quarantine replay` sends them again, one by one.
"""

from collections.abc import Callable

import msgspec

from arco.compactor.job import Engine, EngineCrashed, Folded, FoldJob
from arco.compactor.work import add

MOST_CRASHES = 3

OnCrash = Callable[[Exception], None]  # is told of every crash, most of which are not raised


async def fold_dividing(engine: Engine, job: FoldJob, on_crash: OnCrash | None = None) -> Folded:
    """Fold a job, in parts if the engine crashes; a segment that does it alone goes into quarantine."""
    tries = MOST_CRASHES if len(job.segments) == 1 else 1
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
        first = await fold_dividing(engine, _part(job, 0, middle), on_crash)
        second = await fold_dividing(engine, _part(job, middle, len(job.segments)), on_crash)
        return Folded(files=(*first.files, *second.files), counts=add(first.counts, second.counts))
    reason = f"compaction of its segment failed {tries} times: {crash}"
    return await engine.fold(msgspec.structs.replace(job, quarantine_reason=reason))


def _part(job: FoldJob, start: int, end: int) -> FoldJob:
    return msgspec.structs.replace(job, segments=job.segments[start:end], divisible=False)
