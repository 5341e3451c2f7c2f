"""Row counts: what an event becomes is known before it is made, and never too low."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import Invalid
from arco.core.json import encode
from arco.events.registry import (
    ANY_DOMAIN,
    KINDS,
    EventKind,
    count_line,
    count_payload,
    count_segment,
    find_kind,
)
from arco.ledger.envelope import RowCount
from arco.ledger.segment import Segment
from tests.events.payloads import payloads
from tests.events.told import STREAM, line, read

each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def _made(kind: EventKind, payload: dict[str, Any]) -> RowCount:
    domain = "executions" if kind.domain == ANY_DOMAIN else kind.domain
    reading = read([line(kind.name, payload)], domain)
    assert reading.quarantined == 0
    tables = reading.rows.values()
    return RowCount(sum(rows.num_rows for rows in tables))


@each_kind
@given(data=st.data())
def test_no_event_makes_more_rows_than_were_counted(kind: EventKind, data: st.DataObject) -> None:
    payload = data.draw(payloads(kind.type.payload))
    try:
        decoded = kind.type.read(encode(payload))
    except Invalid:
        return
    assert count_payload(kind.type, decoded).rows >= _made(kind, payload).rows


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
    assert counted.rows == _made(find_kind("lineage_observed", 1), payload).rows


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
