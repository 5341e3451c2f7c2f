"""Runs as events have told of them: for a book of runs that begins anew, and for runs it has forgotten."""

from collections.abc import Sequence

import pyarrow as pa

from arco.flow.read.asking import FRESH, Engine, among, literal, milliseconds
from arco.flow.run.ports import StoredRun, StoredTask
from arco.flow.run.wire import RunStatus, TaskStatus

MOST_ROWS = 90_000  # of one answer
_RUNS_AT_ONCE = 500

_ENDED = "(completed_at IS NOT NULL OR status IN ('SUCCESS', 'FAILED'))"
_RUN = (
    f"SELECT execution_id, status, {_ENDED} AS is_over, "  # noqa: S608
    f"{milliseconds('completed_at')} AS completed_at_ms, error_message FROM system.executions"
)
_TASK = (
    "SELECT execution_id, task_id, status, attempt, worker, error_message, rows_written, "  # noqa: S608
    f"{milliseconds('started_at')} AS started_at_ms, "
    f"{milliseconds('completed_at')} AS completed_at_ms FROM system.tasks"
)


class SqlRunReader:
    """Reads runs by fresh SQL."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def unfinished(self) -> tuple[StoredRun, ...]:
        """All executions whose end was not told, oldest first, those of others too."""
        where = f"{_RUN} WHERE NOT {_ENDED} OR status IS NULL"
        runs = await self._ask(f"{where} ORDER BY execution_id LIMIT {MOST_ROWS}")
        rows = runs.to_pylist()
        tasks = await self._tasks([row["execution_id"] for row in rows])
        return tuple(_run(row, tasks.get(row["execution_id"], ())) for row in rows)

    async def run(self, run_id: str) -> StoredRun | None:
        """One execution, if anything was told of it."""
        rows = (await self._ask(f"{_RUN} WHERE execution_id = {literal(run_id)}")).to_pylist()
        if not rows:
            return None
        tasks = await self._tasks([run_id])
        return _run(rows[0], tasks.get(run_id, ()))

    async def _tasks(self, run_ids: Sequence[str]) -> dict[str, list[StoredTask]]:
        found: dict[str, list[StoredTask]] = {}
        for start in range(0, len(run_ids), _RUNS_AT_ONCE):
            behind: tuple[str, str] | None = None
            where = among("execution_id", run_ids[start : start + _RUNS_AT_ONCE])
            while True:
                page = await self._ask(
                    f"{_TASK} WHERE {where}{_after(behind)} ORDER BY 1, 2 LIMIT {MOST_ROWS}"
                )
                rows = page.to_pylist()
                for row in rows:
                    found.setdefault(row["execution_id"], []).append(_task(row))
                if len(rows) < MOST_ROWS:
                    break
                behind = (rows[-1]["execution_id"], rows[-1]["task_id"])
        return found

    async def _ask(self, sql: str) -> pa.Table:
        return await self._engine.query(sql, freshness=FRESH)


def _after(behind: tuple[str, str] | None) -> str:
    if behind is None:
        return ""
    run_id, task_id = (literal(each) for each in behind)
    return f" AND (execution_id > {run_id} OR (execution_id = {run_id} AND task_id > {task_id}))"


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
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)
