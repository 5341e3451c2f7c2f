"""Events for tests: lines of a segment, made of payloads as they are sent."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from arco.core.json import encode
from arco.events.read import SegmentRows, read_segment
from arco.events.registry import ALL_TYPES
from arco.fold.fold import fold
from arco.fold.tier2 import TIER2
from arco.ledger.envelope import admit, new_stamp
from arco.ledger.segment import Segment
from tests.clocks import HandClock, hand_runtime

STREAM = "01M7FVEX5ZQ4SN3QGY2E97DMKR"
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)

Rows = list[dict[str, Any]]


def line(
    name: str,
    payload: Mapping[str, Any],
    *,
    second: float = 0,
    received: float | None = None,
    event: int = 1,
    **envelope: Any,
) -> bytes:
    """A stored event that occurred `second` after noon, and by default was received at once."""
    at = NOON + timedelta(seconds=second)
    got = at if received is None else NOON + timedelta(seconds=received)
    stored = {
        "event_id": f"01M7FVEX5Z{event:016d}",
        "event_type": name,
        "event_version": 1,
        "occurred_at": at.isoformat(),
        "received_at": got.isoformat(),
        "idempotency_key": f"{name}:{event}",
        "source": {"type": "test"},
        "payload": payload,
        **envelope,
    }
    return json.dumps(stored).encode()


def read(
    lines: Iterable[bytes],
    domain: str = "executions",
    retained_from: Mapping[str, datetime] | None = None,
) -> SegmentRows:
    return read_segment(domain, Segment.of(STREAM, 0, lines), retained_from or {})


def folded(domain: str, reading: SegmentRows) -> dict[str, pa.Table]:
    return {name: fold(TIER2[domain][name], rows) for name, rows in reading.rows.items()}


def rows_of(lines: Iterable[bytes], table: str, domain: str = "executions") -> Rows:
    """The rows of a table that the lines fold to; a bad line fails the test."""
    reading = read(lines, domain)
    assert "quarantine" not in reading.rows, reading.rows["quarantine"].to_pylist()
    rows: Rows = folded(domain, reading)[table].to_pylist()
    return rows


def row_of(lines: Iterable[bytes], table: str, domain: str = "executions") -> dict[str, Any]:
    [row] = rows_of(lines, table, domain)
    return row


def admitted(name: str, payload: Mapping[str, Any]) -> bytes:
    """An event that ingestion admitted, as it is stored."""
    sent = {
        "event_type": name,
        "event_version": 1,
        "occurred_at": NOON.isoformat(),
        "source": {"type": "test", "sequence": 7},
        "idempotency_key": f"key of {name}",
        "event_id": "01M7FVEX5Z85VB9FZB9BSTEF1J",
        "payload": payload,
    }
    runtime = hand_runtime(HandClock(int(NOON.timestamp() * 1000) + 2_000))
    return encode(admit(json.dumps(sent).encode(), ALL_TYPES, new_stamp(runtime)).event)
