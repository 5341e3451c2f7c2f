"""Renaming: the catalog alone decides, and nothing of a table moves."""

import asyncio

import pytest

from arco.core.errors import Invalid, Unavailable
from tests.catalog.catalog_setup import is_down
from tests.iceberg.iceberg_setup import (
    dies_at_the_compactor,
    id_of,
    marks_of,
    pointer_key,
    refusal,
    with_table,
)


async def test_a_renamed_table_is_the_same_table() -> None:
    shop, [table_id] = await with_table("t")
    before = await shop.a.load("t")
    await shop.b.rename("t", "u")
    after = await shop.a.load("u")
    assert (after.location, after.raw) == (before.location, before.raw)
    assert await shop.a.names() == ["u"]
    assert not await shop.a.exists("t")
    assert len(await shop.chain(table_id)) == 1
    assert marks_of(await shop.a.mark("u", "x")) == {"x"}


async def test_a_table_can_go_to_another_namespace() -> None:
    shop, [table_id] = await with_table("t")
    await shop.a.make_namespace("n", "deep")
    await shop.b.rename("t", "t", to=("n", "deep"))
    assert await shop.a.names() == []
    assert id_of(await shop.a.load("t", ns=("n", "deep"))) == table_id


async def test_a_target_that_is_taken_is_refused() -> None:
    shop, ids = await with_table("t", "u")
    taken = await refusal(shop.b.rename("t", "u"))
    assert (taken.status, taken.kind) == (409, "AlreadyExistsException")
    assert taken.message == "Cannot rename s.t to s.u. Table already exists"
    assert [id_of(await shop.a.load(name)) for name in ("t", "u")] == ids


async def test_a_source_that_is_not_there_is_refused() -> None:
    shop, _ = await with_table("t")
    missing = await refusal(shop.b.rename("nobody", "u"))
    assert (missing.status, missing.kind) == (404, "NoSuchTableException")
    assert missing.message == "Table does not exist: s.nobody"


async def test_a_namespace_that_is_not_there_is_named() -> None:
    shop, _ = await with_table("t")
    missing = await refusal(shop.b.rename("t", "t", to=("nowhere",)))
    assert (missing.status, missing.kind) == (404, "NoSuchNamespaceException")
    assert missing.message == "Namespace does not exist: nowhere"
    with pytest.raises(Invalid):
        await shop.b.rename("t", "")


async def test_of_two_who_rename_to_the_same_name_one_is_refused() -> None:
    shop, ids = await with_table("t", "u")
    result = await asyncio.gather(
        shop.a.rename("t", "x"), shop.b.rename("u", "x"), return_exceptions=True
    )
    assert sum(isinstance(each, BaseException) for each in result) == 1
    names = await shop.api().names()
    assert "x" in names
    assert len(names) == 2
    assert {id_of(await shop.a.load(name)) for name in names} == set(ids)


async def test_names_can_go_around() -> None:
    shop, [t, u] = await with_table("t", "u")
    await shop.a.rename("t", "free")
    await shop.b.rename("u", "t")
    await shop.a.rename("free", "u")
    assert id_of(await shop.b.load("t")) == u
    assert id_of(await shop.b.load("u")) == t


async def test_a_drop_after_a_rename_takes_only_its_own_table() -> None:
    """The name that the dropped table had belongs to another by now, and stays its own."""
    shop, [t] = await with_table("t")
    await shop.a.rename("t", "old")
    new = id_of(await shop.b.create("t"))
    await shop.a.drop("old")
    assert await shop.b.names() == ["t"]
    assert id_of(await shop.b.load("t")) == new
    assert await shop.files(t), "nothing of it was touched"


async def test_a_commit_to_the_old_name_lands_on_the_table_that_had_it() -> None:
    """An operation resolves the name once, then acts on the id (P32)."""
    shop, [table_id] = await with_table("t")
    shop.a.line.before("create", pointer_key(table_id, 1), lambda: shop.b.rename("t", "u"))
    await shop.a.mark("t", "x")
    assert marks_of(await shop.b.load("u")) == {"x"}


async def test_a_rename_that_landed_is_a_success_even_if_the_names_changed_since() -> None:
    shop, _ = await with_table("t")
    await dies_at_the_compactor(shop, shop.a, shop.a.rename("t", "u", key="k"), arrives=True)
    await shop.b.rename("u", "v")
    await shop.b.create("u")
    await shop.b.rename("t", "u", key="k")
    assert await shop.b.names() == ["u", "v"]


async def test_trouble_with_the_catalog_is_no_refusal() -> None:
    shop, _ = await with_table("t")
    shop.inner.post.always = is_down
    with pytest.raises(Unavailable):
        await shop.a.rename("t", "u")
    shop.inner.post.always = None
    assert await shop.b.names() == ["t"]
