"""What became of tasks when they last failed, by what is recorded of their runs."""

from collections.abc import Iterator, Sequence

from arco.api.requests import QueryRequest
from arco.api.responses import QueryResult
from arco.cli.flow.screen.board import failed_checks
from arco.cli.flow.screen.lines import check_line
from arco.cli.flow.screen.words import first_line
from arco.cli.remote import Remote, path
from arco.core import json
from arco.flow.coordinator.messages import RunView, TaskStatus
from arco.flow.plan.event_query import FRESH, among
from arco.flow.plan.explain import TaskFailure

_MOST = 3
_BAD = (TaskStatus.FAILED, TaskStatus.BLOCKED)


def last_failures(remote: Remote, tasks: Sequence[str]) -> tuple[TaskFailure, ...]:
    """The last failure of each of the first few of these tasks, as far as it is known."""
    runs = _runs(remote, tasks[:_MOST])
    views = {run: _view(remote, run) for run in dict.fromkeys(runs.values())}
    return tuple(failure for task, run in runs.items() for failure in _failures(task, views[run]))


def _runs(remote: Remote, tasks: Sequence[str]) -> dict[str, str]:
    """The run in which each task failed last."""
    if not tasks:
        return {}
    newest = "ORDER BY completed_at DESC NULLS LAST, execution_id DESC"
    sql = (
        "SELECT task_id, execution_id FROM (SELECT task_id, execution_id, "  # noqa: S608
        f"row_number() OVER (PARTITION BY task_id {newest}) AS nth FROM system.tasks "
        f"WHERE {among('task_id', tasks)} AND {among('status', _BAD)}) WHERE nth = 1"
    )
    answer = remote.change("POST", "/query", QueryRequest(sql=sql, freshness=FRESH))
    found = {str(task): str(run) for task, run in json.decode(answer, QueryResult).rows}
    return {task: found[task] for task in tasks if task in found}


def _view(remote: Remote, run_id: str) -> RunView:
    return json.decode(remote.get(path("runs", run_id)), RunView)


def _failures(task: str, run: RunView) -> Iterator[TaskFailure]:
    for view in run.changed:
        if view.key == task:
            checks = tuple(check_line(each) for each in failed_checks(view))
            yield TaskFailure(task, run.run_id, first_line(view.error) or None, checks)
