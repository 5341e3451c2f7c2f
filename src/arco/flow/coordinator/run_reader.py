"""Runs read back from the event tables: for recovery after a restart, and for runs that left memory."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from arco.core.sql_literal import quote_text
from arco.flow.coordinator.attempt_events import failed_attempts
from arco.flow.coordinator.messages import CheckOutcome, RunStatus, TaskStatus
from arco.flow.coordinator.ports import StoredRun, StoredTask
from arco.flow.plan.event_query import (
    FRESH,
    CallerEventEngine,
    EventEngine,
    SharedEventEngine,
    all_rows,
    among,
    milliseconds,
)

_RUNS_PER_QUERY = 500
_TABLES_PER_QUERY = 1_000

_ENDED = "(completed_at IS NOT NULL OR status IN ('SUCCESS', 'FAILED'))"
_RUN = (
    f"SELECT execution_id, status, {_ENDED} AS is_over, "  # noqa: S608
    f"{milliseconds('completed_at')} AS completed_at_ms, error_message FROM system.executions"
)
_TASK = (
    "SELECT execution_id, task_id, status, attempt, worker, error_message, rows_written, output_tables, "  # noqa: S608
    "metrics, "
    f"{milliseconds('started_at')} AS started_at_ms, "
    f"{milliseconds('completed_at')} AS completed_at_ms FROM system.tasks"
)
_CHECK = (
    "SELECT result_id, task_id, table_id, check_name, check_type, status, severity, "  # noqa: S608
    f"expected_value, actual_value, message, {milliseconds('checked_at')} AS checked_at_ms "
    "FROM system.quality_results"
)
_CHECK_PASSED = ("PASSED", "SKIPPED")


class SqlRunReader:
    """A `RunReader` over fresh SQL."""

    def __init__(self, engine: SharedEventEngine) -> None:
        self._engine = engine

    async def unfinished(self) -> tuple[StoredRun, ...]:
        where = f"NOT {_ENDED} OR status IS NULL"
        rows = [row async for row in all_rows(self._engine, _RUN, where, "execution_id")]
        run_ids = [str(row["execution_id"]) for row in rows]
        tasks = await _read_tasks(self._engine, run_ids)
        return tuple(
            _run(row, tasks.get(run_id, ())) for row, run_id in zip(rows, run_ids, strict=True)
        )

    async def run(self, run_id: str, *, caller: str | None = None) -> StoredRun | None:
        engine = CallerEventEngine(self._engine, caller)
        sql = f"{_RUN} WHERE execution_id = {quote_text(run_id)}"
        rows = (await engine.query(sql, freshness=FRESH)).to_pylist()
        if not rows:
            return None
        tasks = (await _read_tasks(engine, [run_id])).get(run_id, [])
        return _run(rows[0], await _with_checks(engine, run_id, tasks))


async def _read_tasks(engine: EventEngine, run_ids: Sequence[str]) -> dict[str, list[StoredTask]]:
    tasks: dict[str, list[StoredTask]] = {}
    for start in range(0, len(run_ids), _RUNS_PER_QUERY):
        where = among("execution_id", run_ids[start : start + _RUNS_PER_QUERY])
        async for row in all_rows(engine, _TASK, where, "execution_id", "task_id"):
            tasks.setdefault(row["execution_id"], []).append(_task(row))
    return tasks


async def _with_checks(
    engine: EventEngine, run_id: str, tasks: Sequence[StoredTask]
) -> tuple[StoredTask, ...]:
    """The tasks of a run, each with the check results of its last attempt.

    Results are clustered by table, so only those of tables that the run has written are read.
    """
    tables = list(dict.fromkeys(table for task in tasks for table in task.outputs))
    checks: dict[tuple[str, int | None], list[CheckOutcome]] = {}
    for start in range(0, len(tables), _TABLES_PER_QUERY):
        of_tables = among("table_id", tables[start : start + _TABLES_PER_QUERY])
        where = f"{of_tables} AND execution_id = {quote_text(run_id)}"
        async for row in all_rows(engine, _CHECK, where, "result_id"):
            checks.setdefault((row["task_id"], row["checked_at_ms"]), []).append(_check(row))
    # The checks of an attempt carry the time of its end: those of other attempts have other times.
    return tuple(
        replace(task, checks=tuple(checks.get((task.key, task.completed_at_ms), ())))
        for task in tasks
    )


def _check(row: dict[str, Any]) -> CheckOutcome:
    fields = {
        "table": row["table_id"],
        "table_id": row["table_id"],
        "name": row["check_name"],
        "type": row["check_type"],
        "severity": row["severity"] or "error",
        "passed": row["status"] in _CHECK_PASSED,
        "expected": row["expected_value"],
        "actual": row["actual_value"],
        "message": row["message"],
    }
    return msgspec.convert(fields, CheckOutcome)


def _run(row: dict[str, object], tasks: Sequence[StoredTask]) -> StoredRun:
    return StoredRun(
        run_id=str(row["execution_id"]),
        status=RunStatus(_text(row["status"]) or RunStatus.PENDING),
        is_over=bool(row["is_over"]),
        completed_at_ms=_number(row["completed_at_ms"]),
        error=_text(row["error_message"]),
        tasks=tuple(tasks),
    )


def _task(row: dict[str, object]) -> StoredTask:
    outputs, metrics = row["output_tables"], row["metrics"]
    return StoredTask(
        key=str(row["task_id"]),
        status=TaskStatus(_text(row["status"]) or TaskStatus.PENDING),
        attempt=_number(row["attempt"]) or 0,
        worker=_text(row["worker"]),
        error=_text(row["error_message"]),
        started_at_ms=_number(row["started_at_ms"]),
        completed_at_ms=_number(row["completed_at_ms"]),
        rows_written=_number(row["rows_written"]),
        outputs=tuple(map(str, outputs)) if isinstance(outputs, list) else (),
        failures=failed_attempts(metrics if isinstance(metrics, list) else []),
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)
