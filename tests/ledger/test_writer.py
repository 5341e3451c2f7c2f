"""The writer: group commit, durability before acknowledgement, seals and unsettled segments."""

import pytest

from arco.core.errors import Denied, Invalid, Unavailable, Unknown
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.ledger.bell import Bell
from arco.ledger.follower import Follower
from arco.ledger.segment import decode_event, decode_segment, encode_seal, segment_key
from arco.ledger.slot import Slot, slots_of
from arco.ledger.watermark import Watermark
from arco.ledger.writer import Receipt, Writer
from arco.storage.observed import ObservedBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.faults.operation import Verb
from tests.faults.running import RunningServer
from tests.faults.script import Fault, Rule
from tests.ledger.events import note
from tests.stores import HASTY, Bench, fault_url, open_bench
from tests.tally import Tally

DOMAIN = "executions"


async def stored(store: Store, receipt: Receipt) -> list[str]:
    """The keys of the events that a receipt points at."""
    raw = await store.get(segment_key(DOMAIN, receipt.stream, receipt.seq))
    lines = decode_segment(raw, receipt.stream, receipt.seq).lines
    first = receipt.first_line - 1
    return [decode_event(line).idempotency_key for line in lines[first : first + receipt.events]]


async def test_what_was_acknowledged_is_where_the_receipt_says(bench: Bench) -> None:
    store = bench.store()
    writer = Writer(store, DOMAIN)
    names = [[f"{call}.{n}" for n in range(call % 4 + 1)] for call in range(60)]
    receipts = await bench.runtime.tasks.gather(
        *(writer.append([note(bench.runtime, name) for name in call]) for call in names)
    )
    assert [await stored(store, receipt) for receipt in receipts] == names
    await writer.close()


async def test_callers_that_come_together_share_one_create(bench: Bench) -> None:
    tally = Tally()
    backend = ObservedBackend(bench.backend, tally, bench.runtime.clock)
    writer = Writer(Bench(backend, bench.runtime, bench.is_flat).store(), DOMAIN)
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
    writer = Writer(Bench(backend, bench.runtime, bench.is_flat).store(), DOMAIN)
    for _ in range(3):
        await writer.append([note(bench.runtime)])
    await writer.close()
    assert "list" not in tally.by_verb()


async def test_a_writer_that_meets_a_seal_acknowledges_from_another_stream(bench: Bench) -> None:
    store = bench.store()
    writer = Writer(store, DOMAIN)
    first = await writer.append([note(bench.runtime, "before")])
    seal = encode_seal(bench.runtime, first.stream, 1)
    await bench.store(Role.JANITOR).create(segment_key(DOMAIN, first.stream, 1), seal)
    second = await writer.append([note(bench.runtime, "after")])
    assert second.stream != first.stream
    assert await stored(store, second) == ["after"]
    assert (await slots_of(store, DOMAIN).head()).number == 1


async def test_a_clean_stop_seals_the_stream(bench: Bench) -> None:
    store = bench.store()
    writer = Writer(store, DOMAIN)
    receipt = await writer.append([note(bench.runtime)])
    await writer.close()
    raw = await store.get(segment_key(DOMAIN, receipt.stream, 1))
    assert decode_segment(raw, receipt.stream, 1).seal
    with pytest.raises(Unavailable):
        await writer.append([note(bench.runtime)])


async def test_an_empty_append_is_refused(bench: Bench) -> None:
    with pytest.raises(Invalid):
        await Writer(bench.store(), DOMAIN).append([])


async def test_a_role_that_may_not_write_is_denied_and_nothing_hangs(bench: Bench) -> None:
    with pytest.raises(Denied):
        await Writer(bench.store(Role.READER), DOMAIN).append([note(bench.runtime)])


async def test_a_slot_says_when_its_stream_ends(bench: Bench) -> None:
    writer = Writer(bench.store(), DOMAIN, life_ms=1_000_000)
    receipt = await writer.append([note(bench.runtime)])
    entry = (await slots_of(bench.store(), DOMAIN).head()).entry
    assert entry is not None
    slot = entry.body(Slot)
    assert slot.stream == receipt.stream
    assert (slot.ends_at - slot.opened_at).total_seconds() == 1_000


async def test_an_unknown_segment_is_settled_before_the_next(
    faults: RunningServer, runtime: Runtime
) -> None:
    bench = open_bench(fault_url("fault-s3", faults, "unsettled"), runtime)
    store = bench.store()
    writer = Writer(store, DOMAIN)
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
    batch = await Follower(store, DOMAIN, Watermark()).poll(everything=True)
    assert batch is not None
    lines = [decode_event(line).idempotency_key for s in batch.segments for line in s.lines]
    assert lines == ["0", "1", "3"]


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
    writer = Writer(bench.store(), DOMAIN)
    faults.script.add(Rule(fault=fault, verb=Verb.PUT, key=".jsonl", probability=0.4))
    receipts = [await writer.append([note(runtime, str(n))]) for n in range(8)]
    faults.script.clear()
    assert [await stored(bench.store(), receipt) for receipt in receipts] == [
        [str(n)] for n in range(8)
    ]
    assert [receipt.seq for receipt in receipts] == list(range(8))


async def test_an_append_rings_the_bell(runtime: Runtime) -> None:
    bench = open_bench("memory://", runtime)
    bell = Bell(runtime.tasks)
    receipt = await Writer(bench.store(), DOMAIN, bell=bell).append([note(runtime)])
    assert await bell.wait(1_000) == [receipt.stream]
    assert await bell.wait(1) == []


async def test_a_stream_of_one_tenant_is_not_another_s(runtime: Runtime) -> None:
    bench = open_bench("memory://", runtime)
    await Writer(bench.store(tenant="a"), DOMAIN).append([note(runtime)])
    other = Store(bench.backend, runtime, scope=Scope("b"), role=Role.API, retry=HASTY)
    assert await Follower(other, DOMAIN, Watermark()).poll(everything=True) is None
