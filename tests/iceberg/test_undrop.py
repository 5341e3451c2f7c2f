"""Bringing tables back: the pointer after the tombstone, then the name, which decides (P31)."""

import asyncio

import pytest

from arco.core.errors import Unavailable
from arco.iceberg.name_resolution import release_name
from tests.catalog.workshop import is_down
from tests.iceberg.workshop import (
    dies,
    dies_at_the_compactor,
    id_of,
    marks_of,
    pointer_key,
    refusal,
    with_table,
)


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


async def test_an_undrop_that_landed_is_answered_as_a_success_by_whoever_is_asked() -> None:
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
