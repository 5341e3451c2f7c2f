"""Tasks of a project: when they last ran, and, if they write no table, with which code on which data.

They stand among the tables of a state under their own names, so that planning asks for all alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from arco.catalog.name import parse_dotted
from arco.flow.plan.keys import task_key
from arco.flow.read.asking import Engine, all_rows, among, literal, milliseconds
from arco.flow.run.ending import CODE, INPUTS
from arco.flow.state import TableState

_SUCCESS = "SUCCESS"
_STATUSES = {_SUCCESS: "COMPLETE", "FAILED": "FAILED", "BLOCKED": "FAILED"}


def is_task(name: str) -> bool:
    """Whether a name among those of tables is a task's: tables have at least three parts."""
    return len(parse_dotted(name)) < 3


async def known_tasks(engine: Engine, names: Sequence[str]) -> dict[str, TableState]:
    """What is known of tasks, by their names."""
    if not names:
        return {}
    found = [row async for row in all_rows(engine, _question(names), "nth = 1", "task_id", "kind")]
    rows: dict[str, dict[str, _Last]] = {task_key(name, ""): {} for name in names}
    for row in sorted(found, key=lambda each: (each["moment"], each["execution_id"])):
        task, _, partition = row["task_id"].partition("@")
        rows[task][partition] = rows[task].get(partition, _Last()).then(row)
    return {name: _state(rows[task_key(name, "")]) for name in names}


def _question(names: Sequence[str]) -> str:
    """Of each task its last success and its last failure, however often it ran."""
    kind = f"CASE WHEN status = {literal(_SUCCESS)} THEN 'good' ELSE 'bad' END"
    keys = [task_key(name, "") for name in names]
    newest = "ORDER BY completed_at DESC, execution_id DESC"
    return (
        "SELECT task_id, status, execution_id, metrics, moment, kind, "  # noqa: S608
        f"{milliseconds('completed_at')} AS at FROM (SELECT *, {kind} AS kind, "
        "CAST(completed_at AS BIGINT) AS moment, "
        f"row_number() OVER (PARTITION BY task_id, {kind} {newest}) AS nth FROM system.tasks "
        f"WHERE {among('split_part(task_id, chr(64), 1)', keys)} AND {among('status', _STATUSES)} "
        "AND completed_at IS NOT NULL)"
    )


@dataclass(frozen=True)
class _Last:
    """The last run of a partition, and what the last that was a success is made of."""

    status: str = "PENDING"
    material: str | None = None
    inputs: str | None = None
    code: str | None = None
    at_ms: int | None = None

    def then(self, row: dict[str, Any]) -> "_Last":
        """What is known once this has happened too."""
        status = _STATUSES[row["status"]]
        if row["status"] != _SUCCESS:
            return replace(self, status=status)
        metrics = dict(row["metrics"] or ())
        material = f"{row['execution_id']}/{row['task_id']}"
        return _Last(status, material, metrics.get(INPUTS), metrics.get(CODE), row["at"])


def _state(of: dict[str, _Last]) -> TableState:
    keys = tuple(sorted(of))
    known = [of[key] for key in keys]
    return TableState(
        keys=keys,
        statuses=tuple(each.status for each in known),
        materials=tuple(each.material for each in known),
        input_fingerprints=tuple(each.inputs for each in known),
        code_fingerprints=tuple(each.code for each in known),
        made_at_ms=tuple(each.at_ms for each in known),
    )
