"""The intake: nothing is called taken, or a duplicate, that is not durable."""

import json

import pytest

from arco.core.errors import Invalid, Unavailable, Unknown
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.ledger.envelope import MOST_EVENT_ROW_BYTES, MOST_EVENT_ROWS, Envelope, TooManyRows
from arco.ledger.follower import Follower
from arco.ledger.intake import MOST_BATCH_ROWS, Intake, Taken
from arco.ledger.recent import Recent
from arco.ledger.segment import LARGEST_BYTES, decode_event
from arco.ledger.watermark import Watermark
from arco.ledger.writer import SEGMENT_ROWS
from arco.ledger.writers import Writers
from arco.storage.store import Store
from tests.faults.operation import Verb
from tests.faults.running import RunningServer
from tests.faults.script import Fault, Rule
from tests.ledger.events import LINE, TYPES
from tests.stores import fault_url, open_bench

DOMAIN_OF = {"task_started": "executions", "note": "lineage", "spread": "lineage"}


@pytest.fixture
def store(runtime: Runtime) -> Store:
    return open_bench("memory://intake", runtime).store()


def _intake(store: Store, recent: Recent | None = None) -> Intake:
    writers = Writers(store, ("executions", "lineage"))
    return Intake(writers, TYPES, DOMAIN_OF.__getitem__, recent=recent)


def _line(event_type: str, payload: object, key: str | None = None) -> bytes:
    event = json.loads(LINE) | {"event_type": event_type, "payload": payload}
    return json.dumps(event if key is None else event | {"idempotency_key": key}).encode()


def _note(text: str, key: str | None = None) -> bytes:
    return _line("note", {"text": text}, key)


def _task(task: str, key: str | None = None) -> bytes:
    return _line("task_started", {"task": task}, key)


async def _stored(store: Store, domain: str) -> list[Envelope]:
    batch = await Follower(store, domain, Watermark()).poll()
    if batch is None:
        return []
    return [decode_event(line) for segment in batch.segments for line in segment.lines]


async def test_events_go_to_the_ledgers_of_their_domains(store: Store) -> None:
    taken = await _intake(store).take([_task("a"), _note("b"), b"nonsense", _task("c")])
    assert [refusal.line for refusal in taken.refused] == [3]
    assert taken.by_domain == {"executions": 2, "lineage": 1}
    executions, lineage = await _stored(store, "executions"), await _stored(store, "lineage")
    assert [json.loads(bytes(each.payload))["task"] for each in executions] == ["a", "c"]
    assert [each.event_type for each in lineage] == ["note"]
    ids = {each.event_id for each in (*executions, *lineage)}
    assert set(taken.accepted) == ids
    assert len(taken.accepted) == 3


async def test_what_comes_twice_in_a_batch_is_stored_once_and_told(store: Store) -> None:
    taken = await _intake(store).take([_task("a", "k"), _note("a", "k"), _task("a", "k")])
    assert [(each.line, each.idempotency_key) for each in taken.duplicates] == [(3, "k")]
    assert len(taken.accepted) == 2
    assert len(await _stored(store, "executions")) == 1


async def test_what_was_stored_lately_is_not_stored_again(store: Store) -> None:
    intake = _intake(store)
    await intake.take([_task("a", "k"), _task("b")])
    again = await intake.take([_task("a", "k"), _task("b")])
    assert [each.line for each in again.duplicates] == [1]
    assert len(again.accepted) == 1  # what has no key cannot be known again
    assert len(await _stored(store, "executions")) == 3


async def test_events_without_a_key_do_not_push_out_those_that_have_one(store: Store) -> None:
    intake = _intake(store, Recent(10))
    await intake.take([_task("a", "k")])
    await intake.take([_task("a") for _ in range(100)])
    assert [each.line for each in (await intake.take([_task("a", "k")])).duplicates] == [1]


async def test_another_event_under_the_same_key_is_for_the_fold_to_judge(store: Store) -> None:
    intake = _intake(store)
    await intake.take([_task("a", "k")])
    assert not (await intake.take([_task("b", "k")])).duplicates
    assert len(await _stored(store, "executions")) == 2


async def test_a_batch_under_the_same_id_has_the_same_events(store: Store) -> None:
    batch = new_ulid(store.runtime)
    lines = [_task("a"), b"nonsense", _task("b")]
    one = await _intake(store).take(lines, batch)
    two = await _intake(store).take(lines, batch)  # another process, after a crash
    assert one.accepted == two.accepted
    assert one.refused == two.refused


async def test_an_empty_batch_is_nothing(store: Store) -> None:
    taken = await _intake(store).take([b"", b"  "])
    assert taken == Taken([], [], [], {})
    assert await _stored(store, "executions") == []


async def test_a_batch_beyond_one_segment_is_stored_in_several(store: Store) -> None:
    lines = [_task("x" * 900_000 + str(number)) for number in range(25)]
    assert sum(map(len, lines)) > LARGEST_BYTES
    taken = await _intake(store).take(lines)
    stored = await _stored(store, "executions")
    assert [each.event_id for each in stored] == taken.accepted
    assert len(stored) == 25


async def test_what_could_not_be_stored_is_no_duplicate(
    faults: RunningServer, runtime: Runtime
) -> None:
    store = open_bench(fault_url("fault-s3", faults, "intake-down"), runtime).store()
    intake = _intake(store)
    faults.script.add(Rule(fault=Fault.UNAVAILABLE_BEFORE, key="sequence/"))
    with pytest.raises(Unavailable):
        await intake.take([_task("a", "k")])
    faults.script.clear()
    taken = await intake.take([_task("a", "k")])
    assert (len(taken.accepted), taken.duplicates) == (1, [])
    assert len(await _stored(store, "executions")) == 1


async def test_a_batch_of_which_a_part_is_stored_is_no_failure(
    faults: RunningServer, runtime: Runtime
) -> None:
    store = open_bench(fault_url("fault-s3", faults, "intake-part"), runtime).store()
    intake = _intake(store)
    lines = [_task("a", "k"), _note("b", "k")]
    faults.script.add(Rule(fault=Fault.UNAVAILABLE_BEFORE, key="sequence/lineage"))
    with pytest.raises(Unknown):
        await intake.take(lines)
    faults.script.clear()
    again = await intake.take(lines)
    assert [each.line for each in again.duplicates] == [1]
    assert again.by_domain == {"lineage": 1}
    assert len(await _stored(store, "executions")) == len(await _stored(store, "lineage")) == 1


async def test_an_append_of_unknown_outcome_stays_unknown(
    faults: RunningServer, runtime: Runtime
) -> None:
    store = open_bench(fault_url("fault-s3", faults, "intake-unknown"), runtime).store()
    intake = _intake(store)
    await intake.take([_task("first")])
    faults.script.add(
        Rule(fault=Fault.ERROR_AFTER, verb=Verb.PUT, key="000000000001.jsonl"),
        Rule(fault=Fault.UNAVAILABLE_BEFORE, verb=Verb.GET, key="000000000001.jsonl"),
    )
    with pytest.raises(Unknown):
        await intake.take([_task("a", "k"), _note("b", "k")])
    faults.script.clear()
    again = await intake.take([_task("a", "k")])
    assert again.duplicates == []  # it may be there, but nobody knows it
    assert len(again.accepted) == 1


async def test_a_type_whose_domain_nobody_writes_is_refused_at_once(store: Store) -> None:
    intake = Intake(Writers(store, ()), TYPES, DOMAIN_OF.__getitem__)
    with pytest.raises(Invalid, match="nobody writes"):
        await intake.take([_task("a")])


def _spread(rows: int, text_bytes: int = 0) -> bytes:
    return _line("spread", {"rows": rows, "text_bytes": text_bytes})


async def test_an_event_of_too_many_rows_is_refused_alone_and_told_how_many(store: Store) -> None:
    lines = [_spread(MOST_EVENT_ROWS), _spread(MOST_EVENT_ROWS + 1), _note("a")]
    taken = await _intake(store).take([*lines, _spread(1, MOST_EVENT_ROW_BYTES + 1)])
    assert len(taken.accepted) == 2
    assert [refusal.line for refusal in taken.refused] == [2, 4]
    reason = taken.refused[0].reason
    assert "100,001 rows" in reason
    assert "at most 100,000 rows" in reason
    assert "split it" in reason


async def test_a_batch_of_too_many_rows_is_refused_as_a_whole(store: Store) -> None:
    lines = [_spread(MOST_EVENT_ROWS)] * (MOST_BATCH_ROWS // MOST_EVENT_ROWS)
    intake = _intake(store)
    with pytest.raises(TooManyRows, match=r"these 11 events would become 1,000,001 rows"):
        await intake.take([*lines, _spread(1)])
    assert await _stored(store, "lineage") == []
    assert len((await intake.take(lines)).accepted) == len(lines)


async def test_a_segment_is_closed_when_its_rows_are_many(store: Store) -> None:
    rows = SEGMENT_ROWS * 2 // 5
    await _intake(store).take([_spread(rows)] * 5)
    batch = await Follower(store, "lineage", Watermark()).poll()
    assert batch is not None
    assert [segment.events for segment in batch.segments] == [2, 2, 1]


async def test_callers_that_bring_many_rows_do_not_share_a_segment(
    store: Store, runtime: Runtime
) -> None:
    intake, rows = _intake(store), SEGMENT_ROWS * 2 // 5
    await runtime.tasks.gather(*(intake.take([_spread(rows)]) for _ in range(5)))
    batch = await Follower(store, "lineage", Watermark()).poll()
    assert batch is not None
    assert [segment.events for segment in batch.segments] == [2, 2, 1]
