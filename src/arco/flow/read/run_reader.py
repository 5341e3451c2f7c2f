"""Runs as events have told of them: for a book of runs that begins anew, and for runs it has forgotten."""

from collections.abc import Sequence

import pyarrow as pa

from arco.flow.read.asking import FRESH, Engine, all_rows, among, literal, milliseconds
from arco.flow.read.checks import with_checks
from arco.flow.run.ending import failures_of
from arco.flow.run.ports import StoredRun, StoredTask
from arco.flow.run.wire import RunStatus, TaskStatus

_RUNS_AT_ONCE = 500

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


class SqlRunReader:
    """Reads runs by fresh SQL."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def unfinished(self) -> tuple[StoredRun, ...]:
        """All executions whose end was not told, oldest first, those of others too."""
        where = f"NOT {_ENDED} OR status IS NULL"
        rows = [row async for row in all_rows(self._engine, _RUN, where, "execution_id")]
        ids = [str(row["execution_id"]) for row in rows]
        tasks = await self._tasks(ids)
        return tuple(
            _run(row, tasks.get(run_id, ())) for row, run_id in zip(rows, ids, strict=True)
        )

    async def run(self, run_id: str) -> StoredRun | None:
        """One execution, if anything was told of it."""
        rows = (await self._ask(f"{_RUN} WHERE execution_id = {literal(run_id)}")).to_pylist()
        if not rows:
            return None
        tasks = (await self._tasks([run_id])).get(run_id, [])
        return _run(rows[0], await with_checks(self._engine, run_id, tasks))

    async def _tasks(self, run_ids: Sequence[str]) -> dict[str, list[StoredTask]]:
        found: dict[str, list[StoredTask]] = {}
        for start in range(0, len(run_ids), _RUNS_AT_ONCE):
            where = among("execution_id", run_ids[start : start + _RUNS_AT_ONCE])
            async for row in all_rows(self._engine, _TASK, where, "execution_id", "task_id"):
                found.setdefault(row["execution_id"], []).append(_task(row))
        return found

    async def _ask(self, sql: str) -> pa.Table:
        return await self._engine.query(sql, freshness=FRESH)


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
    return StoredTask(
        key=str(row["task_id"]),
        status=TaskStatus(_text(row["status"]) or TaskStatus.PENDING),
        attempt=_number(row["attempt"]) or 0,
        worker=_text(row["worker"]),
        error=_text(row["error_message"]),
        started_at_ms=_number(row["started_at_ms"]),
        completed_at_ms=_number(row["completed_at_ms"]),
        rows_written=_number(row["rows_written"]),
        outputs=_texts(row["output_tables"]),
        failures=failures_of(_pairs(row["metrics"])),
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _pairs(value: object) -> list[tuple[str, str]]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return None if value is None else str(value)
