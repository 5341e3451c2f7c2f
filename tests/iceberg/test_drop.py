"""Drop and undrop: the tombstone decides, and a name without a table is free (P31)."""

import asyncio

import pytest

from arco.core.errors import Unavailable, Unknown
from arco.iceberg.name_resolution import release_name
from tests.catalog.catalog_setup import is_down, names_in
from tests.iceberg.iceberg_setup import (
    IcebergSetup,
    begun,
    dies,
    dies_at_the_compactor,
    id_of,
    marks_of,
    pointer_key,
    refusal,
    with_table,
)


async def _half_dropped() -> tuple[IcebergSetup, str]:
    """A table with a tombstone, whose name the catalog still has."""
    setup, [table_id] = await with_table("t")
    await dies_at_the_compactor(setup, setup.a, setup.a.drop("t"), arrives=False)
    assert (await setup.chain(table_id))[-1].record.tombstone
    assert await names_in(await setup.inner.cold().head()) == ["t"]
    return setup, table_id


async def test_a_dropped_table_is_gone_for_all_processes() -> None:
    setup, _ = await with_table("t")
    await setup.b.load("t")
    await setup.a.drop("t")
    assert not await setup.b.exists("t")
    assert await setup.b.names() == []
    for work in (setup.b.load("t"), setup.b.mark("t", "x"), setup.b.drop("t")):
        not_found = await refusal(work)
        assert (not_found.status, not_found.kind) == (404, "NoSuchTableException")
        assert not_found.message == "Table does not exist: s.t"
    assert await names_in(await setup.inner.head()) == []


async def test_the_tombstone_names_the_last_metadata_and_who_has_dropped() -> None:
    setup, [table_id] = await with_table("t")
    committed_table = await setup.a.mark("t", "x")
    await setup.b.drop("t", purge=True)
    last_pointer = (await setup.pointers(table_id))[-1]
    assert (last_pointer.operation, last_pointer.purge, last_pointer.actor) == (
        "drop",
        True,
        "user:ann",
    )
    assert (
        last_pointer.metadata_location == last_pointer.previous_location == committed_table.location
    )


async def test_files_of_a_dropped_table_stay() -> None:
    setup, _ = await with_table("t")
    files = await setup.files()
    await setup.a.drop("t")
    assert await setup.files() == files


async def test_a_commit_that_comes_before_the_tombstone_is_dropped_with_the_table() -> None:
    setup, [table_id] = await with_table("t")
    setup.a.connection.before("create", pointer_key(table_id, 1), lambda: setup.b.mark("t", "x"))
    await setup.a.drop("t")
    *_, commit, tombstone = await setup.pointers(table_id)
    assert (commit.operation, tombstone.operation) == ("commit", "drop")
    assert tombstone.metadata_location == commit.metadata_location


async def test_a_commit_that_comes_after_the_tombstone_is_refused() -> None:
    setup, [table_id] = await with_table("t")
    setup.a.connection.before("create", pointer_key(table_id, 1), lambda: setup.b.drop("t"))
    not_found = await refusal(setup.a.mark("t", "x"))
    assert (not_found.status, not_found.kind) == (404, "NoSuchTableException")
    assert [each.operation for each in await setup.pointers(table_id)] == ["create", "drop"]


async def test_drops_and_commits_at_once_leave_no_commit_after_the_tombstone() -> None:
    setup, [table_id] = await with_table("t")
    works = [
        setup.a.mark("t", "x"),
        setup.b.mark("t", "y"),
        setup.b.drop("t"),
        setup.a.mark("t", "z"),
    ]
    result = await asyncio.gather(*works, return_exceptions=True)
    operations = [each.operation for each in await setup.pointers(table_id)]
    landed = sum(not isinstance(each, BaseException) for each in result)
    assert operations == ["create", *["commit"] * (landed - 1), "drop"]


async def test_of_two_drops_one_is_answered_that_the_table_is_gone() -> None:
    setup, [table_id] = await with_table("t")
    setup.a.connection.before("create", pointer_key(table_id, 1), lambda: setup.b.drop("t"))
    not_found = await refusal(setup.a.drop("t"))
    assert not_found.kind == "NoSuchTableException"
    assert len(await setup.chain(table_id)) == 2


async def test_a_drop_with_an_unclear_result_is_unknown_and_no_refusal() -> None:
    setup, [table_id] = await with_table("t")
    setup.a.connection.hide(pointer_key(table_id, 1))
    with pytest.raises(Unknown):
        await setup.a.drop("t")
    assert not await setup.b.exists("t")


async def test_a_drop_is_a_success_even_if_the_name_cannot_be_released_now() -> None:
    setup, _ = await with_table("t")
    setup.inner.channel.always = is_down
    await setup.a.drop("t")
    assert await setup.b.names() == []
    assert not await setup.b.exists("t")
    with pytest.raises(Unavailable):  # whether the name is free cannot be found out
        await setup.b.create("t")
    setup.inner.channel.always = None
    await setup.b.create("t")


async def test_after_a_crash_between_tombstone_and_release_the_table_does_not_exist() -> None:
    setup, _ = await _half_dropped()
    assert await setup.b.names() == []
    assert not await setup.b.exists("t")
    for work in (
        setup.b.load("t"),
        setup.b.mark("t", "x"),
        setup.b.rename("t", "u"),
        setup.b.drop("t"),
    ):
        not_found = await refusal(work)
        assert (not_found.status, not_found.kind) == (404, "NoSuchTableException")
        assert not_found.message == "Table does not exist: s.t"


async def test_a_view_list_does_not_show_a_dead_name_either() -> None:
    setup, _ = await _half_dropped()
    assert await setup.b.iceberg.views.page("default", ("s",), after=None, limit=None) == []


@pytest.mark.parametrize("meets", ["load", "exists", "commit", "drop", "rename"])
async def test_every_operation_that_meets_a_dead_name_releases_it(meets: str) -> None:
    setup, _ = await _half_dropped()
    if meets == "exists":
        assert not await setup.b.exists("t")
    else:
        works = {
            "load": setup.b.load("t"),
            "commit": setup.b.mark("t", "x"),
            "drop": setup.b.drop("t"),
            "rename": setup.b.rename("t", "u"),
        }
        await refusal(works.pop(meets))
        for unused in works.values():
            unused.close()
    await setup.b.settle()
    assert await names_in(await setup.inner.cold().head()) == []


async def test_a_dead_name_can_be_had_at_once() -> None:
    setup, old = await _half_dropped()
    created_table = await setup.b.create("t")
    assert id_of(created_table) != old
    assert await setup.b.names() == ["t"]


async def test_a_dead_name_can_be_staged_and_renamed_to() -> None:
    setup, _ = await _half_dropped()
    await setup.b.create("t", stage_create=True)
    setup, _ = await _half_dropped()
    other = id_of(await setup.b.create("other"))
    await setup.b.rename("other", "t")
    assert id_of(await setup.b.load("t")) == other


async def test_a_late_release_does_not_take_the_name_of_the_next_table() -> None:
    """It names its table and its tombstone, and another table has the name by then."""
    setup, old = await _half_dropped()
    created_table = await setup.b.create("t")
    table_head = await setup.b.context.heads.of(old)
    await release_name(setup.b.context, old, table_head)
    assert id_of(await setup.api().load("t")) == id_of(created_table)


async def test_a_namespace_that_holds_a_dead_name_can_be_dropped() -> None:
    setup = await begun()
    await setup.a.make_namespace("n")
    await setup.a.create("t", ns=("n",))
    caller = setup.a.caller("dropTable")
    drop = setup.a.iceberg.tables.drop("default", ("n",), "t", caller, purge=False)
    await dies_at_the_compactor(setup, setup.a, drop, arrives=False)
    await setup.b.drop_namespace("n")
    assert "n" not in await setup.b.iceberg.namespaces.page("default", (), after=None, limit=None)


async def test_a_list_in_pages_leaves_dead_names_out_and_skips_none() -> None:
    setup, _ = await with_table("a", "b", "c", "d", "e")
    setup.inner.channel.always = is_down
    for name in ("a", "c", "d"):
        await setup.a.drop(name)
    tables = setup.b.iceberg.tables
    assert await tables.page("default", ("s",), after=None, limit=1) == ["b"]
    assert await tables.page("default", ("s",), after="b", limit=1) == ["e"]
    assert await tables.page("default", ("s",), after="e", limit=1) == []
    assert await tables.page("default", ("s",), after=None, limit=10) == ["b", "e"]
    assert await setup.b.names() == ["b", "e"]


async def test_a_drop_writes_down_first_that_the_name_may_be_dead() -> None:
    setup, [table_id] = await with_table("t")
    setup.a.connection.die("create", pointer_key(table_id, 1))
    await dies(setup.a, setup.a.drop("t"))
    assert table_id in await setup.b.context.unresolved_names.open()
    assert await setup.b.names() == ["t"], "nothing was dropped"


async def test_a_drop_whose_id_cannot_be_recorded_as_unresolved_does_not_begin() -> None:
    setup, [table_id] = await with_table("t")
    setup.a.connection.fail("create", "iceberg_doubts/", Unavailable("cut"))
    with pytest.raises((Unavailable, Unknown)):
        await setup.a.drop("t")
    assert len(await setup.chain(table_id)) == 1


async def test_unregistering_returns_the_last_metadata_and_no_commit_follows() -> None:
    setup, [table_id] = await with_table("t")
    committed_table = await setup.a.mark("t", "x")
    caller = setup.b.caller("unregisterTable")
    result = await setup.b.iceberg.tables.unregister("default", ("s",), "t", caller)
    assert (result.location, result.raw) == (committed_table.location, committed_table.raw)
    assert (await refusal(setup.a.mark("t", "y"))).kind == "NoSuchTableException"
    assert (await setup.pointers(table_id))[-1].operation == "unregister"


async def test_an_unregistered_table_can_be_registered_again() -> None:
    setup, [table_id] = await with_table("t")
    committed_table = await setup.a.mark("t", "x")
    caller = setup.b.caller("unregisterTable")
    await setup.b.iceberg.tables.unregister("default", ("s",), "t", caller)
    registered_table = await setup.a.register("back", str(committed_table.location))
    assert marks_of(registered_table) == {"x"}
    assert id_of(registered_table) == table_id, "the uuid is the table's own"
    assert marks_of(await setup.b.mark("back", "y")) == {"x", "y"}
    assert len(await setup.chain(table_id)) == 3, "its chain is a new one"


async def test_a_table_that_is_brought_back_has_all_that_it_had() -> None:
    setup, [table_id] = await with_table("t")
    committed_table = await setup.a.mark("t", "x")
    await setup.a.drop("t")
    await setup.b.undrop(table_id)
    loaded_table = await setup.a.load("t")
    assert (loaded_table.location, loaded_table.raw) == (
        committed_table.location,
        committed_table.raw,
    )
    assert await setup.a.names() == ["t"]
    assert marks_of(await setup.a.mark("t", "y")) == {"x", "y"}
    operations = [each.operation for each in await setup.pointers(table_id)]
    assert operations == ["create", "commit", "drop", "undrop", "commit"]


async def test_a_table_can_be_brought_back_under_another_name() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.drop("t")
    await setup.a.create("t")
    await setup.b.undrop(table_id, "old")
    assert await setup.a.names() == ["old", "t"]
    assert id_of(await setup.a.load("old")) == table_id


async def test_a_table_can_be_dropped_and_brought_back_again_and_again() -> None:
    setup, [table_id] = await with_table("t")
    for api in (setup.a, setup.b, setup.a):
        await api.drop("t")
        assert await setup.b.names() == []
        await api.undrop(table_id)
        assert await setup.b.names() == ["t"]
    assert len(await setup.chain(table_id)) == 7


async def test_a_name_that_is_taken_by_now_refuses_and_shows_nothing() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.drop("t")
    created_table = await setup.a.create("t")
    conflict = await refusal(setup.b.undrop(table_id))
    assert (conflict.status, conflict.kind) == (409, "AlreadyExistsException")
    assert id_of(await setup.b.load("t")) == id_of(created_table)
    assert await setup.b.names() == ["t"]
    await setup.b.drop("t")
    await setup.b.undrop(table_id)
    assert id_of(await setup.a.load("t")) == table_id


async def test_of_an_undrop_and_a_create_of_the_same_name_one_is_refused() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.drop("t")
    setup.b.connection.before("create", pointer_key(table_id, 2), lambda: setup.a.create("t"))
    assert (await refusal(setup.b.undrop(table_id))).kind == "AlreadyExistsException"
    assert id_of(await setup.a.load("t")) != table_id
    await setup.a.drop("t")
    result = await asyncio.gather(
        setup.a.create("t"), setup.b.undrop(table_id), return_exceptions=True
    )
    assert sum(isinstance(each, BaseException) for each in result) == 1, result
    assert await setup.api().names() == ["t"]


async def test_a_table_that_was_not_dropped_cannot_be_brought_back() -> None:
    setup, [table_id] = await with_table("t")
    conflict = await refusal(setup.b.undrop(table_id))
    assert conflict.status == 409
    assert len(await setup.chain(table_id)) == 1
    assert await setup.a.names() == ["t"]


async def test_a_purged_table_cannot_come_back() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.drop("t", purge=True)
    not_found = await refusal(setup.b.undrop(table_id))
    assert (not_found.status, not_found.kind) == (404, "NoSuchTableException")
    assert await setup.a.names() == []
    assert len(await setup.chain(table_id)) == 2


async def test_what_never_was_cannot_come_back() -> None:
    setup, _ = await with_table("t")
    not_found = await refusal(setup.b.undrop("00000000-0000-4000-8000-000000000000"))
    assert not_found.status == 404


async def test_a_table_whose_drop_was_not_finished_is_brought_back_all_the_same() -> None:
    """The name is released first: else the late release of that drop would take it again."""
    setup, [table_id] = await with_table("t")
    await dies_at_the_compactor(setup, setup.a, setup.a.drop("t"), arrives=False)
    ended = await setup.b.context.heads.of(table_id)
    await setup.b.undrop(table_id)
    assert await setup.b.exists("t")
    await release_name(setup.b.context, table_id, ended)
    assert await setup.api().exists("t"), "the late release names an earlier tombstone"
    assert await setup.api().names() == ["t"]


async def test_an_undrop_that_crashed_before_the_name_shows_nothing_and_can_be_repeated() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.drop("t")
    await dies_at_the_compactor(
        setup, setup.a, setup.a.undrop(table_id, key="k"), arrives=False, nth=2
    )
    assert not await setup.b.exists("t")
    assert await setup.b.names() == []
    setup.pass_by(2.1)
    await setup.b.undrop(table_id, key="k")
    assert await setup.b.names() == ["t"]
    assert len(await setup.chain(table_id)) == 3, "the pointer was there already"


async def test_after_an_undrop_that_crashed_another_can_have_the_name() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.drop("t")
    await dies_at_the_compactor(setup, setup.a, setup.a.undrop(table_id), arrives=False, nth=2)
    created_table = await setup.b.create("t")
    assert id_of(await setup.b.load("t")) == id_of(created_table)
    await setup.b.undrop(table_id, "old")
    assert await setup.b.names() == ["old", "t"]


async def test_an_undrop_that_landed_is_answered_as_a_success_by_every_process() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.drop("t")
    await dies_at_the_compactor(
        setup, setup.a, setup.a.undrop(table_id, key="k"), arrives=True, nth=2
    )
    assert await setup.b.names() == ["t"]
    result = await setup.b.undrop(table_id, key="k")
    assert result.table_id == table_id
    assert len(await setup.chain(table_id)) == 3


async def test_trouble_with_the_name_is_no_refusal() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.drop("t")
    setup.inner.channel.always = is_down
    with pytest.raises(Unavailable):
        await setup.b.undrop(table_id, key="k")
    setup.inner.channel.always = None
    setup.pass_by(2.1)
    await setup.b.undrop(table_id, key="k")
    assert await setup.b.names() == ["t"]


async def test_a_crash_before_the_pointer_leaves_the_table_dropped() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.drop("t")
    setup.a.connection.die("create", pointer_key(table_id, 2))
    await dies(setup.a, setup.a.undrop(table_id))
    assert not await setup.b.exists("t")
    await setup.b.undrop(table_id)
    assert await setup.b.exists("t")


async def test_the_facts_of_a_table_come_back_with_it() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.drop("t")
    await setup.b.undrop(table_id)
    *_, last_pointer = await setup.pointers(table_id)
    assert (last_pointer.operation, last_pointer.table_uuid, last_pointer.transaction) == (
        "undrop",
        table_id,
        None,
    )
    assert last_pointer.previous_location is None
