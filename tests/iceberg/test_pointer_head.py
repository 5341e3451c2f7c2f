"""Heads of pointer chains while a transaction is undecided, and after it was decided (P33)."""

import asyncio

import pytest

from arco.core.errors import Unavailable
from arco.iceberg.pointer import Pointer
from arco.iceberg.pointer_head import GRACE_MS, PointerHead
from tests.catalog.catalog_setup import until
from tests.iceberg.iceberg_setup import IcebergSetup, begun

ID = "00000000-0000-4000-8000-000000000001"


def _pointer(location: str, **more: object) -> Pointer:
    result = {"request_id": "r", "operation": "commit", "actor": "user:ann", **more}
    return Pointer(metadata_location=location, **result)  # type: ignore[arg-type]


async def _stand(setup: IcebergSetup, *pointers: Pointer, ended: bool = False) -> PointerHead:
    """A chain of these pointers, and its head as another process resolves it."""
    chain = setup.a.context.pointers.chain(ID)
    for number, pointer in enumerate(pointers):
        is_last = number == len(pointers) - 1
        await chain.append(await chain.head(), pointer, tombstone=ended and is_last)
    return await setup.b.context.heads.of(ID)


async def _decide(setup: IcebergSetup, *, committed: bool) -> bool:
    return await setup.a.iceberg.transactions._records.decide("tx-0000", committed=committed)


async def test_an_empty_chain_is_no_table() -> None:
    setup = await begun()
    table_head = await setup.a.context.heads.of(ID)
    assert (table_head.is_live, table_head.number, table_head.tombstone) == (False, -1, None)


async def test_a_plain_number_is_in_effect_by_being_there() -> None:
    setup = await begun()
    table_head = await _stand(setup, _pointer("a"), _pointer("b"))
    assert (table_head.location, table_head.number, table_head.undecided) == ("b", 1, None)


async def test_a_tombstone_ends_a_table() -> None:
    setup = await begun()
    table_head = await _stand(setup, _pointer("a"), _pointer("a", operation="drop"), ended=True)
    assert (table_head.is_live, table_head.tombstone) == (False, 1)


async def test_an_undecided_number_leaves_what_was_in_effect_before() -> None:
    setup = await begun()
    undecided = _pointer("b", previous_location="a", transaction="tx-0000")
    table_head = await _stand(setup, _pointer("a"), undecided)
    assert (table_head.location, table_head.undecided) == ("a", "tx-0000")


@pytest.mark.parametrize(("committed", "location"), [(True, "b"), (False, "a")])
async def test_the_outcome_decides_what_is_in_effect(location: str, *, committed: bool) -> None:
    setup = await begun()
    undecided = _pointer("b", previous_location="a", transaction="tx-0000")
    await _stand(setup, _pointer("a"), undecided)
    await _decide(setup, committed=committed)
    table_head = await setup.b.context.heads.of(ID)
    assert (table_head.location, table_head.undecided) == (location, None)


async def test_a_first_number_that_was_aborted_is_no_table() -> None:
    setup = await begun()
    table_head = await _stand(setup, _pointer("a", transaction="tx-0000"))
    assert (table_head.is_live, table_head.undecided) == (False, "tx-0000")
    await _decide(setup, committed=False)
    table_head = await setup.b.context.heads.of(ID)
    assert (table_head.is_live, table_head.undecided, table_head.tombstone) == (False, None, None)


async def test_who_decides_first_decides() -> None:
    setup = await begun()
    records = [api.iceberg.transactions._records for api in (setup.a, setup.b, setup.api())]
    assert await records[0].decide("tx-0000", committed=True)
    assert await records[1].decide("tx-0000", committed=False), "it was committed already"
    assert await records[2].outcome("tx-0000")


async def test_nothing_to_wait_for_is_not_waited_for() -> None:
    setup = await begun()
    table_head = await _stand(setup, _pointer("a"))
    assert await setup.b.context.heads.settle(table_head) is table_head


async def test_a_writer_waits_for_the_grace_and_no_longer() -> None:
    setup = await begun()
    undecided = _pointer("b", previous_location="a", transaction="tx-0000")
    table_head = await _stand(setup, _pointer("a"), undecided)
    waits = asyncio.ensure_future(setup.b.context.heads.settle(table_head))
    await until(lambda: setup.b.connection.count_requests("get", "/outcome.json") > 3)
    assert not waits.done()
    setup.pass_by(GRACE_MS / 1_000)
    assert (await waits).location == "a"
    assert await _decide(setup, committed=True) is False, "it is too late to commit"


async def test_the_grace_counts_from_when_a_process_first_saw_the_transaction() -> None:
    """On its own clock, whatever the clock of who began it says."""
    setup = await begun()
    undecided = _pointer("b", previous_location="a", transaction="tx-0000")
    table_head = await _stand(setup, _pointer("a"), undecided)
    setup.pass_by(100)
    waits = asyncio.ensure_future(setup.b.context.heads.settle(table_head))
    await until(lambda: setup.b.connection.count_requests("get", "/outcome.json") > 3)
    assert not waits.done()
    assert await _decide(setup, committed=True)
    assert (await waits).location == "b"


async def test_an_outcome_that_cannot_be_read_is_trouble_and_not_undecided() -> None:
    setup = await begun()
    undecided = _pointer("b", previous_location="a", transaction="tx-0000")
    await _stand(setup, _pointer("a"), undecided)
    setup.b.connection.fail("get", "/outcome.json", Unavailable("cut"))
    with pytest.raises(Unavailable):
        await setup.b.context.heads.of(ID)
