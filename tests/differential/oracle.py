"""The oracle: what should be seen of executions, tasks, partitions and checks, by the rules as told.

It is slow and plain, works on the JSON of the events, and uses nothing of the code under test.
"""

import hashlib
import json
from collections import defaultdict
from typing import Any
from urllib.parse import quote

from tests.differential.account import Row, Said
from tests.differential.history import History

Key = tuple[str, ...]
Rows = dict[Key, Row]

_EXECUTION_RANKS = ("PENDING", "RUNNING", "FAILED", "CANCELLED", "SUCCESS")
_KNOWN = ("pipeline_id", "pipeline_name", "trigger_type", "triggered_by", "run_key", "plan_id")
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
    for event in history.events:
        if event.said is None:
            continue
        said = Said(event.said)
        for table, rule in rules.items():
            bound = history.bounds.get(table)
            if bound is None or said.occurred >= bound:
                rule(rows[table], said)
    return rows


def _execution(rows: Rows, said: Said) -> None:
    status = {
        "execution_requested": "PENDING",
        "execution_planned": "PENDING",
        "execution_started": "RUNNING",
        "execution_completed": said.get("status"),
        "cancel_requested": "CANCELLED",
    }.get(said.name)
    if status is None:
        return
    row = rows[(said.get("execution_id"),)]
    done = said.name == "execution_completed"
    row.group(
        "status",
        said.order(causal=said.get("generation") or 0, rank=_EXECUTION_RANKS.index(status)),
        status=status,
        completed_at=said.time("completed_at") if done else None,
        duration_ms=said.get("duration_ms"),
        error_message=said.get("reason" if said.name == "cancel_requested" else "error_message"),
    )
    row.largest(**{name: said.get(name) for name in _KNOWN}, _occurred_at=said.occurred)
    if said.name == "execution_started" or (done and said.get("started_at") is not None):
        row.smallest(started_at=said.time("started_at"))


def _tasks(rows: Rows, said: Said) -> None:
    if said.name == "execution_planned":
        for task in said.get("tasks") or ():
            row = rows[said.get("execution_id"), task["task_id"]]
            nothing = {"completed_at": None, "duration_ms": None, "error_message": None}
            row.group("status", said.order(), status="PENDING", attempt=0, **nothing)
            _name_task(row, said, task)
    elif said.name.startswith("task_"):
        row = rows[said.get("execution_id"), said.get("task_id")]
        _name_task(row, said, said.payload)
        row.largest(retry_count=_attempt(said) - 1)
        _task_status(row, said)
        _task_start(row, said)


def _name_task(row: Row, said: Said, named: dict[str, Any]) -> None:
    row.largest(task_name=named.get("task_name"), table_id=named.get("table_id"))
    row.largest(partition_key=_partition_key(named), _occurred_at=said.occurred)


def _task_status(row: Row, said: Said) -> None:
    rank = status = {
        "task_dispatched": "DISPATCHED",
        "task_started": "RUNNING",
        "task_completed": said.get("status"),
        "task_lost": "LOST",
        "task_retry_scheduled": "RETRY_WAIT",
        "task_cancelled": "CANCELLED",
    }[said.name]
    published = status == "SUCCESS" and said.get("published_version") is not None
    order = said.order(
        sticky=2 if published else int(status == "CANCELLED"),
        causal=_attempt(said),
        rank=next(place for place, equals in enumerate(_TASK_RANKS) if rank in equals),
    )
    ended = said.name in ("task_completed", "task_lost", "task_cancelled")
    row.group(
        "status",
        order,
        status="FAILED" if status == "LOST" else status,
        attempt=_attempt(said),
        completed_at=said.time("completed_at") if ended else None,
        duration_ms=said.get("duration_ms"),
        error_message=said.get("error_message" if said.name == "task_completed" else "reason"),
    )
    if said.name == "task_completed":
        outcome = {name: said.get(name) for name in _OUTCOME}
        row.group("outcome", order, **outcome, metrics=_metrics(said.get("metrics")))


def _task_start(row: Row, said: Said) -> None:
    """Who ends an attempt and says when it began knows better than who said so before."""
    is_end = said.name == "task_completed" and said.get("started_at") is not None
    if said.name == "task_started" or is_end:
        order = said.order(causal=_attempt(said), rank=int(is_end))
        row.group("start", order, started_at=said.time("started_at"), worker=said.get("worker"))


def _partitions(rows: Rows, said: Said) -> None:
    status = {
        "execution_planned": "PENDING",
        "partition_created": "PENDING",
        "task_started": "RUNNING",
        "partition_completed": "COMPLETE",
        "partition_failed": "FAILED",
        "partition_cleared": "PENDING",
        "task_completed": {"SUCCESS": None, "CANCELLED": "PENDING"}.get(
            said.get("status"), "FAILED"
        ),
        "task_lost": "FAILED",
        "task_cancelled": "PENDING",
    }.get(said.name)
    if status is None:
        return
    named = (said.get("tasks") or ()) if said.name == "execution_planned" else [said.payload]
    seen = set()
    for each in named:
        table_id, partition_id = each.get("table_id"), _partition_id(each)
        if table_id is None or partition_id is None or (table_id, partition_id) in seen:
            continue
        seen.add((table_id, partition_id))
        _partition(rows[table_id, partition_id], said, each, status)


def _partition(row: Row, said: Said, named: dict[str, Any], status: str) -> None:
    order = said.order(rank=int(said.name not in ("execution_planned", "partition_created")))
    row.group(
        "status",
        order,
        status=status,
        error_message={
            "partition_failed": said.get("error"),
            "task_completed": said.get("error_message"),
            "task_lost": said.get("reason"),
            "task_cancelled": said.get("reason"),
        }.get(said.name),
        last_execution_id=said.get("execution_id") or said.source.get("execution_id"),
    )
    key = _partition_key(named)
    if key is not None:
        row.group("name", order, partition_key=key, partition_values=_values(named))
    row.largest(updated_at=said.occurred, _occurred_at=said.occurred)
    row.smallest(created_at=said.time("created_at"))
    if said.name == "partition_cleared":
        nothing = dict.fromkeys((*_DATA, "last_successful_run", "last_successful_execution_id"))
        row.group("data", said.order(causal=said.get("version")), **nothing)
    if said.name == "partition_completed":
        done = {name: said.get(name) for name in _DATA}
        done["last_successful_execution_id"] = said.get("execution_id") or said.source.get(
            "execution_id"
        )
        order = said.order(causal=said.get("version") or 0)
        row.group("data", order, **done, last_successful_run=said.time("completed_at"))


def _check(rows: Rows, said: Said) -> None:
    """The same result told twice, under one key of its sender, is one result."""
    if not said.name.startswith("quality_check_"):
        return
    row = rows[said.get("table_id"), said.key]
    row.group(
        "told",
        said.order(),
        **{name: said.get(name) for name in _RESULT},
        partition_id=_partition_id(said.payload),
        status=said.get("status") or said.name.removeprefix("quality_check_").upper(),
        execution_id=said.get("execution_id") or said.source.get("execution_id"),
        checked_at=said.time("checked_at"),
    )
    row.largest(_occurred_at=said.occurred)


def _attempt(said: Said) -> int:
    found = said.get("attempt")
    return 1 if found is None else int(found)


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
