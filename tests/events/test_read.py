"""Reading segments into rows."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from arco.events.read import DecodedSegment, SegmentRows, read_segment, reject_segment
from arco.events.registry import find_kind
from arco.ledger.segment import Segment
from tests.events.stored_lines import NOON, STREAM, folded, line, read, row_of, rows_of

TASK = {"execution_id": "e", "task_id": "t"}


def _quarantine(*lines: bytes, domain: str = "executions") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read(lines, domain).rows["quarantine"].to_pylist()
    return rows


def test_lines_become_rows_of_their_tables() -> None:
    lines = [line("task_started", TASK), line("execution_started", _run("e"), event=2)]
    reading = read(lines)
    assert {name: rows.num_rows for name, rows in reading.rows.items()} == {
        "tasks": 1,
        "executions": 1,
    }
    assert (reading.events, reading.late, reading.quarantined) == (2, 0, 0)


def _run(execution_id: str) -> dict[str, Any]:
    return {"execution_id": execution_id, "pipeline_id": "p"}


def test_rows_are_not_folded_yet() -> None:
    assert read([line("task_started", TASK)] * 3).rows["tasks"].num_rows == 3


def test_nothing_is_read_of_nothing() -> None:
    assert read([]) == SegmentRows()


def test_a_reading_knows_when_its_events_were_received() -> None:
    lines = [line("task_started", TASK, received=second) for second in (5, 1, 9)]
    reading = read(lines)
    assert reading.oldest_received == NOON + timedelta(seconds=1)
    assert reading.newest_received == NOON + timedelta(seconds=9)


def test_readings_are_joined() -> None:
    bad = [line("task_started", TASK, received=7), b"no"]
    joined = SegmentRows.joined([read([line("task_started", TASK)]), read([]), read(bad)])
    assert (joined.events, joined.late, joined.quarantined) == (3, 0, 1)
    assert joined.rows["tasks"].num_rows == 2
    assert joined.rows["quarantine"].num_rows == 1
    assert joined.oldest_received == NOON
    assert joined.newest_received == NOON + timedelta(seconds=7)
    assert SegmentRows.joined([]) == SegmentRows()


BAD = {
    "empty": (b"", "truncated"),
    "not JSON": (b"hello", "malformed"),
    "not UTF-8": (b'{"event_id":"\xff"}', "UTF-8"),
    "half a line": (line("task_started", TASK)[:-9], "truncated"),
    "a list": (b"[]", "Expected `object`, got `array`"),
    "too deep": (b'{"payload":' + b"[" * 100_000, "nested too deeply"),
    "lone surrogate": (line("task_started", {**TASK, "task_name": "\ud800"}), ""),
    "no payload": (line("task_started", TASK).replace(b"payload", b"cargo"), "payload"),
    "unknown type": (line("task_imagined", TASK), "unknown event type 'task_imagined'"),
    "unknown version": (line("task_started", TASK, event_version=2), "unknown version 2"),
    "lacking field": (line("task_started", {"task_id": "t"}), "execution_id"),
    "wrong type": (line("task_started", {**TASK, "attempt": "1"}), "Expected `int`, got `str`"),
    "unknown field": (line("task_started", {**TASK, "mood": 1}), "unknown field `mood`"),
    "other domain": (
        line("lineage_observed", find_kind("lineage_observed", 1).example),
        "'lineage_observed' do not belong into 'executions'",
    ),
    "short id": (line("task_started", TASK, event_id="01M7"), "event_id"),
    "no time zone": (line("task_started", TASK, occurred_at="2026-05-01T10:00:00"), "timezone"),
    "negative sequence": (line("task_started", TASK, source={"sequence": -1}), "sequence"),
    "huge sequence": (line("task_started", TASK, source={"sequence": 2**64}), "sequence"),
    "huge version": (line("task_started", TASK, event_version=2**80), "unknown version"),
}


@pytest.mark.parametrize(("bad", "reason"), BAD.values(), ids=BAD)
def test_a_line_that_cannot_be_folded_is_kept_with_the_reason(bad: bytes, reason: str) -> None:
    good = line("task_started", TASK)
    reading = read([good, bad, good])
    assert (reading.events, reading.quarantined) == (3, 1)
    assert reading.rows["tasks"].num_rows == 2
    [row] = reading.rows["quarantine"].to_pylist()
    assert (row["stream"], row["segment"], row["line"]) == (STREAM, 0, 2)
    assert reason in row["reason"]
    assert "\n" not in row["reason"]
    assert row["body"] == bad.decode(errors="replace")
    assert row["_occurred_at"] is not None
    assert row["replayed_at"] is None


def test_the_readable_part_of_a_bad_line_is_reported() -> None:
    [row] = _quarantine(line("task_imagined", TASK, received=3))
    assert (row["event_id"], row["event_type"]) == ("01M7FVEX5Z0000000000000001", "task_imagined")
    assert (row["event_version"], row["received_at"]) == (1, NOON + timedelta(seconds=3))
    [row] = _quarantine(b'{"event_id":7,"event_type":[],"event_version":true,"received_at":"x"}')
    assert [row[name] for name in ("event_id", "event_type", "event_version")] == [None] * 3
    assert row["received_at"] is None


def test_a_bad_line_without_a_time_is_as_old_as_its_stream() -> None:
    [row] = _quarantine(b"hello")
    assert row["_occurred_at"] == datetime(2026, 11, 15, 14, 58, 24, 575_000, tzinfo=UTC)


def test_a_bad_line_counts_for_when_events_were_received() -> None:
    reading = read([line("task_imagined", TASK, received=3)])
    assert reading.oldest_received == reading.newest_received == NOON + timedelta(seconds=3)


def test_a_bad_line_of_a_strange_stream_is_kept_too() -> None:
    reading = read_segment("search", Segment.of("not a ULID", 4, [b"hello"]), {})
    [row] = reading.rows["quarantine"].to_pylist()
    assert (row["stream"], row["segment"], row["line"]) == ("not a ULID", 4, 1)


@pytest.mark.parametrize("domain", ["executions", "lineage", "search"])
def test_a_replayed_line_is_recorded_in_its_own_domain(domain: str) -> None:
    settled = {"stream": STREAM, "segment": 0, "line": 1}
    reading = read([b"hello", line("quarantine_replayed", settled, second=5)], domain)
    [row] = folded(domain, reading)["quarantine"].to_pylist()
    assert row["replayed_at"] == NOON + timedelta(seconds=5)
    assert row["body"] == "hello"


def test_an_event_older_than_all_that_is_retained_is_counted_and_makes_no_rows() -> None:
    lines = [line("task_started", TASK, second=second, event=second + 9) for second in (-1, 0, 1)]
    reading = read(lines, retained_from={"tasks": NOON})
    assert (reading.events, reading.late, reading.quarantined) == (3, 1, 0)
    assert reading.rows["tasks"].num_rows == 2


def test_an_event_that_is_late_for_one_table_is_not_late_for_another() -> None:
    partition = {"table_id": "x", "partition_key": "d=1"}
    event = line("task_started", {**TASK, **partition}, second=-1)
    reading = read([event], retained_from={"tasks": NOON})
    assert (reading.late, [*reading.rows]) == (0, ["partitions"])
    reading = read([event], retained_from={"tasks": NOON, "partitions": NOON})
    assert (reading.late, reading.rows) == (1, {})


def test_an_event_is_late_if_it_has_rows_for_late_tables_alone() -> None:
    reading = read([line("task_started", TASK, second=-1)], retained_from={"tasks": NOON})
    assert (reading.late, reading.rows) == (1, {})
    reading = read([line("task_started", TASK, second=-1)], retained_from={"partitions": NOON})
    assert (reading.late, [*reading.rows]) == (0, ["tasks"])


def test_an_event_without_rows_is_not_late() -> None:
    nothing = line("lineage_observed", {"soundness": "exact"}, second=-1)
    reading = read([nothing], "lineage", {"lineage_edges": NOON})
    assert (reading.events, reading.late, reading.rows) == (1, 0, {})


def test_a_late_bad_line_is_counted_as_late() -> None:
    reading = read([line("task_imagined", TASK, second=-1)], retained_from={"quarantine": NOON})
    assert (reading.late, reading.quarantined, reading.rows) == (1, 0, {})


@pytest.mark.parametrize(
    "moment",
    ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"],
)
def test_every_clock_time_is_accepted(moment: str) -> None:
    expected = datetime.fromisoformat(moment)
    row = row_of([line("task_started", TASK, occurred_at=moment)], "tasks")
    assert (row["started_at"], row["_occurred_at"]) == (expected, expected)


@pytest.mark.parametrize(
    ("moment", "stored"),
    [
        ("0001-01-01T00:00:00+02:00", datetime.min.replace(tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999-02:00", datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_a_moment_outside_the_calendar_of_utc_is_moved_into_it(
    moment: str, stored: datetime
) -> None:
    lines = [line("task_started", {**TASK, "started_at": moment}, occurred_at=moment)]
    row = row_of(lines, "tasks")
    assert row["started_at"] == row["_occurred_at"] == stored


def test_an_event_names_the_execution_of_its_source_if_it_names_none() -> None:
    partition = {"table_id": "x", "partition_key": "d=1"}
    source = {"type": "spark", "execution_id": "run-9"}
    completed = line("partition_completed", partition, source=source)
    assert row_of([completed], "partitions")["last_execution_id"] == "run-9"
    with_own_id = line("partition_completed", {**partition, "execution_id": "run-1"}, source=source)
    assert row_of([with_own_id], "partitions")["last_execution_id"] == "run-1"


def test_unknown_fields_of_the_envelope_are_ignored() -> None:
    event = json.loads(line("task_started", TASK))
    assert rows_of([json.dumps({**event, "colour": "red"}).encode()], "tasks")


def _observation(pairs: int, event: int) -> bytes:
    keys = [f"d={number}" for number in range(pairs)]
    payload = {
        "soundness": "exact",
        "inputs": [{"table_id": "in", "partitions": ["d=0"]}],
        "outputs": [{"table_id": f"out-{event}", "partitions": keys}],
    }
    return line("lineage_observed", payload, event=event)


def test_rows_made_in_parts_equal_the_rows_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [*(_observation(10, event) for event in range(20)), b"no", _observation(100, 99)]
    segment = Segment.of(STREAM, 0, lines)
    at_once = read_segment("lineage", segment, {})
    monkeypatch.setattr("arco.events.read.PART_ROWS", 30)
    parts = list(DecodedSegment("lineage", segment, {}).parts())
    sizes = [sum(rows.num_rows for rows in part.rows.values()) for part in parts]
    assert sizes == [24] * 10 + [102] + [1]
    joined = SegmentRows.joined(parts)
    assert folded("lineage", joined) == folded("lineage", at_once)
    assert (joined.events, joined.quarantined) == (at_once.events, at_once.quarantined) == (22, 1)
    assert joined.newest_received == at_once.newest_received is not None


def test_a_rejected_segment_is_in_quarantine_line_by_line() -> None:
    lines = [line("task_started", TASK, event=event) for event in range(3)]
    reading = reject_segment("executions", Segment.of(STREAM, 7, lines), {}, "it was too much")
    assert (reading.events, reading.quarantined) == (3, 3)
    rows = reading.rows["quarantine"].to_pylist()
    assert [(row["segment"], row["line"], row["reason"]) for row in rows] == [
        (7, number, "it was too much") for number in (1, 2, 3)
    ]
    assert [row["body"].encode() for row in rows] == lines
