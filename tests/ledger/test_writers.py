import pytest

from arco.core.errors import Invalid, Unavailable
from arco.ledger.follower import Follower
from arco.ledger.segment import Segment, find_segment
from arco.ledger.watermark import Watermark
from arco.ledger.writers import Writers
from tests.ledger.events import note
from tests.stores import Bench

DOMAINS = ("executions", "lineage")


async def test_all_who_append_to_a_domain_share_its_stream(bench: Bench) -> None:
    writers = Writers(bench.store(), DOMAINS)
    assert writers.of("executions") is writers.of("executions")
    one = await writers.of("executions").append([note(bench.runtime)])
    two = await writers.of("executions").append([note(bench.runtime)])
    other = await writers.of("lineage").append([note(bench.runtime)])
    assert one.stream == two.stream != other.stream
    await writers.close()


async def test_a_ring_tells_of_domain_and_stream_and_hands_the_stored_segment_over(
    bench: Bench,
) -> None:
    rung: list[tuple[str, str, Segment | None]] = []

    def ring(domain: str, stream: str, segment: Segment | None = None, /) -> None:
        rung.append((domain, stream, segment))

    writers = Writers(bench.store(), DOMAINS, ring=ring)
    receipt = await writers.of("lineage").append([note(bench.runtime)])
    await bench.runtime.tasks.turn()
    stored = await find_segment(bench.store(), "lineage", receipt.stream, receipt.seq)
    assert rung == [("lineage", receipt.stream, stored)]
    await writers.close()


async def test_a_clean_stop_seals_every_stream_that_was_opened(bench: Bench) -> None:
    store = bench.store()
    writers = Writers(store, DOMAINS)
    await writers.of("executions").append([note(bench.runtime)])
    await writers.close()
    follower = Follower(store, "executions", Watermark())
    batch = await follower.poll()
    assert batch is not None
    assert [segment.seal for segment in batch.segments] == [False, True]
    with pytest.raises(Unavailable):
        await writers.of("executions").append([note(bench.runtime)])


def test_a_domain_that_nobody_declared_has_no_writer(bench: Bench) -> None:
    with pytest.raises(Invalid, match="nobody writes"):
        Writers(bench.store(), DOMAINS).of("catalog")
