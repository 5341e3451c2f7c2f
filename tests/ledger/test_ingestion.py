"""Ingestion: only durable events are reported as accepted or as duplicates."""

import json

import pytest

from arco.core.errors import Invalid, Unavailable, Unknown
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.ledger.envelope import MAX_EVENT_ROW_BYTES, MAX_EVENT_ROWS, TooManyRows, new_stamp
from arco.ledger.follower import SegmentFollower
from arco.ledger.ingestion import (
    MAX_BATCH,
    MAX_BATCH_ROWS,
    Admission,
    EventIngestion,
    IngestResult,
    RecentEvents,
    admit_all,
    split_array,
    split_lines,
)
from arco.ledger.segment import MAX_BYTES
from arco.ledger.stream import Watermark
from arco.ledger.writer import SEGMENT_ROWS, DomainWriters
from arco.storage.store import Store
from tests.faults.operation import Verb
from tests.faults.running import RunningServer
from tests.faults.script import Fault, Rule
from tests.ledger.events import LINE, TYPES, Note, all_events, note, read_segments
from tests.stores import fault_url, open_bench

DOMAIN_OF = {"task_started": "executions", "note": "lineage", "spread": "lineage"}


@pytest.fixture
def store(runtime: Runtime) -> Store:
    return open_bench("memory://ingestion", runtime).store()


def _ingestion(store: Store, recent: RecentEvents | None = None) -> EventIngestion:
    writers = DomainWriters(store, ("executions", "lineage"))
    return EventIngestion(writers, TYPES, DOMAIN_OF.__getitem__, recent=recent)


def _line(event_type: str, payload: object, key: str | None = None) -> bytes:
    event = json.loads(LINE) | {"event_type": event_type, "payload": payload}
    return json.dumps(event if key is None else event | {"idempotency_key": key}).encode()


def _note(text: str, key: str | None = None) -> bytes:
    return _line("note", {"text": text}, key)


def _task(task: str, key: str | None = None) -> bytes:
    return _line("task_started", {"task": task}, key)


async def test_events_go_to_the_ledgers_of_their_domains(store: Store) -> None:
    result = await _ingestion(store).ingest([_task("a"), _note("b"), b"nonsense", _task("c")])
    assert [refusal.line for refusal in result.refused] == [3]
    assert result.by_domain == {"executions": 2, "lineage": 1}
    executions, lineage = await all_events(store, "executions"), await all_events(store, "lineage")
    assert [json.loads(bytes(each.payload))["task"] for each in executions] == ["a", "c"]
    assert [each.event_type for each in lineage] == ["note"]
    ids = {each.event_id for each in (*executions, *lineage)}
    assert set(result.accepted) == ids
    assert len(result.accepted) == 3


async def test_a_duplicate_in_a_batch_is_stored_once_and_reported(store: Store) -> None:
    result = await _ingestion(store).ingest([_task("a", "k"), _note("a", "k"), _task("a", "k")])
    assert [(each.line, each.idempotency_key) for each in result.duplicates] == [(3, "k")]
    assert len(result.accepted) == 2
    assert len(await all_events(store, "executions")) == 1


async def test_an_event_that_was_stored_recently_is_not_stored_twice(store: Store) -> None:
    ingestion = _ingestion(store)
    await ingestion.ingest([_task("a", "k"), _task("b")])
    repeated = await ingestion.ingest([_task("a", "k"), _task("b")])
    assert [each.line for each in repeated.duplicates] == [1]
    assert len(repeated.accepted) == 1  # an event without a key cannot be recognised
    assert len(await all_events(store, "executions")) == 3


async def test_events_without_a_key_do_not_push_out_those_that_have_one(store: Store) -> None:
    ingestion = _ingestion(store, RecentEvents(10))
    await ingestion.ingest([_task("a", "k")])
    await ingestion.ingest([_task("a") for _ in range(100)])
    assert [each.line for each in (await ingestion.ingest([_task("a", "k")])).duplicates] == [1]


async def test_another_event_under_the_same_key_is_for_the_fold_to_judge(store: Store) -> None:
    ingestion = _ingestion(store)
    await ingestion.ingest([_task("a", "k")])
    assert not (await ingestion.ingest([_task("b", "k")])).duplicates
    assert len(await all_events(store, "executions")) == 2


async def test_a_batch_under_the_same_id_has_the_same_events(store: Store) -> None:
    batch = new_ulid(store.runtime)
    lines = [_task("a"), b"nonsense", _task("b")]
    one = await _ingestion(store).ingest(lines, batch)
    two = await _ingestion(store).ingest(lines, batch)  # another process, after a crash
    assert one.accepted == two.accepted
    assert one.refused == two.refused


async def test_an_empty_batch_is_nothing(store: Store) -> None:
    result = await _ingestion(store).ingest([b"", b"  "])
    assert result == IngestResult([], [], [], {})
    assert await all_events(store, "executions") == []


async def test_a_batch_beyond_one_segment_is_stored_in_several(store: Store) -> None:
    lines = [_task("x" * 900_000 + str(number)) for number in range(25)]
    assert sum(map(len, lines)) > MAX_BYTES
    result = await _ingestion(store).ingest(lines)
    stored = await all_events(store, "executions")
    assert [each.event_id for each in stored] == result.accepted
    assert len(stored) == 25


async def test_what_could_not_be_stored_is_no_duplicate(
    faults: RunningServer, runtime: Runtime
) -> None:
    store = open_bench(fault_url("fault-s3", faults, "ingestion-down"), runtime).store()
    ingestion = _ingestion(store)
    faults.script.add(Rule(fault=Fault.UNAVAILABLE_BEFORE, key="sequence/"))
    with pytest.raises(Unavailable):
        await ingestion.ingest([_task("a", "k")])
    faults.script.clear()
    result = await ingestion.ingest([_task("a", "k")])
    assert (len(result.accepted), result.duplicates) == (1, [])
    assert len(await all_events(store, "executions")) == 1


async def test_a_batch_of_which_a_part_is_stored_is_no_failure(
    faults: RunningServer, runtime: Runtime
) -> None:
    store = open_bench(fault_url("fault-s3", faults, "ingestion-part"), runtime).store()
    ingestion = _ingestion(store)
    lines = [_task("a", "k"), _note("b", "k")]
    faults.script.add(Rule(fault=Fault.UNAVAILABLE_BEFORE, key="sequence/lineage"))
    with pytest.raises(Unknown):
        await ingestion.ingest(lines)
    faults.script.clear()
    repeated = await ingestion.ingest(lines)
    assert [each.line for each in repeated.duplicates] == [1]
    assert repeated.by_domain == {"lineage": 1}
    assert (
        len(await all_events(store, "executions")) == len(await all_events(store, "lineage")) == 1
    )


async def test_an_append_of_unknown_outcome_stays_unknown(
    faults: RunningServer, runtime: Runtime
) -> None:
    store = open_bench(fault_url("fault-s3", faults, "ingestion-unknown"), runtime).store()
    ingestion = _ingestion(store)
    await ingestion.ingest([_task("first")])
    faults.script.add(
        Rule(fault=Fault.ERROR_AFTER, verb=Verb.PUT, key="000000000001.jsonl"),
        Rule(fault=Fault.UNAVAILABLE_BEFORE, verb=Verb.GET, key="000000000001.jsonl"),
    )
    with pytest.raises(Unknown):
        await ingestion.ingest([_task("a", "k"), _note("b", "k")])
    faults.script.clear()
    repeated = await ingestion.ingest([_task("a", "k")])
    assert repeated.duplicates == []  # it may be stored, but this process does not know
    assert len(repeated.accepted) == 1


async def test_a_type_whose_domain_has_no_writer_is_refused_at_once(store: Store) -> None:
    ingestion = EventIngestion(DomainWriters(store, ()), TYPES, DOMAIN_OF.__getitem__)
    with pytest.raises(Invalid, match="no writer"):
        await ingestion.ingest([_task("a")])


def _spread(rows: int, text_bytes: int = 0) -> bytes:
    return _line("spread", {"rows": rows, "text_bytes": text_bytes})


async def test_an_event_of_too_many_rows_is_refused_alone_with_the_row_count(store: Store) -> None:
    lines = [_spread(MAX_EVENT_ROWS), _spread(MAX_EVENT_ROWS + 1), _note("a")]
    result = await _ingestion(store).ingest([*lines, _spread(1, MAX_EVENT_ROW_BYTES + 1)])
    assert len(result.accepted) == 2
    assert [refusal.line for refusal in result.refused] == [2, 4]
    reason = result.refused[0].reason
    assert "100,001 rows" in reason
    assert "at most 100,000 rows" in reason
    assert "split it" in reason


async def test_a_batch_of_too_many_rows_is_refused_as_a_whole(store: Store) -> None:
    lines = [_spread(MAX_EVENT_ROWS)] * (MAX_BATCH_ROWS // MAX_EVENT_ROWS)
    ingestion = _ingestion(store)
    with pytest.raises(TooManyRows, match=r"these 11 events would become 1,000,001 rows"):
        await ingestion.ingest([*lines, _spread(1)])
    assert await all_events(store, "lineage") == []
    assert len((await ingestion.ingest(lines)).accepted) == len(lines)


async def test_a_segment_is_closed_when_its_rows_are_many(store: Store) -> None:
    rows = SEGMENT_ROWS * 2 // 5
    await _ingestion(store).ingest([_spread(rows)] * 5)
    batch = await SegmentFollower(store, "lineage", Watermark()).poll()
    segments = await read_segments(store, "lineage", batch)
    assert [segment.events for segment in segments] == [2, 2, 1]


async def test_callers_that_bring_many_rows_do_not_share_a_segment(
    store: Store, runtime: Runtime
) -> None:
    ingestion, rows = _ingestion(store), SEGMENT_ROWS * 2 // 5
    await runtime.tasks.gather(*(ingestion.ingest([_spread(rows)]) for _ in range(5)))
    batch = await SegmentFollower(store, "lineage", Watermark()).poll()
    segments = await read_segments(store, "lineage", batch)
    assert [segment.events for segment in segments] == [2, 2, 1]


def _deep() -> bytes:
    return LINE.replace(b'{"task":"a"}', b"[" * 100_000 + b"]" * 100_000)


async def _admitted(lines: list[bytes], runtime: Runtime) -> Admission:
    return await admit_all(lines, TYPES, new_stamp(runtime), runtime)


async def test_bad_lines_are_named_and_the_other_lines_go_on(runtime: Runtime) -> None:
    body = b"\n".join([LINE, b"{oops", b"", LINE, _deep(), LINE.replace(b"task_", b"tusk_"), LINE])
    admission = await _admitted(split_lines(body), runtime)
    assert list(admission.accepted) == [1, 4, 7]
    assert [refusal.line for refusal in admission.refused] == [2, 5, 6]
    assert "deep" in admission.refused[1].reason
    assert "unknown event type" in admission.refused[2].reason


async def test_a_line_of_ten_megabytes_is_refused_alone(runtime: Runtime) -> None:
    huge = LINE.replace(b'"a"', b'"' + b"x" * 10_000_000 + b'"')
    admission = await _admitted(split_lines(LINE + b"\n" + huge + b"\n" + LINE), runtime)
    assert list(admission.accepted) == [1, 3]
    assert "at most" in admission.refused[0].reason


async def test_a_reason_is_short_whatever_was_sent(runtime: Runtime) -> None:
    line = LINE[:-1] + b',"' + b"x" * 100_000 + b'":1}'
    admission = await _admitted([line], runtime)
    assert len(admission.refused[0].reason) <= 300


async def test_windows_line_ends_are_no_trouble(runtime: Runtime) -> None:
    lines = split_lines(LINE + b"\r\n" + LINE + b"\r\n")
    assert list((await _admitted(lines, runtime)).accepted) == [1, 2]


async def test_an_array_is_taken_apart_like_lines(runtime: Runtime) -> None:
    lines = split_array(b"[" + LINE + b', {"x": 1}, 7, ' + LINE + b"]")
    admission = await _admitted(lines, runtime)
    assert list(admission.accepted) == [1, 4]
    assert [refusal.line for refusal in admission.refused] == [2, 3]


async def test_a_large_batch_is_admitted_whole_with_an_id_for_each_event(runtime: Runtime) -> None:
    lines = [LINE, b"", *[LINE] * (MAX_BATCH - 1)]
    admission = await _admitted(lines, runtime)
    assert len(admission.accepted) == MAX_BATCH
    assert max(admission.accepted) == MAX_BATCH + 1
    ids = [each.event.event_id for each in admission.accepted.values()]
    assert ids == sorted(set(ids))


@pytest.mark.parametrize("body", [b"{}", b"[1", b"nope", b"\xff", b"[" * 100_000, b""])
def test_a_body_that_is_no_array_is_refused_as_a_whole(body: bytes) -> None:
    with pytest.raises(Invalid):
        split_array(body)


def test_a_batch_has_an_upper_size() -> None:
    with pytest.raises(Invalid, match="at most"):
        split_lines(b"\n".join([b"x"] * (MAX_BATCH + 1)))
    with pytest.raises(Invalid, match="at most"):
        split_array(b"[" + b",".join([b"1"] * (MAX_BATCH + 1)) + b"]")
    assert len(split_lines(b"\n" * 3 * MAX_BATCH)) > MAX_BATCH


def test_an_event_is_known_by_its_type_its_key_and_its_payload(runtime: Runtime) -> None:
    import msgspec

    recent = RecentEvents()
    event = note(runtime, "a")
    recent.add([event])
    assert recent.has(note(runtime, "a"))
    assert not recent.has(note(runtime, "b"))
    assert not recent.has(msgspec.structs.replace(event, event_type="other"))
    other = msgspec.Raw(msgspec.json.encode(Note("changed")))
    assert not recent.has(msgspec.structs.replace(event, payload=other))


def test_only_the_newest_are_remembered(runtime: Runtime) -> None:
    recent = RecentEvents(100)
    for number in range(1_000):
        recent.add([note(runtime, str(number))])
        assert len(recent) <= 102
    assert recent.has(note(runtime, "999"))
    assert recent.has(note(runtime, "950"))
    assert not recent.has(note(runtime, "800"))


def test_an_event_that_is_stored_repeatedly_is_remembered_as_new(runtime: Runtime) -> None:
    recent = RecentEvents(10)
    for number in range(40):
        recent.add([note(runtime, "often"), note(runtime, str(number))])
    assert recent.has(note(runtime, "often"))
