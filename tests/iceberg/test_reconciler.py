"""The reconciler finishes what a crash has left half done, once, and decides nothing again."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from arco.catalog.manifest import manifests_of
from arco.core.errors import InProgress, KeyExpired, Unavailable, Unknown
from arco.fold.tier1 import DOMAIN
from arco.iceberg.after_commit import TableShape
from arco.iceberg.drop import UndropWork
from arco.iceberg.namespaces import PropertiesUpdated
from arco.iceberg.pointer_head import GRACE_MS
from arco.iceberg.reconciler import ReconcilerRound
from arco.iceberg.wire import UpdatePropertiesRequest
from arco.ledger.claim import MAX_REQUEST_MS
from arco.ledger.idempotency import DEFAULT_LIFE_MS
from arco.storage.roles import Role
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


async def _round(setup: IcebergSetup, *, full: bool = True) -> ReconcilerRound:
    """A round of a process that has just begun."""
    api = setup.api()
    done = await api.iceberg.reconciler.round(full=full)
    await api.settle()
    return done


async def _quiet(*names: str) -> tuple[IcebergSetup, list[str]]:
    setup, ids = await with_table(*names)
    await setup.a.settle()
    return setup, ids


async def test_where_nothing_is_left_to_do_nothing_is_done() -> None:
    setup, ids = await _quiet("t", "u")
    await setup.a.mark("t", "x")
    await setup.a.settle()
    keys = await setup.stored()
    assert await _round(setup) == ReconcilerRound(tables=2)
    assert await setup.stored() == keys
    assert len(ids) == 2


async def test_a_commit_that_was_not_reported_is_reported_once() -> None:
    setup, [t] = await _quiet("t")
    setup.a.connection.die("create", pointer_key(t, 1), after=True)
    await dies(setup.a, setup.a.mark("t", "x"))
    assert await setup.reported(t) == [(0, "create")]
    assert (await _round(setup)).reported == 1
    assert (await _round(setup)).reported == 0
    assert await setup.reported(t) == [(0, "create"), (1, "commit")]


async def test_a_commit_is_reported_after_days_without_a_process() -> None:
    setup, [t] = await _quiet("t")
    setup.a.connection.die("create", pointer_key(t, 1), after=True)
    await dies(setup.a, setup.a.mark("t", "x"))
    setup.pass_by(3 * 24 * 3_600)
    assert (await _round(setup)).reported == 1
    assert await setup.reported(t) == [(0, "create"), (1, "commit")]


async def test_an_event_without_its_receipt_is_sent_again_under_the_same_id() -> None:
    setup, [t] = await _quiet("t")
    setup.a.connection.fail("create", "/iceberg/committed/", Unavailable("cut"))
    await setup.a.mark("t", "x")
    await setup.a.settle()
    assert await setup.reported(t) == [(0, "create"), (1, "commit")]
    assert (await _round(setup)).reported == 1
    ids = [each.event_id for each in await setup.events()]
    assert len(ids) == 3
    assert len(set(ids)) == 2


async def test_the_process_itself_remembers_what_it_could_not_finish() -> None:
    setup, [t, _] = await _quiet("t", "u")
    setup.a.connection.fail("create", "/iceberg/committed/", Unavailable("cut"))
    await setup.a.mark("t", "x")
    await setup.a.settle()
    setup.a.connection.mend()
    done = await setup.a.iceberg.reconciler.round(full=False)
    assert (done.tables, done.reported) == (1, 1)
    assert (await setup.a.iceberg.reconciler.round(full=False)).tables == 0
    assert await setup.reported(t) == [(0, "create"), (1, "commit"), (1, "commit")]


async def test_a_drop_that_crashed_before_its_release_is_finished_and_reported() -> None:
    setup, [t] = await _quiet("t")
    await dies_at_the_compactor(setup, setup.a, setup.a.drop("t"), arrives=False)
    done = await _round(setup, full=False)
    assert done.released == 1
    assert await names_in(await setup.inner.cold().head()) == []
    assert await setup.reported(t) == [(0, "create"), (1, "drop")]
    assert (await _round(setup, full=False)).released == 0


async def test_a_drop_that_crashed_after_its_release_is_reported_too() -> None:
    setup, [t] = await _quiet("t")
    await dies_at_the_compactor(setup, setup.a, setup.a.drop("t"), arrives=True)
    assert await setup.reported(t) == [(0, "create")]
    assert (await _round(setup)).reported == 1
    assert await setup.reported(t) == [(0, "create"), (1, "drop")]


async def test_columns_that_were_not_shown_are_shown_late() -> None:
    setup, [t] = await _quiet("t")
    setup.a.connection.die("create", pointer_key(t, 1), after=True)
    await dies(setup.a, setup.a.commit("t", *_adding("more")))
    assert await _columns(setup, t) == ["id", "placed_at", "country"]
    assert (await _round(setup)).projected == 1
    assert await _columns(setup, t) == ["id", "placed_at", "country", "more"]
    assert (await _round(setup)).projected == 0


async def test_older_columns_never_replace_newer_ones() -> None:
    """A projection that comes late carries the number that it was read at (P34)."""
    setup, [t] = await _quiet("t")
    await setup.a.commit("t", *_adding("more"))
    await setup.a.settle()
    await setup.b.context.after_commit.project(t, 0, TableShape(columns=()))
    assert await _columns(setup, t) == ["id", "placed_at", "country", "more"]


async def _columns(setup: IcebergSetup, table_id: str) -> list[str]:
    columns = await (await setup.inner.head()).columns(table_id)
    return [each.row.name for each in columns]


def _adding(name: str) -> list[dict[str, Any]]:
    fields = ORDERS["fields"]
    assert isinstance(fields, list)
    schema = {**ORDERS, "schema-id": 1, "fields": [*fields, column(4, name)]}
    add = update("add-schema", schema=schema, last_column_id=4)
    return [add, update("set-current-schema", schema_id=-1)]


async def test_a_transaction_that_was_left_undecided_is_ended() -> None:
    setup, [t, _] = await _quiet("t", "u")
    setup.a.connection.die("create", OUTCOME)
    await dies(setup.a, setup.a.transact(on("t", marking("x")), on("u", marking("x"))))
    await _impatient_round(setup)
    assert sum(OUTCOME in key for key in await setup.inner.keys("_catalog/transactions/")) == 1
    await asyncio.wait_for(setup.b.mark("t", "y"), 2)
    assert marks_of(await setup.b.load("t")) == {"y"}
    await setup.b.settle()
    assert await setup.reported(t) == [(0, "create"), (2, "commit")], (
        "an aborted transaction is not reported"
    )


async def test_an_undrop_that_another_process_has_made_reports_no_aborted_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup, [t, _] = await _quiet("t", "u")
    setup.a.connection.die("create", OUTCOME)
    await dies(setup.a, setup.a.transact(on("t", marking("x")), on("u", marking("x"))))
    await _impatient_round(setup)
    is_named = UndropWork._is_named

    async def then_another_drops_and_undrops_it(work: UndropWork) -> bool:
        was_named = await is_named(work)
        monkeypatch.setattr(UndropWork, "_is_named", is_named)
        other = setup.api()
        await other.drop("t")
        setup.pass_by(2.1)  # past the life of the claim of this one
        await other.undrop(t, key="k")
        await other.settle()
        return was_named

    monkeypatch.setattr(UndropWork, "_is_named", then_another_drops_and_undrops_it)
    await setup.b.undrop(t, key="k")
    await setup.b.settle()
    assert await setup.reported(t) == [(0, "create"), (2, "drop"), (3, "undrop")]


async def test_the_chain_of_a_table_of_an_undecided_transaction_is_ended() -> None:
    setup, _ = await _quiet("t")
    setup.a.connection.die("create", OUTCOME)
    await dies(setup.a, setup.a.transact(on("t", marking("x")), making("new")))
    assert "new" in await names_in(await setup.inner.cold().head())
    done = await _impatient_round(setup, full=False)
    assert done.released == 1
    assert await names_in(await setup.inner.cold().head()) == ["t"]


async def _impatient_round(setup: IcebergSetup, *, full: bool = True) -> ReconcilerRound:
    api = setup.api()
    work = asyncio.ensure_future(api.iceberg.reconciler.round(full=full))
    await until(lambda: api.connection.count_requests("get", OUTCOME) > 4)
    setup.pass_by(GRACE_MS / 1_000 + 0.1)
    return await work


async def test_trouble_with_one_table_is_left_to_the_next_round_and_stops_no_other() -> None:
    setup, [t, u] = await _quiet("t", "u")
    for table_id, name in ((t, "t"), (u, "u")):
        api = setup.api()
        api.connection.die("create", pointer_key(table_id, 1), after=True)
        await dies(api, api.mark(name, "x"))
    api = setup.api()
    api.connection.fail("get", f"{POINTERS}{t}/", Unavailable("cut"))
    done = await api.iceberg.reconciler.round(full=True)
    assert (done.reported, done.problems) == (1, 1)
    api.connection.mend()
    assert (await api.iceberg.reconciler.round(full=False)).reported == 1
    assert await setup.reported(t) == await setup.reported(u) == [(0, "create"), (1, "commit")]


async def test_a_table_whose_metadata_are_gone_stops_no_other() -> None:
    setup, [t, u] = await _quiet("t", "u")
    await setup.a.mark("t", "x")
    await setup.a.settle()
    [key] = await setup.files(f"{t}/metadata/00001-")
    await setup.inner.backend.delete(SCOPE.prefix + key)
    setup.a.connection.die("create", pointer_key(u, 1), after=True)
    await dies(setup.a, setup.a.mark("u", "x"))
    done = await _round(setup)
    assert (done.tables, done.reported, done.problems) == (2, 1, 1)
    assert await setup.reported(u) == [(0, "create"), (1, "commit")]


async def test_a_round_without_unresolved_names_costs_one_read() -> None:
    setup, _ = await _quiet("t", "u")
    await setup.a.iceberg.reconciler.round(full=False)
    setup.a.connection.seen.clear()
    await setup.a.iceberg.reconciler.round(full=False)
    [(verb, key)] = setup.a.connection.seen
    assert verb == "get"
    assert "_catalog/iceberg_doubts/" in key


async def test_it_runs_until_it_is_closed_whatever_goes_wrong() -> None:
    setup, _ = await _quiet("t")
    setup.b.connection.fail("get", "iceberg_doubts/", Unavailable("cut"))
    runs = asyncio.ensure_future(setup.b.iceberg.reconciler.run())
    await asyncio.sleep(0)
    assert not runs.done()
    setup.b.iceberg.reconciler.close()
    await asyncio.wait_for(runs, 2)


# What follows is about claims whose holders are gone.


async def _outcomes(setup: IcebergSetup) -> int:
    """How many keys have an outcome, or a takeover."""
    return sum(key.endswith("/0001.json") for key in await setup.inner.keys(KEYS))


Operation = Callable[[Api], Coroutine[Any, Any, object]]

CLAIMED: dict[str, tuple[str, Operation]] = {
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

every_claim = pytest.mark.parametrize(("point", "operation"), CLAIMED.values(), ids=list(CLAIMED))


@every_claim
async def test_a_claim_whose_request_has_landed_is_finalised_as_committed(
    point: str, operation: Operation
) -> None:
    setup, _ = await _quiet("t", "u")
    await _die(setup, point, operation, landed=True)
    assert await _outcomes(setup) == 0
    assert (await _round(setup)).finalised == 0, "its holder may be at work"
    setup.pass_by(LONG_S)
    assert (await _round(setup)).finalised == 1
    assert await _outcomes(setup) == 1
    assert (await _round(setup)).finalised == 0
    await operation(setup.b)
    assert await _outcomes(setup) == 1


@every_claim
async def test_a_claim_whose_request_has_not_landed_is_left_alone(
    point: str, operation: Operation
) -> None:
    setup, _ = await _quiet("t", "u")
    await _die(setup, point, operation, landed=False)
    setup.pass_by(LONG_S)
    if point == OUTCOME:
        await _impatient_round(setup)
    else:
        assert (await _round(setup)).finalised == 0
    assert await _outcomes(setup) == 0
    await operation(setup.b)
    await setup.b.settle()


async def _die(setup: IcebergSetup, point: str, operation: Operation, *, landed: bool) -> None:
    if point:
        setup.a.connection.die("create", point, after=landed)
        await dies(setup.a, operation(setup.a))
    else:
        await dies_at_the_compactor(setup, setup.a, operation(setup.a), arrives=landed)


async def test_a_commit_that_landed_is_finalised_though_others_came_after_it() -> None:
    setup, [t] = await _quiet("t")
    setup.a.connection.die("create", pointer_key(t, 1), after=True)
    await dies(setup.a, setup.a.mark("t", "x", key="k"))
    await setup.b.mark("t", "later")
    setup.pass_by(LONG_S)
    assert (await _round(setup)).finalised == 1
    assert marks_of(await setup.b.mark("t", "x", key="k")) == {"x"}
    assert len(await setup.chain(t)) == 3


async def test_a_claim_that_is_older_than_its_key_is_left_alone() -> None:
    """Its chain may be collected at any time, and an outcome would stand above nothing (P14)."""
    setup, [t] = await _quiet("t")
    setup.a.connection.die("create", pointer_key(t, 1), after=True)
    await dies(setup.a, setup.a.mark("t", "x", key="k"))
    setup.pass_by(DEFAULT_LIFE_MS / 1_000 + 1)
    assert (await _round(setup)).finalised == 0
    with pytest.raises(KeyExpired):
        await setup.b.mark("t", "x", key="k")


async def test_a_claim_whose_evidence_was_collected_is_left_alone_and_is_no_failure() -> None:
    setup, _ = await _quiet("t")
    create = setup.a.create("new", key="k")
    await dies_at_the_compactor(setup, setup.a, create, arrives=True)
    await setup.b.create("later")
    chain = manifests_of(setup.inner.store(Role.JANITOR), DOMAIN)
    await chain.raise_floor((await chain.head()).number)
    setup.pass_by(LONG_S)
    done = await _round(setup)
    assert (done.finalised, done.problems) == (0, 0)
    with pytest.raises(Unknown):
        await setup.b.create("new", key="k")


async def test_a_claim_that_was_taken_over_late_lives_no_longer_for_that() -> None:
    setup, [t] = await _quiet("t")
    setup.a.connection.die("create", pointer_key(t, 1))
    await dies(setup.a, setup.a.mark("t", "x", key="k"))
    setup.pass_by(DEFAULT_LIFE_MS / 1_000 - 60)
    setup.b.connection.die("create", pointer_key(t, 1), after=True)
    await dies(setup.b, setup.b.mark("t", "x", key="k"))
    setup.pass_by(LONG_S)
    assert (await _round(setup)).finalised == 0


async def test_a_create_that_was_finalised_is_a_success_though_its_table_is_gone() -> None:
    setup, _ = await _quiet("t")
    work = setup.a.create("new", key="k")
    await dies_at_the_compactor(setup, setup.a, work, arrives=True)
    loaded_table = await setup.b.load("new")
    setup.pass_by(LONG_S)
    assert (await _round(setup)).finalised == 1
    await setup.b.drop("new")
    assert (await setup.api().create("new", key="k")).location == loaded_table.location


async def test_a_change_of_properties_that_was_finalised_is_answered_as_it_was_made() -> None:
    setup, _ = await _quiet("t")
    await setup.a.make_namespace("n", properties={"old": "1"})
    request = UpdatePropertiesRequest(removals=("old", "never"), updates={"new": "1"})

    def change(api: Api) -> Coroutine[Any, Any, PropertiesUpdated]:
        caller = api.caller("updateProperties", "k")
        return api.iceberg.namespaces.update("default", ("n",), request, caller)

    await dies_at_the_compactor(setup, setup.a, change(setup.a), arrives=True)
    setup.pass_by(LONG_S)
    await _round(setup)
    assert await change(setup.b) == PropertiesUpdated(("new",), ("old",), ("never",))


async def test_a_claim_of_another_protocol_is_left_alone() -> None:
    setup, _ = await _quiet("t")
    setup.a.connection.fail("create", "/0001.json", Unavailable("cut"))
    await setup.a.api_process.do_once(new_catalog("more"), "k")
    await setup.a.settle()
    assert await _outcomes(setup) == 0
    setup.pass_by(LONG_S)
    assert (await _round(setup)).finalised == 0
    assert await _outcomes(setup) == 0


async def test_a_claim_that_is_finalised_while_it_is_taken_over_has_one_outcome() -> None:
    setup, [t] = await _quiet("t")
    setup.a.connection.die("create", pointer_key(t, 1))
    await dies(setup.a, setup.a.mark("t", "x", key="k"))
    with pytest.raises(InProgress):
        await setup.b.mark("t", "x", key="k")
    setup.pass_by(LONG_S)
    await asyncio.gather(setup.b.mark("t", "x", key="k"), _round(setup))
    await setup.b.settle()
    assert marks_of(await setup.b.load("t")) == {"x"}
    assert len(await setup.chain(t)) == 2


async def test_a_refusal_is_never_made_up_for_a_claim() -> None:
    """The client that retries decides; the catalog may have changed by then."""
    setup, [t] = await _quiet("t")
    setup.a.connection.die("create", pointer_key(t, 1))
    await dies(setup.a, setup.a.mark("t", "x", key="k"))
    await setup.b.drop("t")
    setup.pass_by(LONG_S)
    assert (await _round(setup)).finalised == 0
    assert (await refusal(setup.b.mark("t", "x", key="k"))).kind == "NoSuchTableException"


async def test_a_catalog_that_is_down_ends_a_round_without_harm() -> None:
    setup, [t] = await _quiet("t")
    setup.inner.channel.always = is_down
    await setup.a.drop("t")
    done = await _round(setup)
    assert done.problems >= 1
    setup.inner.channel.always = None
    assert (await _round(setup)).released == 1
    assert await setup.reported(t) == [(0, "create"), (1, "drop")]
