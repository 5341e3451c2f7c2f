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


async def _drop_later(shop: IcebergSetup, name: str, minutes: float) -> None:
    """Another drop, which checks all unresolved ids."""
    shop.inner.clock.set_forward(timedelta(minutes=minutes))
    await shop.b.drop(name)


async def test_without_a_drop_no_name_is_unresolved() -> None:
    shop, _ = await with_table("t")
    assert await _open(shop.b) == frozenset()
    assert await shop.inner.keys("_catalog/iceberg_doubts/") == []


async def test_a_list_reads_the_unresolved_names_once_and_no_table() -> None:
    shop, _ = await with_table("t", "u", "v")
    await shop.b.names()
    shop.b.line.seen.clear()
    await shop.b.names()
    assert shop.b.line.asked("get", "iceberg_doubts/") == 1
    assert shop.b.line.asked("get", "iceberg_pointers/") == 0


async def test_a_list_reads_only_tables_that_are_unresolved() -> None:
    shop, [t, _, _] = await with_table("t", "u", "v")
    shop.inner.post.always = is_down
    await shop.a.drop("t")
    shop.b.line.seen.clear()
    assert await shop.b.names() == ["u", "v"]
    asked = {key.split("/")[-2] for verb, key in shop.b.line.seen if "iceberg_pointers/" in key}
    assert asked <= {t, "floor"}


async def test_an_id_is_removed_once_its_name_is_released() -> None:
    shop, [t, u] = await with_table("t", "u")
    await shop.a.drop("t")
    assert t in await _open(shop.b)
    await shop.a.drop("u")
    assert await _open(shop.b) == {u}


async def test_an_id_stays_for_as_long_as_its_dead_name() -> None:
    shop, [t, u] = await with_table("t", "u")
    await dies_at_the_compactor(shop, shop.a, shop.a.drop("t"), arrives=False)
    await _drop_later(shop, "u", minutes=60)
    assert await _open(shop.b) == {t, u}
    assert await shop.b.names() == []


async def test_the_id_of_a_live_table_is_removed_after_a_while() -> None:
    shop, [t, _u, _] = await with_table("t", "u", "v")
    shop.a.line.die("create", pointer_key(t, 1))
    await dies(shop.a, shop.a.drop("t"))
    await _drop_later(shop, "u", minutes=1)
    assert t in await _open(shop.b), "its drop may have been written down a moment ago"
    await _drop_later(shop, "v", minutes=20)
    assert t not in await _open(shop.b)
    assert await shop.b.names() == ["t"]


async def test_the_id_of_a_table_without_a_name_yet_stays() -> None:
    """A transaction records the ids of its new tables before it adds their names."""
    shop, [_, u] = await with_table("t", "u")

    async def another() -> None:
        await shop.b.drop("u")

    shop.a.line.after("create", "iceberg_doubts/", another)
    shop.a.line.die("create", "/outcome.json")
    await dies(shop.a, shop.a.transact(on("t", marking("x")), making("new")))
    assert u in await _open(shop.b)
    assert await shop.b.names() == ["t"], "the new table was never decided"


async def test_an_id_that_is_recorded_again_is_not_lost_to_a_concurrent_removal() -> None:
    """A process sees it released; then it is undropped and dropped again; then the process writes."""
    shop, [t, _] = await with_table("t", "u")
    await shop.a.drop("t")

    async def back_and_gone() -> None:
        await shop.a.undrop(t)
        await dies_at_the_compactor(shop, shop.a, shop.a.drop("t"), arrives=False)

    shop.b.line.before("create", "iceberg_doubts/", back_and_gone)
    await shop.b.drop("u")
    assert t in await _open(shop.b)
    assert await shop.b.names() == []


async def test_concurrent_drops_are_all_recorded() -> None:
    names = [f"t{n}" for n in range(6)]
    shop, ids = await with_table(*names)
    shop.inner.post.always = is_down
    apis = [shop.a, shop.b, shop.api()]
    await asyncio.gather(*(apis[n % 3].drop(name) for n, name in enumerate(names)))
    assert await _open(shop.b) == set(ids)
    assert await shop.b.names() == []


async def test_an_id_that_never_got_a_name_is_unresolved_for_a_while_only() -> None:
    shop, _ = await with_table("t")
    unknown = "00000000-0000-4000-8000-000000000000"
    assert await is_unresolved(shop.a.context, unknown, is_old=False)
    assert not await is_unresolved(shop.a.context, unknown, is_old=True)
