"""A job that crashes its engine is divided, and the segment that causes it goes into quarantine."""

from dataclasses import dataclass, field
from random import Random

import pytest
from msgspec.structs import replace

from arco.compactor.engine import (
    EngineCrashed,
    FoldJob,
    FoldResult,
    MergeJob,
    MergeResult,
    SegmentRef,
    fold_isolating_crashes,
)
from arco.core.errors import Unavailable
from arco.core.runtime import Runtime
from arco.storage.roles import Role
from tests.compactor.histories import expected, fold_job, random_lines, rows_in, write_segments
from tests.compactor.in_process_engine import InProcessEngine
from tests.stores import Bench, open_bench

DOMAIN = "executions"


@dataclass
class Fragile:
    """An engine that crashes whenever it has to fold one of these segments, so many times."""

    engine: InProcessEngine
    bad: set[SegmentRef]
    crashes_left: int = 1_000
    jobs: list[FoldJob] = field(default_factory=list)

    async def fold(self, job: FoldJob) -> FoldResult:
        self.jobs.append(job)
        is_bad = job.quarantine_reason is None and not self.bad.isdisjoint(job.segments)
        if is_bad and self.crashes_left:
            self.crashes_left -= 1
            raise EngineCrashed("out of memory")
        return await self.engine.fold(job)

    async def merge(self, job: MergeJob) -> MergeResult:
        return await self.engine.merge(job)


@pytest.fixture
def stores(runtime: Runtime) -> Bench:
    return open_bench("memory://", runtime)


async def test_the_segment_that_crashes_the_engine_is_found_and_quarantined_with_the_reason(
    stores: Bench,
) -> None:
    lines = random_lines(Random(1), DOMAIN, 200)
    segments = await write_segments(stores.store(Role.API), DOMAIN, lines, each=10)
    store, bad = stores.store(Role.COMPACTOR), list(segments)[7]
    engine, crashes = Fragile(InProcessEngine(store), {bad}), list[Exception]()
    folded = await fold_isolating_crashes(engine, fold_job(store, DOMAIN, segments), crashes.append)
    assert folded.counts.events == 200
    assert folded.counts.segments == len(segments)
    rows = await rows_in(store, DOMAIN, folded.files)
    reported = [row for row in rows["quarantine"] if row["segment"] == bad.seq]
    assert len(reported) == 10
    assert {row["reason"] for row in reported} == {
        "compaction of its segment failed 3 times: out of memory"
    }
    others = {ref: lines for ref, lines in segments.items() if ref != bad}
    want = expected(DOMAIN, others)
    assert {name: rows[name] for name in want if name != "quarantine"} == {
        name: want[name] for name in want if name != "quarantine"
    }
    alone = [job for job in engine.jobs if job.segments == (bad,)]
    assert [job.quarantine_reason is None for job in alone] == [True, True, True, False]
    assert len(crashes) == 3 + 4  # of jobs with 20, 10, 5 and 3 or 2 segments, and thrice of one


async def test_a_crash_that_does_not_repeat_loses_no_rows(stores: Bench) -> None:
    lines = random_lines(Random(2), DOMAIN, 50)
    segments = await write_segments(stores.store(Role.API), DOMAIN, lines, each=50)
    store = stores.store(Role.COMPACTOR)
    engine = Fragile(InProcessEngine(store), set(segments), crashes_left=2)
    folded = await fold_isolating_crashes(engine, fold_job(store, DOMAIN, segments))
    assert await rows_in(store, DOMAIN, folded.files) == expected(DOMAIN, segments)


async def test_any_other_failure_is_raised_at_once_and_nothing_is_quarantined(
    stores: Bench,
) -> None:
    lines = random_lines(Random(3), DOMAIN, 20)
    segments = await write_segments(stores.store(Role.API), DOMAIN, lines, each=10)
    store = stores.store(Role.COMPACTOR)
    job = replace(fold_job(store, DOMAIN, segments), segments=(SegmentRef("0" * 26, 0),))
    with pytest.raises(Exception, match="missing") as caught:
        await fold_isolating_crashes(InProcessEngine(store), job)
    assert not isinstance(caught.value, Unavailable)
