"""The reconciler finishes what a crash has left half done, once, and decides nothing again."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from arco.core.errors import InProgress, KeyExpired, Unavailable
from arco.iceberg.after_commit import TableShape
from arco.iceberg.namespaces import PropertiesUpdated
from arco.iceberg.pointer_head import GRACE_MS
from arco.iceberg.reconciler import ReconcilerRound
from arco.iceberg.wire import UpdatePropertiesRequest
from arco.ledger.claim import MAX_REQUEST_MS
from arco.ledger.idempotency import DEFAULT_LIFE_MS
from tests.catalog.catalog_setup import SCOPE, is_down, names_in, new_catalog, until
from tests.iceberg.engine.sample_metadata import ORDERS, column, update
from tests.iceberg.iceberg_setup import (
    KEYS,
    OUTCOME,
    POINTERS,
    Api,
    IcebergSetup,
    dies,
    dies_at_the_compactor,
    making,
    marking,
    marks_of,
    on,
    pointer_key,
    refusal,
    with_table,
)

LONG_S = MAX_REQUEST_MS / 1_000 + 60


async def _round(shop: IcebergSetup, *, full: bool = True) -> ReconcilerRound:
    """A round of a process that has just begun."""
    api = shop.api()
    done = await api.iceberg.reconciler.round(full=full)
    await api.settle()
    return done


async def _quiet(*names: str) -> tuple[IcebergSetup, list[str]]:
    shop, ids = await with_table(*names)
    await shop.a.settle()
    return shop, ids


async def test_where_nothing_is_left_to_do_nothing_is_done() -> None:
    shop, ids = await _quiet("t", "u")
    await shop.a.mark("t", "x")
    await shop.a.settle()
    keys = await shop.stored()
    assert await _round(shop) == ReconcilerRound(tables=2)
    assert await shop.stored() == keys
    assert len(ids) == 2


async def test_a_commit_that_was_not_reported_is_reported_once() -> None:
    shop, [t] = await _quiet("t")
    shop.a.line.die("create", pointer_key(t, 1), after=True)
    await dies(shop.a, shop.a.mark("t", "x"))
    assert await shop.reported(t) == [(0, "create")]
    assert (await _round(shop)).reported == 1
    assert (await _round(shop)).reported == 0
    assert await shop.reported(t) == [(0, "create"), (1, "commit")]


async def test_a_commit_is_reported_after_days_without_a_process() -> None:
    shop, [t] = await _quiet("t")
    shop.a.line.die("create", pointer_key(t, 1), after=True)
    await dies(shop.a, shop.a.mark("t", "x"))
    shop.pass_by(3 * 24 * 3_600)
    assert (await _round(shop)).reported == 1
    assert await shop.reported(t) == [(0, "create"), (1, "commit")]


async def test_an_event_without_its_receipt_is_told_again_under_the_same_id() -> None:
    shop, [t] = await _quiet("t")
    shop.a.line.fail("create", "/iceberg/committed/", Unavailable("cut"))
    await shop.a.mark("t", "x")
    await shop.a.settle()
    assert await shop.reported(t) == [(0, "create"), (1, "commit")]
    assert (await _round(shop)).reported == 1
    ids = [each.event_id for each in await shop.events()]
    assert len(ids) == 3
    assert len(set(ids)) == 2


async def test_the_process_itself_remembers_what_it_could_not_finish() -> None:
    shop, [t, _] = await _quiet("t", "u")
    shop.a.line.fail("create", "/iceberg/committed/", Unavailable("cut"))
    await shop.a.mark("t", "x")
    await shop.a.settle()
    shop.a.line.mend()
    done = await shop.a.iceberg.reconciler.round(full=False)
    assert (done.tables, done.reported) == (1, 1)
    assert (await shop.a.iceberg.reconciler.round(full=False)).tables == 0
    assert await shop.reported(t) == [(0, "create"), (1, "commit"), (1, "commit")]


async def test_a_drop_that_crashed_before_its_release_is_finished_and_told_of() -> None:
    shop, [t] = await _quiet("t")
    await dies_at_the_compactor(shop, shop.a, shop.a.drop("t"), arrives=False)
    done = await _round(shop, full=False)
    assert done.released == 1
    assert await names_in(await shop.inner.cold().head()) == []
    assert await shop.reported(t) == [(0, "create"), (1, "drop")]
    assert (await _round(shop, full=False)).released == 0


async def test_a_drop_that_crashed_after_its_release_is_told_of_too() -> None:
    shop, [t] = await _quiet("t")
    await dies_at_the_compactor(shop, shop.a, shop.a.drop("t"), arrives=True)
    assert await shop.reported(t) == [(0, "create")]
    assert (await _round(shop)).reported == 1
    assert await shop.reported(t) == [(0, "create"), (1, "drop")]


async def test_columns_that_were_not_shown_are_shown_late() -> None:
    shop, [t] = await _quiet("t")
    shop.a.line.die("create", pointer_key(t, 1), after=True)
    await dies(shop.a, shop.a.commit("t", *_adding("more")))
    assert await _columns(shop, t) == ["id", "placed_at", "country"]
    assert (await _round(shop)).projected == 1
    assert await _columns(shop, t) == ["id", "placed_at", "country", "more"]
    assert (await _round(shop)).projected == 0


async def test_older_columns_never_replace_newer_ones() -> None:
    """A projection that comes late carries the number that it was read at (P34)."""
    shop, [t] = await _quiet("t")
    await shop.a.commit("t", *_adding("more"))
    await shop.a.settle()
    await shop.b.context.after_commit.project(t, 0, TableShape(columns=()))
    assert await _columns(shop, t) == ["id", "placed_at", "country", "more"]


async def _columns(shop: IcebergSetup, table_id: str) -> list[str]:
    columns = await (await shop.inner.head()).columns(table_id)
    return [each.row.name for each in columns]


def _adding(name: str) -> list[dict[str, Any]]:
    fields = ORDERS["fields"]
    assert isinstance(fields, list)
    schema = {**ORDERS, "schema-id": 1, "fields": [*fields, column(4, name)]}
    add = update("add-schema", schema=schema, last_column_id=4)
    return [add, update("set-current-schema", schema_id=-1)]


async def test_a_transaction_that_was_left_undecided_is_ended() -> None:
    shop, [t, _] = await _quiet("t", "u")
    shop.a.line.die("create", OUTCOME)
    await dies(shop.a, shop.a.transact(on("t", marking("x")), on("u", marking("x"))))
    await _impatient_round(shop)
    assert sum(OUTCOME in key for key in await shop.inner.keys("_catalog/transactions/")) == 1
    await asyncio.wait_for(shop.b.mark("t", "y"), 2)
    assert marks_of(await shop.b.load("t")) == {"y"}
    await shop.b.settle()
    assert await shop.reported(t) == [(0, "create"), (2, "commit")], (
        "an aborted transaction is not reported"
    )


async def test_the_chain_of_a_table_of_an_undecided_transaction_is_ended() -> None:
    shop, _ = await _quiet("t")
    shop.a.line.die("create", OUTCOME)
    await dies(shop.a, shop.a.transact(on("t", marking("x")), making("new")))
    assert "new" in await names_in(await shop.inner.cold().head())
    done = await _impatient_round(shop, full=False)
    assert done.released == 1
    assert await names_in(await shop.inner.cold().head()) == ["t"]


async def _impatient_round(shop: IcebergSetup, *, full: bool = True) -> ReconcilerRound:
    api = shop.api()
    work = asyncio.ensure_future(api.iceberg.reconciler.round(full=full))
    await until(lambda: api.line.asked("get", OUTCOME) > 4)
    shop.pass_by(GRACE_MS / 1_000 + 0.1)
    return await work


async def test_trouble_with_one_table_is_left_to_the_next_round_and_stops_no_other() -> None:
    shop, [t, u] = await _quiet("t", "u")
    for table_id, name in ((t, "t"), (u, "u")):
        api = shop.api()
        api.line.die("create", pointer_key(table_id, 1), after=True)
        await dies(api, api.mark(name, "x"))
    api = shop.api()
    api.line.fail("get", f"{POINTERS}{t}/", Unavailable("cut"))
    done = await api.iceberg.reconciler.round(full=True)
    assert (done.reported, done.problems) == (1, 1)
    api.line.mend()
    assert (await api.iceberg.reconciler.round(full=False)).reported == 1
    assert await shop.reported(t) == await shop.reported(u) == [(0, "create"), (1, "commit")]


async def test_a_table_whose_metadata_are_gone_stops_no_other() -> None:
    shop, [t, u] = await _quiet("t", "u")
    await shop.a.mark("t", "x")
    await shop.a.settle()
    [key] = await shop.files(f"{t}/metadata/00001-")
    await shop.inner.backend.delete(SCOPE.prefix + key)
    shop.a.line.die("create", pointer_key(u, 1), after=True)
    await dies(shop.a, shop.a.mark("u", "x"))
    done = await _round(shop)
    assert (done.tables, done.reported, done.problems) == (2, 1, 1)
    assert await shop.reported(u) == [(0, "create"), (1, "commit")]


async def test_a_round_without_unresolved_names_costs_one_read() -> None:
    shop, _ = await _quiet("t", "u")
    await shop.a.iceberg.reconciler.round(full=False)
    shop.a.line.seen.clear()
    await shop.a.iceberg.reconciler.round(full=False)
    [(verb, key)] = shop.a.line.seen
    assert verb == "get"
    assert "_catalog/iceberg_doubts/" in key


async def test_it_runs_until_it_is_closed_whatever_goes_wrong() -> None:
    shop, _ = await _quiet("t")
    shop.b.line.fail("get", "iceberg_doubts/", Unavailable("cut"))
    runs = asyncio.ensure_future(shop.b.iceberg.reconciler.run())
    await asyncio.sleep(0)
    assert not runs.done()
    shop.b.iceberg.reconciler.close()
    await asyncio.wait_for(runs, 2)


# What follows is about claims whose holders are gone.


async def _outcomes(shop: IcebergSetup) -> int:
    """How many keys have an outcome, or a takeover."""
    return sum(key.endswith("/0001.json") for key in await shop.inner.keys(KEYS))


Deed = Callable[[Api], Coroutine[Any, Any, object]]

CLAIMED: dict[str, tuple[str, Deed]] = {
    "create": ("", lambda api: api.create("new", key="k")),
    "rename": ("", lambda api: api.rename("t", "moved", key="k")),
    "make namespace": ("", lambda api: api.make_namespace("n", key="k")),
    "commit": (POINTERS, lambda api: api.mark("t", "x", key="k")),
    "drop": (POINTERS, lambda api: api.drop("t", key="k")),
    "transaction": (
        OUTCOME,
        lambda api: api.transact(on("t", marking("x")), on("u", marking("x")), key="k"),
    ),
}

every_claim = pytest.mark.parametrize(("point", "deed"), CLAIMED.values(), ids=list(CLAIMED))


@every_claim
async def test_a_claim_whose_request_has_landed_is_finalised_as_committed(
    point: str, deed: Deed
) -> None:
    shop, _ = await _quiet("t", "u")
    await _die(shop, point, deed, landed=True)
    assert await _outcomes(shop) == 0
    assert (await _round(shop)).finalised == 0, "its holder may be at work"
    shop.pass_by(LONG_S)
    assert (await _round(shop)).finalised == 1
    assert await _outcomes(shop) == 1
    assert (await _round(shop)).finalised == 0
    await deed(shop.b)
    assert await _outcomes(shop) == 1


@every_claim
async def test_a_claim_whose_request_has_not_landed_is_left_alone(point: str, deed: Deed) -> None:
    shop, _ = await _quiet("t", "u")
    await _die(shop, point, deed, landed=False)
    shop.pass_by(LONG_S)
    if point == OUTCOME:
        await _impatient_round(shop)
    else:
        assert (await _round(shop)).finalised == 0
    assert await _outcomes(shop) == 0
    await deed(shop.b)
    await shop.b.settle()


async def _die(shop: IcebergSetup, point: str, deed: Deed, *, landed: bool) -> None:
    if point:
        shop.a.line.die("create", point, after=landed)
        await dies(shop.a, deed(shop.a))
    else:
        await dies_at_the_compactor(shop, shop.a, deed(shop.a), arrives=landed)


async def test_a_commit_that_landed_is_finalised_though_others_came_after_it() -> None:
    shop, [t] = await _quiet("t")
    shop.a.line.die("create", pointer_key(t, 1), after=True)
    await dies(shop.a, shop.a.mark("t", "x", key="k"))
    await shop.b.mark("t", "later")
    shop.pass_by(LONG_S)
    assert (await _round(shop)).finalised == 1
    assert marks_of(await shop.b.mark("t", "x", key="k")) == {"x"}
    assert len(await shop.chain(t)) == 3


async def test_a_claim_that_is_older_than_its_key_is_left_alone() -> None:
    """Its chain may be collected at any time, and an outcome would stand above nothing (P14)."""
    shop, [t] = await _quiet("t")
    shop.a.line.die("create", pointer_key(t, 1), after=True)
    await dies(shop.a, shop.a.mark("t", "x", key="k"))
    shop.pass_by(DEFAULT_LIFE_MS / 1_000 + 1)
    assert (await _round(shop)).finalised == 0
    with pytest.raises(KeyExpired):
        await shop.b.mark("t", "x", key="k")


async def test_a_claim_that_was_taken_over_late_lives_no_longer_for_that() -> None:
    shop, [t] = await _quiet("t")
    shop.a.line.die("create", pointer_key(t, 1))
    await dies(shop.a, shop.a.mark("t", "x", key="k"))
    shop.pass_by(DEFAULT_LIFE_MS / 1_000 - 60)
    shop.b.line.die("create", pointer_key(t, 1), after=True)
    await dies(shop.b, shop.b.mark("t", "x", key="k"))
    shop.pass_by(LONG_S)
    assert (await _round(shop)).finalised == 0


async def test_a_create_that_was_finalised_is_a_success_though_its_table_is_gone() -> None:
    shop, _ = await _quiet("t")
    work = shop.a.create("new", key="k")
    await dies_at_the_compactor(shop, shop.a, work, arrives=True)
    made = await shop.b.load("new")
    shop.pass_by(LONG_S)
    assert (await _round(shop)).finalised == 1
    await shop.b.drop("new")
    assert (await shop.api().create("new", key="k")).location == made.location


async def test_a_change_of_properties_that_was_finalised_is_told_as_it_was() -> None:
    shop, _ = await _quiet("t")
    await shop.a.make_namespace("n", properties={"old": "1"})
    request = UpdatePropertiesRequest(removals=("old", "never"), updates={"new": "1"})

    def change(api: Api) -> Coroutine[Any, Any, PropertiesUpdated]:
        caller = api.caller("updateProperties", "k")
        return api.iceberg.namespaces.update("default", ("n",), request, caller)

    await dies_at_the_compactor(shop, shop.a, change(shop.a), arrives=True)
    shop.pass_by(LONG_S)
    await _round(shop)
    assert await change(shop.b) == PropertiesUpdated(("new",), ("old",), ("never",))


async def test_a_claim_of_another_protocol_is_left_alone() -> None:
    shop, _ = await _quiet("t")
    shop.a.line.fail("create", "/0001.json", Unavailable("cut"))
    await shop.a.api_process.do_once(new_catalog("more"), "k")
    await shop.a.settle()
    assert await _outcomes(shop) == 0
    shop.pass_by(LONG_S)
    assert (await _round(shop)).finalised == 0
    assert await _outcomes(shop) == 0


async def test_a_claim_that_is_finalised_while_it_is_taken_over_has_one_outcome() -> None:
    shop, [t] = await _quiet("t")
    shop.a.line.die("create", pointer_key(t, 1))
    await dies(shop.a, shop.a.mark("t", "x", key="k"))
    with pytest.raises(InProgress):
        await shop.b.mark("t", "x", key="k")
    shop.pass_by(LONG_S)
    await asyncio.gather(shop.b.mark("t", "x", key="k"), _round(shop))
    await shop.b.settle()
    assert marks_of(await shop.b.load("t")) == {"x"}
    assert len(await shop.chain(t)) == 2


async def test_a_refusal_is_never_made_up_for_a_claim() -> None:
    """The client that retries decides; the catalog may have changed by then."""
    shop, [t] = await _quiet("t")
    shop.a.line.die("create", pointer_key(t, 1))
    await dies(shop.a, shop.a.mark("t", "x", key="k"))
    await shop.b.drop("t")
    shop.pass_by(LONG_S)
    assert (await _round(shop)).finalised == 0
    assert (await refusal(shop.b.mark("t", "x", key="k"))).kind == "NoSuchTableException"


async def test_a_catalog_that_is_down_ends_a_round_without_harm() -> None:
    shop, [t] = await _quiet("t")
    shop.inner.post.always = is_down
    await shop.a.drop("t")
    done = await _round(shop)
    assert done.problems >= 1
    shop.inner.post.always = None
    assert (await _round(shop)).released == 1
    assert await shop.reported(t) == [(0, "create"), (1, "drop")]
