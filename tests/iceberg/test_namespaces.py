"""Namespaces: nested, with properties, and dropped only when they hold nothing."""

import asyncio
from typing import Any

import pytest

from arco.core.errors import Invalid, Unavailable, Unknown
from arco.iceberg.namespaces import PropertiesUpdated
from arco.iceberg.wire import UpdatePropertiesRequest
from tests.catalog.catalog_setup import is_down
from tests.iceberg.iceberg_setup import (
    Api,
    begun,
    dies_at_the_compactor,
    making,
    marking,
    on,
    refusal,
    with_table,
)


async def _below(api: Api, *parent: str, **more: Any) -> list[str]:
    asked = {"after": None, "limit": None, **more}
    return await api.iceberg.namespaces.page("default", parent, **asked)


async def _update(
    api: Api, *levels: str, key: str | None = None, removals: tuple[str, ...] = (), **updates: Any
) -> PropertiesUpdated:
    request = UpdatePropertiesRequest(removals=removals, updates=updates)
    caller = api.caller("updateProperties", key)
    return await api.iceberg.namespaces.update("default", levels, request, caller)


async def _load(api: Api, *levels: str) -> dict[str, str]:
    return await api.iceberg.namespaces.load("default", levels)


async def test_a_namespace_has_the_properties_that_it_was_given_and_no_others() -> None:
    shop = await begun()
    assert await shop.a.make_namespace("n", properties={"p": "1", "comment": "c"}) == {
        "p": "1",
        "comment": "c",
    }
    assert await _load(shop.b, "n") == {"p": "1", "comment": "c"}
    await shop.a.make_namespace("bare")
    assert await _load(shop.b, "bare") == {}


async def test_a_namespace_that_is_there_is_refused() -> None:
    shop = await begun()
    for levels in (("s",), ("s", "below")):
        await (shop.a.make_namespace(*levels) if len(levels) > 1 else asyncio.sleep(0))
        taken = await refusal(shop.b.make_namespace(*levels))
        assert (taken.status, taken.kind) == (409, "AlreadyExistsException")
        assert taken.message == f"Namespace already exists: {'.'.join(levels)}"


async def test_what_is_missing_above_a_namespace_is_made() -> None:
    shop = await begun()
    await shop.a.make_namespace("a", "b", "c", properties={"p": "1"})
    assert await _below(shop.b) == ["a", "s"]
    assert await _below(shop.b, "a") == ["b"]
    assert await _below(shop.b, "a", "b") == ["c"]
    assert await _below(shop.b, "a", "b", "c") == []
    assert await _load(shop.b, "a", "b") == {}
    assert await _load(shop.b, "a", "b", "c") == {"p": "1"}
    await shop.b.make_namespace("a", "b", "d")
    assert await _below(shop.a, "a", "b") == ["c", "d"]


async def test_two_who_make_the_same_parents_at_once_both_succeed() -> None:
    shop = await begun()
    await asyncio.gather(
        shop.a.make_namespace("a", "b", "c"),
        shop.b.make_namespace("a", "b", "d"),
        shop.a.make_namespace("a", "e"),
    )
    assert await _below(shop.api(), "a", "b") == ["c", "d"]
    assert await _below(shop.api(), "a") == ["b", "e"]


async def test_the_same_name_may_be_at_several_levels() -> None:
    shop = await begun()
    await shop.a.make_namespace("n", "n", "n")
    await shop.a.create("t", ns=("n", "n"))
    assert await shop.b.names(("n", "n")) == ["t"]
    assert await shop.b.names(("n",)) == []
    assert await shop.b.names(("n", "n", "n")) == []


@pytest.mark.parametrize("levels", [(), ("",), ("a", ""), ("x" * 300,), ("a",) * 100])
async def test_names_that_cannot_be_are_bad_requests(levels: tuple[str, ...]) -> None:
    shop = await begun()
    with pytest.raises(Invalid):
        await shop.a.make_namespace(*levels)
    assert await _below(shop.b) == ["s"]


async def test_names_with_odd_signs_are_kept_as_they_are() -> None:
    shop = await begun()
    for name in ("with.dot", "100%", "ü", "with space"):
        await shop.a.make_namespace(name)
        assert await _load(shop.b, name) == {}
        await shop.a.create("t.x", ns=(name,))
        assert await shop.b.names((name,)) == ["t.x"]


async def test_what_is_not_there_is_named() -> None:
    shop = await begun()
    for work in (
        _load(shop.a, "no"),
        _below(shop.a, "no"),
        shop.a.names(("no", "where")),
        shop.a.drop_namespace("no"),
        _update(shop.a, "no", p="1"),
        _load(shop.a),
    ):
        missing = await refusal(work)
        assert (missing.status, missing.kind) == (404, "NoSuchNamespaceException")


async def test_a_list_of_namespaces_comes_in_pages() -> None:
    shop = await begun()
    for name in ("a", "b", "c"):
        await shop.a.make_namespace(name)
    assert await _below(shop.b, limit=2) == ["a", "b"]
    assert await _below(shop.b, after="b", limit=2) == ["c", "s"]
    assert await _below(shop.b, after="s", limit=2) == []


async def test_an_empty_namespace_can_be_dropped() -> None:
    shop = await begun()
    await shop.a.make_namespace("a", "b")
    await shop.b.drop_namespace("a", "b")
    await shop.b.drop_namespace("a")
    assert await _below(shop.a) == ["s"]


async def test_a_namespace_that_holds_something_cannot_be_dropped() -> None:
    shop, _ = await with_table("t")
    await shop.a.make_namespace("a", "b")
    for levels in (("s",), ("a",)):
        full = await refusal(shop.b.drop_namespace(*levels))
        assert (full.status, full.kind) == (409, "NamespaceNotEmptyException")
        assert full.message.endswith("is not empty.")
    assert await _below(shop.a) == ["a", "s"]


async def test_a_namespace_that_holds_a_table_of_an_undecided_transaction_is_not_dropped_blindly() -> (
    None
):
    """It waits until that is decided, and then goes by what was."""
    shop, _ = await with_table("t")
    full = []

    async def meanwhile() -> None:
        full.append(asyncio.ensure_future(refusal(shop.b.drop_namespace("s"))))
        await asyncio.sleep(0.05)

    shop.a.line.before("create", "/outcome.json", meanwhile)
    await shop.a.transact(on("t", marking("x")), making("new"))
    assert (await full[0]).kind == "NamespaceNotEmptyException"
    assert await shop.b.names() == ["new", "t"]


async def test_properties_are_set_and_removed_in_one_go() -> None:
    shop = await begun()
    await shop.a.make_namespace("n", properties={"keep": "1", "old": "1", "comment": "c"})
    result = await _update(
        shop.b, "n", removals=("old", "never", "comment", "old"), keep="2", new="1"
    )
    assert result == PropertiesUpdated(("keep", "new"), ("old", "comment"), ("never",))
    assert await _load(shop.a, "n") == {"keep": "2", "new": "1"}


async def test_a_property_cannot_be_set_and_removed_at_once() -> None:
    shop = await begun()
    wrong = await refusal(_update(shop.a, "s", removals=("p",), p="1"))
    assert (wrong.status, wrong.kind) == (422, "UnprocessableEntityException")


def _only(key: str) -> dict[str, Any]:
    return {key: "1"}


@pytest.mark.parametrize("key", ["arco.x", "ARCO.x"])
async def test_properties_that_are_for_arco_alone_are_bad_requests(key: str) -> None:
    shop = await begun()
    with pytest.raises(Invalid):
        await shop.a.make_namespace("n", properties={key: "1"})
    with pytest.raises(Invalid):
        await _update(shop.a, "s", **_only(key))
    with pytest.raises(Invalid):
        await _update(shop.a, "s", removals=(key,))


async def test_a_change_of_properties_is_replayed_as_it_was_told() -> None:
    shop = await begun()
    await shop.a.make_namespace("n", properties={"old": "1"})
    first = await _update(shop.a, "n", removals=("old", "never"), key="k", new="1")
    await shop.a.settle()
    assert first == PropertiesUpdated(("new",), ("old",), ("never",))
    assert await _update(shop.b, "n", removals=("old", "never"), key="k", new="1") == first


async def test_a_change_of_properties_that_crashed_is_told_as_it_was() -> None:
    """What it removed is gone by now, and was there."""
    shop = await begun()
    await shop.a.make_namespace("n", properties={"old": "1"})
    work = _update(shop.a, "n", removals=("old",), key="k", new="1")
    await dies_at_the_compactor(shop, shop.a, work, arrives=True)
    again = await _update(shop.b, "n", removals=("old",), key="k", new="1")
    assert again == PropertiesUpdated(("new",), ("old",), ())


async def test_a_success_stays_one_when_the_namespace_is_gone() -> None:
    shop = await begun()
    await shop.a.make_namespace("n")
    await _update(shop.a, "n", key="update", p="1")
    await shop.a.drop_namespace("n", key="drop")
    await shop.a.settle()
    assert (await _update(shop.b, "n", key="update", p="1")).updated == ("p",)
    await shop.b.drop_namespace("n", key="drop")


async def test_a_drop_is_replayed_while_other_names_are_unresolved() -> None:
    shop, _ = await with_table("t")
    await shop.a.make_namespace("n")
    await shop.a.drop_namespace("n", key="k")
    await shop.a.settle()
    shop.inner.post.always = is_down
    await shop.a.drop("t")
    assert await shop.a.context.unresolved_names.open()
    await shop.b.drop_namespace("n", key="k")


async def test_a_replay_of_a_create_creates_no_parent_again() -> None:
    shop = await begun()
    await shop.a.make_namespace("a", "b", key="k")
    await shop.a.settle()
    await shop.a.drop_namespace("a", "b")
    await shop.a.drop_namespace("a")
    await shop.b.make_namespace("a", "b", key="k")
    assert await _below(shop.b) == ["s"]


async def test_trouble_with_the_catalog_is_no_refusal() -> None:
    shop = await begun()
    shop.inner.post.always = is_down
    with pytest.raises((Unavailable, Unknown)):
        await shop.a.make_namespace("n", key="k")
    shop.inner.post.always = None
    shop.pass_by(2.1)
    await shop.b.make_namespace("n", key="k")
    assert await _below(shop.b) == ["n", "s"]
