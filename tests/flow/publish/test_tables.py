"""Plain Parquet tables: a version is published once, by the attempt that holds its partitions (P35)."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from arco.catalog.ddl import CreateTable, DropTable
from arco.catalog.model import TableFormat
from arco.catalog.publication import NumberedPublication
from arco.core.errors import AttemptFenced, Corrupt, Invalid, NotFound, Unavailable, Unknown
from arco.core.json import decode
from arco.flow.publish.content import EMPTY_CONTENT, apply_pointer
from arco.flow.publish.pointer import FULL_LIST_INTERVAL, ParquetPointer, pointers_of
from arco.flow.publish.wire import FilesStaged, StagedFile
from arco.storage.chain import SHORTEST_RETENTION_MS
from arco.storage.chain_gc import DEFAULT_RETENTION_MS, collect
from arco.storage.roles import Role
from tests.catalog.catalog_setup import S, as_table, t
from tests.flow.publish.harness import ROOT, TASK, id_of, with_table
from tests.iceberg.iceberg_setup import dies


async def test_a_version_names_files_that_were_not_visible_before() -> None:
    bench = await with_table()
    staged = await bench.stage(bench.attempt("one"))
    assert (await bench.now()).files == {}
    reported = await bench.process().tables.publish(staged)
    now = await bench.now()
    assert (reported.number, reported.rows, reported.files) == (0, 10, 1)
    assert now.files == staged.files
    assert now.materials == {"ds=1": id_of("one")}
    assert (now.number, now.location) == (0, f"{ROOT}warehouse/{bench.table_id}/")


async def test_append_adds_replace_partition_replaces_and_replace_replaces_everything() -> None:
    bench = await with_table()
    both = bench.attempt("a", partitions=("ds=1", "ds=2"))
    await bench.publish(both, mode="append", rows=1)
    reported = await bench.publish(bench.attempt("b", 0), mode="append", rows=2)
    assert (reported.rows, reported.files) == (4, 3)
    now = await bench.now()
    assert {key: len(files) for key, files in now.files.items()} == {"ds=1": 2, "ds=2": 1}
    assert now.materials == {"ds=1": id_of("b"), "ds=2": id_of("a")}
    reported = await bench.publish(bench.attempt("c", 1), rows=5)
    assert (reported.rows, reported.files) == (6, 2)
    reported = await bench.publish(bench.attempt("d", 2), "ds=3", mode="replace", rows=7)
    assert (reported.rows, reported.files) == (7, 1)
    assert (await bench.now()).materials == {"ds=3": id_of("d")}


async def test_a_partition_that_came_out_empty_is_empty_and_has_a_maker() -> None:
    bench = await with_table()
    await bench.publish(bench.attempt("one"))
    staged = FilesStaged(
        table_id=bench.table_id,
        attempt=bench.attempt("two", 0),
        mode="replace_partition",
        files={"ds=1": ()},
    )
    reported = await bench.process().tables.publish(staged)
    assert (reported.rows, reported.bytes, reported.files) == (0, 0, 0)
    now = await bench.now()
    assert (now.files, now.materials) == ({}, {"ds=1": id_of("two")})


async def test_of_two_attempts_at_a_partition_the_first_publishes_and_the_second_is_refused() -> (
    None
):
    bench = await with_table()
    await bench.publish(bench.attempt("one"))
    with pytest.raises(AttemptFenced) as late:
        await bench.publish(bench.attempt("two"))
    assert str(late.value) == f"attempt {id_of('one')} of {TASK} has published ds=1 at version 0"
    assert (await bench.now()).materials == {"ds=1": id_of("one")}


async def test_two_attempts_that_publish_at_once_are_reported_apart_at_the_second_try() -> None:
    bench = await with_table()
    a, b = bench.process(), bench.process()
    other = await bench.stage(bench.attempt("two"))
    a.connection.before("create", bench.key(0), lambda: b.tables.publish(other))
    with pytest.raises(AttemptFenced):
        await a.tables.publish(await bench.stage(bench.attempt("one")))
    assert (await bench.now()).materials == {"ds=1": id_of("two")}


async def test_partitions_of_one_table_that_are_published_at_once_all_land() -> None:
    bench = await with_table()
    processes, keys = [bench.process() for _ in range(2)], [f"ds={n}" for n in range(12)]
    staged = [
        await bench.stage(bench.attempt(key, task=f"run/s.t@{key}", partitions=(key,)))
        for key in keys
    ]
    work = [processes[n % 2].tables.publish(each) for n, each in enumerate(staged)]
    reported = await asyncio.gather(*work)
    assert {each.number for each in reported} == set(range(12))
    assert (await bench.now()).materials == {key: id_of(key) for key in keys}
    assert max(reported, key=lambda each: each.number).files == 12


async def test_an_append_is_counted_once_however_often_it_is_asked_for() -> None:
    bench = await with_table()
    staged = await bench.stage(bench.attempt("one"), mode="append")
    first = await bench.process().tables.publish(staged)
    await bench.publish(
        bench.attempt("two", 0, task="run/s.t@ds=2", partitions=("ds=2",)), mode="append"
    )
    for _ in range(2):
        assert await bench.process().tables.publish(staged) == first
    now = await bench.now()
    assert (now.number, len(now.files["ds=1"])) == (1, 1)


async def test_a_publication_whose_answer_was_lost_is_done() -> None:
    bench = await with_table()
    staged = await bench.stage(bench.attempt("one"), mode="append")
    process = bench.process()
    process.connection.hide(bench.key(0))
    with pytest.raises(Unknown):
        await process.tables.publish(staged)
    reported = await bench.process().tables.publish(staged)
    assert (reported.number, reported.files) == (0, 1)


@pytest.mark.parametrize("after", [False, True])
async def test_an_attempt_that_dies_at_the_create_leaves_one_publication_in_the_end(
    *, after: bool
) -> None:
    bench = await with_table()
    one, process = await bench.stage(bench.attempt("one"), mode="append"), bench.process()
    process.connection.die("create", bench.key(0), after=after)

    class _Connection:
        connection = process.connection

    await dies(_Connection, process.tables.publish(one))  # type: ignore[arg-type]  # it has a connection
    fenced = await bench.process().tables.fence(bench.table_id, bench.attempt("two"), since=-1)
    if after:
        assert fenced == NumberedPublication(0, one.attempt.publication())
        assert (await bench.now()).materials == {"ds=1": id_of("one")}
        return
    assert fenced == 0
    await bench.publish(bench.attempt("two", 0), mode="append")
    with pytest.raises(AttemptFenced):
        await bench.process().tables.publish(one)
    now = await bench.now()
    assert (now.materials, len(now.files["ds=1"])) == ({"ds=1": id_of("two")}, 1)


async def test_a_fence_stops_who_comes_late_and_lets_its_own_attempt_and_others_pass() -> None:
    bench = await with_table()
    await bench.publish(bench.attempt("zero", task="old/s.t@ds=1"))
    fences = bench.process().tables
    assert await fences.fence(bench.table_id, bench.attempt("two", 0), since=0) == 1
    with pytest.raises(AttemptFenced) as late:
        await bench.publish(bench.attempt("one", 0))
    assert str(late.value) == f"attempt {id_of('two')} of {TASK} was given ds=1 at version 1"
    await bench.publish(bench.attempt("other", 0, task="x", partitions=("ds=2",)))
    await bench.publish(bench.attempt("two", 1))
    assert (await bench.now()).materials == {"ds=1": id_of("two"), "ds=2": id_of("other")}


async def test_a_fence_changes_neither_files_nor_the_version_of_the_data() -> None:
    bench = await with_table()
    tables = bench.process().tables
    assert await tables.versions(bench.table_id) == (None, {})
    await tables.fence(bench.table_id, bench.attempt("zero"), since=-1)
    assert await tables.versions(bench.table_id) == (None, {})
    await bench.publish(bench.attempt("one", 0))
    before = await bench.process().tables.versions(bench.table_id)
    assert before == ("1", {"ds=1": id_of("one")})
    other = bench.attempt("two", 1, task="later")
    assert await tables.fence(bench.table_id, other, since=1) == 2
    assert await tables.versions(bench.table_id) == before
    assert await tables.number(bench.table_id) == 2
    *_, fence = await bench.pointers()
    assert (fence.totals.files, fence.changed) == (1, {})


async def test_an_attempt_that_replaces_everything_is_met_by_all_partitions() -> None:
    bench = await with_table()
    await bench.publish(bench.attempt("all"), "ds=1", "ds=2", mode="replace")
    with pytest.raises(AttemptFenced):
        await bench.publish(bench.attempt("one", task="x", partitions=("ds=7",)))
    with pytest.raises(AttemptFenced):
        await bench.publish(bench.attempt("also", task="y"), "ds=1", mode="replace")


async def test_every_so_often_all_files_are_written_down_and_read_from_there() -> None:
    bench = await with_table()
    tables = bench.process().tables
    for number in range(FULL_LIST_INTERVAL + 3):
        key = f"ds={number}"
        attempt = bench.attempt(key, number - 1, task=key, partitions=(key,))
        await tables.publish(await bench.stage(attempt))
    pointers = await bench.pointers()
    assert [n for n, each in enumerate(pointers) if each.full is not None] == [FULL_LIST_INTERVAL]
    cold = bench.process()
    now = await cold.tables.files(bench.table_id)
    content = EMPTY_CONTENT
    for each in pointers:
        content = apply_pointer(content, each)
    assert (now.files, now.materials) == (content.files, content.materials)
    assert len(now.files) == FULL_LIST_INTERVAL + 3
    assert now == await tables.files(bench.table_id)
    read = {
        key for verb, key in cold.connection.seen if verb == "get" and f"{bench.table_id}/0" in key
    }
    assert len(read) < FULL_LIST_INTERVAL / 3, "to find the end of the chain takes a few"


@pytest.mark.parametrize("harm", ["missing", "other bytes"])
async def test_a_list_of_files_that_is_gone_or_changed_is_corrupt(harm: str) -> None:
    bench = await with_table()
    tables = bench.process().tables
    for number in range(FULL_LIST_INTERVAL + 1):
        attempt = bench.attempt(f"a{number}", number - 1)
        await tables.publish(await bench.stage(attempt))
    [key] = [key for key in await bench.setup.keys("_catalog/") if "/full/" in key]
    full_list_key = bench.setup.store(Role.FLOW).scope.prefix + key
    await bench.setup.backend.delete(full_list_key)
    if harm != "missing":
        await bench.setup.backend.create(full_list_key, b"{}")
    with pytest.raises(Corrupt):
        await bench.now()


async def test_a_list_that_cannot_be_stored_is_trouble_and_publishes_nothing() -> None:
    bench = await with_table()
    process = bench.process()
    for number in range(FULL_LIST_INTERVAL):
        await process.tables.publish(await bench.stage(bench.attempt(f"a{number}", number - 1)))
    staged = await bench.stage(bench.attempt("last", FULL_LIST_INTERVAL - 1))
    process.connection.fail("create", "/full/", Unavailable("cut"))
    with pytest.raises(Unavailable):
        await process.tables.publish(staged)
    process.connection.mend()
    assert (await process.tables.publish(staged)).number == FULL_LIST_INTERVAL


@pytest.mark.parametrize(
    "path",
    [
        "data/x.parquet",
        f"data/{id_of('other')}/x.parquet",
        f"data/{id_of('one')}/../{id_of('other')}/x.parquet",
        f"data/{id_of('one')}x/x.parquet",
        f"/data/{id_of('one')}/x.parquet",
        f"data/{id_of('one')}//x.parquet",
        f"data\\{id_of('one')}\\x.parquet",
        f"metadata/{id_of('one')}/x.parquet",
        "",
    ],
)
async def test_files_of_others_are_refused(path: str) -> None:
    bench = await with_table()
    staged = FilesStaged(
        table_id=bench.table_id,
        attempt=bench.attempt("one"),
        mode="append",
        files={"ds=1": (StagedFile(path=path, rows=1, bytes=1),)},
    )
    with pytest.raises(Invalid):
        await bench.process().tables.publish(staged)
    assert await bench.pointers() == []


async def test_a_file_that_is_not_there_or_is_cut_short_is_never_named() -> None:
    bench = await with_table()
    staged = await bench.stage(bench.attempt("one"))
    [file] = staged.files["ds=1"]
    for wrong in (
        msgspec.structs.replace(file, bytes=file.bytes + 1),
        msgspec.structs.replace(file, path=f"{file.path}x"),
    ):
        with pytest.raises(Invalid):
            await bench.process().tables.publish(
                msgspec.structs.replace(staged, files={"ds=1": (file, wrong)})
            )
    assert await bench.pointers() == []


async def test_what_an_attempt_does_not_hold_it_does_not_publish() -> None:
    bench = await with_table()
    with pytest.raises(Invalid):
        await bench.publish(bench.attempt("one"), "ds=2")
    staged = await bench.stage(bench.attempt("two"))
    for wrong in (
        msgspec.structs.replace(staged, mode="fence"),
        msgspec.structs.replace(staged, mode="merge"),
        msgspec.structs.replace(staged, files={"ds=1": staged.files["ds=1"] * 2}),
        msgspec.structs.replace(
            staged, attempt=msgspec.structs.replace(staged.attempt, attempt_id="two")
        ),
        msgspec.structs.replace(
            staged, attempt=msgspec.structs.replace(staged.attempt, dispatched_at_number=7)
        ),
    ):
        with pytest.raises(Invalid):
            await bench.process().tables.publish(wrong)
    assert await bench.pointers() == []


async def test_only_managed_parquet_tables_that_are_there_have_versions() -> None:
    bench = await with_table(TableFormat.CSV)
    with pytest.raises(Invalid):
        await bench.publish(bench.attempt("one"))
    request = CreateTable(
        schema=S, name="far", format=TableFormat.PARQUET, location="s3://elsewhere/far"
    )
    far = as_table(await bench.setup.do(request)).table_id
    with pytest.raises(Invalid):
        await bench.process().tables.files(far)
    with pytest.raises(NotFound):
        await bench.process().tables.files("01a1e0f6-9113-7475-bb94-e3fac6dcb4cd")


async def test_a_dropped_table_takes_no_version() -> None:
    bench = await with_table()
    staged = await bench.stage(bench.attempt("one"))
    await bench.setup.do(DropTable(target=t("t")))
    for work in (
        bench.process().tables.publish(staged),
        bench.process().tables.files(bench.table_id),
        bench.process().tables.fence(bench.table_id, staged.attempt, since=-1),
    ):
        with pytest.raises(NotFound):
            await work


async def test_an_attempt_older_than_half_the_retention_does_not_publish() -> None:
    bench = await with_table()
    one, two = bench.attempt("one"), bench.attempt("two", task="x", partitions=("ds=2",))
    staged = await bench.stage(one)
    await bench.process().tables.publish(staged)
    bench.setup.clock.pass_by(timedelta(milliseconds=DEFAULT_RETENTION_MS // 2 + 1))
    with pytest.raises(AttemptFenced):
        await bench.publish(two)
    assert (await bench.process().tables.publish(staged)).number == 0


@pytest.mark.parametrize("hours", [-48, 48])
async def test_a_clock_that_is_set_does_not_matter(hours: int) -> None:
    bench = await with_table()
    one, two = bench.attempt("one"), bench.attempt("two")
    bench.setup.clock.set_forward(timedelta(hours=hours))
    await bench.publish(one)
    bench.setup.clock.set_forward(timedelta(hours=-hours))
    with pytest.raises(AttemptFenced):
        await bench.publish(two)


async def test_an_attempt_whose_versions_were_collected_is_refused() -> None:
    bench = await with_table()
    tables = bench.process().tables
    for number in range(3):
        await tables.publish(await bench.stage(bench.attempt(f"a{number}", number - 1)))
    chain = pointers_of(bench.setup.store(Role.JANITOR, bench.aging), bench.table_id)
    await bench.aging.grow_old()
    await collect(chain, retention_ms=SHORTEST_RETENTION_MS)
    with pytest.raises(AttemptFenced):
        await bench.publish(bench.attempt("late", -1, task="x", partitions=("ds=9",)))


def test_a_pointer_reads_back_as_it_was_written() -> None:
    raw = (
        b'{"mode":"append","publication":{"attempt_id":"a","task":"t"},'
        b'"totals":{"rows":1,"bytes":2,"files":3},"data_number":4}'
    )
    assert msgspec.json.encode(decode(raw, ParquetPointer)) == raw
