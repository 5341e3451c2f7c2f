import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import Invalid
from arco.core.runtime import Runtime, system_runtime
from arco.ledger.envelope import MAX_LINE_BYTES, Envelope, admit, new_stamp
from tests.ledger.events import LINE, TYPES


def changed(**fields: object) -> bytes:
    """The good line with some fields replaced, or taken out where the value is `...`."""
    event = {**json.loads(LINE), **fields}
    return json.dumps({k: v for k, v in event.items() if v is not ...}).encode()


def test_a_good_line_is_admitted_in_utc_with_an_id_and_the_time_of_receipt(
    runtime: Runtime,
) -> None:
    event = admit(LINE, TYPES, new_stamp(runtime)).event
    assert event.occurred_at == datetime(2026, 5, 1, 8, tzinfo=UTC)
    assert event.occurred_at.utcoffset() == UTC.utcoffset(None)
    assert abs(event.received_at.timestamp() * 1000 - runtime.clock.now_ms()) < 5_000
    assert len(event.event_id) == 26
    assert event.idempotency_key == event.event_id
    assert bytes(event.payload) == b'{"task":"a","attempt":1}'


def test_the_sender_s_id_and_key_are_kept(runtime: Runtime) -> None:
    line = changed(event_id="01M7FR7CFYVQA6VZZEZ2VJY5WE", idempotency_key="run 7 / task ü")
    event = admit(line, TYPES, new_stamp(runtime)).event
    assert event.event_id == "01M7FR7CFYVQA6VZZEZ2VJY5WE"
    assert event.idempotency_key == "run 7 / task ü"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "truncated"),
        (b"null", "object"),
        (b"[]", "object"),
        (b"{", "truncated"),
        (LINE + b"x", "trailing"),
        (LINE[:-1] + b"\x00}", "malformed"),
        (LINE.replace(b'"a"', b'"\xff"'), "UTF-8"),
        (LINE.replace(b'"test"', b'"\xff"'), "UTF-8"),
        (LINE.replace(b'{"task":"a"}', b"[" * 100_000 + b"]" * 100_000), "deep"),
        (b"[" * 100_000, "object"),
        (LINE.replace(b'"a"', b'"' + b"x" * MAX_LINE_BYTES + b'"'), "at most"),
        (LINE.replace(b'{"task":"a"}', b'{"task":"a","attempt":' + b"9" * 5_000 + b"}"), "payload"),
        (LINE.replace(b'"task":"a"', b'"task":"a","task":"b"'), "'task' twice"),
        (LINE[:-1] + b',"event_version":1}', "'event_version' twice"),
        (changed(event_type="nobody_declared"), "unknown event type"),
        (changed(event_type="Task-Started"), "unknown event type"),
        (changed(event_type="x" * 256), "event_type"),
        (changed(event_version=3), "known: 1, 2"),
        (changed(event_version=0), "event_version"),
        (changed(event_version="1"), "event_version"),
        (changed(occurred_at="2026-05-01T10:00:00"), "timezone"),
        (changed(occurred_at="yesterday"), "occurred_at"),
        (changed(occurred_at="0001-01-01T00:00:00+14:00"), "years"),
        (changed(occurred_at=...), "occurred_at"),
        (changed(received_at="2026-05-01T10:00:00Z"), "received_at"),
        (changed(source={}), "type"),
        (changed(source={"type": "test", "sequence": -1}), "sequence"),
        (changed(source={"type": "a\u0000b"}), "control character in source.type"),
        (changed(source={"type": "a\x7fb"}), "control character in source.type"),
        (changed(source={"type": "test", "task_name": "a\nb"}), "in source.task_name"),
        (changed(source={"type": "test", "execution_id": "\t"}), "in source.execution_id"),
        (changed(idempotency_key="\u001f"), "control character in idempotency_key"),
        (LINE.replace(b'"test"', b'"te\x7fst"'), "control character"),
        (changed(trace_id="a\rb"), "control character in trace_id"),
        (changed(event_id="not a ulid"), "ULID"),
        (changed(event_id="01m7fr7cfyvqa6vzzez2vjy5we"), "canonical"),
        (changed(idempotency_key=""), "idempotency_key"),
        (changed(idempotency_key="x" * 256), "idempotency_key"),
        (changed(payload={"task": 1}), "payload of task_started"),
        (changed(payload={"task": "a", "other": 1}), "unknown field"),
        (changed(payload=None), "payload"),
        (changed(surprise=1), "surprise"),
    ],
)
def test_a_bad_line_is_refused_with_its_reason(line: bytes, reason: str, runtime: Runtime) -> None:
    with pytest.raises(Invalid, match=f"(?i){reason}"):
        admit(line, TYPES, new_stamp(runtime))


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_no_bytes_at_all_raise_anything_but_invalid(line: bytes) -> None:
    with pytest.raises(Invalid):
        admit(line, TYPES, new_stamp(system_runtime()))


@given(st.data())
def test_a_line_with_any_byte_changed_is_admitted_or_refused(data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(LINE) - 1))
    line = bytearray(LINE)
    line[index] = data.draw(st.integers(0, 255))
    try:
        event = admit(bytes(line), TYPES, new_stamp(system_runtime())).event
    except Invalid:
        return
    assert isinstance(event, Envelope)
    assert b"\n" not in bytes(event.payload)


def test_a_payload_written_over_several_lines_is_stored_as_one(runtime: Runtime) -> None:
    line = LINE.replace(b'{"task":"a"}', b'{\r\n  "task" :\n "a" }')
    assert (
        bytes(admit(line, TYPES, new_stamp(runtime)).event.payload) == b'{"task":"a","attempt":1}'
    )


def test_the_events_of_a_batch_have_the_same_ids_whenever_it_is_repeated(runtime: Runtime) -> None:
    first = new_stamp(runtime)
    repeated = new_stamp(runtime, first.batch)
    ids = [admit(LINE, TYPES, first, number).event.event_id for number in range(3)]
    assert ids == [admit(LINE, TYPES, repeated, number).event.event_id for number in range(3)]
    assert len(set(ids)) == 3
    assert ids == sorted(ids)
    assert admit(LINE, TYPES, new_stamp(runtime)).event.event_id not in ids


@pytest.mark.parametrize("text", [r"\u0000", r"a\\\u0000", r"\u0000b"])
def test_a_null_character_in_a_payload_is_refused(runtime: Runtime, text: str) -> None:
    line = LINE.replace(b'{"task":"a"}', b'{"task":"%s"}' % text.encode())
    with pytest.raises(Invalid, match="a null character"):
        admit(line, TYPES, new_stamp(runtime))


@pytest.mark.parametrize("text", [r"\\u0000", r"\\\\u0000", r"u0000"])
def test_a_backslash_before_u0000_is_no_null_character(runtime: Runtime, text: str) -> None:
    line = LINE.replace(b'{"task":"a"}', b'{"task":"%s"}' % text.encode())
    assert admit(line, TYPES, new_stamp(runtime)).event.event_type == "task_started"


def test_a_backslash_in_a_payload_is_no_control_character(runtime: Runtime) -> None:
    line = changed(payload={"task": "a\nb\u0001"}, idempotency_key='say "hello" \\ ü')
    event = admit(line, TYPES, new_stamp(runtime)).event
    assert json.loads(bytes(event.payload))["task"] == "a\nb\u0001"
    assert event.idempotency_key == 'say "hello" \\ ü'
