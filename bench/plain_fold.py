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
            said = _PAYLOADS[event.event_type].decode(event.payload)
            getattr(self, event.event_type)(event, said)

    def execution_started(self, event: Envelope, said: ExecutionStarted) -> None:
        row = self.executions.setdefault(said.execution_id, {})
        _know(row, event, said, "pipeline_id", "pipeline_name", "trigger_type", "triggered_by")
        _know(row, event, said, "run_key", "plan_id")
        row["started_at"] = min(row.get("started_at", event.occurred_at), event.occurred_at)
        _group(row, "status", _order(event, 0, 2), status="RUNNING", completed_at=None)

    def execution_completed(self, event: Envelope, said: ExecutionCompleted) -> None:
        row = self.executions.setdefault(said.execution_id, {})
        _know(row, event, said, "pipeline_id", "pipeline_name", "trigger_type", "triggered_by")
        _group(
            row,
            "status",
            _order(event, 0, 5),
            status=said.status,
            completed_at=event.occurred_at,
            duration_ms=said.duration_ms,
            error_message=said.error_message,
        )

    def task_started(self, event: Envelope, said: TaskStarted) -> None:
        row = self.tasks.setdefault((said.execution_id, said.task_id), {})
        _know(row, event, said, "task_name", "table_id")
        order = _order(event, said.attempt, 4)
        _group(row, "status", order, status="RUNNING", attempt=said.attempt, completed_at=None)
        _group(row, "started", order, started_at=event.occurred_at, worker=said.worker)

    def task_completed(self, event: Envelope, said: TaskCompleted) -> None:
        row = self.tasks.setdefault((said.execution_id, said.task_id), {})
        _know(row, event, said, "task_name", "table_id")
        order = _order(event, said.attempt, 8)
        _group(
            row,
            "status",
            order,
            status=said.status,
            attempt=said.attempt,
            completed_at=event.occurred_at,
            duration_ms=said.duration_ms,
            error_message=said.error_message,
        )
        _group(row, "outcome", order, **{name: getattr(said, name) for name in _TASK_OUTCOME})

    def partition_completed(self, event: Envelope, said: PartitionCompleted) -> None:
        named = resolve_partition(said.table_id, said)
        if named is None:
            raise AssertionError("the load names its partitions")
        row = self.partitions.setdefault((said.table_id, named.partition_id), {})
        _know(row, event, said)
        order = _order(event, 0, 1)
        _group(row, "named", order, key=named.key, values=said.partition_values)
        _group(row, "status", order, status=said.status, last_execution_id=said.execution_id)
        _group(
            row,
            "data",
            _order(event, said.version or 0, 0),
            row_count=said.row_count,
            size_bytes=said.size_bytes,
            last_successful_run=event.occurred_at,
        )

    def quality_check_passed(self, event: Envelope, said: QualityCheckPassed) -> None:
        row = self.results.setdefault((said.table_id, event.idempotency_key), {})
        _know(row, event, said)
        _group(
            row,
            "told",
            _order(event, 0, 0),
            check_name=said.check_name,
            check_type=said.check_type,
            status=said.status,
            severity=said.severity,
            expected_value=said.expected_value,
            actual_value=said.actual_value,
            execution_id=said.execution_id,
            task_id=said.task_id,
            checked_at=event.occurred_at,
        )


def _order(event: Envelope, causal: int, rank: int) -> Order:
    at = min(event.occurred_at, event.received_at)
    return causal, rank, at, event.source.sequence or 0, event.event_id


def _know(row: Row, event: Envelope, said: object, *names: str) -> None:
    for name in names:
        value = getattr(said, name)
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
