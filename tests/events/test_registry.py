"""Kinds of events: each has a payload, an example that is taken, and rows that never change."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import Invalid
from arco.core.json import encode
from arco.events.read import read_segment
from arco.events.registry import (
    ALL_TYPES,
    ANY_DOMAIN,
    CLIENT_TYPES,
    DOMAINS,
    KINDS,
    EventKind,
    count_line,
    count_payload,
    count_segment,
    find_domain,
    find_kind,
)
from arco.fold.tier2 import TIER2
from arco.ledger.envelope import Envelope, RowVolume, Submission
from arco.ledger.segment import Segment
from tests.events.golden_rows import GOLDEN, golden_name, rows_as_json
from tests.events.payloads import payloads
from tests.events.reference import ENVELOPE_PAGE, PAGE, page_with, reference
from tests.events.stored_lines import NOON, STREAM, admitted, folded, line, read, row_of

SEEDS = {
    *("partition_created", "partition_completed", "partition_failed"),
    *("quality_check_passed", "quality_check_failed", "execution_started"),
    *("execution_completed", "task_started", "task_completed"),
}
FLOW = {
    *("execution_requested", "execution_planned", "task_dispatched", "task_lost"),
    *("task_retry_scheduled", "cancel_requested", "task_cancelled", "lineage_observed"),
    *("schedule_ticked", "sensor_evaluated", "backfill_created", "backfill_chunk_planned"),
    *("backfill_state_changed", "partition_value_added", "partition_value_removed"),
    "partition_cleared",
}
OURS = {"iceberg_committed", "search_document_changed", "quarantine_replayed"}

each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def domains_of(kind: EventKind) -> tuple[str, ...]:
    return DOMAINS if kind.domain == ANY_DOMAIN else (kind.domain,)


def test_all_kinds_are_there() -> None:
    assert {kind.name for kind in KINDS} == SEEDS | FLOW | OURS | {"table_profiled"}
    assert len({(kind.name, kind.version) for kind in KINDS}) == len(KINDS)


def test_every_table_of_state_is_filled_by_some_event() -> None:
    filled = {
        (domain, projection.table.name)
        for kind in KINDS
        for domain in domains_of(kind)
        for projection in kind.projections
    }
    assert filled == {(domain, name) for domain in TIER2 for name in TIER2[domain]}


@each_kind
def test_the_tables_of_a_kind_are_those_of_its_domain(kind: EventKind) -> None:
    for domain in domains_of(kind):
        for projection in kind.projections:
            assert TIER2[domain][projection.table.name] is projection.table


@each_kind
def test_an_example_is_taken_and_folded(kind: EventKind) -> None:
    for domain in domains_of(kind):
        reading = read([admitted(kind.name, kind.example)], domain)
        assert (reading.events, reading.late, reading.quarantined) == (1, 0, 0)
        assert {*reading.rows} == {each.table.name for each in kind.projections} - _silent(kind)
        for name, rows in folded(domain, reading).items():
            assert rows.schema == TIER2[domain][name].schema
            assert rows.num_rows > 0


def _silent(kind: EventKind) -> set[str]:
    """Tables of which the example happens to say nothing: a success is shown by the partition itself."""
    return {"partitions"} if kind.name in {"task_completed", "task_cancelled"} else set()


@each_kind
def test_a_payload_with_an_unknown_field_is_refused(kind: EventKind) -> None:
    with pytest.raises(Invalid, match=f"payload of {kind.name}: .*surprise"):
        admitted(kind.name, {**kind.example, "surprise": 1})


@each_kind
def test_a_kind_says_in_a_sentence_what_happened(kind: EventKind) -> None:
    assert kind.summary.endswith(".")
    assert kind.type.payload.__struct_config__.frozen


def _golden() -> list[Path]:
    return sorted(GOLDEN.glob("*.json"))


def test_there_are_golden_rows_of_every_kind() -> None:
    assert {file.name for file in _golden()} >= {golden_name(kind) for kind in KINDS}


@pytest.mark.parametrize("file", _golden(), ids=lambda file: file.stem)
def test_an_event_of_old_makes_the_rows_that_it_always_made(file: Path) -> None:
    for golden in json.loads(file.read_text()):
        reading = read_segment(
            golden["domain"], Segment.of(STREAM, 0, [golden["line"].encode()]), {}
        )
        assert reading.quarantined == 0
        assert rows_as_json(reading) == golden["rows"]


def test_the_api_refuses_events_that_only_arco_may_send() -> None:
    for kind in KINDS:
        event_type = ALL_TYPES.find(kind.name, kind.version)
        if kind.name in OURS:
            with pytest.raises(Invalid, match="unknown event type"):
                CLIENT_TYPES.find(kind.name, kind.version)
        else:
            assert CLIENT_TYPES.find(kind.name, kind.version) is event_type


def test_a_kind_is_looked_up_by_its_name_and_version() -> None:
    assert find_kind("task_started", 1).name == "task_started"
    assert find_domain("task_started") == "executions"
    assert find_domain("lineage_observed") == "lineage"
    assert find_domain("search_document_changed") == "search"
    with pytest.raises(Invalid, match="unknown version 9"):
        find_kind("task_started", 9)
    with pytest.raises(Invalid, match="no domain"):
        find_domain("quarantine_replayed")
    with pytest.raises(Invalid, match="no domain"):
        find_domain("nothing")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("task_completed", {"status": "DONE"}),
        ("task_completed", {"rows_read": -1}),
        ("task_completed", {"rows_read": 2**60}),
        ("task_completed", {"attempt": 0}),
        ("task_completed", {"execution_id": ""}),
        ("task_completed", {"execution_id": "x" * 256}),
        ("task_completed", {"error_message": "x" * 65_537}),
        ("task_completed", {"completed_at": "2026-05-01T10:00:00"}),
        ("task_completed", {"metrics": {"nested": {"a": 1}}}),
        ("task_completed", {"partition_key": "date=2026-05-02"}),
        ("partition_completed", {"status": "FAILED"}),
        ("partition_completed", {"table_id": None}),
        ("partition_completed", {"partition_values": None}),
        ("partition_completed", {"partition_values": {"date": 1}}),
        ("quality_check_passed", {"check_type": "MOOD"}),
        ("quality_check_passed", {"status": "FAILED"}),
        ("execution_started", {"trigger_type": "WHIM"}),
        ("execution_completed", {"status": "RUNNING"}),
        ("lineage_observed", {"soundness": "sure"}),
        ("lineage_observed", {"inputs": [{}]}),
        ("lineage_observed", {"column_edges": [{"source_name": "a"}]}),
        ("lineage_observed", {"column_edges": [{"target_name": "a"}]}),
        ("table_profiled", {"columns": [{"null_count": 1}]}),
    ],
)
def test_a_payload_that_does_not_fit_is_refused(name: str, change: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=f"payload of {name}: "):
        admitted(name, {**find_kind(name, 1).example, **change})


def test_an_observation_of_too_many_pairs_of_partitions_is_refused() -> None:
    many = [f"date={number}" for number in range(101)]
    wide = {"inputs": [{"table_id": "a", "partitions": many}]}
    wide |= {"outputs": [{"table_id": "b", "partitions": many}]}
    with pytest.raises(Invalid, match="at most 10000 pairs of partitions, this one has 10201"):
        admitted("lineage_observed", {"soundness": "exact", **wide})


def test_a_payload_is_stored_without_what_it_does_not_say() -> None:
    event = msgspec.json.decode(admitted("task_started", {"execution_id": "e", "task_id": "t"}))
    assert event["payload"] == {"execution_id": "e", "task_id": "t"}


def test_rows_have_the_schema_of_their_table() -> None:
    reading = read([admitted("task_started", find_kind("task_started", 1).example)])
    assert isinstance(reading.rows["tasks"], pa.Table)
    assert reading.rows["tasks"].schema == TIER2["executions"]["tasks"].schema


def _volume(kind: EventKind, payload: dict[str, Any]) -> RowVolume:
    domain = "executions" if kind.domain == ANY_DOMAIN else kind.domain
    reading = read([line(kind.name, payload)], domain)
    assert reading.quarantined == 0
    tables = reading.rows.values()
    return RowVolume(sum(rows.num_rows for rows in tables))


@each_kind
@given(data=st.data())
def test_no_event_makes_more_rows_than_were_counted(kind: EventKind, data: st.DataObject) -> None:
    payload = data.draw(payloads(kind.type.payload))
    try:
        decoded = kind.type.read(encode(payload))
    except Invalid:
        return
    assert count_payload(kind.type, decoded).rows >= _volume(kind, payload).rows


def _observed(inputs: int, outputs: int, partitions: int, key: str = "d=") -> dict[str, Any]:
    keys = [f"{key}{number}" for number in range(partitions)]
    return {
        "soundness": "exact",
        "execution_id": "run-7",
        "inputs": [{"table_id": f"in-{at}", "partitions": keys} for at in range(inputs)],
        "outputs": [{"table_id": f"out-{at}", "partitions": keys} for at in range(outputs)],
    }


def test_pairs_of_partitions_and_edges_are_counted_exactly() -> None:
    payload = _observed(2, 3, 10)
    counted = count_line(line("lineage_observed", payload))
    assert counted.rows == 20 * 30 + 2 * (2 * 3)
    assert counted.rows == _volume(find_kind("lineage_observed", 1), payload).rows


def test_long_keys_count_for_every_pair_that_they_stand_in() -> None:
    short = count_line(line("lineage_observed", _observed(1, 1, 100)))
    long = count_line(line("lineage_observed", _observed(1, 1, 100, key="d=" + "x" * 1_000)))
    assert short.rows == long.rows
    assert long.text_bytes - short.text_bytes == 2 * 1_000 * 100 * 100


def test_a_segment_counts_its_lines_and_one_row_for_each_that_cannot_be_read() -> None:
    planned = {
        "execution_id": "run-7",
        "plan_id": "p",
        "tasks": [{"task_id": f"t{at}"} for at in range(7)],
    }
    lines = [line("execution_planned", planned), b"no", line("imagined", {})]
    assert count_segment(Segment.of(STREAM, 0, lines)).rows == (1 + 7 + 7) + 1 + 1


def test_the_page_has_the_reference_that_the_code_makes() -> None:
    text = PAGE.read_text()
    assert text == page_with(text, reference()), "run: python -m tests.events.reference"


def test_every_kind_is_on_the_page() -> None:
    headings = re.findall(r"^### (\w+)$", PAGE.read_text(), re.MULTILINE)
    assert headings == [kind.name for kind in KINDS]


def test_the_page_lists_every_field_of_the_envelope() -> None:
    section = ENVELOPE_PAGE.read_text().partition("## ")[2]
    documented = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert {*Submission.__struct_fields__, *Envelope.__struct_fields__} <= documented


def test_the_first_event_of_the_page_is_one_that_is_sent() -> None:
    [first] = re.findall(r"```json\n(.*?)```", ENVELOPE_PAGE.read_text(), re.DOTALL)[:1]
    sent = json.loads(first)
    stamped = {"received_at": NOON.isoformat(), "event_id": "01M7FVEX5Z85VB9FZB9BSTEF1J"}
    line = json.dumps({"idempotency_key": "k", **sent, **stamped}).encode()
    assert read([line]).quarantined == 0
    assert row_of([line], "partitions")["last_execution_id"] == sent["source"]["execution_id"]
