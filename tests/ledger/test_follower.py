"""The follower: everything once, in order, and hardly a request while nothing happens (P17)."""

from collections.abc import AsyncIterator

import pytest

from arco.core.errors import Conflict
from arco.core.runtime import Runtime
from arco.ledger.bell import Bell
from arco.ledger.follower import Batch, Follower, PlaceFollower
from arco.ledger.segment import Segment, SegmentPlace, decode_event
from arco.ledger.slot import slots_of
from arco.ledger.watermark import Watermark
from arco.ledger.writer import Writer
from arco.storage.observed import ObservedBackend
from arco.storage.roles import Role
from tests.ledger.events import note
from tests.ledger.simulated import Calm, simulate
from tests.sim.world import HOUR_MS, MINUTE_MS, SECOND_MS
from tests.stores import Bench, open_bench
from tests.tally import Tally

DOMAIN = "executions"


def names(batch: Batch[Segment] | None) -> list[str]:
    assert batch is not None
    return [decode_event(line).idempotency_key for s in batch.segments for line in s.lines]


async def test_all_streams_are_found_and_read_in_order(bench: Bench) -> None:
    writers = [Writer(bench.store(), DOMAIN) for _ in range(3)]
    for n in range(7):
        for w, writer in enumerate(writers):
            await writer.append([note(bench.runtime, f"{w}.{n}")])
    follower = Follower(bench.store(Role.COMPACTOR), DOMAIN, Watermark())
    batch = await follower.poll()
    found = names(batch)
    assert sorted(found) == sorted(f"{w}.{n}" for w in range(3) for n in range(7))
    for w in range(3):
        assert [each for each in found if each.startswith(f"{w}.")] == [
            f"{w}.{n}" for n in range(7)
        ]
    assert batch is not None
    assert batch.watermark.frontier == 3
    assert sorted(batch.watermark.open.values()) == [6, 6, 6]
    assert await follower.poll(everything=True) is None


async def test_a_follower_goes_on_from_a_published_watermark(bench: Bench) -> None:
    writer = Writer(bench.store(), DOMAIN)
    await writer.append([note(bench.runtime, "old")])
    first = await Follower(bench.store(Role.COMPACTOR), DOMAIN, Watermark()).poll()
    assert first is not None
    await writer.append([note(bench.runtime, "new")])
    again = Follower(bench.store(Role.COMPACTOR), DOMAIN, first.watermark)
    assert names(await again.poll()) == ["new"]


async def test_a_sealed_stream_leaves_the_watermark_and_is_never_asked_for_again(
    bench: Bench,
) -> None:
    tally = Tally()
    backend = ObservedBackend(bench.backend, tally, bench.runtime.clock)
    writer = Writer(bench.store(), DOMAIN)
    await writer.append([note(bench.runtime, "last words")])
    await writer.close()
    store = Bench(backend, bench.runtime, bench.is_flat).store(Role.COMPACTOR)
    follower = Follower(store, DOMAIN, Watermark())
    batch = await follower.poll()
    assert names(batch) == ["last words"]
    assert batch is not None
    assert batch.watermark == Watermark(1, {})
    tally.clear()
    assert await follower.poll(everything=True) is None
    assert tally.by_verb() == {"get": 1}
    assert "ledger" not in tally.seen[0][1]


async def test_a_watermark_below_what_was_collected_is_to_be_read_again_and_not_silence(
    bench: Bench,
) -> None:
    for _ in range(3):
        await Writer(bench.store(), DOMAIN).append([note(bench.runtime)])
    await slots_of(bench.store(Role.JANITOR), DOMAIN).raise_floor(2)
    await bench.store(Role.JANITOR).delete(slots_of(bench.store(), DOMAIN).key(0))
    with pytest.raises(Conflict):
        await Follower(bench.store(Role.COMPACTOR), DOMAIN, Watermark()).poll()


async def test_a_ring_brings_an_event_at_once(runtime: Runtime) -> None:
    bench = open_bench("memory://", runtime)
    bell = Bell(runtime.tasks)
    batches = Follower(bench.store(Role.COMPACTOR), DOMAIN, Watermark(), bell=bell).follow()
    writer = Writer(bench.store(), DOMAIN, bell=bell)
    for n in range(5):
        waiting = runtime.tasks.spawn(_next(batches))
        await writer.append([note(runtime, str(n))])
        assert names(await runtime.tasks.deadline(200, waiting.wait())) == [str(n)]


def test_an_idle_domain_costs_at_most_60_requests_an_hour_however_many_streams_are_open() -> None:
    for streams in (0, 1, 2, 7, 40):

        async def story(calm: Calm, streams: int = streams) -> None:
            for _ in range(streams):
                await Writer(calm.store(), DOMAIN).append([note(calm.runtime)])
            follower = Follower(calm.store(Role.COMPACTOR), DOMAIN, Watermark())
            following = calm.runtime.tasks.spawn(_drain(follower))
            await calm.clock.sleep(10 * MINUTE_MS + SECOND_MS)
            for _ in range(6):
                before = calm.requests()
                await calm.clock.sleep(HOUR_MS)
                assert calm.requests() - before <= 60
            assert calm.requests() - before > 0, "it does not look at all any more"
            following.cancel()

        simulate(story)


def test_an_event_in_a_quiet_stream_is_found_without_a_ring() -> None:
    async def story(calm: Calm) -> None:
        writer = Writer(calm.store(), DOMAIN, life_ms=100 * HOUR_MS)
        await writer.append([note(calm.runtime, "first")])
        follower = Follower(calm.store(Role.COMPACTOR), DOMAIN, Watermark())
        found: list[str] = []
        following = calm.runtime.tasks.spawn(_drain(follower, found))
        await calm.clock.sleep(5 * HOUR_MS)
        await writer.append([note(calm.runtime, "second")])
        for _ in range(3 * 60):
            await calm.clock.sleep(SECOND_MS)
            if len(found) == 2:
                break
        assert found == ["first", "second"]
        await writer.append([note(calm.runtime, "third")])
        await calm.clock.sleep(5 * SECOND_MS)
        assert found == ["first", "second", "third"], "a stream that woke up is watched closely"
        following.cancel()

    simulate(story)


# Places only


def places(batch: Batch[SegmentPlace] | None) -> list[tuple[int, bool]]:
    assert batch is not None
    return [(place.seq, place.seal) for place in batch.segments]


async def test_places_are_those_of_the_segments_that_are_there(bench: Bench) -> None:
    writers = [Writer(bench.store(), DOMAIN) for _ in range(2)]
    for n in range(11):
        await writers[0].append([note(bench.runtime, str(n))])
    await writers[1].append([note(bench.runtime)])
    await writers[1].close()
    store = bench.store(Role.COMPACTOR)
    whole = await Follower(store, DOMAIN, Watermark()).poll()
    follower = PlaceFollower(store, DOMAIN, Watermark())
    batch = await follower.poll()
    assert batch is not None
    assert whole is not None
    assert batch.watermark == whole.watermark
    found = [(place.stream, place.seq, place.seal) for place in batch.segments]
    assert found == [(each.stream, each.seq, each.seal) for each in whole.segments]
    assert len(found) == 13
    assert await follower.poll(everything=True) is None


async def test_the_end_of_a_long_stream_is_found_with_few_requests_and_few_bytes(
    runtime: Runtime,
) -> None:
    bench, tally = open_bench("memory://", runtime), Tally()
    writer = Writer(bench.store(), DOMAIN)
    for n in range(100):
        await writer.append([note(runtime, str(n))])
    backend = ObservedBackend(bench.backend, tally, runtime.clock)
    store = Bench(backend, runtime, bench.is_flat).store(Role.COMPACTOR)
    batch = await PlaceFollower(store, DOMAIN, Watermark()).poll()
    assert [seq for seq, _ in places(batch)] == list(range(100))
    assert tally.by_verb("ledger").keys() == {"get_range"}
    assert tally.by_verb("ledger")["get_range"] <= 15


async def test_what_is_too_much_for_one_batch_is_due_at_once_and_shared_by_the_streams(
    runtime: Runtime,
) -> None:
    bench = open_bench("memory://", runtime)
    for count in (30, 2, 30):
        writer = Writer(bench.store(), DOMAIN)
        for n in range(count):
            await writer.append([note(runtime, str(n))])
        await writer.close()
    follower = PlaceFollower(bench.store(Role.COMPACTOR), DOMAIN, Watermark(), most=20)
    sizes: list[list[int]] = []
    found: list[tuple[str, int]] = []
    while (batch := await follower.poll()) is not None:
        by_stream = [place.stream for place in batch.segments]
        sizes.append([by_stream.count(each) for each in dict.fromkeys(by_stream)])
        found += [(place.stream, place.seq) for place in batch.segments]
        last = batch
    assert sizes[0] == [8, 3, 9], "a stream with little is done at once, the rest is shared"
    assert all(sum(each) <= 20 for each in sizes)
    assert len(sizes) == 4
    assert len(set(found)) == len(found) == 65
    assert last.watermark == Watermark(3, {})


def test_an_idle_domain_costs_as_little_when_only_places_are_wanted() -> None:
    async def story(calm: Calm) -> None:
        for _ in range(7):
            await Writer(calm.store(), DOMAIN).append([note(calm.runtime)])
        follower = PlaceFollower(calm.store(Role.COMPACTOR), DOMAIN, Watermark())
        following = calm.runtime.tasks.spawn(_drain_places(follower))
        await calm.clock.sleep(10 * MINUTE_MS + SECOND_MS)
        before = calm.requests()
        await calm.clock.sleep(HOUR_MS)
        assert 0 < calm.requests() - before <= 60
        following.cancel()

    simulate(story)


async def test_a_ring_for_a_stream_that_is_not_known_yet_makes_the_slots_due(
    runtime: Runtime,
) -> None:
    bench = open_bench("memory://", runtime)
    follower = PlaceFollower(bench.store(Role.COMPACTOR), DOMAIN, Watermark())
    assert await follower.poll() is None
    receipt = await Writer(bench.store(), DOMAIN).append([note(runtime)])
    assert await follower.poll() is None, "nothing is due yet"
    follower.ring([receipt.stream])
    assert places(await follower.poll()) == [(0, False)]


async def _drain_places(follower: PlaceFollower) -> None:
    async for _ in follower.follow():
        pass


async def _next(batches: AsyncIterator[Batch[Segment]]) -> Batch[Segment]:
    return await anext(batches)


async def _drain(follower: Follower, found: list[str] | None = None) -> None:
    async for batch in follower.follow():
        if found is not None:
            found += names(batch)
