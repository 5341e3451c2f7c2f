import asyncio
import gc
import weakref

from arco.iceberg.loaded_metadata import LoadedMetadata
from tests.iceberg.workshop import CATALOG, NS, Api, Workshop, marks_of, with_table


async def load_since(api: Api, since_ms: float) -> set[str]:
    return marks_of(await api.iceberg.tables.load(CATALOG, NS, "t", since_ms=since_ms))


def now_ms(shop: Workshop) -> float:
    return shop.inner.clock.elapsed_ms()


async def let_go(kept: weakref.ref[LoadedMetadata]) -> None:
    """Wait until nobody holds it: the thread that read it may be on its way out, a ring not yet found."""
    async with asyncio.timeout(10):
        while kept() is not None:
            gc.collect()
            await asyncio.sleep(0.01)


async def test_requests_that_had_come_before_a_look_began_share_it() -> None:
    shop, _ = await with_table("t")
    came_ms = now_ms(shop)
    shop.pass_by(1)
    await load_since(shop.a, came_ms)
    asked = len(shop.a.line.seen)
    await load_since(shop.a, came_ms)
    await load_since(shop.a, came_ms + 500)
    assert len(shop.a.line.seen) == asked


async def test_a_request_that_came_after_a_look_began_sees_what_was_committed_meanwhile() -> None:
    shop, _ = await with_table("t")
    await load_since(shop.a, now_ms(shop))
    shop.pass_by(1)
    await shop.b.mark("t", "meanwhile")
    shop.pass_by(1)
    assert await load_since(shop.a, now_ms(shop)) == {"meanwhile"}


async def test_a_look_that_is_not_said_to_be_recent_enough_is_never_shared() -> None:
    shop, _ = await with_table("t")
    await shop.a.load("t")
    await shop.b.mark("t", "at once")
    assert marks_of(await shop.a.load("t")) == {"at once"}


async def test_a_table_that_took_over_a_name_is_not_taken_for_the_one_before() -> None:
    shop, _ = await with_table("t")
    await load_since(shop.a, now_ms(shop))
    shop.pass_by(1)
    await shop.b.drop("t")
    await shop.b.create("t")
    await shop.b.mark("t", "new")
    assert await load_since(shop.a, now_ms(shop)) == {"new"}


async def test_metadata_that_nobody_keeps_any_more_are_looked_for_again() -> None:
    shop, _ = await with_table("t")
    came_ms = now_ms(shop)
    loaded = await shop.a.iceberg.tables.load(CATALOG, NS, "t", since_ms=came_ms)
    assert loaded.location is not None
    shop.a.context.metadata_cache.forget(loaded.location)
    kept = weakref.ref(loaded)
    del loaded
    await let_go(kept)
    asked = len(shop.a.line.seen)
    await load_since(shop.a, came_ms)
    assert len(shop.a.line.seen) > asked
