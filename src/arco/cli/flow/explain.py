"""`arco explain`: why a partition is as it is, or why it would be made."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.flags import AsJson, Server, TableName
from arco.cli.flow.flags import EmbeddedAddress, FormatFlag, ProjectDir, command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from arco.client import Arco
    from arco.flow.coordinator.messages import RunView
    from arco.flow.define import Project
    from arco.flow.plan.explain import Explanation, TaskFailure

_EXAMPLES = """\
Examples:
  arco explain gold.spend_7d 2026-01-12    one partition
  arco explain silver.orders ds=2026-01-10
  arco explain silver.customers --json     a table without partitions, as JSON"""

_SERVER, _ADDRESS = Server(), EmbeddedAddress()
_MAX_FAILURES = 3
_MAX_OLDER_CODES = 3
_BAD = ("FAILED", "BLOCKED")

app = command("explain", "Explain why a partition is up to date, stale or missing.", _EXAMPLES)


@app.default
def explain(
    table: TableName,
    partition: Annotated[str | None, Parameter(metavar="PARTITION", show_env_var=False)] = None,
    /,
    *,
    project: ProjectDir = None,
    format_: FormatFlag = None,
    server: Server = _SERVER,
    address: EmbeddedAddress = _ADDRESS,
    json: AsJson = False,
) -> None:
    """Explain the state of a partition: the code and data that it was made from, and what has changed.

    Parameters
    ----------
    partition
        The partition: its key or, if there is one dimension, its value; all partitions by default.
    server
        The server to read the state from.
    address
        Start a server for this command only.
    """
    from dataclasses import replace

    from arco.cli.flow.connection import ArcoTarget, call_in_thread, connect_arco
    from arco.cli.flow.project import load
    from arco.cli.output import print_document
    from arco.cli.rendering import one_line
    from arco.core.clock import utc
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run
    from arco.flow.plan import explain as planning

    loaded, runtime, target = load(project, format_), system_runtime(), ArcoTarget(server, address)

    async def work() -> "Explanation":
        async with connect_arco(target, runtime, needs_coordinator=False) as connected:
            state = await connected.coordinator.state(loaded.tables, loaded.replaced)
            now = utc(runtime.clock.now_ms())
            explained = planning.explain(loaded.project, table, partition, state, now)
            is_changed = explained.code_recorded not in (None, explained.code_now)
            if not is_changed and not explained.older_codes and not explained.failed:
                return explained

            def with_records(arco: "Arco") -> "Explanation":
                def changes(recorded: str) -> tuple[str, ...]:
                    return _code_changes(arco, loaded.project, str(explained.maker), recorded)

                older = explained.older_codes
                looked_up = [
                    replace(each, changes=changes(each.code)) for each in older[:_MAX_OLDER_CODES]
                ]
                return replace(
                    explained,
                    failures=_last_failures(arco, explained.failed),
                    code_changes=changes(str(explained.code_recorded)) if is_changed else (),
                    older_codes=(*looked_up, *older[_MAX_OLDER_CODES:]),
                )

            return await call_in_thread(target, connected, runtime, with_records)

    explanation = run(work())
    if json:
        print_document(explanation)
        return
    for line in explanation.lines():
        print(one_line(line))


def _code_changes(arco: "Arco", project: "Project", maker: str, recorded: str) -> tuple[str, ...]:
    """The functions, constants and options that changed since the recorded code, as far as records say."""
    from arco.core import json as documents
    from arco.core.sql_literal import quote_text
    from arco.flow.define.fingerprint import changed_parts
    from arco.flow.plan.keys import task_key
    from arco.flow.plan.table_state import CODE_METRIC, CODE_PARTS_METRIC

    sql = (
        f"SELECT metrics['{CODE_PARTS_METRIC}'] FROM system.tasks "  # noqa: S608
        f"WHERE split_part(task_id, chr(64), 1) = {quote_text(task_key(maker, ''))} "
        f"AND metrics['{CODE_METRIC}'] = {quote_text(recorded)} "
        f"AND metrics['{CODE_PARTS_METRIC}'] IS NOT NULL "
        "ORDER BY completed_at DESC LIMIT 1"
    )
    rows = arco.query(sql, fresh=True).rows
    if not rows:
        return ("which parts of it have changed is not recorded",)
    before = documents.decode(str(rows[0][0]).encode(), dict[str, str])
    return changed_parts(before, project.code_parts[maker])


def _last_failures(arco: "Arco", tasks: "Sequence[str]") -> "tuple[TaskFailure, ...]":
    """The last failure of each of the first few of these tasks, as far as it is recorded."""
    runs = _failed_runs(arco, tasks[:_MAX_FAILURES])
    views = {run: arco.runs.get(run) for run in dict.fromkeys(runs.values())}
    return tuple(failure for task, run in runs.items() for failure in _failures(task, views[run]))


def _failed_runs(arco: "Arco", tasks: "Sequence[str]") -> dict[str, str]:
    """The run in which each task failed last."""
    from arco.flow.plan.event_query import among

    if not tasks:
        return {}
    newest = "ORDER BY completed_at DESC NULLS LAST, execution_id DESC"
    sql = (
        "SELECT task_id, execution_id FROM (SELECT task_id, execution_id, "  # noqa: S608
        f"row_number() OVER (PARTITION BY task_id {newest}) AS nth FROM system.tasks "
        f"WHERE {among('task_id', tasks)} AND {among('status', _BAD)}) WHERE nth = 1"
    )
    runs = {str(task): str(run) for task, run in arco.query(sql, fresh=True).rows}
    return {task: runs[task] for task in tasks if task in runs}


def _failures(task: str, run: "RunView") -> "Iterator[TaskFailure]":
    from arco.cli.flow.run_progress import check_line, failed_checks
    from arco.cli.flow.text_format import first_line
    from arco.flow.plan.explain import TaskFailure

    for view in run.changed:
        if view.key == task:
            checks = tuple(check_line(each) for each in failed_checks(view))
            yield TaskFailure(task, run.run_id, first_line(view.error) or None, checks)
