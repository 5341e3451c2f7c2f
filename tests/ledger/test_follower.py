"""The follower: everything once, in order, and few requests while no events arrive (P17)."""

from collections.abc import AsyncIterator

import pytest

from arco.core.errors import Conflict
from arco.core.runtime import Runtime
from arco.ledger.follower import SegmentBatch, SegmentCache, SegmentFollower
from arco.ledger.segment import Segment
from arco.ledger.stream import Watermark, slot_chain
from arco.ledger.writer import LedgerWriter
from arco.storage.backend import ObservedBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.ledger.events import StreamNotifications, follow, note, read_events
from tests.ledger.simulated import Calm, simulate
from tests.request_counter import Tally
from tests.sim.world import HOUR_MS, MINUTE_MS, SECOND_MS
from tests.stores import Bench, open_bench

DOMAIN = "executions"


async def names(store: Store, batch: SegmentBatch | None) -> list[str]:
    assert batch is not None
    return [event.idempotency_key for event in await read_events(store, DOMAIN, batch)]


def numbers(batch: SegmentBatch | None) -> list[tuple[int, bool]]:
    assert batch is not None
    return [(each.seq, each.seal) for each in batch.segments]


async def test_all_streams_are_discovered_and_read_in_order(bench: Bench) -> None:
    writers = [LedgerWriter(bench.store(), DOMAIN) for _ in range(3)]
    for n in range(7):
        for w, writer in enumerate(writers):
            await writer.append([note(bench.runtime, f"{w}.{n}")])
    store = bench.store(Role.COMPACTOR)
    follower = SegmentFollower(store, DOMAIN, Watermark())
    batch = await follower.poll()
    event_names = await names(store, batch)
    assert sorted(event_names) == sorted(f"{w}.{n}" for w in range(3) for n in range(7))
    for w in range(3):
        assert [each for each in event_names if each.startswith(f"{w}.")] == [
            f"{w}.{n}" for n in range(7)
        ]
    assert batch is not None
    assert batch.watermark.frontier == 3
    assert sorted(batch.watermark.open.values()) == [6, 6, 6]
    assert await follower.poll(everything=True) is None


async def test_a_follower_goes_on_from_a_published_watermark(bench: Bench) -> None:
    writer = LedgerWriter(bench.store(), DOMAIN)
    await writer.append([note(bench.runtime, "old")])
    first = await SegmentFollower(bench.store(Role.COMPACTOR), DOMAIN, Watermark()).poll()
    assert first is not None
    await writer.append([note(bench.runtime, "new")])
    second = SegmentFollower(bench.store(Role.COMPACTOR), DOMAIN, first.watermark)
    assert await names(bench.store(), await second.poll()) == ["new"]


async def test_a_sealed_stream_leaves_the_watermark_and_is_never_probed(
    bench: Bench,
) -> None:
    tally = Tally()
    backend = ObservedBackend(bench.backend, tally, bench.runtime.clock)
    writer = LedgerWriter(bench.store(), DOMAIN)
    await writer.append([note(bench.runtime, "last words")])
    await writer.close()
    store = Bench(backend, bench.runtime, bench.is_flat).store(Role.COMPACTOR)
    follower = SegmentFollower(store, DOMAIN, Watermark())
    batch = await follower.poll()
    assert await names(store, batch) == ["last words"]
    assert numbers(batch) == [(0, False), (1, True)]
    assert batch is not None
    assert batch.watermark == Watermark(1, {})
    tally.clear()
    assert await follower.poll(everything=True) is None
    assert tally.by_verb() == {"get": 1}
    assert "ledger" not in tally.seen[0][1]


async def test_a_watermark_below_the_collected_slots_is_a_conflict(
    bench: Bench,
) -> None:
    for _ in range(3):
        await LedgerWriter(bench.store(), DOMAIN).append([note(bench.runtime)])
    await slot_chain(bench.store(Role.JANITOR), DOMAIN).raise_floor(2)
    await bench.store(Role.JANITOR).delete(slot_chain(bench.store(), DOMAIN).key(0))
    with pytest.raises(Conflict):
        await SegmentFollower(bench.store(Role.COMPACTOR), DOMAIN, Watermark()).poll()


async def test_a_notification_brings_an_event_at_once(runtime: Runtime) -> None:
    bench = open_bench("memory://", runtime)
    notifications, store = StreamNotifications(runtime.tasks), bench.store(Role.COMPACTOR)
    batches = follow(SegmentFollower(store, DOMAIN, Watermark()), notifications)
    writer = LedgerWriter(bench.store(), DOMAIN, notify=notifications.notify)
    for n in range(5):
        waiting = runtime.tasks.spawn(_next(batches))
        await writer.append([note(runtime, str(n))])
        batch = await runtime.tasks.deadline(200, waiting.wait())
        assert await names(store, batch) == [str(n)]


async def _next(batches: AsyncIterator[SegmentBatch]) -> SegmentBatch:
    return await anext(batches)


def test_an_idle_domain_costs_at_most_60_requests_an_hour_however_many_streams_are_open() -> None:
    for streams in (0, 1, 2, 7, 40):

        async def scenario(world: Calm, streams: int = streams) -> None:
            for _ in range(streams):
                await LedgerWriter(world.store(), DOMAIN).append([note(world.runtime)])
            following = world.runtime.tasks.spawn(_drain(world))
            await world.clock.sleep(10 * MINUTE_MS + SECOND_MS)
            for _ in range(6):
                before = world.requests()
                await world.clock.sleep(HOUR_MS)
                assert world.requests() - before <= 60
            assert world.requests() - before > 0, "it does not look at all any more"
            following.cancel()

        simulate(scenario)


def test_an_event_in_a_quiet_stream_is_read_without_a_notification() -> None:
    async def scenario(world: Calm) -> None:
        writer = LedgerWriter(world.store(), DOMAIN, life_ms=100 * HOUR_MS)
        await writer.append([note(world.runtime, "first")])
        event_names: list[str] = []
        following = world.runtime.tasks.spawn(_drain(world, event_names))
        await world.clock.sleep(5 * HOUR_MS)
        await writer.append([note(world.runtime, "second")])
        for _ in range(3 * 60):
            await world.clock.sleep(SECOND_MS)
            if len(event_names) == 2:
                break
        assert event_names == ["first", "second"]
        await writer.append([note(world.runtime, "third")])
        await world.clock.sleep(5 * SECOND_MS)
        assert event_names == ["first", "second", "third"], (
            "a stream that woke up is watched closely"
        )
        following.cancel()

    simulate(scenario)


async def test_the_end_of_a_long_stream_is_reached_with_few_requests_and_few_bytes(
    runtime: Runtime,
) -> None:
    bench, tally = open_bench("memory://", runtime), Tally()
    writer = LedgerWriter(bench.store(), DOMAIN)
    for n in range(100):
        await writer.append([note(runtime, str(n))])
    backend = ObservedBackend(bench.backend, tally, runtime.clock)
    store = Bench(backend, runtime, bench.is_flat).store(Role.COMPACTOR)
    batch = await SegmentFollower(store, DOMAIN, Watermark()).poll()
    assert [seq for seq, _ in numbers(batch)] == list(range(100))
    assert tally.by_verb("ledger").keys() == {"get_range"}
    assert tally.by_verb("ledger")["get_range"] <= 15


async def test_segments_beyond_one_batch_are_due_at_once_and_shared_by_the_streams(
    runtime: Runtime,
) -> None:
    bench = open_bench("memory://", runtime)
    for count in (30, 2, 30):
        writer = LedgerWriter(bench.store(), DOMAIN)
        for n in range(count):
            await writer.append([note(runtime, str(n))])
        await writer.close()
    follower = SegmentFollower(bench.store(Role.COMPACTOR), DOMAIN, Watermark(), most=20)
    sizes: list[list[int]] = []
    locations: list[tuple[str, int]] = []
    while (batch := await follower.poll()) is not None:
        by_stream = [location.stream for location in batch.segments]
        sizes.append([by_stream.count(each) for each in dict.fromkeys(by_stream)])
        locations += [(location.stream, location.seq) for location in batch.segments]
        last_batch = batch
    assert sizes[0] == [8, 3, 9], "a stream with little is done at once, the rest is shared"
    assert all(sum(each) <= 20 for each in sizes)
    assert len(sizes) == 4
    assert len(set(locations)) == len(locations) == 65
    assert last_batch.watermark == Watermark(3, {})


async def test_a_notification_of_an_unknown_stream_makes_the_slots_due(
    runtime: Runtime,
) -> None:
    bench = open_bench("memory://", runtime)
    follower = SegmentFollower(bench.store(Role.COMPACTOR), DOMAIN, Watermark())
    assert await follower.poll() is None
    receipt = await LedgerWriter(bench.store(), DOMAIN).append([note(runtime)])
    assert await follower.poll() is None, "nothing is due yet"
    follower.notify([receipt.stream])
    assert numbers(await follower.poll()) == [(0, False)]


async def _drain(world: Calm, event_names: list[str] | None = None) -> None:
    store = world.store(Role.COMPACTOR)
    follower = SegmentFollower(store, DOMAIN, Watermark())
    async for batch in follow(follower, StreamNotifications(world.runtime.tasks)):
        if event_names is not None:
            event_names += await names(store, batch)


def test_cached_segments_are_consecutive_up_to_the_first_gap() -> None:
    cache = SegmentCache()
    for seq in (3, 4, 5, 7, 8):
        cache.add(Segment("s", seq, False, b"x"))
    cache.remove("s", 8)
    assert cache.find("s", 8) is None
    assert [cache.last_consecutive("s", first) for first in (3, 6, 7)] == [5, 5, 7]
    assert cache.last_consecutive("other", 3) == 2
