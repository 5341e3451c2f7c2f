"""`arco runs` lists runs or shows one, `arco logs` prints the log of a task, `arco cancel` stops a run."""

import math
import sys
from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from msgspec import structs

from arco.cli.flags import AsJson, Server
from arco.cli.flow.flags import RUN_ID_HELP, EmbeddedAddress, Repeated, RunId, command
from arco.cli.settings import Flag
from arco.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from arco.cli.flow.connection import ArcoTarget
    from arco.client import Arco
    from arco.client.models import RunInfo, TaskLogChunk
    from arco.flow.coordinator.messages import RunView, TaskView

_EXAMPLES = """\
Examples:
  arco runs                                    the latest 20
  arco runs --limit 200 --status failed
  arco runs 01M7GVFS186HGNANJXDTGV0000         one run with its tasks
  arco runs last --status failed,blocked       some tasks of the newest run
  arco runs 01M7GVFS186HGNANJXDTGV0000 --json  as JSON"""

_CANCEL_EXAMPLES = """\
Examples:
  arco cancel 01M7GVFS186HGNANJXDTGV0000

Running tasks are stopped, also in Spark; the others do not start. Published data
stay published. `arco retry RUN` runs the remaining tasks later."""

_SERVER, _ADDRESS = Server(), EmbeddedAddress()
_CANCEL_LOOKS = 20
_CANCEL_WAIT_MS = 1_000
_MAX_WARNINGS = 10
_MAX_CODE_WAITS = 5
_STATUSES = ("PENDING", "RUNNING", "SUCCESS", "FAILED", "CANCELLED")

app = command("runs", "List runs, or show one run.", _EXAMPLES)
cancel_app = command("cancel", "Cancel a run.", _CANCEL_EXAMPLES)


@app.default
def runs(
    run: Annotated[
        str | None, Parameter(metavar="RUN", show_env_var=False, help=RUN_ID_HELP)
    ] = None,
    /,
    *,
    limit: Annotated[int, Parameter(metavar="N")] = 20,
    status: Annotated[
        tuple[str, ...], Parameter.combine(Repeated, Parameter(metavar="STATUS"))
    ] = (),
    server: Server = _SERVER,
    address: EmbeddedAddress = _ADDRESS,
    json: AsJson = False,
) -> None:
    """List runs, the latest first, or show one run with its tasks.

    Parameters
    ----------
    limit
        The maximum number of runs to list.
    status
        Only runs with this status or, for one run, only tasks with it; may be repeated, or take several
        separated by commas.
    server
        The server to read the state from.
    address
        Start a server for this command only.
    """
    from arco.cli.flow.connection import ArcoTarget

    target = ArcoTarget(server, address)
    if run is not None:
        _show(target, run, _statuses(status, _task_statuses()), as_json=json)
        return
    if not 1 <= limit <= 100_000:
        raise Invalid(f"--limit takes 1 to 100,000 runs, not {limit}")
    _list(target, limit, _statuses(status, _STATUSES), as_json=json)


@cancel_app.default
def cancel(
    run: RunId,
    /,
    *,
    server: Server = _SERVER,
    address: EmbeddedAddress = _ADDRESS,
    json: AsJson = False,
) -> None:
    """Cancel a run; published data stay published.

    Parameters
    ----------
    server
        The server that coordinates the runs.
    address
        Start a server for this command only.
    """
    from arco.cli.flow.connection import ArcoTarget, call_arco
    from arco.cli.output import print_document

    def stop(arco: "Arco") -> "RunView":
        view = arco.runs.cancel(arco.runs.find(run))
        for _ in range(_CANCEL_LOOKS):  # most runs stop in moments
            if view.status.is_over:
                break
            view = arco.runs.get(view.run_id, since=view.number, wait_ms=_CANCEL_WAIT_MS)
        return view

    view = call_arco(ArcoTarget(server, address), stop, needs_coordinator=True)
    if json:
        print_document(view)
        return
    print(f"Run {view.run_id} is {view.status.lower()}: {_counts(view)}.")


def _statuses(texts: tuple[str, ...], allowed: tuple[str, ...]) -> list[str]:
    """The statuses that are named, each once."""
    statuses = dict.fromkeys(each.strip().upper() for text in texts for each in text.split(","))
    for each in statuses:
        if each not in allowed:
            raise Invalid(
                f"--status takes one of {', '.join(allowed).lower()}, not {each[:80].lower()!r}"
            )
    return list(statuses)


def _task_statuses() -> tuple[str, ...]:
    from arco.flow.coordinator.messages import TaskStatus

    return tuple(each.value for each in TaskStatus)


def _list(target: "ArcoTarget", limit: int, statuses: list[str], *, as_json: bool) -> None:
    from arco.cli.flow.connection import call_arco
    from arco.cli.rendering import print_items, print_rows

    def read(arco: "Arco") -> "list[RunInfo]":
        if len(statuses) <= 1:
            return list(islice(arco.runs.list(status=statuses[0] if statuses else None), limit))
        return list(islice((run for run in arco.runs.list() if run.status in statuses), limit))

    runs = call_arco(target, read)
    if as_json:
        print_items(run.raw for run in runs)
    elif runs:
        print_rows(("RUN", "STATUS", "STARTED", "TIME", "BY", "ERROR"), map(_row, runs))
    else:
        print("No runs yet: `arco run` starts one.")


def _row(run: "RunInfo") -> tuple[str, ...]:
    from arco.cli.flow.text_format import first_line, format_duration, shorten
    from arco.cli.object_rendering import moment

    return (
        run.run_id,
        (run.status or "").lower(),
        moment(run.started_at),
        format_duration(run.duration_ms),
        run.triggered_by or run.trigger_type or "",
        shorten(first_line(run.error_message), 80),
    )


def _show(target: "ArcoTarget", run_id: str, statuses: list[str], *, as_json: bool) -> None:
    from msgspec import structs

    from arco.cli.flow.connection import call_arco
    from arco.cli.output import print_document

    view = call_arco(target, lambda arco: arco.runs.get(arco.runs.find(run_id)))
    if statuses:
        chosen = tuple(each for each in view.changed if each.status in statuses)
        view = structs.replace(view, changed=chosen)
    if as_json:
        print_document(view)
    else:
        print_run(view, target.flags())


def _counts(view: "RunView") -> str:
    return ", ".join(f"{count:,} {status.lower()}" for status, count in view.counts.items())


def print_run(view: "RunView", flags: str) -> None:
    """A run for people."""
    from arco.cli.flow.text_format import first_line, format_duration, format_time
    from arco.cli.rendering import one_line, print_fields, print_rows

    took = None
    if view.requested_at_ms is not None and view.completed_at_ms is not None:
        took = view.completed_at_ms - view.requested_at_ms
    print_fields(
        (
            ("run", view.run_id),
            ("status", view.status.lower()),
            ("requested", format_time(view.requested_at_ms)),
            ("ended", format_time(view.completed_at_ms)),
            ("time", format_duration(took)),
            ("tasks", _counts(view)),
            ("error", first_line(view.error)),
        )
    )
    if view.changed:
        print()
        rows = [_task(each) for each in sorted(view.changed, key=_start_order)]
        print_rows(("TASK", "STATUS", "ATTEMPT", "ROWS", "CHECKS", "TIME", "ERROR"), rows)
    for line in (*code_lines(view), *_warning_lines(view.changed)):
        print(one_line(line))
    bad = next((each.key for each in view.changed if each.status in ("FAILED", "BLOCKED")), None)
    if bad is not None:
        logs = f"arco logs {view.run_id} {quote(bad)}{f' {flags}' if flags else ''}"
        print(f"\n`{one_line(logs)}` shows more.")


def code_lines(view: "RunView") -> "Iterator[str]":
    """Why ready tasks do not begin: which code they were planned with, and which the workers have."""
    from arco.cli.flow.text_format import count_of
    from arco.flow.plan.keys import short_name

    for wait in view.waits_for_code[:_MAX_CODE_WAITS]:
        name, planned = short_name(wait.maker), wait.planned
        tasks = f"{count_of(wait.tasks, 'ready task')} of {name}"
        if not wait.workers:
            yield f"waiting  {tasks}: no worker is connected that takes them: `arco worker` starts one"
        for worker in wait.workers:
            if worker.code is None:
                has = f"has no code of {name}, or is of an older version of Arco"
            elif worker.code.code != planned.code:
                has = f"has the code {worker.code.code[:12]}"
            else:
                has = "has the same code and other checks"
            code = planned.code[:12]
            yield f"waiting  {tasks}, planned with the code {code}: worker {worker.worker} {has}"
    if any(wait.workers for wait in view.waits_for_code):
        yield (
            "Update the project where the worker runs: it reloads by itself. Or plan what is left with the "
            f"present code: `arco cancel {view.run_id}`, then `arco retry {view.run_id}`."
        )
    more = len(view.waits_for_code) - _MAX_CODE_WAITS
    if more > 0:
        yield f"and {count_of(more, 'asset')} more, which --json shows"


def _start_order(view: "TaskView") -> tuple[float, str]:
    """Tasks in the order in which they were begun; those that were not come last."""
    return (math.inf if view.started_at_ms is None else view.started_at_ms, view.key)


def _task(view: "TaskView") -> tuple[str, ...]:
    from arco.cli.flow.run_progress import check_line, failed_checks, took_ms
    from arco.cli.flow.run_summary import failure_reason
    from arco.cli.flow.text_format import first_line, format_duration, format_number
    from arco.flow.coordinator.messages import TaskStatus

    failed = failed_checks(view)
    passed = len(view.checks) - len(failed)
    blocking = (check_line(each) for each in failed if each.severity == "error")
    is_failed = view.status is TaskStatus.FAILED
    message = failure_reason(view) if is_failed else first_line(view.error) or "; ".join(blocking)
    return (
        view.key,
        view.status.lower(),
        str(view.attempt or ""),
        format_number(view.rows_written),
        f"{passed}/{len(view.checks)}" if view.checks else "",
        format_duration(took_ms(view)),
        message,
    )


def _warning_lines(views: "Iterable[TaskView]") -> "Iterator[str]":
    """A line for each warning, with whom it was given to: the one that most tasks were given first."""
    from arco.cli.flow.text_format import count_of, list_some

    tasks_by_warning: dict[str, list[str]] = {}
    for view in views:
        for text in _warnings(view):
            tasks_by_warning.setdefault(text, []).append(view.key)
    warnings = sorted(tasks_by_warning.items(), key=lambda each: -len(each[1]))
    for text, keys in warnings[:_MAX_WARNINGS]:
        yield f"warning  {list_some(keys, 2)}: {text}"
    if len(warnings) > _MAX_WARNINGS:
        yield f"and {count_of(len(warnings) - _MAX_WARNINGS, 'warning')} more, which --json lists"


def _warnings(view: "TaskView") -> list[str]:
    """The warnings of a task: those that its worker reported, or else those of its checks."""
    from arco.cli.flow.run_progress import check_line, failed_checks

    failed = (each for each in failed_checks(view) if each.severity != "error")
    return list(view.warnings) or [check_line(each) for each in failed]


_LOGS_EXAMPLES = """\
Examples:
  arco logs 01M7GVFS186HGNANJXDTGV0000 silver.orders@ds=2026-01-10
  arco logs 01M7GVFS186HGNANJXDTGV0000 silver.orders@ds=2026-01-10 --attempt 1
  arco logs 01M7GVFS186HGNANJXDTGV0000 report --follow

`arco runs RUN` lists the tasks of a run."""


logs_app = command("logs", "Print the log of a task.", _LOGS_EXAMPLES)


@logs_app.default
def logs(
    run: RunId,
    task: Annotated[str, Parameter(metavar="TASK", show_env_var=False)],
    /,
    *,
    attempt: Annotated[int | None, Parameter(metavar="N")] = None,
    follow: Flag = False,
    server: Server = _SERVER,
    address: EmbeddedAddress = _ADDRESS,
    json: AsJson = False,
) -> None:
    """Print the log of one attempt of a task.

    Parameters
    ----------
    task
        The task: schema.table@partition, or the name of a @task.
    attempt
        The number of the attempt; the last one by default.
    follow
        Keep printing until the attempt ends.
    server
        The server to read the state from.
    address
        Start a server for this command only.
    """
    from arco.cli.flow.connection import ArcoTarget, call_arco
    from arco.cli.output import print_document

    target = ArcoTarget(server, address)

    def chunks(arco: "Arco") -> "Iterator[TaskLogChunk]":
        return arco.runs.logs(arco.runs.find(run), task, attempt=attempt, follow=follow)

    if json:
        log_chunks = call_arco(target, lambda arco: list(chunks(arco)))
        text = "".join(chunk.text for chunk in log_chunks)
        print_document(structs.replace(log_chunks[-1], text=text))
        return

    def show(arco: "Arco") -> bool:
        is_empty = True
        for chunk in chunks(arco):
            print(chunk.text, end="", flush=True)
            is_empty = is_empty and not chunk.text
        return is_empty

    if call_arco(target, show):
        flags = f" {target.flags()}" if target.flags() else ""
        status = f"`arco runs {run}{flags}` shows its status"
        print(f"The task has logged nothing: {status}.", file=sys.stderr)
