"""Unresolved names: which may be dead, so that lists are exact without reading every table."""

import asyncio
from datetime import timedelta

from arco.iceberg.drop import is_unresolved
from tests.catalog.catalog_setup import is_down
from tests.iceberg.iceberg_setup import (
    Api,
    IcebergSetup,
    dies,
    dies_at_the_compactor,
    making,
    marking,
    on,
    pointer_key,
    with_table,
)


async def _open(api: Api) -> frozenset[str]:
    return await api.context.unresolved_names.open()


async def _drop_later(setup: IcebergSetup, name: str, minutes: float) -> None:
    """Another drop, which checks all unresolved ids."""
    setup.inner.clock.set_forward(timedelta(minutes=minutes))
    await setup.b.drop(name)


async def test_without_a_drop_no_name_is_unresolved() -> None:
    setup, _ = await with_table("t")
    assert await _open(setup.b) == frozenset()
    assert await setup.inner.keys("_catalog/iceberg_doubts/") == []


async def test_a_list_reads_the_unresolved_names_once_and_no_table() -> None:
    setup, _ = await with_table("t", "u", "v")
    await setup.b.names()
    setup.b.connection.seen.clear()
    await setup.b.names()
    assert setup.b.connection.count_requests("get", "iceberg_doubts/") == 1
    assert setup.b.connection.count_requests("get", "iceberg_pointers/") == 0


async def test_a_list_reads_only_tables_that_are_unresolved() -> None:
    setup, [t, _, _] = await with_table("t", "u", "v")
    setup.inner.channel.always = is_down
    await setup.a.drop("t")
    setup.b.connection.seen.clear()
    assert await setup.b.names() == ["u", "v"]
    calls = {
        key.split("/")[-2] for verb, key in setup.b.connection.seen if "iceberg_pointers/" in key
    }
    assert calls <= {t, "floor"}


async def test_an_id_is_removed_once_its_name_is_released() -> None:
    setup, [t, u] = await with_table("t", "u")
    await setup.a.drop("t")
    assert t in await _open(setup.b)
    await setup.a.drop("u")
    assert await _open(setup.b) == {u}


async def test_an_id_stays_for_as_long_as_its_dead_name() -> None:
    setup, [t, u] = await with_table("t", "u")
    await dies_at_the_compactor(setup, setup.a, setup.a.drop("t"), arrives=False)
    await _drop_later(setup, "u", minutes=60)
    assert await _open(setup.b) == {t, u}
    assert await setup.b.names() == []


async def test_the_id_of_a_live_table_is_removed_after_a_while() -> None:
    setup, [t, _u, _] = await with_table("t", "u", "v")
    setup.a.connection.die("create", pointer_key(t, 1))
    await dies(setup.a, setup.a.drop("t"))
    await _drop_later(setup, "u", minutes=1)
    assert t in await _open(setup.b), "its drop may have been written down a moment ago"
    await _drop_later(setup, "v", minutes=20)
    assert t not in await _open(setup.b)
    assert await setup.b.names() == ["t"]


async def test_the_id_of_a_table_without_a_name_yet_stays() -> None:
    """A transaction records the ids of its new tables before it adds their names."""
    setup, [_, u] = await with_table("t", "u")

    async def another() -> None:
        await setup.b.drop("u")

    setup.a.connection.after("create", "iceberg_doubts/", another)
    setup.a.connection.die("create", "/outcome.json")
    await dies(setup.a, setup.a.transact(on("t", marking("x")), making("new")))
    assert u in await _open(setup.b)
    assert await setup.b.names() == ["t"], "the new table was never decided"


async def test_an_id_that_is_recorded_again_is_not_lost_to_a_concurrent_removal() -> None:
    """A process sees it released; then it is undropped and dropped again; then the process writes."""
    setup, [t, _] = await with_table("t", "u")
    await setup.a.drop("t")

    async def back_and_gone() -> None:
        await setup.a.undrop(t)
        await dies_at_the_compactor(setup, setup.a, setup.a.drop("t"), arrives=False)

    setup.b.connection.before("create", "iceberg_doubts/", back_and_gone)
    await setup.b.drop("u")
    assert t in await _open(setup.b)
    assert await setup.b.names() == []


async def test_concurrent_drops_are_all_recorded() -> None:
    names = [f"t{n}" for n in range(6)]
    setup, ids = await with_table(*names)
    setup.inner.channel.always = is_down
    apis = [setup.a, setup.b, setup.api()]
    await asyncio.gather(*(apis[n % 3].drop(name) for n, name in enumerate(names)))
    assert await _open(setup.b) == set(ids)
    assert await setup.b.names() == []


async def test_an_id_that_never_got_a_name_is_unresolved_for_a_while_only() -> None:
    setup, _ = await with_table("t")
    unknown = "00000000-0000-4000-8000-000000000000"
    assert await is_unresolved(setup.a.context, unknown, is_old=False)
    assert not await is_unresolved(setup.a.context, unknown, is_old=True)
