"""What the checks of a run have found, as it was told with the ends of its tasks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from arco.flow.read.asking import Engine, all_rows, among, literal, milliseconds
from arco.flow.run.ports import StoredTask
from arco.flow.run.wire import CheckOutcome

_TABLES_AT_ONCE = 1_000
_GOOD = ("PASSED", "SKIPPED")
_CHECK = (
    "SELECT result_id, task_id, table_id, check_name, check_type, status, severity, "  # noqa: S608
    f"expected_value, actual_value, message, {milliseconds('checked_at')} AS checked_at_ms "
    "FROM system.quality_results"
)


async def with_checks(
    engine: Engine, run_id: str, tasks: Sequence[StoredTask]
) -> tuple[StoredTask, ...]:
    """The tasks of a run, each with what the checks of its last attempt have found.

    Results lie by their tables, so that only those of the tables are read that the run has written.
    """
    tables = list(dict.fromkeys(table for task in tasks for table in task.outputs))
    found: dict[tuple[str, int | None], list[CheckOutcome]] = {}
    for start in range(0, len(tables), _TABLES_AT_ONCE):
        of_run = f"execution_id = {literal(run_id)}"
        where = f"{among('table_id', tables[start : start + _TABLES_AT_ONCE])} AND {of_run}"
        async for row in all_rows(engine, _CHECK, where, "result_id"):
            found.setdefault((row["task_id"], row["checked_at_ms"]), []).append(_outcome(row))
    # An attempt is told with its checks, all as of its end: those of others have other times.
    return tuple(
        replace(task, checks=tuple(found.get((task.key, task.completed_at_ms), ())))
        for task in tasks
    )


def _outcome(row: dict[str, Any]) -> CheckOutcome:
    told = {
        "table": row["table_id"],
        "table_id": row["table_id"],
        "name": row["check_name"],
        "type": row["check_type"],
        "severity": row["severity"] or "error",
        "passed": row["status"] in _GOOD,
        "expected": row["expected_value"],
        "actual": row["actual_value"],
        "message": row["message"],
    }
    return msgspec.convert(told, CheckOutcome)
