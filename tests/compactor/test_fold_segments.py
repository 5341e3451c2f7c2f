"""The stages of a fold job: reading in waves, folding by blocks, splitting by shard."""

from random import Random

import pyarrow as pa
import pytest

from arco.catalog.manifest import Counts
from arco.compactor.engine import add_counts
from arco.compactor.fold_segments import PartialFold, SegmentReader, fold_partially
from arco.compactor.shards import Blob, pack_rows, split_by_bucket, split_by_shard, unpack_rows
from arco.core.clock import utc
from arco.core.errors import Unavailable
from arco.core.runtime import Runtime
from arco.fold.fold import fold
from arco.fold.table import StateTable
from arco.fold.tier2 import SCHEDULES, TASKS, TIER2
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.compactor.histories import expected, fold_job, random_lines, rows_in, write_segments
from tests.compactor.in_process_engine import write_files
from tests.events.stored_lines import read
from tests.storage.interposed import Interposed
from tests.stores import HASTY, Bench, open_bench

DOMAIN = "executions"


@pytest.fixture
def stores(runtime: Runtime) -> Bench:
    return open_bench("memory://", runtime)


def some_rows(table: StateTable, seed: int = 1, lines: int = 300) -> pa.Table:
    return fold(table, read(random_lines(Random(seed), DOMAIN, lines)).rows[table.name])


def ordered(table: StateTable, rows: pa.Table) -> list[dict[str, object]]:
    folded: list[dict[str, object]] = fold(table, rows).to_pylist()
    return folded


@pytest.mark.parametrize("shards", [1, 2, 7, 64])
@pytest.mark.parametrize("table", [TASKS, SCHEDULES])
def test_shards_split_the_rows_by_bucket_and_lose_none(table: StateTable, shards: int) -> None:
    rows = some_rows(table)
    split = dict(split_by_shard(table, rows, shards))
    assert ordered(table, pa.concat_tables(split.values())) == rows.to_pylist()
    count = 1 if table.bucket is None else table.bucket.count
    for shard, part in split.items():
        shards_of_rows = {bucket * shards // count for bucket in table.buckets_of(part)}
        assert shards_of_rows == ({shard} if table.bucket else {0})


def test_rows_of_a_bucket_keep_their_order() -> None:
    rows = some_rows(TASKS)
    for bucket, part in split_by_bucket(TASKS, rows):
        expected_rows = [
            row for row in rows.to_pylist() if TASKS.bucket_of(row["execution_id"]) == bucket
        ]
        assert part.to_pylist() == expected_rows


def test_blobs_give_the_rows_back_whatever_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = some_rows(TASKS)
    single_blob = list(pack_rows(TASKS, rows, 1))
    assert len(single_blob) == 1
    monkeypatch.setattr("arco.compactor.shards._BLOB_BYTES", rows.nbytes // 5)
    several = list(pack_rows(TASKS, rows, 1))
    assert len(several) >= 5
    assert unpack_rows(TASKS, [blob.data for blob in several]).to_pylist() == rows.to_pylist()


def test_no_blobs_are_no_rows() -> None:
    assert unpack_rows(TASKS, []).num_rows == 0


async def test_a_reader_gives_every_segment_once_in_chunks(
    stores: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = random_lines(Random(2), DOMAIN, 200)
    segments = await write_segments(stores.store(Role.API), DOMAIN, lines, each=2)
    monkeypatch.setattr("arco.compactor.fold_segments.CHUNK_BYTES", 20_000)
    reader = SegmentReader(stores.store(Role.COMPACTOR), DOMAIN, list(segments))
    chunks = []
    while chunk := await reader.chunk():
        chunks.append(chunk)
    assert [each.ref for chunk in chunks for each in chunk] == list(segments)
    assert [each.decode().lines for chunk in chunks for each in chunk] == [
        tuple(some) for some in segments.values()
    ]
    assert len(chunks) > 2
    size = sum(len(each.raw) for chunk in chunks for each in chunk)
    assert reader.expected_bytes == size


async def test_a_reader_expects_what_the_first_segments_let_it_expect(stores: Bench) -> None:
    lines = random_lines(Random(2), DOMAIN, 1_000)
    segments = await write_segments(stores.store(Role.API), DOMAIN, lines, each=10)
    reader = SegmentReader(stores.store(Role.COMPACTOR), DOMAIN, list(segments))
    size = sum(len(each.raw) for each in await reader.chunk())
    assert 0.8 < reader.expected_bytes / size < 1.2


async def test_what_is_gathered_by_many_chunks_is_finished_to_the_same_rows(
    stores: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arco.compactor.fold_segments.CHUNK_BYTES", 10_000)
    lines = random_lines(Random(3), DOMAIN, 300)
    segments = await write_segments(stores.store(Role.API), DOMAIN, lines, each=5)
    store = stores.store(Role.COMPACTOR)
    job = fold_job(store, DOMAIN, segments)
    gathered = [each async for each in fold_partially(store, job, job.segments, 4)]
    blobs = [blob for each in gathered for blob in each.blobs]
    names = {(blob.table, blob.shard) for blob in blobs}
    assert len(blobs) > len(names)
    files = await write_files(store, job, blobs)
    assert len(files) == len(names)
    assert await rows_in(store, DOMAIN, files) == expected(DOMAIN, segments)
    assert _events(gathered) == 300


def _events(gathered: list[PartialFold]) -> int:
    return sum(each.counts.events for each in gathered)


async def test_one_segment_of_many_rows_is_folded_block_by_block_into_several_files(
    stores: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arco.events.read.PART_ROWS", 10)
    monkeypatch.setattr("arco.compactor.fold_segments.BLOCK_ROWS", 30)
    monkeypatch.setattr("arco.compactor.fold_segments.FILE_ROWS", 20)
    lines = random_lines(Random(3), DOMAIN, 300)
    segments = await write_segments(stores.store(Role.API), DOMAIN, lines, each=300)
    store = stores.store(Role.COMPACTOR)
    job = fold_job(store, DOMAIN, segments)
    gathered = [each async for each in fold_partially(store, job, job.segments, 1)]
    rows = [sum(_rows(blob) for blob in each.blobs) for each in gathered]
    assert len(rows) > 5
    assert max(rows) < 100
    files = await write_files(store, job, [blob for each in gathered for blob in each.blobs])
    assert len(files) > len({file.table for file in files})
    assert await rows_in(store, DOMAIN, files) == expected(DOMAIN, segments)
    assert _events(gathered) == 300


def _rows(blob: Blob) -> int:
    return int(unpack_rows(TIER2[DOMAIN][blob.table], [blob.data]).num_rows)


async def test_a_file_that_may_be_stored_or_not_is_unavailable_and_nothing_has_happened(
    stores: Bench,
) -> None:
    async def lose_the_answer(verb: str, key: str) -> None:
        if verb in ("create", "settle", "get"):
            raise Unavailable("no answer")

    backend = Interposed(stores.backend, after=lose_the_answer)
    store = Store(
        backend, stores.runtime, scope=stores.store().scope, role=Role.COMPACTOR, retry=HASTY
    )
    blobs = pack_rows(TASKS, some_rows(TASKS), 1)
    with pytest.raises(Unavailable, match="could not be stored; retry"):
        await write_files(store, fold_job(store, DOMAIN, ()), blobs)


def test_counts_add_up_and_keep_the_widest_span() -> None:
    one = Counts(
        segments=1,
        events=5,
        late=1,
        quarantined=2,
        bytes=10,
        oldest_received=utc(1_000),
        newest_received=utc(2_000),
    )
    two = Counts(segments=2, events=3, bytes=4, oldest_received=utc(500), newest_received=utc(900))
    assert add_counts(one, two) == Counts(
        segments=3,
        events=8,
        late=1,
        quarantined=2,
        bytes=14,
        oldest_received=utc(500),
        newest_received=utc(2_000),
    )
    assert add_counts(Counts(), one) == one == add_counts(one, Counts())
