"""The oracle: the expected rows of executions, tasks, partitions and checks, by the rules.

It is slow and plain, works on the JSON of the events, and uses nothing of the code under test.
"""

import hashlib
import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from tests.differential.history import History

Values = dict[str, Any]
Order = tuple[Any, ...]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def moment(text: str) -> datetime:
    """The time in UTC, limited to the years 1 to 9999."""
    microseconds = (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
    return _EPOCH + max(_FIRST, min(_LAST, microseconds)) * _MICROSECOND


class OracleEvent:
    """One event, with its times."""

    def __init__(self, envelope: dict[str, Any]) -> None:
        self.name: str = envelope["event_type"]
        self.key: str = envelope["idempotency_key"]
        self.payload: dict[str, Any] = envelope["payload"]
        self.occurred = moment(envelope["occurred_at"])
        self.source: dict[str, Any] = envelope["source"]
        at = min(self.occurred, moment(envelope["received_at"]))
        self._last = (at, self.source.get("sequence") or 0, envelope["event_id"])

    def get(self, name: str) -> Any:
        return self.payload.get(name)

    def time(self, name: str) -> datetime:
        """A time of the payload, or else the time of the event."""
        value = self.get(name)
        return self.occurred if value is None else moment(value)

    def order(self, sticky: int = 0, causal: int = 0, rank: int = 0) -> Order:
        """Sticky first, then causal, then the rank, and clocks last."""
        return (sticky, causal, rank, *self._last)


class Row:
    """The expected row of one key."""

    def __init__(self) -> None:
        self._groups: dict[str, tuple[Order, list[Values]]] = {}
        self._facts: Values = {}

    def group(self, name: str, order: Order, **values: Any) -> None:
        """Columns that belong together: the event with the highest order sets all of them.

        Of two events that differ only in their payload either may win.
        """
        before = self._groups.get(name)
        if before is None or order > before[0]:
            self._groups[name] = (order, [values])
        elif order == before[0]:
            before[1].append(values)

    def largest(self, **facts: Any) -> None:
        for name, value in facts.items():
            if value is not None:
                self._facts[name] = max(value, self._facts.get(name, value))

    def smallest(self, **facts: Any) -> None:
        for name, value in facts.items():
            if value is not None:
                self._facts[name] = min(value, self._facts.get(name, value))

    def problems(self, actual: Values) -> list[str]:
        """How the actual row differs."""
        wrong = [
            f"{name} is {actual[name]!r}, not {value!r}"
            for name, value in self._facts.items()
            if actual[name] != value
        ]
        expected = {*self._facts}
        for _, tied in self._groups.values():
            expected |= {*tied[0]}
            if not any(each.items() <= actual.items() for each in tied):
                seen = {name: actual[name] for name in tied[0]}
                wrong.append(f"{seen} should be {' or '.join(map(str, tied))}")
        unset = {*actual} - expected
        return wrong + [
            f"{name} is {actual[name]!r}, which no event set"
            for name in sorted(unset)
            if actual[name] is not None
        ]


Key = tuple[str, ...]
Rows = dict[Key, Row]

_EXECUTION_RANKS = ("PENDING", "RUNNING", "FAILED", "CANCELLED", "SUCCESS")
_RUN_FIELDS = ("pipeline_id", "pipeline_name", "trigger_type", "triggered_by", "run_key", "plan_id")
_OUTCOME = (
    *("input_tables", "output_tables", "input_partitions", "output_partitions", "rows_read"),
    *("rows_written", "bytes_read", "bytes_written"),
)
_DATA = ("row_count", "size_bytes", "materialization_id", "input_fingerprint", "code_fingerprint")
_RESULT = (
    *("check_name", "check_type", "severity", "blocking", "expected_value", "actual_value"),
    *("message", "task_id"),
)
# Of one attempt; a loss is a guess, which whatever the worker itself says outranks.
_TASK_RANKS = (
    *({"PENDING", "RETRY_WAIT"}, {"DISPATCHED"}, {"RUNNING"}, {"LOST"}),
    *({"FAILED", "SKIPPED", "BLOCKED"}, {"CANCELLED"}, {"SUCCESS"}),
)


def foretell(history: History) -> dict[str, Rows]:
    """The rows of these tables, by key."""
    rules = {
        "executions": _execution,
        "tasks": _tasks,
        "partitions": _partitions,
        "quality_results": _check,
    }
    rows: dict[str, Rows] = {table: defaultdict(Row) for table in rules}
    for line in history.events:
        if line.envelope is None:
            continue
        event = OracleEvent(line.envelope)
        for table, rule in rules.items():
            bound = history.bounds.get(table)
            if bound is None or event.occurred >= bound:
                rule(rows[table], event)
    return rows


def _execution(rows: Rows, event: OracleEvent) -> None:
    status = {
        "execution_requested": "PENDING",
        "execution_planned": "PENDING",
        "execution_started": "RUNNING",
        "execution_completed": event.get("status"),
        "cancel_requested": "CANCELLED",
    }.get(event.name)
    if status is None:
        return
    row = rows[(event.get("execution_id"),)]
    done = event.name == "execution_completed"
    row.group(
        "status",
        event.order(causal=event.get("generation") or 0, rank=_EXECUTION_RANKS.index(status)),
        status=status,
        completed_at=event.time("completed_at") if done else None,
        duration_ms=event.get("duration_ms"),
        error_message=event.get("reason" if event.name == "cancel_requested" else "error_message"),
    )
    row.largest(**{name: event.get(name) for name in _RUN_FIELDS}, _occurred_at=event.occurred)
    if event.name == "execution_started" or (done and event.get("started_at") is not None):
        row.smallest(started_at=event.time("started_at"))


def _tasks(rows: Rows, event: OracleEvent) -> None:
    if event.name == "execution_planned":
        for task in event.get("tasks") or ():
            row = rows[event.get("execution_id"), task["task_id"]]
            nothing = {"completed_at": None, "duration_ms": None, "error_message": None}
            row.group("status", event.order(), status="PENDING", attempt=0, **nothing)
            _name_task(row, event, task)
    elif event.name.startswith("task_"):
        row = rows[event.get("execution_id"), event.get("task_id")]
        _name_task(row, event, event.payload)
        row.largest(retry_count=_attempt(event) - 1)
        _task_status(row, event)
        _task_start(row, event)


def _name_task(row: Row, event: OracleEvent, named: dict[str, Any]) -> None:
    row.largest(task_name=named.get("task_name"), table_id=named.get("table_id"))
    row.largest(partition_key=_partition_key(named), _occurred_at=event.occurred)


def _task_status(row: Row, event: OracleEvent) -> None:
    rank = status = {
        "task_dispatched": "DISPATCHED",
        "task_started": "RUNNING",
        "task_completed": event.get("status"),
        "task_lost": "LOST",
        "task_retry_scheduled": "RETRY_WAIT",
        "task_cancelled": "CANCELLED",
    }[event.name]
    published = status == "SUCCESS" and event.get("published_version") is not None
    order = event.order(
        sticky=2 if published else int(status == "CANCELLED"),
        causal=_attempt(event),
        rank=next(place for place, equals in enumerate(_TASK_RANKS) if rank in equals),
    )
    ended = event.name in ("task_completed", "task_lost", "task_cancelled")
    row.group(
        "status",
        order,
        status="FAILED" if status == "LOST" else status,
        attempt=_attempt(event),
        completed_at=event.time("completed_at") if ended else None,
        duration_ms=event.get("duration_ms"),
        error_message=event.get("error_message" if event.name == "task_completed" else "reason"),
    )
    if event.name == "task_completed":
        outcome = {name: event.get(name) for name in _OUTCOME}
        row.group("outcome", order, **outcome, metrics=_metrics(event.get("metrics")))


def _task_start(row: Row, event: OracleEvent) -> None:
    """Who ends an attempt and says when it began knows better than who event so before."""
    is_end = event.name == "task_completed" and event.get("started_at") is not None
    if event.name == "task_started" or is_end:
        order = event.order(causal=_attempt(event), rank=int(is_end))
        row.group("start", order, started_at=event.time("started_at"), worker=event.get("worker"))


def _partitions(rows: Rows, event: OracleEvent) -> None:
    status = {
        "execution_planned": "PENDING",
        "partition_created": "PENDING",
        "task_started": "RUNNING",
        "partition_completed": "COMPLETE",
        "partition_failed": "FAILED",
        "partition_cleared": "PENDING",
        "task_completed": {"SUCCESS": None, "CANCELLED": "PENDING"}.get(
            event.get("status"), "FAILED"
        ),
        "task_lost": "FAILED",
        "task_cancelled": "PENDING",
    }.get(event.name)
    if status is None:
        return
    named = (event.get("tasks") or ()) if event.name == "execution_planned" else [event.payload]
    seen = set()
    for each in named:
        table_id, partition_id = each.get("table_id"), _partition_id(each)
        if table_id is None or partition_id is None or (table_id, partition_id) in seen:
            continue
        seen.add((table_id, partition_id))
        _partition(rows[table_id, partition_id], event, each, status)


def _partition(row: Row, event: OracleEvent, named: dict[str, Any], status: str) -> None:
    order = event.order(rank=int(event.name not in ("execution_planned", "partition_created")))
    row.group(
        "status",
        order,
        status=status,
        error_message={
            "partition_failed": event.get("error"),
            "task_completed": event.get("error_message"),
            "task_lost": event.get("reason"),
            "task_cancelled": event.get("reason"),
        }.get(event.name),
        last_execution_id=event.get("execution_id") or event.source.get("execution_id"),
    )
    key = _partition_key(named)
    if key is not None:
        row.group("name", order, partition_key=key, partition_values=_values(named))
    row.largest(updated_at=event.occurred, _occurred_at=event.occurred)
    row.smallest(created_at=event.time("created_at"))
    if event.name == "partition_cleared":
        nothing = dict.fromkeys((*_DATA, "last_successful_run", "last_successful_execution_id"))
        row.group("data", event.order(causal=event.get("version")), **nothing)
    if event.name == "partition_completed":
        done = {name: event.get(name) for name in _DATA}
        done["last_successful_execution_id"] = event.get("execution_id") or event.source.get(
            "execution_id"
        )
        order = event.order(causal=event.get("version") or 0)
        row.group("data", order, **done, last_successful_run=event.time("completed_at"))


def _check(rows: Rows, event: OracleEvent) -> None:
    """A result that is sent twice under one idempotency key is one result."""
    if not event.name.startswith("quality_check_"):
        return
    row = rows[event.get("table_id"), event.key]
    row.group(
        "told",
        event.order(),
        **{name: event.get(name) for name in _RESULT},
        partition_id=_partition_id(event.payload),
        status=event.get("status") or event.name.removeprefix("quality_check_").upper(),
        execution_id=event.get("execution_id") or event.source.get("execution_id"),
        checked_at=event.time("checked_at"),
    )
    row.largest(_occurred_at=event.occurred)


def _attempt(event: OracleEvent) -> int:
    number = event.get("attempt")
    return 1 if number is None else int(number)


def _values(named: dict[str, Any]) -> list[tuple[str, str]] | None:
    """The values of a partition, sorted by name; None if the key does not say them."""
    values = named.get("partition_values")
    if values is None and "=" in named["partition_key"]:
        values = dict(part.split("=", 1) for part in named["partition_key"].split("/"))
    return None if values is None else sorted(values.items())


def _partition_key(named: dict[str, Any]) -> str | None:
    if named.get("partition_values") is None and named.get("partition_key") is None:
        return None
    values = _values(named)
    if values is None:
        return str(named["partition_key"])
    return "/".join(f"{name}={_escaped(value)}" for name, value in values)


def _escaped(value: str) -> str:
    return "".join(quote(letter, safe="") if letter in "%/" else letter for letter in value)


def _partition_id(named: dict[str, Any]) -> str | None:
    key = _partition_key(named)
    if named.get("partition_id") is not None or key is None:
        return named.get("partition_id")
    text = json.dumps([named.get("table_id"), key], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _metrics(metrics: dict[str, Any] | None) -> list[tuple[str, str]] | None:
    if metrics is None:
        return None
    return [
        (name, value if isinstance(value, str) else json.dumps(value).replace("e+", "e"))
        for name, value in metrics.items()
    ]
