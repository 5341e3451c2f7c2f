"""Commits to several tables: readers see all or nothing, with a crash at any point (P33)."""

import asyncio
from typing import Any

import pytest

from arco.core.errors import AlreadyExists, Denied, Invalid, Unavailable, Unknown
from arco.core.json import Json
from arco.iceberg.multi_table_commit import MAX_TABLES
from arco.iceberg.pointer_head import GRACE_MS
from tests.catalog.catalog_setup import is_down, names_in, until
from tests.iceberg.engine.sample_metadata import update
from tests.iceberg.iceberg_setup import (
    OUTCOME,
    POINTERS,
    Api,
    IcebergSetup,
    dies,
    dies_at_the_compactor,
    id_of,
    making,
    marking,
    marks_of,
    on,
    pointer_key,
    refusal,
    with_table,
)

BOTH = (on("t", marking("x")), on("u", marking("x")))


async def _marks(api: Api, *names: str) -> list[set[str]]:
    return [marks_of(await api.load(name)) for name in names or ("t", "u")]


async def _outcomes(setup: IcebergSetup) -> int:
    return sum(OUTCOME in key for key in await setup.inner.keys("_catalog/transactions/"))


async def _left_undecided(*, with_create: bool = False) -> tuple[IcebergSetup, list[str]]:
    """Two tables, and a transaction over them whose process is gone before it was decided."""
    setup, ids = await with_table("t", "u")
    changes = (*BOTH, making("new")) if with_create else BOTH
    setup.a.connection.die("create", OUTCOME)
    await dies(setup.a, setup.a.transact(*changes))
    assert await _outcomes(setup) == 0
    return setup, ids


async def _impatient(setup: IcebergSetup, api: Api, work: asyncio.Future[Any]) -> None:
    """Advance the clock past the grace period once a writer waits."""
    before = api.connection.count_requests("get", OUTCOME)
    await until(lambda: api.connection.count_requests("get", OUTCOME) > before + 4)
    assert not work.done(), "it waits"
    setup.pass_by(GRACE_MS / 1_000 + 0.1)


async def test_a_transaction_changes_all_its_tables() -> None:
    setup, ids = await with_table("t", "u")
    await setup.a.transact(*BOTH)
    assert await _marks(setup.b) == [{"x"}, {"x"}]
    transactions = {(await setup.pointers(table_id))[1].transaction for table_id in ids}
    assert len(transactions) == 1
    assert None not in transactions
    keys = await setup.inner.keys("_catalog/transactions/")
    assert [key.rpartition("/")[2] for key in keys] == ["intent.json", "outcome.json"]


async def test_no_reader_sees_one_half_of_a_transaction() -> None:
    setup, _ = await with_table("t", "u")
    marks_seen = []

    async def look() -> None:
        marks_seen.append(await _marks(setup.b))
        marks_seen.append(await _marks(setup.api()))

    setup.a.connection.after("create", POINTERS, look, times=2)
    setup.a.connection.before("create", OUTCOME, look)
    await setup.a.transact(*BOTH)
    assert marks_seen == [[set(), set()]] * 6
    assert await _marks(setup.b) == [{"x"}, {"x"}]


async def test_a_reader_never_waits_for_a_transaction() -> None:
    setup, _ = await _left_undecided()
    assert await asyncio.wait_for(_marks(setup.b), 2) == [set(), set()]
    assert await _outcomes(setup) == 0, "and ends none"
    assert await setup.b.names() == ["t", "u"]


async def test_an_unreadable_outcome_never_shows_the_old_version() -> None:
    """It may have been committed, and answered to the client, long ago."""
    setup, _ = await with_table("t", "u")
    await setup.a.transact(*BOTH)
    setup.b.connection.fail("get", OUTCOME, Unavailable("cut"))
    with pytest.raises(Unavailable):
        await setup.b.load("t")
    with pytest.raises(Unavailable):
        await setup.b.mark("t", "y")


async def test_an_undecided_head_is_not_remembered_as_that() -> None:
    setup, _ = await with_table("t", "u")
    setup.a.connection.before("create", OUTCOME, lambda: _marks(setup.b))
    await setup.a.transact(*BOTH)
    assert await _marks(setup.b) == [{"x"}, {"x"}]


async def test_a_requirement_that_fails_on_one_table_leaves_all_alone() -> None:
    setup, ids = await with_table("t", "u")
    failing_requirement: dict[str, Json] = {
        "type": "assert-current-schema-id",
        "current-schema-id": 7,
    }
    lost = await refusal(
        setup.a.transact(
            on("t", marking("x")), on("u", marking("x"), require=[failing_requirement])
        )
    )
    assert (lost.status, lost.kind) == (409, "CommitFailedException")
    assert [len(await setup.chain(each)) for each in ids] == [1, 1]


async def test_a_table_that_is_not_there_leaves_all_alone() -> None:
    setup, [table_id] = await with_table("t")
    lost = await refusal(setup.a.transact(on("t", marking("x")), on("missing", marking("x"))))
    assert (lost.status, lost.kind) == (404, "NoSuchTableException")
    assert lost.message == "Table does not exist: s.missing"
    assert len(await setup.chain(table_id)) == 1


async def test_one_table_alone_is_a_plain_commit() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.transact(on("t", marking("x")))
    assert (await setup.pointers(table_id))[1].transaction is None
    assert await setup.inner.keys("_catalog/transactions/") == []
    await setup.a.transact(making("new"))
    assert await setup.b.names() == ["new", "t"]


async def test_what_is_asked_of_a_table_twice_is_one_version_of_it() -> None:
    setup, [t, u] = await with_table("t", "u")
    schema: dict[str, Json] = {"type": "assert-current-schema-id", "current-schema-id": 0}
    await setup.a.transact(
        on("t", marking("x"), require=[schema]), on("u", marking("x")), on("t", marking("y"))
    )
    assert await _marks(setup.b) == [{"x", "y"}, {"x"}]
    assert [len(await setup.chain(each)) for each in (t, u)] == [2, 2]
    await setup.a.transact(on("t", marking("v")), on("t", marking("w")))
    assert await _marks(setup.b, "t") == [{"v", "w", "x", "y"}]
    assert len(await setup.chain(t)) == 3


async def test_the_second_change_of_a_table_is_checked_against_the_first() -> None:
    setup, _ = await with_table("t", "u")
    missing: dict[str, Json] = {"type": "assert-default-spec-id", "default-spec-id": 1}
    spec = [
        update("add-spec", spec={"spec-id": 1, "fields": [_country()]}),
        update("set-default-spec", spec_id=-1),
    ]
    await setup.a.transact(on("t", *spec), on("t", marking("x"), require=[missing]))
    assert await _marks(setup.b, "t") == [{"x"}]


def _country() -> dict[str, Json]:
    return {"source-id": 3, "name": "country", "transform": "identity", "field-id": 1000}


async def test_a_change_without_a_name_or_too_many_are_bad_requests() -> None:
    setup, _ = await with_table("t")
    nameless = on("t", marking("x"))
    with pytest.raises(Invalid):
        await setup.a.transact(type(nameless)(updates=nameless.updates))
    with pytest.raises(Invalid):
        await setup.a.transact()
    with pytest.raises(Invalid):
        await setup.a.transact(*(on(f"t{n}", marking("x")) for n in range(MAX_TABLES + 1)))


async def test_a_lost_race_on_one_table_retries_all_tables_and_loses_nothing() -> None:
    setup, ids = await with_table("t", "u")
    last_id = max(ids)
    name = ["t", "u"][ids.index(last_id)]
    setup.a.connection.before(
        "create", pointer_key(last_id, 1), lambda: setup.b.mark(name, "other")
    )
    await setup.a.transact(*BOTH)
    marks = dict(zip(["t", "u"], await _marks(setup.b), strict=True))
    assert marks[name] == {"x", "other"}
    assert marks == {"t": {"x"}, "u": {"x"}} | {name: {"x", "other"}}


async def test_transactions_over_the_same_tables_at_once_are_all_carried_out() -> None:
    setup, _ = await with_table("t", "u", "v")
    pairs = [("t", "u"), ("u", "v"), ("v", "t")]
    apis = [setup.a, setup.b, setup.api()]
    await asyncio.gather(
        *(
            api.transact(*(on(name, marking(f"m{n}")) for name in pair))
            for n, (api, pair) in enumerate(zip(apis, pairs, strict=True))
        )
    )
    assert await _marks(setup.api(), "t", "u", "v") == [{"m0", "m2"}, {"m0", "m1"}, {"m1", "m2"}]


async def test_a_writer_waits_for_a_healthy_transaction_and_goes_on_top_of_it() -> None:
    setup, _ = await with_table("t", "u")
    waiting: list[asyncio.Future[object]] = []

    async def meanwhile() -> None:
        waiting.append(asyncio.ensure_future(setup.b.mark("t", "y")))
        await until(lambda: setup.b.connection.count_requests("get", OUTCOME) > 1)

    setup.a.connection.before("create", OUTCOME, meanwhile)
    await setup.a.transact(*BOTH)
    await waiting[0]
    assert await _marks(setup.b) == [{"x", "y"}, {"x"}]


async def test_a_writer_that_was_kept_waiting_for_too_long_ends_the_transaction() -> None:
    setup, ids = await _left_undecided()
    work = asyncio.ensure_future(setup.b.mark("t", "y"))
    await _impatient(setup, setup.b, work)
    await work
    assert await _marks(setup.b) == [{"y"}, set()]
    assert await _outcomes(setup) == 1
    last_pointer = (await setup.pointers(ids[0]))[-1]
    assert last_pointer.previous_location == (await setup.pointers(ids[0]))[0].metadata_location


async def test_a_drop_also_ends_a_transaction_that_takes_too_long() -> None:
    setup, ids = await _left_undecided()
    first = (await setup.pointers(ids[0]))[0]
    work = asyncio.ensure_future(setup.b.drop("t"))
    await _impatient(setup, setup.b, work)
    await work
    last_pointer = (await setup.pointers(ids[0]))[-1]
    assert last_pointer.operation == "drop"
    assert last_pointer.metadata_location == first.metadata_location, "what was in effect"
    await setup.b.undrop(ids[0])
    assert await _marks(setup.b) == [set(), set()]


async def test_a_holder_whose_transaction_was_aborted_by_another_writer_tries_again() -> None:
    setup, _ = await with_table("t", "u")

    async def meanwhile() -> None:
        work = asyncio.ensure_future(setup.b.mark("t", "y"))
        await _impatient(setup, setup.b, work)
        await work

    setup.a.connection.before("create", OUTCOME, meanwhile)
    await setup.a.transact(*BOTH)
    assert await _marks(setup.b) == [{"x", "y"}, {"x"}]


async def test_a_transaction_with_an_unclear_result_is_unknown_and_no_refusal() -> None:
    setup, _ = await with_table("t", "u")
    setup.a.connection.hide(OUTCOME)
    with pytest.raises(Unknown):
        await setup.a.transact(*BOTH)
    assert await _marks(setup.b) == [{"x"}, {"x"}], "it had landed"


@pytest.mark.parametrize("part", [POINTERS, "intent.json", "/metadata/00001-"])
@pytest.mark.parametrize(
    "problem", [Unavailable("cut"), AlreadyExists("412"), Denied("403")], ids=lambda p: p.code
)
async def test_trouble_before_the_outcome_is_no_verdict_and_changes_nothing(
    part: str, problem: Exception
) -> None:
    setup, _ = await with_table("t", "u")
    setup.a.connection.fail("create", part, problem)
    with pytest.raises((Unavailable, Unknown)):
        await setup.a.transact(*BOTH, key="k")
    setup.a.connection.mend()
    assert await _marks(setup.b) == [set(), set()]
    setup.pass_by(GRACE_MS / 1_000 + 2)
    await setup.b.transact(*BOTH, key="k")
    assert await _marks(setup.b) == [{"x"}, {"x"}]


async def test_who_takes_over_ends_the_old_transaction_and_begins_another() -> None:
    setup, ids = await with_table("t", "u")
    setup.a.connection.die("create", OUTCOME)
    await dies(setup.a, setup.a.transact(*BOTH, key="k"))
    setup.pass_by(2.1)
    await asyncio.wait_for(setup.b.transact(*BOTH, key="k"), 2)
    assert await _marks(setup.b) == [{"x"}, {"x"}]
    first, second = [each.transaction for each in (await setup.pointers(ids[0]))[1:]]
    assert first != second
    assert await _outcomes(setup) == 2


async def test_who_takes_over_after_the_outcome_finds_it_committed() -> None:
    setup, ids = await with_table("t", "u")
    setup.a.connection.die("create", OUTCOME, after=True)
    await dies(setup.a, setup.a.transact(*BOTH, key="k"))
    await setup.b.mark("t", "later")
    setup.pass_by(2.1)
    await setup.b.transact(*BOTH, key="k")
    assert await _marks(setup.b) == [{"x", "later"}, {"x"}]
    assert [len(await setup.chain(each)) for each in ids] == [3, 2]


async def test_a_holder_that_was_taken_over_cannot_commit_any_more() -> None:
    setup, ids = await with_table("t", "u")

    async def taken_over() -> None:
        setup.pass_by(2.1)
        await setup.b.transact(*BOTH, key="k")

    setup.a.connection.before("create", OUTCOME, taken_over)
    await setup.a.transact(*BOTH, key="k")
    assert await _marks(setup.b) == [{"x"}, {"x"}]
    assert [len(await setup.chain(each)) for each in ids] == [3, 3]


async def test_a_refusal_of_a_transaction_is_kept() -> None:
    setup, _ = await with_table("t", "u")
    failing_requirement: dict[str, Json] = {
        "type": "assert-current-schema-id",
        "current-schema-id": 7,
    }
    changes = (on("t", marking("x")), on("u", marking("x"), require=[failing_requirement]))
    first = await refusal(setup.a.transact(*changes, key="k"))
    repeated_refusal = await refusal(setup.b.transact(*changes, key="k"))
    assert (first.status, first.message) == (repeated_refusal.status, repeated_refusal.message)


async def test_a_missing_metadata_file_is_not_kept_as_the_answer_of_a_transaction() -> None:
    setup, [table_id, _] = await with_table("t", "u")
    [key] = await setup.files(table_id)
    store = setup.b.api_process.store
    body = await store.get(key)
    await setup.inner.backend.delete(store.scope.prefix + key)
    with pytest.raises(Exception, match="Failed to open input stream"):
        await setup.b.transact(*BOTH, key="k")
    await setup.inner.backend.create(store.scope.prefix + key, body)
    setup.pass_by(2.1)
    await setup.b.transact(*BOTH, key="k")
    assert await _marks(setup.b) == [{"x"}, {"x"}]


async def test_a_transaction_can_make_tables_too() -> None:
    setup, _ = await with_table("t")
    await setup.a.transact(on("t", marking("x")), making("new"), making("newer"))
    assert await setup.b.names() == ["new", "newer", "t"]
    assert marks_of(await setup.b.load("t")) == {"x"}
    loaded_table = await setup.b.load("new")
    [first] = await setup.pointers(id_of(loaded_table))
    assert first.transaction is not None
    await setup.b.mark("new", "y")
    assert marks_of(await setup.a.load("new")) == {"y"}


async def test_a_table_of_an_undecided_transaction_is_not_there() -> None:
    setup, _ = await _left_undecided(with_create=True)
    assert "new" in await names_in(await setup.inner.cold().head()), "its name is"
    assert await setup.b.names() == ["t", "u"]
    assert not await setup.b.exists("new")
    assert (await refusal(setup.b.mark("new", "x"))).kind == "NoSuchTableException"
    assert (await refusal(setup.b.rename("new", "other"))).kind == "NoSuchTableException"


async def test_the_name_of_an_aborted_transaction_can_be_had() -> None:
    setup, _ = await _left_undecided(with_create=True)
    work = asyncio.ensure_future(setup.b.create("new"))
    await _impatient(setup, setup.b, work)
    created_table = await work
    assert id_of(await setup.api().load("new")) == id_of(created_table)
    assert await setup.b.names() == ["new", "t", "u"]


async def test_an_operation_that_meets_a_table_of_an_aborted_transaction_ends_its_chain() -> None:
    setup, _ = await _left_undecided(with_create=True)
    work = asyncio.ensure_future(setup.b.mark("t", "y"))
    await _impatient(setup, setup.b, work)
    await work
    assert not await setup.b.exists("new")
    await setup.b.settle()
    assert await names_in(await setup.inner.cold().head()) == ["t", "u"]


async def test_a_name_that_is_taken_leaves_all_tables_alone() -> None:
    setup, ids = await with_table("t", "taken")
    lost = await refusal(setup.a.transact(on("t", marking("x")), making("taken"), making("new")))
    assert (lost.status, lost.kind) == (409, "CommitFailedException")
    assert lost.message == "Requirement failed: table already exists"
    assert await setup.b.names() == ["t", "taken"]
    assert await _marks(setup.b, "t") == [set()]
    assert [len(await setup.chain(each)) for each in ids] == [1, 1]


async def test_a_lost_race_for_a_name_ends_the_whole_transaction() -> None:
    setup, _ = await with_table("t")
    setup.a.connection.before("create", "iceberg_doubts/", lambda: setup.b.create("new"))
    lost = await refusal(setup.a.transact(on("t", marking("x")), making("new"), making("newer")))
    assert (lost.status, lost.kind) == (409, "CommitFailedException")
    assert await setup.b.names() == ["new", "t"]
    assert await _marks(setup.b, "t") == [set()]
    await asyncio.wait_for(setup.b.mark("t", "y"), 2)


async def test_a_uuid_that_is_taken_is_refused_soon() -> None:
    setup, [table_id] = await with_table("t")
    lost = await asyncio.wait_for(
        refusal(setup.a.transact(on("t", marking("x")), making("new", table_id))), 5
    )
    assert lost.status == 409
    assert await setup.b.names() == ["t"]


async def test_a_crash_after_the_names_and_before_the_outcome_shows_nothing() -> None:
    setup, _ = await with_table("t")
    work = setup.a.transact(on("t", marking("x")), making("new"), key="k")
    await dies_at_the_compactor(setup, setup.a, work, arrives=True)
    assert await setup.b.names() == ["t"]
    setup.pass_by(2.1)
    await setup.b.transact(on("t", marking("x")), making("new"), key="k")
    assert await setup.b.names() == ["new", "t"]
    assert await _marks(setup.b, "t") == [{"x"}]


async def test_trouble_with_the_names_is_no_verdict() -> None:
    setup, _ = await with_table("t")
    setup.inner.channel.always = is_down
    with pytest.raises(Unavailable):
        await setup.a.transact(on("t", marking("x")), making("new"))
    setup.inner.channel.always = None
    assert await setup.b.names() == ["t"]
    await asyncio.wait_for(setup.b.mark("t", "y"), 2)
    assert await _marks(setup.b, "t") == [{"y"}]


async def test_the_columns_that_a_transaction_changes_are_shown() -> None:
    setup, [t, _] = await with_table("t", "u")
    schema: dict[str, Json] = {
        "type": "struct",
        "schema-id": 1,
        "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}],
    }
    wider = [update("add-schema", schema=schema), update("set-current-schema", schema_id=-1)]
    await setup.a.transact(on("t", *wider), on("u", marking("x")))
    await setup.a.settle()
    columns = await (await setup.b.context.reader.head()).columns(t)
    assert [each.row.name for each in columns] == ["id"]


async def test_a_staged_table_keeps_its_uuid_when_its_transaction_is_retried() -> None:
    """The first try has left a chain under that uuid, without a name."""
    setup, [t] = await with_table("t")
    staged = await setup.a.create("new", stage_create=True)
    setup.a.connection.before("create", "iceberg_doubts/", lambda: _ended_by(setup, "t"))
    await setup.a.transact(on("t", marking("x")), making("new", id_of(staged)))
    loaded_table = await setup.b.load("new")
    assert (id_of(loaded_table), loaded_table.metadata["location"]) == (
        id_of(staged),
        staged.metadata["location"],
    )
    assert marks_of(await setup.b.load("t")) == {"x", "y"}
    assert marks_of(await setup.b.mark("new", "z")) == {"z"}
    assert len(await setup.chain(t)) == 4


async def test_a_staged_table_that_was_named_and_aborted_is_named_again() -> None:
    setup, _ = await with_table("t")
    staged = await setup.a.create("new", stage_create=True)
    setup.a.connection.before("create", OUTCOME, lambda: _ended_by(setup, "t"))
    await setup.a.transact(on("t", marking("x")), making("new", id_of(staged)))
    assert id_of(await setup.b.load("new")) == id_of(staged)
    assert marks_of(await setup.b.load("t")) == {"x", "y"}
    await setup.b.names()
    assert await setup.api().names() == ["new", "t"]


async def _ended_by(setup: IcebergSetup, name: str) -> None:
    """Another writer is kept waiting for too long."""
    work = asyncio.ensure_future(setup.b.mark(name, "y"))
    await _impatient(setup, setup.b, work)
    await work
