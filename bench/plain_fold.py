"""The baseline of compaction: a plain fold of the same lines with msgspec and dicts, in one process.

It is what one would write first: each event is decoded, and what it says is put into a row by the rules of
Tier 2: the highest order decides, and what is known once stays. Nothing is written.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from arco.events.execution import ExecutionCompleted, ExecutionStarted
from arco.events.partition import PartitionCompleted
from arco.events.partition_key import resolve_partition
from arco.events.quality import QualityCheckPassed
from arco.events.task import TaskCompleted, TaskStarted
from arco.ledger.envelope import Envelope

Order = tuple[int, int, datetime, int, str]
Row = dict[str, Any]

_ENVELOPE = msgspec.json.Decoder(Envelope)
_PAYLOADS = {
    name: msgspec.json.Decoder(kind)
    for name, kind in {
        "execution_started": ExecutionStarted,
        "execution_completed": ExecutionCompleted,
        "task_started": TaskStarted,
        "task_completed": TaskCompleted,
        "partition_completed": PartitionCompleted,
        "quality_check_passed": QualityCheckPassed,
    }.items()
}
_TASK_OUTCOME = (
    *("input_tables", "output_tables", "input_partitions", "output_partitions", "rows_read"),
    *("rows_written", "bytes_read", "bytes_written", "metrics"),
)


class PlainFold:
    """Rows by their keys."""

    def __init__(self) -> None:
        self.executions: dict[str, Row] = {}
        self.tasks: dict[tuple[str, str], Row] = {}
        self.partitions: dict[tuple[str, str], Row] = {}
        self.results: dict[tuple[str, str], Row] = {}

    def rows(self) -> int:
        """How many there are."""
        tables: tuple[dict[Any, Row], ...] = (
            *(self.executions, self.tasks),
            *(self.partitions, self.results),
        )
        return sum(map(len, tables))

    def take(self, lines: Iterable[bytes]) -> None:
        """Fold some lines in."""
        for line in lines:
            event = _ENVELOPE.decode(line)
            payload = _PAYLOADS[event.event_type].decode(event.payload)
            getattr(self, event.event_type)(event, payload)

    def execution_started(self, event: Envelope, payload: ExecutionStarted) -> None:
        row = self.executions.setdefault(payload.execution_id, {})
        _set_fields(
            row, event, payload, "pipeline_id", "pipeline_name", "trigger_type", "triggered_by"
        )
        _set_fields(row, event, payload, "run_key", "plan_id")
        row["started_at"] = min(row.get("started_at", event.occurred_at), event.occurred_at)
        _group(row, "status", _order(event, 0, 2), status="RUNNING", completed_at=None)

    def execution_completed(self, event: Envelope, payload: ExecutionCompleted) -> None:
        row = self.executions.setdefault(payload.execution_id, {})
        _set_fields(
            row, event, payload, "pipeline_id", "pipeline_name", "trigger_type", "triggered_by"
        )
        _group(
            row,
            "status",
            _order(event, 0, 5),
            status=payload.status,
            completed_at=event.occurred_at,
            duration_ms=payload.duration_ms,
            error_message=payload.error_message,
        )

    def task_started(self, event: Envelope, payload: TaskStarted) -> None:
        row = self.tasks.setdefault((payload.execution_id, payload.task_id), {})
        _set_fields(row, event, payload, "task_name", "table_id")
        order = _order(event, payload.attempt, 4)
        _group(row, "status", order, status="RUNNING", attempt=payload.attempt, completed_at=None)
        _group(row, "started", order, started_at=event.occurred_at, worker=payload.worker)

    def task_completed(self, event: Envelope, payload: TaskCompleted) -> None:
        row = self.tasks.setdefault((payload.execution_id, payload.task_id), {})
        _set_fields(row, event, payload, "task_name", "table_id")
        order = _order(event, payload.attempt, 8)
        _group(
            row,
            "status",
            order,
            status=payload.status,
            attempt=payload.attempt,
            completed_at=event.occurred_at,
            duration_ms=payload.duration_ms,
            error_message=payload.error_message,
        )
        _group(row, "outcome", order, **{name: getattr(payload, name) for name in _TASK_OUTCOME})

    def partition_completed(self, event: Envelope, payload: PartitionCompleted) -> None:
        named = resolve_partition(payload.table_id, payload)
        if named is None:
            raise AssertionError("the load names its partitions")
        row = self.partitions.setdefault((payload.table_id, named.partition_id), {})
        _set_fields(row, event, payload)
        order = _order(event, 0, 1)
        _group(row, "named", order, key=named.key, values=payload.partition_values)
        _group(row, "status", order, status=payload.status, last_execution_id=payload.execution_id)
        _group(
            row,
            "data",
            _order(event, payload.version or 0, 0),
            row_count=payload.row_count,
            size_bytes=payload.size_bytes,
            last_successful_run=event.occurred_at,
        )

    def quality_check_passed(self, event: Envelope, payload: QualityCheckPassed) -> None:
        row = self.results.setdefault((payload.table_id, event.idempotency_key), {})
        _set_fields(row, event, payload)
        _group(
            row,
            "result",
            _order(event, 0, 0),
            check_name=payload.check_name,
            check_type=payload.check_type,
            status=payload.status,
            severity=payload.severity,
            expected_value=payload.expected_value,
            actual_value=payload.actual_value,
            execution_id=payload.execution_id,
            task_id=payload.task_id,
            checked_at=event.occurred_at,
        )


def _order(event: Envelope, causal: int, rank: int) -> Order:
    at = min(event.occurred_at, event.received_at)
    return causal, rank, at, event.source.sequence or 0, event.event_id


def _set_fields(row: Row, event: Envelope, payload: object, *names: str) -> None:
    for name in names:
        value = getattr(payload, name)
        if value is not None and value > row.get(name, ""):
            row[name] = value
    known = row.get("_occurred_at")
    if known is None or event.occurred_at > known:
        row["_occurred_at"] = event.occurred_at


def _group(row: Row, name: str, order: Order, **values: object) -> None:
    beside = f"_{name}"
    if beside not in row or row[beside] < order:
        row[beside] = order
        row.update(values)
