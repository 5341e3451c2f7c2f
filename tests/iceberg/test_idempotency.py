"""Requests with a key take effect once and get the same answer, with a crash at any point."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from arco.core.errors import AlreadyExists, Denied, InProgress, KeyReused, Unavailable, Unknown
from arco.core.json import Json
from tests.iceberg.engine.sample_metadata import add, point
from tests.iceberg.iceberg_setup import (
    MANIFESTS,
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

K = "k"

Deed = Callable[[Api], Coroutine[Any, Any, object]]

DEEDS: dict[str, Deed] = {
    "create": lambda api: api.create("new", key=K),
    "stage and commit": lambda api: api.iceberg.tables.commit(
        "default", ("s",), "new", making("new"), api.caller("updateTable", K)
    ),
    "commit": lambda api: api.mark("t", "x", key=K),
    "drop": lambda api: api.drop("t", key=K),
    "rename": lambda api: api.rename("t", "moved", key=K),
    "transaction": lambda api: api.transact(on("t", marking("x")), on("u", marking("x")), key=K),
    "transaction with a new table": lambda api: api.transact(
        on("t", marking("x")), making("new"), key=K
    ),
    "make namespace": lambda api: api.make_namespace("n", key=K, properties={"p": "1"}),
    "drop namespace": lambda api: api.drop_namespace("empty", key=K),
}

# What each deed creates in the store when it takes effect.
POINTS = {
    "create": MANIFESTS,
    "stage and commit": MANIFESTS,
    "commit": POINTERS,
    "drop": POINTERS,
    "rename": MANIFESTS,
    "transaction": OUTCOME,
    "transaction with a new table": OUTCOME,
    "make namespace": MANIFESTS,
    "drop namespace": MANIFESTS,
}

every_deed = pytest.mark.parametrize("name", DEEDS)


async def _shop() -> IcebergSetup:
    shop, _ = await with_table("t", "u")
    await shop.a.make_namespace("empty")
    await shop.a.settle()
    return shop


async def _state(shop: IcebergSetup) -> dict[str, object]:
    """All that a new process sees of the catalog."""
    api = shop.api()
    names = await api.names()
    shown = {name: (await api.load(name)).raw for name in names}
    spaces = await api.iceberg.namespaces.page("default", (), after=None, limit=None)
    return {"tables": shown, "namespaces": spaces}


def _answer(result: object) -> object:
    return getattr(result, "location", result)


@every_deed
async def test_a_replay_is_answered_the_same_and_changes_nothing(name: str) -> None:
    shop, deed = await _shop(), DEEDS[name]
    first = await deed(shop.a)
    await shop.a.settle()
    state = await _state(shop)
    again = await deed(shop.b)
    assert _answer(again) == _answer(first)
    assert await _state(shop) == state


@every_deed
async def test_a_request_whose_holder_died_at_the_last_moment_before_is_carried_out_once(
    name: str,
) -> None:
    shop, deed = await _shop(), DEEDS[name]
    before = await _state(shop)
    if POINTS[name] == MANIFESTS:
        await dies_at_the_compactor(shop, shop.b, deed(shop.b), arrives=False)
    else:
        shop.b.line.die("create", POINTS[name])
        await dies(shop.b, deed(shop.b))
    assert await _state(shop) == before
    other = shop.api()
    with pytest.raises(InProgress) as busy:
        await deed(other)
    assert busy.value.retry_after_ms is not None
    shop.pass_by(2.1)
    first = await deed(other)
    after = await _state(shop)
    assert after != before
    await other.settle()
    again = await deed(shop.api())
    assert _answer(again) == _answer(first)
    assert await _state(shop) == after


@every_deed
async def test_a_request_whose_holder_died_at_the_first_moment_after_is_answered_as_a_success(
    name: str,
) -> None:
    shop, deed = await _shop(), DEEDS[name]
    before = await _state(shop)
    if POINTS[name] == MANIFESTS:
        await dies_at_the_compactor(shop, shop.b, deed(shop.b), arrives=True)
    else:
        shop.b.line.die("create", POINTS[name], after=True)
        await dies(shop.b, deed(shop.b))
    after = await _state(shop)
    assert after != before, "it has landed"
    await deed(shop.api())
    assert await _state(shop) == after


@every_deed
async def test_the_same_key_with_another_request_is_refused(name: str) -> None:
    shop = await _shop()
    await DEEDS[name](shop.a)
    await shop.a.settle()
    state = await _state(shop)
    for other, deed in DEEDS.items():
        if other != name:
            with pytest.raises(KeyReused):
                await deed(shop.b)
    with pytest.raises(KeyReused):
        await shop.b.mark("u", "quite another", key=K)
    assert await _state(shop) == state


async def test_a_retry_does_not_meet_the_file_of_its_first_attempt() -> None:
    """A path that follows from the request would make the orphan look like a conflict."""
    shop, [table_id] = await with_table("t")
    shop.a.line.die("create", pointer_key(table_id, 1))
    await dies(shop.a, shop.a.mark("t", "x", key=K))
    [orphan] = await shop.files("00001-")
    shop.pass_by(2.1)
    made = await shop.b.mark("t", "x", key=K)
    assert not str(made.location).endswith(orphan.rpartition("/")[2])
    assert len(await shop.files("00001-")) == 2
    assert marks_of(made) == {"x"}


async def test_a_failed_requirement_is_an_outcome_and_blocks_no_other_key() -> None:
    shop, _ = await with_table("t")
    wrong: list[dict[str, Json]] = [{"type": "assert-current-schema-id", "current-schema-id": 7}]
    first = await refusal(shop.a.commit("t", marking("x"), require=wrong, key=K))
    again = await refusal(shop.b.commit("t", marking("x"), require=wrong, key=K))
    assert (first.status, first.kind, first.message) == (again.status, again.kind, again.message)
    assert (first.status, first.kind) == (409, "CommitFailedException")


async def test_a_refusal_stays_even_if_the_reason_is_gone() -> None:
    shop, _ = await with_table("t")
    missing = await refusal(shop.a.mark("later", "x", key=K))
    await shop.a.create("later")
    again = await refusal(shop.b.mark("later", "x", key=K))
    assert (missing.kind, again.kind) == ("NoSuchTableException", "NoSuchTableException")
    assert marks_of(await shop.b.load("later")) == set()


async def test_a_bad_request_is_an_outcome_too() -> None:
    shop, _ = await with_table("t")
    body: dict[str, Json] = {"action": "set-properties", "updates": {"arco.x": "1"}}
    for api in (shop.a, shop.b):
        wrong = await refusal(api.commit("t", body, key=K))
        assert (wrong.status, wrong.kind) == (400, "BadRequestException")


async def test_a_commit_that_landed_before_others_is_found_among_them() -> None:
    """To compare with the newest number alone would miss it."""
    shop, [table_id] = await with_table("t")
    shop.a.line.die("create", pointer_key(table_id, 1), after=True)
    await dies(shop.a, shop.a.mark("t", "x", key=K))
    for n in range(3):
        await shop.b.mark("t", f"later{n}")
    made = await shop.b.mark("t", "x", key=K)
    assert marks_of(made) == {"x"}, "the answer is what it led to"
    assert len(await shop.chain(table_id)) == 5


async def test_a_commit_that_landed_is_no_refusal_though_its_requirement_fails_by_now() -> None:
    shop, [table_id] = await with_table("t")
    asked: list[dict[str, Json]] = [
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}
    ]
    shop.a.line.die("create", pointer_key(table_id, 1), after=True)
    await dies(shop.a, shop.a.commit("t", *_snapshot(shop, table_id, 1), require=asked, key=K))
    shop.pass_by(2.1)
    made = await shop.b.commit("t", *_snapshot(shop, table_id, 1), require=asked, key=K)
    assert made.metadata["current-snapshot-id"] == 1
    assert len(await shop.chain(table_id)) == 2


def _snapshot(shop: IcebergSetup, table_id: str, number: int) -> list[dict[str, Json]]:
    place = shop.a.context.locations.managed(table_id)
    manifests = {"manifest-list": f"{place}/metadata/snap-{number}.avro"}
    return [add(number, **manifests), point(number)]


async def test_an_old_holder_that_sees_the_commit_of_its_taker_does_not_refuse_it() -> None:
    """Both say the same, and the client deletes no file of a commit that has landed (P12)."""
    shop, [table_id] = await with_table("t")
    asked: list[dict[str, Json]] = [
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}
    ]

    async def taken_over() -> None:
        shop.pass_by(2.1)
        await shop.b.commit("t", *_snapshot(shop, table_id, 1), require=asked, key=K)

    shop.a.line.before("create", pointer_key(table_id, 1), taken_over)
    made = await shop.a.commit("t", *_snapshot(shop, table_id, 1), require=asked, key=K)
    assert made.metadata["current-snapshot-id"] == 1
    assert len(await shop.chain(table_id)) == 2


async def test_a_holder_that_was_taken_over_before_its_commit_stops() -> None:
    shop, [table_id] = await with_table("t")

    async def taken_over() -> None:
        shop.pass_by(2.1)
        await shop.b.mark("t", "x", key=K)

    shop.a.line.before("create", f"warehouse/{table_id}/metadata/00001-", taken_over)
    made = await shop.a.mark("t", "x", key=K)
    assert marks_of(made) == {"x"}
    assert len(await shop.chain(table_id)) == 2


async def test_while_a_request_is_under_way_a_second_one_is_told_to_wait() -> None:
    shop, [table_id] = await with_table("t")

    async def second() -> None:
        with pytest.raises(InProgress) as busy:
            await shop.b.mark("t", "x", key=K)
        assert 0 < (busy.value.retry_after_ms or 0) <= 2_000

    shop.a.line.before("create", pointer_key(table_id, 1), second)
    await shop.a.mark("t", "x", key=K)
    assert len(await shop.chain(table_id)) == 2


@pytest.mark.parametrize(
    "problem", [AlreadyExists("412"), Unavailable("cut"), Denied("403")], ids=lambda p: p.code
)
@pytest.mark.parametrize("part", ["/metadata/00001-", POINTERS])
async def test_trouble_with_the_store_is_never_kept_as_an_answer(
    part: str, problem: Exception
) -> None:
    shop, _ = await with_table("t")
    shop.a.line.fail("create", part, problem)
    with pytest.raises((Unavailable, Unknown, Denied)):
        await shop.a.mark("t", "x", key=K)
    shop.a.line.mend()
    shop.pass_by(2.1)
    assert marks_of(await shop.b.mark("t", "x", key=K)) == {"x"}


async def test_a_success_that_changes_nothing_is_answered_once_its_outcome_is_stored() -> None:
    """Nothing else shows it: a retry might otherwise apply it on top of what came later."""
    shop, [table_id] = await with_table("t")
    await shop.a.mark("t", "x")
    await shop.a.mark("t", "x", key=K)
    await shop.b.commit("t", {"action": "remove-properties", "removals": ["x"]})
    await shop.b.mark("t", "x", key=K)
    assert marks_of(await shop.b.load("t")) == set()
    assert len(await shop.chain(table_id)) == 3


async def test_the_success_of_a_create_stays_one_when_the_table_is_gone() -> None:
    shop, _ = await with_table("t")
    await dies_at_the_compactor(shop, shop.b, shop.b.create("new", key=K), arrives=True)
    made = await shop.a.load("new")
    await shop.a.drop("new")
    again = await shop.api().create("new", key=K)
    assert again.location == made.location
    assert "new" not in await shop.a.names()


async def test_the_success_of_a_create_stays_one_when_the_table_was_renamed() -> None:
    shop, _ = await with_table("t")
    await dies_at_the_compactor(shop, shop.b, shop.b.create("new", key=K), arrives=True)
    await shop.a.rename("new", "other")
    again = await shop.api().create("new", key=K)
    assert id_of(again) == id_of(await shop.a.load("other"))
    assert await shop.a.names() == ["other", "t"]


async def test_a_key_fixes_its_table_even_if_another_gets_the_name() -> None:
    """Else a retry would change another table than the one that the client has seen."""
    shop, [first] = await with_table("t")
    shop.a.line.die("create", pointer_key(first, 1))
    await dies(shop.a, shop.a.mark("t", "x", key=K))
    await shop.b.drop("t")
    second = id_of(await shop.b.create("t"))
    shop.pass_by(2.1)
    gone = await refusal(shop.b.mark("t", "x", key=K))
    assert gone.kind == "NoSuchTableException"
    assert len(await shop.chain(second)) == 1


async def test_another_caller_has_keys_of_its_own() -> None:
    shop, _ = await with_table("t")
    await shop.a.mark("t", "x", key=K)
    theirs = replace(shop.b.caller("dropTable", K), actor="user:bob")
    await shop.b.iceberg.tables.drop("default", ("s",), "t", theirs, purge=False)
    assert await shop.a.names() == []
