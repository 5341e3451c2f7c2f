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
    arguments = {"after": None, "limit": None, **more}
    return await api.iceberg.namespaces.page("default", parent, **arguments)


async def _update(
    api: Api, *levels: str, key: str | None = None, removals: tuple[str, ...] = (), **updates: Any
) -> PropertiesUpdated:
    request = UpdatePropertiesRequest(removals=removals, updates=updates)
    caller = api.caller("updateProperties", key)
    return await api.iceberg.namespaces.update("default", levels, request, caller)


async def _load(api: Api, *levels: str) -> dict[str, str]:
    return await api.iceberg.namespaces.load("default", levels)


async def test_a_namespace_has_the_properties_that_it_was_given_and_no_others() -> None:
    setup = await begun()
    assert await setup.a.make_namespace("n", properties={"p": "1", "comment": "c"}) == {
        "p": "1",
        "comment": "c",
    }
    assert await _load(setup.b, "n") == {"p": "1", "comment": "c"}
    await setup.a.make_namespace("bare")
    assert await _load(setup.b, "bare") == {}


async def test_a_namespace_that_is_there_is_refused() -> None:
    setup = await begun()
    for levels in (("s",), ("s", "below")):
        await (setup.a.make_namespace(*levels) if len(levels) > 1 else asyncio.sleep(0))
        conflict = await refusal(setup.b.make_namespace(*levels))
        assert (conflict.status, conflict.kind) == (409, "AlreadyExistsException")
        assert conflict.message == f"Namespace already exists: {'.'.join(levels)}"


async def test_what_is_missing_above_a_namespace_is_made() -> None:
    setup = await begun()
    await setup.a.make_namespace("a", "b", "c", properties={"p": "1"})
    assert await _below(setup.b) == ["a", "s"]
    assert await _below(setup.b, "a") == ["b"]
    assert await _below(setup.b, "a", "b") == ["c"]
    assert await _below(setup.b, "a", "b", "c") == []
    assert await _load(setup.b, "a", "b") == {}
    assert await _load(setup.b, "a", "b", "c") == {"p": "1"}
    await setup.b.make_namespace("a", "b", "d")
    assert await _below(setup.a, "a", "b") == ["c", "d"]


async def test_two_who_make_the_same_parents_at_once_both_succeed() -> None:
    setup = await begun()
    await asyncio.gather(
        setup.a.make_namespace("a", "b", "c"),
        setup.b.make_namespace("a", "b", "d"),
        setup.a.make_namespace("a", "e"),
    )
    assert await _below(setup.api(), "a", "b") == ["c", "d"]
    assert await _below(setup.api(), "a") == ["b", "e"]


async def test_the_same_name_may_be_at_several_levels() -> None:
    setup = await begun()
    await setup.a.make_namespace("n", "n", "n")
    await setup.a.create("t", ns=("n", "n"))
    assert await setup.b.names(("n", "n")) == ["t"]
    assert await setup.b.names(("n",)) == []
    assert await setup.b.names(("n", "n", "n")) == []


@pytest.mark.parametrize("levels", [(), ("",), ("a", ""), ("x" * 300,), ("a",) * 100])
async def test_names_that_cannot_be_are_bad_requests(levels: tuple[str, ...]) -> None:
    setup = await begun()
    with pytest.raises(Invalid):
        await setup.a.make_namespace(*levels)
    assert await _below(setup.b) == ["s"]


async def test_names_with_odd_signs_are_kept_as_they_are() -> None:
    setup = await begun()
    for name in ("with.dot", "100%", "ü", "with space"):
        await setup.a.make_namespace(name)
        assert await _load(setup.b, name) == {}
        await setup.a.create("t.x", ns=(name,))
        assert await setup.b.names((name,)) == ["t.x"]


async def test_what_is_not_there_is_named() -> None:
    setup = await begun()
    for work in (
        _load(setup.a, "no"),
        _below(setup.a, "no"),
        setup.a.names(("no", "where")),
        setup.a.drop_namespace("no"),
        _update(setup.a, "no", p="1"),
        _load(setup.a),
    ):
        missing = await refusal(work)
        assert (missing.status, missing.kind) == (404, "NoSuchNamespaceException")


async def test_a_list_of_namespaces_comes_in_pages() -> None:
    setup = await begun()
    for name in ("a", "b", "c"):
        await setup.a.make_namespace(name)
    assert await _below(setup.b, limit=2) == ["a", "b"]
    assert await _below(setup.b, after="b", limit=2) == ["c", "s"]
    assert await _below(setup.b, after="s", limit=2) == []


async def test_an_empty_namespace_can_be_dropped() -> None:
    setup = await begun()
    await setup.a.make_namespace("a", "b")
    await setup.b.drop_namespace("a", "b")
    await setup.b.drop_namespace("a")
    assert await _below(setup.a) == ["s"]


async def test_a_namespace_that_holds_something_cannot_be_dropped() -> None:
    setup, _ = await with_table("t")
    await setup.a.make_namespace("a", "b")
    for levels in (("s",), ("a",)):
        full = await refusal(setup.b.drop_namespace(*levels))
        assert (full.status, full.kind) == (409, "NamespaceNotEmptyException")
        assert full.message.endswith("is not empty.")
    assert await _below(setup.a) == ["a", "s"]


async def test_a_namespace_that_holds_a_table_of_an_undecided_transaction_is_not_dropped_blindly() -> (
    None
):
    """It waits until that is decided, and then goes by what was."""
    setup, _ = await with_table("t")
    full = []

    async def meanwhile() -> None:
        full.append(asyncio.ensure_future(refusal(setup.b.drop_namespace("s"))))
        await asyncio.sleep(0.05)

    setup.a.connection.before("create", "/outcome.json", meanwhile)
    await setup.a.transact(on("t", marking("x")), making("new"))
    assert (await full[0]).kind == "NamespaceNotEmptyException"
    assert await setup.b.names() == ["new", "t"]


async def test_properties_are_set_and_removed_in_one_go() -> None:
    setup = await begun()
    await setup.a.make_namespace("n", properties={"keep": "1", "old": "1", "comment": "c"})
    result = await _update(
        setup.b, "n", removals=("old", "never", "comment", "old"), keep="2", new="1"
    )
    assert result == PropertiesUpdated(("keep", "new"), ("old", "comment"), ("never",))
    assert await _load(setup.a, "n") == {"keep": "2", "new": "1"}


async def test_a_property_cannot_be_set_and_removed_at_once() -> None:
    setup = await begun()
    invalid = await refusal(_update(setup.a, "s", removals=("p",), p="1"))
    assert (invalid.status, invalid.kind) == (422, "UnprocessableEntityException")


def _only(key: str) -> dict[str, Any]:
    return {key: "1"}


@pytest.mark.parametrize("key", ["arco.x", "ARCO.x"])
async def test_properties_that_are_for_arco_alone_are_bad_requests(key: str) -> None:
    setup = await begun()
    with pytest.raises(Invalid):
        await setup.a.make_namespace("n", properties={key: "1"})
    with pytest.raises(Invalid):
        await _update(setup.a, "s", **_only(key))
    with pytest.raises(Invalid):
        await _update(setup.a, "s", removals=(key,))


async def test_a_change_of_properties_is_replayed_with_the_same_answer() -> None:
    setup = await begun()
    await setup.a.make_namespace("n", properties={"old": "1"})
    first = await _update(setup.a, "n", removals=("old", "never"), key="k", new="1")
    await setup.a.settle()
    assert first == PropertiesUpdated(("new",), ("old",), ("never",))
    assert await _update(setup.b, "n", removals=("old", "never"), key="k", new="1") == first


async def test_a_change_of_properties_that_crashed_is_answered_as_it_was_made() -> None:
    """What it removed is gone by now, and was there."""
    setup = await begun()
    await setup.a.make_namespace("n", properties={"old": "1"})
    work = _update(setup.a, "n", removals=("old",), key="k", new="1")
    await dies_at_the_compactor(setup, setup.a, work, arrives=True)
    repeated_result = await _update(setup.b, "n", removals=("old",), key="k", new="1")
    assert repeated_result == PropertiesUpdated(("new",), ("old",), ())


async def test_a_success_stays_one_when_the_namespace_is_gone() -> None:
    setup = await begun()
    await setup.a.make_namespace("n")
    await _update(setup.a, "n", key="update", p="1")
    await setup.a.drop_namespace("n", key="drop")
    await setup.a.settle()
    assert (await _update(setup.b, "n", key="update", p="1")).updated == ("p",)
    await setup.b.drop_namespace("n", key="drop")


async def test_a_drop_is_replayed_while_other_names_are_unresolved() -> None:
    setup, _ = await with_table("t")
    await setup.a.make_namespace("n")
    await setup.a.drop_namespace("n", key="k")
    await setup.a.settle()
    setup.inner.channel.always = is_down
    await setup.a.drop("t")
    assert await setup.a.context.unresolved_names.open()
    await setup.b.drop_namespace("n", key="k")


async def test_a_replay_of_a_create_creates_no_parent_again() -> None:
    setup = await begun()
    await setup.a.make_namespace("a", "b", key="k")
    await setup.a.settle()
    await setup.a.drop_namespace("a", "b")
    await setup.a.drop_namespace("a")
    await setup.b.make_namespace("a", "b", key="k")
    assert await _below(setup.b) == ["s"]


async def test_trouble_with_the_catalog_is_no_refusal() -> None:
    setup = await begun()
    setup.inner.channel.always = is_down
    with pytest.raises((Unavailable, Unknown)):
        await setup.a.make_namespace("n", key="k")
    setup.inner.channel.always = None
    setup.pass_by(2.1)
    await setup.b.make_namespace("n", key="k")
    assert await _below(setup.b) == ["n", "s"]
