"""Garbage collection of plain Parquet tables keeps what a reader may need and deletes staged leftovers."""

import pytest

from arco.catalog.ddl import DropTable
from arco.compactor.chain_checks import check_side_chains
from arco.compactor.verification_report import Discrepancy, VerificationCounts
from arco.core.errors import Unavailable
from arco.flow.publish.gc import ParquetGarbageCollector, ParquetGcReport
from arco.flow.publish.pointer import FULL_LIST_INTERVAL, pointers_of
from arco.fold.tier1 import DOMAIN
from arco.storage.chain import SHORTEST_RETENTION_MS
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.catalog.catalog_setup import t
from tests.flow.publish.harness import Bench, id_of, with_table


def _janitor(bench: Bench) -> Store:
    return bench.shop.store(Role.JANITOR, bench.aging)


async def _collect(bench: Bench, *, dry_run: bool = False) -> ParquetGcReport:
    reader = bench.shop.api_process().reader
    janitor = ParquetGarbageCollector(reader, _janitor(bench), retention_ms=SHORTEST_RETENTION_MS)
    return await janitor.collect(dry_run=dry_run)


async def _grown(bench: Bench, versions: int) -> None:
    """A table of one partition that was replaced again and again."""
    tables = bench.process().tables
    start = await tables.number(bench.table_id) + 1
    for number in range(start, start + versions):
        await tables.publish(await bench.stage(bench.attempt(f"a{number}", number - 1)))


def _folders(data: set[str]) -> set[str]:
    return {path.split("/")[1] for path in data}


async def test_what_was_staged_and_never_published_goes_once_it_is_old() -> None:
    bench = await with_table()
    await bench.publish(bench.attempt("one"))
    await bench.stage(bench.attempt("late", task="x", partitions=("ds=2",)))
    assert (await _collect(bench)).total() == 0
    await bench.aging.grow_old()
    await bench.stage(bench.attempt("young", task="y", partitions=("ds=3",)))
    done = await _collect(bench)
    assert (done.files, done.problems) == (1, 0)
    assert _folders(await bench.data()) == {id_of("one"), id_of("young")}


async def test_a_table_without_any_version_loses_what_was_staged_and_nothing_else() -> None:
    bench = await with_table()
    await bench.stage(bench.attempt("late"))
    store = bench.shop.store(Role.FLOW)
    for other in ("part-0.parquet", "data/ds=1/part-0.parquet", "data/x.parquet"):
        await store.create(f"warehouse/{bench.table_id}/{other}", b"mine")
    await bench.aging.grow_old()
    assert (await _collect(bench)).files == 1
    assert await bench.data() == {"part-0.parquet", "data/ds=1/part-0.parquet", "data/x.parquet"}


async def test_an_object_that_stands_for_a_folder_is_not_reported_of_each_time() -> None:
    bench = await with_table()
    await bench.stage(bench.attempt("late"))
    store = bench.shop.store(Role.FLOW)
    for file, body in (("folder", b""), ("folder/empty.parquet", b""), ("file", b"mine")):
        key = f"warehouse/{bench.table_id}/data/{id_of('other')}/{file}"
        await store.create(key, body)
    await bench.aging.grow_old()
    assert (await _collect(bench)).files == 3
    assert (await _collect(bench)).total() == 0


async def test_a_dry_run_tells_the_same_and_deletes_nothing() -> None:
    bench = await with_table()
    await _grown(bench, 3)
    await bench.aging.grow_old()
    before = await bench.data()
    reported = await _collect(bench, dry_run=True)
    assert (reported.files, reported.dry_run) == (2, True)
    assert await bench.data() == before
    assert (await _collect(bench)).files == reported.files


async def test_files_stay_for_as_long_as_somebody_may_read_the_version_that_names_them() -> None:
    bench = await with_table()
    await _grown(bench, 2)
    await bench.aging.grow_old()
    await _grown(bench, 1)
    # Version 0 was replaced long ago, version 1 just now: a reader may still use it.
    assert (await _collect(bench)).files == 1
    assert _folders(await bench.data()) == {id_of("a1"), id_of("a2")}
    assert (await bench.now()).materials == {"ds=1": id_of("a2")}


async def test_files_that_old_versions_have_named_stay_as_long_as_the_table_has_them() -> None:
    bench = await with_table()
    tables = bench.process().tables
    for number in range(FULL_LIST_INTERVAL + 5):
        key = f"ds={number % 40}"
        attempt = bench.attempt(f"a{number}", number - 1, task=f"r{number}", partitions=(key,))
        await tables.publish(await bench.stage(attempt))
    await bench.aging.grow_old()
    before = await bench.now()
    done = await _collect(bench)
    assert done.files == FULL_LIST_INTERVAL + 5 - 40
    assert done.numbers == FULL_LIST_INTERVAL
    assert await bench.now() == before
    named = {each.path for files in before.files.values() for each in files}
    assert await bench.data() == named
    assert (await tables.files(bench.table_id)) == before
    await _grown(bench, 1)


async def test_numbers_go_below_one_that_names_all_files_and_its_list_stays() -> None:
    bench = await with_table()
    await _grown(bench, 2 * FULL_LIST_INTERVAL + 1)
    await bench.aging.grow_old()
    done = await _collect(bench)
    assert (done.numbers, done.lists) == (2 * FULL_LIST_INTERVAL, 1)
    chain = pointers_of(_janitor(bench), bench.table_id)
    assert await chain.floor() == 2 * FULL_LIST_INTERVAL
    assert (await bench.now()).materials == {"ds=1": id_of(f"a{2 * FULL_LIST_INTERVAL}")}
    assert (await _collect(bench)).total() == 0


async def test_a_list_that_lost_its_race_goes_once_it_is_old() -> None:
    bench = await with_table()
    await _grown(bench, FULL_LIST_INTERVAL)
    a, b = bench.process(), bench.process()
    other = await bench.stage(
        bench.attempt("b", FULL_LIST_INTERVAL - 1, task="x", partitions=("ds=2",))
    )
    a.line.before("create", bench.key(FULL_LIST_INTERVAL), lambda: b.tables.publish(other))
    await a.tables.publish(await bench.stage(bench.attempt("a", FULL_LIST_INTERVAL - 1)))
    assert sum("/full/" in key for key in await bench.shop.keys("_catalog/")) == 2
    assert (await _collect(bench)).lists == 0
    await bench.aging.grow_old("/full/")
    assert (await _collect(bench)).lists == 1
    assert set((await bench.now()).materials) == {"ds=1", "ds=2"}


async def test_a_dropped_table_is_left_alone_since_it_may_come_back() -> None:
    bench = await with_table()
    await _grown(bench, 3)
    await bench.aging.grow_old()
    await bench.shop.do(DropTable(target=t("t")))
    before = await bench.data()
    assert (await _collect(bench)).total() == 0
    assert await bench.data() == before


async def test_trouble_with_one_table_is_reported_and_deletes_nothing_of_it() -> None:
    bench = await with_table()
    await _grown(bench, 2)
    await bench.aging.grow_old()
    before = await bench.data()
    line = bench.process().line
    line.fail("get", bench.key(1), Unavailable("cut"))
    reader = bench.shop.api_process().reader
    store = bench.shop.store(Role.JANITOR, line.backend)
    done = await ParquetGarbageCollector(
        reader, store, retention_ms=SHORTEST_RETENTION_MS
    ).collect()
    assert (done.problems, done.failed) == (1, [bench.table_id])
    assert await bench.data() == before


async def test_a_published_file_is_never_taken_for_staged_an_attempt_that_publishes_meanwhile() -> (
    None
):
    bench = await with_table()
    await bench.publish(bench.attempt("one"))
    staged = await bench.stage(bench.attempt("two", task="x", partitions=("ds=2",)))
    await bench.aging.grow_old()
    line = bench.process().line
    line.after("list", "/data/", lambda: bench.process().tables.publish(staged))
    reader = bench.shop.api_process().reader
    store = bench.shop.store(Role.JANITOR, line.backend)
    done = await ParquetGarbageCollector(
        reader, store, retention_ms=SHORTEST_RETENTION_MS
    ).collect()
    assert done.files == 0
    assert _folders(await bench.data()) == {id_of("one"), id_of("two")}


async def test_a_check_of_the_store_looks_at_these_chains_too() -> None:
    bench = await with_table()
    await _grown(bench, 3)
    await check_side_chains(_janitor(bench), DOMAIN, VerificationCounts())
    key = f"_catalog/{bench.key(1)}"
    await bench.shop.backend.delete(bench.shop.store(Role.FLOW).scope.prefix + key)
    with pytest.raises(Discrepancy):
        await check_side_chains(_janitor(bench), DOMAIN, VerificationCounts())
