"""Golden rows: old events and the rows that they made. `python -m tests.events.golden_rows` writes the
files of kinds that have none; an existing file is never rewritten."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import fields

from arco.events.read import SegmentRows, read_segment
from arco.events.registry import ANY_DOMAIN, KINDS, EventKind
from arco.ledger.segment import Segment
from tests.events.stored_lines import STREAM, admitted

GOLDEN = Path(__file__).parent / "golden"

Rows = dict[str, list[dict[str, Any]]]


def golden_name(kind: EventKind) -> str:
    return f"{kind.name}.{kind.version}.json"


def rows_as_json(reading: SegmentRows) -> Rows:
    """All rows, hidden columns included; what is null is left out."""
    return {
        name: [
            {column: _plain(value) for column, value in row.items() if value is not None}
            for row in rows.to_pylist()
        ]
        for name, rows in sorted(reading.rows.items())
    }


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):
        return [list(item) if isinstance(item, tuple) else item for item in value]
    return value


def golden(kind: EventKind, payload: dict[str, Any]) -> dict[str, Any]:
    line = admitted(kind.name, payload)
    domain = "executions" if kind.domain == ANY_DOMAIN else kind.domain
    rows = rows_as_json(read_segment(domain, Segment.of(STREAM, 0, [line]), {}))
    return {"domain": domain, "line": line.decode(), "rows": rows}


def least(kind: EventKind) -> dict[str, Any]:
    """The example without all that may be left out."""
    needed = {each.encode_name for each in fields(kind.type.payload) if each.required}
    if kind.name.startswith("partition_"):
        needed |= {"partition_values", "partition_key"}
    return {name: value for name, value in kind.example.items() if name in needed}


MORE: dict[str, list[dict[str, Any]]] = {
    "task_completed": [
        {
            "execution_id": "run-7",
            "task_id": "load",
            "status": status,
            "attempt": 3,
            "table_id": "tbl-orders",
            "partition_key": "region=eu/date=2026-05-01",
            "started_at": "2026-05-01T11:00:00+02:00",
            "worker": "w",
            "error_message": "no",
            "metrics": {"text": "a", "number": 1, "share": 0.5, "cached": True},
        }
        for status in ("FAILED", "SKIPPED", "BLOCKED", "CANCELLED", "SUCCESS")
    ],
    "partition_completed": [
        {"table_id": "t", "partition_id": "own-id", "completed_at": "2026-05-01T08:00:00Z"},
        {"table_id": "t", "partition_values": {}},
        {"table_id": "t", "partition_values": {"b/=%": "50%/x=y", "a": ""}},
        {"table_id": "t", "partition_key": "not named"},
    ],
    "execution_completed": [
        {"execution_id": "run-7", "status": status, "generation": 2}
        for status in ("SUCCESS", "CANCELLED")
    ],
    "lineage_observed": [
        {
            "soundness": "table_only",
            "inputs": [{"table_id": "a", "partitions": ["d=1", "d=2"], "rows": 5}],
            "outputs": [{"table_id": "b", "partitions": ["d=1"]}, {"name": "c"}],
        }
    ],
}


if __name__ == "__main__":
    for each in KINDS:
        file = GOLDEN / golden_name(each)
        if not file.exists():
            payloads = [each.example, least(each), *MORE.get(each.name, ())]
            documents = [golden(each, payload) for payload in payloads]
            file.write_text(json.dumps(documents, indent=1) + "\n")
