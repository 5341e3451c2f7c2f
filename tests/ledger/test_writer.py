"""The writer: group commit, durability before acknowledgement, seals and unsettled segments."""

import pytest

from arco.core.errors import Denied, Invalid, Unavailable, Unknown
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.ledger.follower import SegmentFollower
from arco.ledger.segment import (
    Segment,
    decode_event,
    decode_segment,
    encode_seal,
    find_segment,
    segment_key,
)
from arco.ledger.stream import Slot, Watermark, slot_chain
from arco.ledger.writer import AppendReceipt, DomainWriters, LedgerWriter
from arco.storage.backend import ObservedBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.faults.operation import Verb
from tests.faults.running import RunningServer
from tests.faults.script import Fault, Rule
from tests.ledger.events import StreamNotifications, all_events, note
from tests.request_counter import Tally
from tests.stores import HASTY, Bench, fault_url, open_bench

DOMAIN = "executions"


async def stored(store: Store, receipt: AppendReceipt) -> list[str]:
    """The keys of the events that a receipt points at."""
    raw = await store.get(segment_key(DOMAIN, receipt.stream, receipt.seq))
    lines = decode_segment(raw, receipt.stream, receipt.seq).lines
    first = receipt.first_line - 1
    return [decode_event(line).idempotency_key for line in lines[first : first + receipt.events]]


async def test_what_was_acknowledged_is_where_the_receipt_says(bench: Bench) -> None:
    store = bench.store()
    writer = LedgerWriter(store, DOMAIN)
    names = [[f"{call}.{n}" for n in range(call % 4 + 1)] for call in range(60)]
    receipts = await bench.runtime.tasks.gather(
        *(writer.append([note(bench.runtime, name) for name in call]) for call in names)
    )
    assert [await stored(store, receipt) for receipt in receipts] == names
    await writer.close()


async def test_callers_that_come_together_share_one_create(bench: Bench) -> None:
    tally = Tally()
    backend = ObservedBackend(bench.backend, tally, bench.runtime.clock)
    writer = LedgerWriter(Bench(backend, bench.runtime, bench.is_flat).store(), DOMAIN)
    await writer.append([note(bench.runtime)])
    tally.clear()
    receipts = await bench.runtime.tasks.gather(
        *(writer.append([note(bench.runtime)]) for _ in range(64))
    )
    assert len({(receipt.stream, receipt.seq) for receipt in receipts}) == 1
    assert sorted(receipt.first_line for receipt in receipts) == list(range(1, 65))
    assert tally.by_verb("ledger/") == {"create": 1}


async def test_nothing_is_listed_on_the_way_in(bench: Bench) -> None:
    tally = Tally()
    backend = ObservedBackend(bench.backend, tally, bench.runtime.clock)
    writer = LedgerWriter(Bench(backend, bench.runtime, bench.is_flat).store(), DOMAIN)
    for _ in range(3):
        await writer.append([note(bench.runtime)])
    await writer.close()
    assert "list" not in tally.by_verb()


async def test_a_writer_that_meets_a_seal_acknowledges_from_another_stream(bench: Bench) -> None:
    store = bench.store()
    writer = LedgerWriter(store, DOMAIN)
    first = await writer.append([note(bench.runtime, "before")])
    seal = encode_seal(bench.runtime, first.stream, 1)
    await bench.store(Role.JANITOR).create(segment_key(DOMAIN, first.stream, 1), seal)
    second = await writer.append([note(bench.runtime, "after")])
    assert second.stream != first.stream
    assert await stored(store, second) == ["after"]
    assert (await slot_chain(store, DOMAIN).head()).number == 1


async def test_a_clean_stop_seals_the_stream(bench: Bench) -> None:
    store = bench.store()
    writer = LedgerWriter(store, DOMAIN)
    receipt = await writer.append([note(bench.runtime)])
    await writer.close()
    raw = await store.get(segment_key(DOMAIN, receipt.stream, 1))
    assert decode_segment(raw, receipt.stream, 1).seal
    with pytest.raises(Unavailable):
        await writer.append([note(bench.runtime)])


async def test_an_empty_append_is_refused(bench: Bench) -> None:
    with pytest.raises(Invalid):
        await LedgerWriter(bench.store(), DOMAIN).append([])


async def test_a_role_that_may_not_write_is_denied_and_nothing_hangs(bench: Bench) -> None:
    with pytest.raises(Denied):
        await LedgerWriter(bench.store(Role.READER), DOMAIN).append([note(bench.runtime)])


async def test_a_slot_says_when_its_stream_ends(bench: Bench) -> None:
    writer = LedgerWriter(bench.store(), DOMAIN, life_ms=1_000_000)
    receipt = await writer.append([note(bench.runtime)])
    entry = (await slot_chain(bench.store(), DOMAIN).head()).entry
    assert entry is not None
    slot = entry.body(Slot)
    assert slot.stream == receipt.stream
    assert (slot.ends_at - slot.opened_at).total_seconds() == 1_000


async def test_an_unknown_segment_is_settled_before_the_next(
    faults: RunningServer, runtime: Runtime
) -> None:
    bench = open_bench(fault_url("fault-s3", faults, "unsettled"), runtime)
    store = bench.store()
    writer = LedgerWriter(store, DOMAIN)
    first = await writer.append([note(runtime, "0")])
    faults.script.add(
        Rule(fault=Fault.ERROR_AFTER, verb=Verb.PUT, key="000000000001.jsonl"),
        Rule(fault=Fault.UNAVAILABLE_BEFORE, verb=Verb.GET, key="000000000001.jsonl"),
    )
    with pytest.raises(Unknown):
        await writer.append([note(runtime, "1")])
    with pytest.raises(Unavailable):
        await writer.append([note(runtime, "2")])
    faults.script.clear()
    third = await writer.append([note(runtime, "3")])
    assert (third.stream, third.seq) == (first.stream, 2)
    events = await all_events(store, DOMAIN)
    assert [event.idempotency_key for event in events] == ["0", "1", "3"]


@pytest.mark.parametrize("kind", ["fault-s3", "fault-gcs", "fault-azure"])
@pytest.mark.parametrize(
    "fault",
    [
        *(Fault.UNAVAILABLE_BEFORE, Fault.ERROR_AFTER, Fault.DROP_AFTER, Fault.DROP_BEFORE),
        *(Fault.CONFLICT_NOTHING_STORED, Fault.THROTTLED, Fault.DUPLICATE_DELIVERY),
    ],
)
async def test_faults_on_the_way_lose_and_double_nothing(
    kind: str, fault: Fault, faults: RunningServer, runtime: Runtime
) -> None:
    bench = open_bench(fault_url(kind, faults, f"{kind}-{fault}"), runtime)
    writer = LedgerWriter(bench.store(), DOMAIN)
    faults.script.add(Rule(fault=fault, verb=Verb.PUT, key=".jsonl", probability=0.4))
    receipts = [await writer.append([note(runtime, str(n))]) for n in range(8)]
    faults.script.clear()
    assert [await stored(bench.store(), receipt) for receipt in receipts] == [
        [str(n)] for n in range(8)
    ]
    assert [receipt.seq for receipt in receipts] == list(range(8))


async def test_an_append_notifies(runtime: Runtime) -> None:
    bench = open_bench("memory://", runtime)
    notifications = StreamNotifications(runtime.tasks)
    writer = LedgerWriter(bench.store(), DOMAIN, notify=notifications.notify)
    receipt = await writer.append([note(runtime)])
    assert await notifications.wait(1_000) == [receipt.stream]
    assert await notifications.wait(1) == []


async def test_a_stream_of_one_tenant_is_not_another_s(runtime: Runtime) -> None:
    bench = open_bench("memory://", runtime)
    await LedgerWriter(bench.store(tenant="a"), DOMAIN).append([note(runtime)])
    other = Store(bench.backend, runtime, scope=Scope("b"), role=Role.API, retry=HASTY)
    assert await all_events(other, DOMAIN) == []


DOMAINS = ("executions", "lineage")


async def test_all_who_append_to_a_domain_share_its_stream(bench: Bench) -> None:
    writers = DomainWriters(bench.store(), DOMAINS)
    assert writers.of("executions") is writers.of("executions")
    one = await writers.of("executions").append([note(bench.runtime)])
    two = await writers.of("executions").append([note(bench.runtime)])
    other = await writers.of("lineage").append([note(bench.runtime)])
    assert one.stream == two.stream != other.stream
    await writers.close()


async def test_the_listener_gets_domain_stream_and_the_stored_segment(
    bench: Bench,
) -> None:
    heard: list[tuple[str, str, Segment | None]] = []

    def notify(domain: str, stream: str, segment: Segment | None = None, /) -> None:
        heard.append((domain, stream, segment))

    writers = DomainWriters(bench.store(), DOMAINS, notify=notify)
    receipt = await writers.of("lineage").append([note(bench.runtime)])
    await bench.runtime.tasks.turn()
    stored = await find_segment(bench.store(), "lineage", receipt.stream, receipt.seq)
    assert heard == [("lineage", receipt.stream, stored)]
    await writers.close()


async def test_a_clean_stop_seals_every_stream_that_was_opened(bench: Bench) -> None:
    store = bench.store()
    writers = DomainWriters(store, DOMAINS)
    await writers.of("executions").append([note(bench.runtime)])
    await writers.close()
    batch = await SegmentFollower(store, "executions", Watermark()).poll()
    assert batch is not None
    assert [segment.seal for segment in batch.segments] == [False, True]
    with pytest.raises(Unavailable):
        await writers.of("executions").append([note(bench.runtime)])


def test_a_domain_that_was_not_declared_has_no_writer(bench: Bench) -> None:
    with pytest.raises(Invalid, match="no writer"):
        DomainWriters(bench.store(), DOMAINS).of("catalog")
