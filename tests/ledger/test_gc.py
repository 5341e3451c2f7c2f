"""The janitor in the ledger: seals what has ended, collects what is folded, and nothing else."""

import pytest

from arco.core.errors import NotFound
from arco.ledger.follower import SegmentFollower
from arco.ledger.gc import collect_segments, collect_slots, seal_expired_streams
from arco.ledger.segment import decode_segment, segment_key
from arco.ledger.stream import Watermark, slot_chain
from arco.ledger.writer import AppendReceipt, LedgerWriter
from arco.storage.chain_gc import collect
from arco.storage.roles import Role
from tests.ledger.events import note
from tests.ledger.simulated import Calm, simulate
from tests.sim.world import HOUR_MS

DOMAIN = "executions"
LIFE_MS = 24 * HOUR_MS
RETENTION_MS = 7 * 24 * HOUR_MS


async def folded(world: Calm, watermark: Watermark) -> Watermark:
    batch = await SegmentFollower(world.store(Role.COMPACTOR), DOMAIN, watermark).poll(
        everything=True
    )
    return watermark if batch is None else batch.watermark


async def is_seal(world: Calm, receipt: AppendReceipt, seq: int) -> bool:
    raw = await world.store().get(segment_key(DOMAIN, receipt.stream, seq))
    return decode_segment(raw, receipt.stream, seq).seal


def test_a_stream_past_its_end_is_sealed_behind_its_last_segment() -> None:
    async def scenario(world: Calm) -> None:
        writer = LedgerWriter(world.store(), DOMAIN, life_ms=LIFE_MS)
        for _ in range(5):
            receipt = await writer.append([note(world.runtime)])
        slots = slot_chain(world.store(Role.JANITOR), DOMAIN)
        assert await seal_expired_streams(slots, DOMAIN, Watermark()) == []
        await world.clock.sleep(LIFE_MS + HOUR_MS)
        assert await seal_expired_streams(slots, DOMAIN, Watermark()) == [receipt.stream]
        assert await is_seal(world, receipt, 5)
        assert await seal_expired_streams(slots, DOMAIN, Watermark()) == [
            receipt.stream
        ]  # and changes nothing
        mark = await folded(world, Watermark())
        assert mark == Watermark(1, {})
        assert await seal_expired_streams(slots, DOMAIN, mark) == []

    simulate(scenario)


def test_segments_stay_until_they_are_folded_and_old_and_seals_stay_for_ever() -> None:
    async def scenario(world: Calm) -> None:
        writer = LedgerWriter(world.store(), DOMAIN, life_ms=LIFE_MS)
        receipt = await writer.append([note(world.runtime)])
        await writer.append([note(world.runtime)])
        mark = await folded(world, Watermark())
        await writer.append([note(world.runtime)])  # not folded
        slots = slot_chain(world.store(Role.JANITOR), DOMAIN)

        async def collected_count(watermark: Watermark) -> int:
            return await collect_segments(slots, DOMAIN, watermark, retention_ms=RETENTION_MS)

        assert await collected_count(mark) == 0
        await world.clock.sleep(RETENTION_MS + HOUR_MS)
        assert await collected_count(Watermark()) == 0
        assert await collected_count(mark) == 2
        await seal_expired_streams(slots, DOMAIN, mark)
        mark = await folded(world, mark)
        assert await collected_count(mark) == 1
        await world.clock.sleep(2 * RETENTION_MS)
        assert await collected_count(mark) == 0
        assert await is_seal(world, receipt, 3)

    simulate(scenario)


def test_an_open_stream_keeps_its_segments_after_its_slot_was_collected() -> None:
    """Found by the simulator: the compactors slept, the slot went, and unfolded segments with it."""

    async def scenario(world: Calm) -> None:
        writer = LedgerWriter(world.store(), DOMAIN, life_ms=LIFE_MS)
        receipt = await writer.append([note(world.runtime)])
        mark = await folded(world, Watermark())
        await writer.append([note(world.runtime)])
        await LedgerWriter(world.store(), DOMAIN).append([note(world.runtime)])
        slots = slot_chain(world.store(Role.JANITOR), DOMAIN)
        await world.clock.sleep(2 * RETENTION_MS)
        assert (await collect(slots, ceiling=mark.frontier)).deleted == 1
        assert await collect_segments(slots, DOMAIN, mark, retention_ms=RETENTION_MS) == 1
        with pytest.raises(NotFound):
            await world.store().get(segment_key(DOMAIN, receipt.stream, 0))
        await world.store().get(segment_key(DOMAIN, receipt.stream, 1))
        assert receipt.stream in await seal_expired_streams(slots, DOMAIN, mark)
        assert await is_seal(world, receipt, 2)

    simulate(scenario)


def test_foreign_objects_in_the_ledger_are_left_alone() -> None:
    async def scenario(world: Calm) -> None:
        writer = LedgerWriter(world.store(), DOMAIN, life_ms=LIFE_MS)
        await writer.append([note(world.runtime)])
        mark = await folded(world, Watermark())
        strange = ("x", "a/b", "a/b/c/d", "s/000000000000.jsonl", "s/1.jsonl")
        for name in strange:
            await world.store().create(f"ledger/{DOMAIN}/{name}", b"?")
        await world.clock.sleep(2 * RETENTION_MS)
        slots = slot_chain(world.store(Role.JANITOR), DOMAIN)
        assert await collect_segments(slots, DOMAIN, mark, retention_ms=RETENTION_MS) == 1
        for name in strange:
            assert await world.store().get(f"ledger/{DOMAIN}/{name}") == b"?"

    simulate(scenario)


def test_a_late_writer_meets_the_seal_after_everything_else_is_gone() -> None:
    async def scenario(world: Calm) -> None:
        writer = LedgerWriter(world.store(), DOMAIN, life_ms=10_000 * HOUR_MS)
        receipt = await writer.append([note(world.runtime)])
        slots = slot_chain(world.store(Role.JANITOR), DOMAIN)
        await world.clock.sleep(10_001 * HOUR_MS)
        stale = LedgerWriter(world.store(), DOMAIN)
        stale._stream = writer._stream  # as if it had not noticed how long it slept
        assert stale._stream is not None
        stale._stream.opened_ms = world.clock.elapsed_ms()
        await seal_expired_streams(slots, DOMAIN, Watermark())
        mark = await folded(world, Watermark())
        await world.clock.sleep(RETENTION_MS + HOUR_MS)
        await collect_segments(slots, DOMAIN, mark, retention_ms=RETENTION_MS)
        late_receipt = await stale.append([note(world.runtime, "late")])
        assert late_receipt.stream != receipt.stream
        batch = await SegmentFollower(world.store(Role.COMPACTOR), DOMAIN, mark).poll(
            everything=True
        )
        assert batch is not None
        assert [segment.stream for segment in batch.segments] == [late_receipt.stream]

    simulate(scenario, hours=20_000)


def test_a_slot_stays_while_its_stream_is_open_or_not_yet_reached() -> None:
    async def scenario(world: Calm) -> None:
        writers = [LedgerWriter(world.store(), DOMAIN, life_ms=LIFE_MS) for _ in range(4)]
        for writer in writers:
            await writer.append([note(world.runtime)])
        await writers[0].close()
        await writers[2].close()
        mark = await folded(world, Watermark())
        await LedgerWriter(world.store(), DOMAIN).append(
            [note(world.runtime)]
        )  # beyond the frontier
        slots = slot_chain(world.store(Role.JANITOR), DOMAIN)

        async def collected_count(watermark: Watermark) -> int:
            return await collect_slots(slots, watermark, retention_ms=RETENTION_MS)

        assert await collected_count(mark) == 0  # they are young
        await world.clock.sleep(RETENTION_MS + HOUR_MS)
        assert await collected_count(Watermark()) == 0
        assert (
            await collected_count(mark) == 1
        )  # the first; the second is open, and what is above it stays
        await seal_expired_streams(slots, DOMAIN, mark)
        closed = await folded(world, mark)
        assert closed == Watermark(5, {})
        assert await collected_count(mark) == 0
        assert await collected_count(closed) == 3  # the last one always stays
        assert await folded(world, closed) == closed

    simulate(scenario)
