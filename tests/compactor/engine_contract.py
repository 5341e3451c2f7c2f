"""The contract of every engine: a test module imports these tests and has a fixture `engine_setup`."""

from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from arco.catalog.state_file import read_rows
from arco.compactor.engine import (
    CompactionEngine,
    MergeJob,
    MergePart,
    MergeResult,
    NewStateFile,
    SegmentRef,
)
from arco.core.errors import Corrupt, Invalid
from arco.core.ids import new_ulid
from arco.events.registry import DOMAINS
from arco.fold.tier2 import TIER2
from arco.ledger.segment import segment_key
from arco.storage.store import Store
from tests.compactor.histories import (
    Rows,
    Segments,
    by_table,
    expected,
    fold_job,
    merge_parts,
    random_lines,
    rows_in,
    write_segments,
)
from tests.events.stored_lines import NOON, line

DOMAIN = "executions"


@dataclass(frozen=True)
class EngineSetup:
    """An engine at work: the store as a writer and as the compactor have it."""

    writer: Store
    store: Store
    engine: CompactionEngine

    async def segments(self, seed: int, lines: int, each: int, domain: str = DOMAIN) -> Segments:
        reported = random_lines(Random(seed), domain, lines)
        return await write_segments(self.writer, domain, reported, each=each)

    async def fold(self, segments: Segments, domain: str = DOMAIN) -> tuple[NewStateFile, ...]:
        return (await self.engine.fold(fold_job(self.store, domain, segments))).files

    async def merge(self, parts: tuple[MergePart, ...], **more: Any) -> MergeResult:
        job = {"attempt": new_ulid(self.store.runtime), "retained_from": {}} | more
        return await self.engine.merge(MergeJob(domain=DOMAIN, parts=parts, **job))

    async def rows(self, *files: NewStateFile, domain: str = DOMAIN) -> Rows:
        return await rows_in(self.store, domain, files)


@pytest.mark.parametrize("domain", DOMAINS)
async def test_files_have_the_rows_of_the_events(engine_setup: EngineSetup, domain: str) -> None:
    segments = await engine_setup.segments(1, lines=400, each=17, domain=domain)
    folded = await engine_setup.engine.fold(fold_job(engine_setup.store, domain, segments))
    assert await engine_setup.rows(*folded.files, domain=domain) == expected(domain, segments)
    assert folded.counts.segments == len(segments)
    assert folded.counts.events == 400
    assert folded.counts.quarantined == len(expected(domain, segments)["quarantine"]) > 0
    assert folded.counts.oldest_received is not None
    assert folded.counts.newest_received is not None
    assert folded.counts.oldest_received < folded.counts.newest_received


async def test_each_file_is_sorted_and_has_one_row_a_key(engine_setup: EngineSetup) -> None:
    segments = await engine_setup.segments(2, lines=300, each=40)
    for new in await engine_setup.fold(segments):
        table = TIER2[DOMAIN][new.table]
        rows = await read_rows(engine_setup.store, table, new.file, refuse_unknown_columns=True)
        keys = [tuple(row[name] for name in table.key) for row in rows.to_pylist()]
        assert len(set(keys)) == len(keys)
        assert new.file.buckets == tuple(sorted(set(table.buckets_of(rows))))


async def test_no_segments_make_no_files(engine_setup: EngineSetup) -> None:
    folded = await engine_setup.engine.fold(fold_job(engine_setup.store, DOMAIN, ()))
    assert folded.files == ()
    assert folded.counts.events == 0


async def test_a_job_that_is_done_twice_makes_other_files_with_the_same_rows(
    engine_setup: EngineSetup,
) -> None:
    segments = await engine_setup.segments(3, lines=60, each=20)
    job = fold_job(engine_setup.store, DOMAIN, segments)
    one, two = await engine_setup.engine.fold(job), await engine_setup.engine.fold(job)
    assert {new.file.path for new in one.files}.isdisjoint(new.file.path for new in two.files)
    assert await engine_setup.rows(*one.files) == await engine_setup.rows(*two.files)


async def test_late_events_are_counted_and_not_folded(engine_setup: EngineSetup) -> None:
    lines = [
        line(
            "execution_started", {"execution_id": f"run-{n}", "pipeline_id": "p"}, second=n, event=n
        )
        for n in range(10)
    ]
    segments = await write_segments(engine_setup.writer, DOMAIN, lines, each=3)
    since = {"executions": NOON + timedelta(seconds=4)}
    job = fold_job(engine_setup.store, DOMAIN, segments, retained_from=since)
    folded = await engine_setup.engine.fold(job)
    rows = await engine_setup.rows(*folded.files)
    execution_ids = [row["execution_id"] for row in rows["executions"]]
    assert execution_ids == [f"run-{n}" for n in range(4, 10)]
    assert (folded.counts.events, folded.counts.late) == (10, 4)


async def test_a_missing_segment_is_corrupt_and_is_named(engine_setup: EngineSetup) -> None:
    segments = await engine_setup.segments(4, lines=30, each=10)
    lost = SegmentRef(next(iter(segments)).stream, 99)
    with pytest.raises(Corrupt) as met:
        await engine_setup.engine.fold(fold_job(engine_setup.store, DOMAIN, (*segments, lost)))
    assert str(met.value) == (
        f"{segment_key(DOMAIN, lost.stream, 99)} is missing, although it was found before"
    )


async def test_a_segment_that_cannot_be_read_is_corrupt(engine_setup: EngineSetup) -> None:
    stream = new_ulid(engine_setup.store.runtime)
    await engine_setup.writer.create(segment_key(DOMAIN, stream, 0), b"no segment")
    with pytest.raises(Corrupt, match=f"segment 0 of stream {stream}"):
        await engine_setup.engine.fold(
            fold_job(engine_setup.store, DOMAIN, [SegmentRef(stream, 0)])
        )


async def test_a_shorter_tail_has_the_same_rows_in_one_file_a_table(
    engine_setup: EngineSetup,
) -> None:
    folds = [await engine_setup.segments(seed, lines=100, each=25) for seed in (5, 6, 7)]
    tail = [new for segments in folds for new in await engine_setup.fold(segments)]
    merged = await engine_setup.merge(merge_parts(tail, into_base=False))
    assert await engine_setup.rows(*merged.files) == await engine_setup.rows(*tail)
    assert all(len(files) == 1 for files in by_table(merged.files).values())
    assert merged.forgotten == 0


async def test_a_base_has_a_file_a_bucket_and_takes_the_tail_in(engine_setup: EngineSetup) -> None:
    first = await engine_setup.fold(await engine_setup.segments(8, lines=200, each=50))
    base = (await engine_setup.merge(merge_parts(first, into_base=True))).files
    assert await engine_setup.rows(*base) == await engine_setup.rows(*first)
    second = await engine_setup.fold(await engine_setup.segments(10, lines=200, each=50))
    merged = await engine_setup.merge(merge_parts(second, base, into_base=True))
    assert await engine_setup.rows(*merged.files) == await engine_setup.rows(*first, *second)
    for files in by_table(merged.files).values():
        assert all(len(ref.buckets) == 1 for ref in files)
        assert len({ref.buckets for ref in files}) == len(files)


async def test_rows_that_are_no_longer_retained_leave_the_base_and_are_counted(
    engine_setup: EngineSetup,
) -> None:
    tail = await engine_setup.fold(await engine_setup.segments(10, lines=200, each=50))
    since = {"tasks": NOON + timedelta(seconds=700)}
    merged = await engine_setup.merge(merge_parts(tail, into_base=True), retained_from=since)
    before, after = await engine_setup.rows(*tail), await engine_setup.rows(*merged.files)
    retained_rows = [row for row in before["tasks"] if row["_occurred_at"] >= since["tasks"]]
    assert after == before | {"tasks": retained_rows}
    assert merged.forgotten == len(before["tasks"]) - len(retained_rows) > 0


async def test_a_bucket_whose_rows_have_all_left_has_no_file(engine_setup: EngineSetup) -> None:
    tail = await engine_setup.fold(await engine_setup.segments(11, lines=50, each=50))
    since = {"tasks": NOON + timedelta(days=1)}
    merged = await engine_setup.merge(merge_parts(tail, into_base=True), retained_from=since)
    assert "tasks" not in by_table(merged.files)
    assert merged.forgotten == len((await engine_setup.rows(*tail))["tasks"])


async def test_a_part_takes_its_own_buckets_of_a_tail_alone(engine_setup: EngineSetup) -> None:
    tail = await engine_setup.fold(await engine_setup.segments(12, lines=200, each=50))
    one, *others = [
        part for part in merge_parts(tail, into_base=True, each=1) if part.table == "partitions"
    ]
    merged = await engine_setup.merge((one,))
    assert others
    assert [new.file.buckets for new in merged.files] == [one.buckets]


async def test_a_missing_file_of_the_tail_is_corrupt(engine_setup: EngineSetup) -> None:
    tail = await engine_setup.fold(await engine_setup.segments(13, lines=50, each=50))
    part, *_ = merge_parts(tail, into_base=True)
    lost = tuple(replace(ref, path=ref.path + "x") for ref in part.tail)
    lost_part = replace(part, tail=lost)
    with pytest.raises(Corrupt, match="is missing"):
        await engine_setup.merge((lost_part,))


async def test_a_part_without_buckets_is_refused(engine_setup: EngineSetup) -> None:
    part = MergePart(table="tasks", buckets=(), tail=(), base={}, into_base=False)
    with pytest.raises(Invalid):
        await engine_setup.merge((part,))


async def test_a_merge_of_nothing_makes_nothing(engine_setup: EngineSetup) -> None:
    assert await engine_setup.merge(()) == MergeResult(files=())
