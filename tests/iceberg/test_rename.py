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
    setup, [table_id] = await with_table("t")
    before = await setup.a.load("t")
    await setup.b.rename("t", "u")
    after = await setup.a.load("u")
    assert (after.location, after.raw) == (before.location, before.raw)
    assert await setup.a.names() == ["u"]
    assert not await setup.a.exists("t")
    assert len(await setup.chain(table_id)) == 1
    assert marks_of(await setup.a.mark("u", "x")) == {"x"}


async def test_a_table_can_go_to_another_namespace() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.make_namespace("n", "deep")
    await setup.b.rename("t", "t", to=("n", "deep"))
    assert await setup.a.names() == []
    assert id_of(await setup.a.load("t", ns=("n", "deep"))) == table_id


async def test_a_target_that_is_taken_is_refused() -> None:
    setup, ids = await with_table("t", "u")
    conflict = await refusal(setup.b.rename("t", "u"))
    assert (conflict.status, conflict.kind) == (409, "AlreadyExistsException")
    assert conflict.message == "Cannot rename s.t to s.u. Table already exists"
    assert [id_of(await setup.a.load(name)) for name in ("t", "u")] == ids


async def test_a_source_that_is_not_there_is_refused() -> None:
    setup, _ = await with_table("t")
    missing = await refusal(setup.b.rename("missing", "u"))
    assert (missing.status, missing.kind) == (404, "NoSuchTableException")
    assert missing.message == "Table does not exist: s.missing"


async def test_a_namespace_that_is_not_there_is_named() -> None:
    setup, _ = await with_table("t")
    missing = await refusal(setup.b.rename("t", "t", to=("nowhere",)))
    assert (missing.status, missing.kind) == (404, "NoSuchNamespaceException")
    assert missing.message == "Namespace does not exist: nowhere"
    with pytest.raises(Invalid):
        await setup.b.rename("t", "")


async def test_of_two_who_rename_to_the_same_name_one_is_refused() -> None:
    setup, ids = await with_table("t", "u")
    result = await asyncio.gather(
        setup.a.rename("t", "x"), setup.b.rename("u", "x"), return_exceptions=True
    )
    assert sum(isinstance(each, BaseException) for each in result) == 1
    names = await setup.api().names()
    assert "x" in names
    assert len(names) == 2
    assert {id_of(await setup.a.load(name)) for name in names} == set(ids)


async def test_names_can_go_around() -> None:
    setup, [t, u] = await with_table("t", "u")
    await setup.a.rename("t", "free")
    await setup.b.rename("u", "t")
    await setup.a.rename("free", "u")
    assert id_of(await setup.b.load("t")) == u
    assert id_of(await setup.b.load("u")) == t


async def test_a_drop_after_a_rename_takes_only_its_own_table() -> None:
    """The name that the dropped table had belongs to another by now, and stays its own."""
    setup, [t] = await with_table("t")
    await setup.a.rename("t", "old")
    new = id_of(await setup.b.create("t"))
    await setup.a.drop("old")
    assert await setup.b.names() == ["t"]
    assert id_of(await setup.b.load("t")) == new
    assert await setup.files(t), "nothing of it was touched"


async def test_a_commit_to_the_old_name_lands_on_the_table_that_had_it() -> None:
    """An operation resolves the name once, then acts on the id (P32)."""
    setup, [table_id] = await with_table("t")
    setup.a.connection.before("create", pointer_key(table_id, 1), lambda: setup.b.rename("t", "u"))
    await setup.a.mark("t", "x")
    assert marks_of(await setup.b.load("u")) == {"x"}


async def test_a_rename_that_landed_is_a_success_even_if_the_names_changed_since() -> None:
    setup, _ = await with_table("t")
    await dies_at_the_compactor(setup, setup.a, setup.a.rename("t", "u", key="k"), arrives=True)
    await setup.b.rename("u", "v")
    await setup.b.create("u")
    await setup.b.rename("t", "u", key="k")
    assert await setup.b.names() == ["u", "v"]


async def test_trouble_with_the_catalog_is_no_refusal() -> None:
    setup, _ = await with_table("t")
    setup.inner.channel.always = is_down
    with pytest.raises(Unavailable):
        await setup.a.rename("t", "u")
    setup.inner.channel.always = None
    assert await setup.b.names() == ["t"]
