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
    shop, [table_id] = await with_table("t")
    await dies_at_the_compactor(shop, shop.a, shop.a.drop("t"), arrives=False)
    assert (await shop.chain(table_id))[-1].record.tombstone
    assert await names_in(await shop.inner.cold().head()) == ["t"]
    return shop, table_id


async def test_a_dropped_table_is_gone_for_everybody() -> None:
    shop, _ = await with_table("t")
    await shop.b.load("t")
    await shop.a.drop("t")
    assert not await shop.b.exists("t")
    assert await shop.b.names() == []
    for work in (shop.b.load("t"), shop.b.mark("t", "x"), shop.b.drop("t")):
        gone = await refusal(work)
        assert (gone.status, gone.kind) == (404, "NoSuchTableException")
        assert gone.message == "Table does not exist: s.t"
    assert await names_in(await shop.inner.head()) == []


async def test_the_tombstone_names_the_last_metadata_and_who_has_dropped() -> None:
    shop, [table_id] = await with_table("t")
    made = await shop.a.mark("t", "x")
    await shop.b.drop("t", purge=True)
    last = (await shop.pointers(table_id))[-1]
    assert (last.operation, last.purge, last.actor) == ("drop", True, "user:ann")
    assert last.metadata_location == last.previous_location == made.location


async def test_files_of_a_dropped_table_stay() -> None:
    shop, _ = await with_table("t")
    files = await shop.files()
    await shop.a.drop("t")
    assert await shop.files() == files


async def test_a_commit_that_comes_before_the_tombstone_is_dropped_with_the_table() -> None:
    shop, [table_id] = await with_table("t")
    shop.a.line.before("create", pointer_key(table_id, 1), lambda: shop.b.mark("t", "x"))
    await shop.a.drop("t")
    *_, commit, tombstone = await shop.pointers(table_id)
    assert (commit.operation, tombstone.operation) == ("commit", "drop")
    assert tombstone.metadata_location == commit.metadata_location


async def test_a_commit_that_comes_after_the_tombstone_is_refused() -> None:
    shop, [table_id] = await with_table("t")
    shop.a.line.before("create", pointer_key(table_id, 1), lambda: shop.b.drop("t"))
    gone = await refusal(shop.a.mark("t", "x"))
    assert (gone.status, gone.kind) == (404, "NoSuchTableException")
    assert [each.operation for each in await shop.pointers(table_id)] == ["create", "drop"]


async def test_drops_and_commits_at_once_leave_no_commit_after_the_tombstone() -> None:
    shop, [table_id] = await with_table("t")
    works = [shop.a.mark("t", "x"), shop.b.mark("t", "y"), shop.b.drop("t"), shop.a.mark("t", "z")]
    result = await asyncio.gather(*works, return_exceptions=True)
    operations = [each.operation for each in await shop.pointers(table_id)]
    landed = sum(not isinstance(each, BaseException) for each in result)
    assert operations == ["create", *["commit"] * (landed - 1), "drop"]


async def test_of_two_drops_one_is_told_that_the_table_is_gone() -> None:
    shop, [table_id] = await with_table("t")
    shop.a.line.before("create", pointer_key(table_id, 1), lambda: shop.b.drop("t"))
    gone = await refusal(shop.a.drop("t"))
    assert gone.kind == "NoSuchTableException"
    assert len(await shop.chain(table_id)) == 2


async def test_a_drop_with_an_unclear_result_is_unknown_and_no_refusal() -> None:
    shop, [table_id] = await with_table("t")
    shop.a.line.hide(pointer_key(table_id, 1))
    with pytest.raises(Unknown):
        await shop.a.drop("t")
    assert not await shop.b.exists("t")


async def test_a_drop_is_a_success_even_if_the_name_cannot_be_released_now() -> None:
    shop, _ = await with_table("t")
    shop.inner.post.always = is_down
    await shop.a.drop("t")
    assert await shop.b.names() == []
    assert not await shop.b.exists("t")
    with pytest.raises(Unavailable):  # whether the name is free cannot be found out
        await shop.b.create("t")
    shop.inner.post.always = None
    await shop.b.create("t")


async def test_after_a_crash_between_tombstone_and_release_the_table_does_not_exist() -> None:
    shop, _ = await _half_dropped()
    assert await shop.b.names() == []
    assert not await shop.b.exists("t")
    for work in (
        shop.b.load("t"),
        shop.b.mark("t", "x"),
        shop.b.rename("t", "u"),
        shop.b.drop("t"),
    ):
        gone = await refusal(work)
        assert (gone.status, gone.kind) == (404, "NoSuchTableException")
        assert gone.message == "Table does not exist: s.t"


async def test_a_view_list_does_not_show_a_dead_name_either() -> None:
    shop, _ = await _half_dropped()
    assert await shop.b.iceberg.views.page("default", ("s",), after=None, limit=None) == []


@pytest.mark.parametrize("meets", ["load", "exists", "commit", "drop", "rename"])
async def test_every_operation_that_meets_a_dead_name_releases_it(meets: str) -> None:
    shop, _ = await _half_dropped()
    if meets == "exists":
        assert not await shop.b.exists("t")
    else:
        works = {
            "load": shop.b.load("t"),
            "commit": shop.b.mark("t", "x"),
            "drop": shop.b.drop("t"),
            "rename": shop.b.rename("t", "u"),
        }
        await refusal(works.pop(meets))
        for unused in works.values():
            unused.close()
    await shop.b.settle()
    assert await names_in(await shop.inner.cold().head()) == []


async def test_a_dead_name_can_be_had_at_once() -> None:
    shop, old = await _half_dropped()
    made = await shop.b.create("t")
    assert id_of(made) != old
    assert await shop.b.names() == ["t"]


async def test_a_dead_name_can_be_staged_and_renamed_to() -> None:
    shop, _ = await _half_dropped()
    await shop.b.create("t", stage_create=True)
    shop, _ = await _half_dropped()
    other = id_of(await shop.b.create("other"))
    await shop.b.rename("other", "t")
    assert id_of(await shop.b.load("t")) == other


async def test_a_late_release_does_not_take_the_name_of_the_next_table() -> None:
    """It names its table and its tombstone, and another table has the name by then."""
    shop, old = await _half_dropped()
    made = await shop.b.create("t")
    table_head = await shop.b.context.heads.of(old)
    await release_name(shop.b.context, old, table_head)
    assert id_of(await shop.api().load("t")) == id_of(made)


async def test_a_namespace_that_holds_a_dead_name_can_be_dropped() -> None:
    shop = await begun()
    await shop.a.make_namespace("n")
    await shop.a.create("t", ns=("n",))
    caller = shop.a.caller("dropTable")
    drop = shop.a.iceberg.tables.drop("default", ("n",), "t", caller, purge=False)
    await dies_at_the_compactor(shop, shop.a, drop, arrives=False)
    await shop.b.drop_namespace("n")
    assert "n" not in await shop.b.iceberg.namespaces.page("default", (), after=None, limit=None)


async def test_a_list_in_pages_leaves_dead_names_out_and_skips_none() -> None:
    shop, _ = await with_table("a", "b", "c", "d", "e")
    shop.inner.post.always = is_down
    for name in ("a", "c", "d"):
        await shop.a.drop(name)
    tables = shop.b.iceberg.tables
    assert await tables.page("default", ("s",), after=None, limit=1) == ["b"]
    assert await tables.page("default", ("s",), after="b", limit=1) == ["e"]
    assert await tables.page("default", ("s",), after="e", limit=1) == []
    assert await tables.page("default", ("s",), after=None, limit=10) == ["b", "e"]
    assert await shop.b.names() == ["b", "e"]


async def test_a_drop_writes_down_first_that_the_name_may_be_dead() -> None:
    shop, [table_id] = await with_table("t")
    shop.a.line.die("create", pointer_key(table_id, 1))
    await dies(shop.a, shop.a.drop("t"))
    assert table_id in await shop.b.context.unresolved_names.open()
    assert await shop.b.names() == ["t"], "nothing was dropped"


async def test_a_drop_whose_id_cannot_be_recorded_as_unresolved_does_not_begin() -> None:
    shop, [table_id] = await with_table("t")
    shop.a.line.fail("create", "iceberg_doubts/", Unavailable("cut"))
    with pytest.raises((Unavailable, Unknown)):
        await shop.a.drop("t")
    assert len(await shop.chain(table_id)) == 1


async def test_unregistering_tells_the_last_metadata_and_no_commit_follows() -> None:
    shop, [table_id] = await with_table("t")
    made = await shop.a.mark("t", "x")
    caller = shop.b.caller("unregisterTable")
    result = await shop.b.iceberg.tables.unregister("default", ("s",), "t", caller)
    assert (result.location, result.raw) == (made.location, made.raw)
    assert (await refusal(shop.a.mark("t", "y"))).kind == "NoSuchTableException"
    assert (await shop.pointers(table_id))[-1].operation == "unregister"


async def test_an_unregistered_table_can_be_registered_again() -> None:
    shop, [table_id] = await with_table("t")
    made = await shop.a.mark("t", "x")
    caller = shop.b.caller("unregisterTable")
    await shop.b.iceberg.tables.unregister("default", ("s",), "t", caller)
    again = await shop.a.register("back", str(made.location))
    assert marks_of(again) == {"x"}
    assert id_of(again) == table_id, "the uuid is the table's own"
    assert marks_of(await shop.b.mark("back", "y")) == {"x", "y"}
    assert len(await shop.chain(table_id)) == 3, "its chain is a new one"


async def test_a_table_that_is_brought_back_has_all_that_it_had() -> None:
    shop, [table_id] = await with_table("t")
    made = await shop.a.mark("t", "x")
    await shop.a.drop("t")
    await shop.b.undrop(table_id)
    found = await shop.a.load("t")
    assert (found.location, found.raw) == (made.location, made.raw)
    assert await shop.a.names() == ["t"]
    assert marks_of(await shop.a.mark("t", "y")) == {"x", "y"}
    operations = [each.operation for each in await shop.pointers(table_id)]
    assert operations == ["create", "commit", "drop", "undrop", "commit"]


async def test_a_table_can_be_brought_back_under_another_name() -> None:
    shop, [table_id] = await with_table("t")
    await shop.a.drop("t")
    await shop.a.create("t")
    await shop.b.undrop(table_id, "old")
    assert await shop.a.names() == ["old", "t"]
    assert id_of(await shop.a.load("old")) == table_id


async def test_a_table_can_be_dropped_and_brought_back_again_and_again() -> None:
    shop, [table_id] = await with_table("t")
    for api in (shop.a, shop.b, shop.a):
        await api.drop("t")
        assert await shop.b.names() == []
        await api.undrop(table_id)
        assert await shop.b.names() == ["t"]
    assert len(await shop.chain(table_id)) == 7


async def test_a_name_that_is_taken_by_now_refuses_and_shows_nothing() -> None:
    shop, [table_id] = await with_table("t")
    await shop.a.drop("t")
    made = await shop.a.create("t")
    taken = await refusal(shop.b.undrop(table_id))
    assert (taken.status, taken.kind) == (409, "AlreadyExistsException")
    assert id_of(await shop.b.load("t")) == id_of(made)
    assert await shop.b.names() == ["t"]
    await shop.b.drop("t")
    await shop.b.undrop(table_id)
    assert id_of(await shop.a.load("t")) == table_id


async def test_of_an_undrop_and_a_create_of_the_same_name_one_is_refused() -> None:
    shop, [table_id] = await with_table("t")
    await shop.a.drop("t")
    shop.b.line.before("create", pointer_key(table_id, 2), lambda: shop.a.create("t"))
    assert (await refusal(shop.b.undrop(table_id))).kind == "AlreadyExistsException"
    assert id_of(await shop.a.load("t")) != table_id
    await shop.a.drop("t")
    result = await asyncio.gather(
        shop.a.create("t"), shop.b.undrop(table_id), return_exceptions=True
    )
    assert sum(isinstance(each, BaseException) for each in result) == 1, result
    assert await shop.api().names() == ["t"]


async def test_a_table_that_was_not_dropped_cannot_be_brought_back() -> None:
    shop, [table_id] = await with_table("t")
    there = await refusal(shop.b.undrop(table_id))
    assert there.status == 409
    assert len(await shop.chain(table_id)) == 1
    assert await shop.a.names() == ["t"]


async def test_a_purged_table_cannot_come_back() -> None:
    shop, [table_id] = await with_table("t")
    await shop.a.drop("t", purge=True)
    gone = await refusal(shop.b.undrop(table_id))
    assert (gone.status, gone.kind) == (404, "NoSuchTableException")
    assert await shop.a.names() == []
    assert len(await shop.chain(table_id)) == 2


async def test_what_never_was_cannot_come_back() -> None:
    shop, _ = await with_table("t")
    gone = await refusal(shop.b.undrop("00000000-0000-4000-8000-000000000000"))
    assert gone.status == 404


async def test_a_table_whose_drop_was_not_finished_is_brought_back_all_the_same() -> None:
    """The name is released first: else the late release of that drop would take it again."""
    shop, [table_id] = await with_table("t")
    await dies_at_the_compactor(shop, shop.a, shop.a.drop("t"), arrives=False)
    ended = await shop.b.context.heads.of(table_id)
    await shop.b.undrop(table_id)
    assert await shop.b.exists("t")
    await release_name(shop.b.context, table_id, ended)
    assert await shop.api().exists("t"), "the late release names an earlier tombstone"
    assert await shop.api().names() == ["t"]


async def test_an_undrop_that_crashed_before_the_name_shows_nothing_and_can_be_repeated() -> None:
    shop, [table_id] = await with_table("t")
    await shop.a.drop("t")
    await dies_at_the_compactor(
        shop, shop.a, shop.a.undrop(table_id, key="k"), arrives=False, nth=2
    )
    assert not await shop.b.exists("t")
    assert await shop.b.names() == []
    shop.pass_by(2.1)
    await shop.b.undrop(table_id, key="k")
    assert await shop.b.names() == ["t"]
    assert len(await shop.chain(table_id)) == 3, "the pointer was there already"


async def test_after_an_undrop_that_crashed_another_can_have_the_name() -> None:
    shop, [table_id] = await with_table("t")
    await shop.a.drop("t")
    await dies_at_the_compactor(shop, shop.a, shop.a.undrop(table_id), arrives=False, nth=2)
    made = await shop.b.create("t")
    assert id_of(await shop.b.load("t")) == id_of(made)
    await shop.b.undrop(table_id, "old")
    assert await shop.b.names() == ["old", "t"]


async def test_an_undrop_that_landed_is_answered_as_a_success_by_every_process() -> None:
    shop, [table_id] = await with_table("t")
    await shop.a.drop("t")
    await dies_at_the_compactor(shop, shop.a, shop.a.undrop(table_id, key="k"), arrives=True, nth=2)
    assert await shop.b.names() == ["t"]
    result = await shop.b.undrop(table_id, key="k")
    assert result.table_id == table_id
    assert len(await shop.chain(table_id)) == 3


async def test_trouble_with_the_name_is_no_refusal() -> None:
    shop, [table_id] = await with_table("t")
    await shop.a.drop("t")
    shop.inner.post.always = is_down
    with pytest.raises(Unavailable):
        await shop.b.undrop(table_id, key="k")
    shop.inner.post.always = None
    shop.pass_by(2.1)
    await shop.b.undrop(table_id, key="k")
    assert await shop.b.names() == ["t"]


async def test_a_crash_before_the_pointer_leaves_the_table_dropped() -> None:
    shop, [table_id] = await with_table("t")
    await shop.a.drop("t")
    shop.a.line.die("create", pointer_key(table_id, 2))
    await dies(shop.a, shop.a.undrop(table_id))
    assert not await shop.b.exists("t")
    await shop.b.undrop(table_id)
    assert await shop.b.exists("t")


async def test_the_facts_of_a_table_come_back_with_it() -> None:
    shop, [table_id] = await with_table("t")
    await shop.a.drop("t")
    await shop.b.undrop(table_id)
    *_, last = await shop.pointers(table_id)
    assert (last.operation, last.table_uuid, last.transaction) == ("undrop", table_id, None)
    assert last.previous_location is None
