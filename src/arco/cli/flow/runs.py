"""`arco runs`: the runs of pipelines, and one of them task by task."""

import math
from itertools import chain, islice
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.flags import AsJson, Server
from arco.cli.flow.flags import RUN_ID_HELP, Own, command
from arco.cli.flow.spark_flags import Repeated
from arco.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import msgspec

    from arco.cli.flow.reach import Reach
    from arco.cli.remote import Remote
    from arco.flow.coordinator.messages import RunView, TaskView

_EXAMPLES = """\
Examples:
  arco runs                                    the latest 20
  arco runs --limit 200 --status failed
  arco runs 01M7GVFS186HGNANJXDTGV0000         one of them, task by task
  arco runs last --status failed,blocked       some tasks of the newest
  arco runs 01M7GVFS186HGNANJXDTGV0000 --json  for a program"""

_SERVER, _PLACE = Server(), Own()
_MOST_WARNINGS = 10
_MOST_CODE_WAITS = 5
_STATUSES = ("PENDING", "RUNNING", "SUCCESS", "FAILED", "CANCELLED")

app = command("runs", "List runs, or show one of them.", _EXAMPLES)


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
    place: Own = _PLACE,
    json: AsJson = False,
) -> None:
    """List runs, the latest first, or show one of them task by task.

    Parameters
    ----------
    limit
        How many to list.
    status
        Only runs in this status or, of one run, tasks in it; may be repeated, or name several with commas.
    server
        The Arco to ask.
    place
        An Arco for the life of this command.
    """
    from arco.cli.flow.reach import Reach

    reach = Reach(server, place)
    if run is not None:
        _show(reach, run, _statuses(status, _task_statuses()), as_json=json)
        return
    if not 1 <= limit <= 100_000:
        raise Invalid(f"--limit takes 1 to 100,000 runs, not {limit}")
    _list(reach, limit, _statuses(status, _STATUSES), as_json=json)


def _statuses(given: tuple[str, ...], known: tuple[str, ...]) -> list[str]:
    """The statuses that are named, each once."""
    named = dict.fromkeys(each.strip().upper() for text in given for each in text.split(","))
    for each in named:
        if each not in known:
            raise Invalid(
                f"--status takes one of {', '.join(known).lower()}, not {each[:80].lower()!r}"
            )
    return list(named)


def _task_statuses() -> tuple[str, ...]:
    from arco.flow.coordinator.messages import TaskStatus

    return tuple(each.value for each in TaskStatus)


def _list(reach: "Reach", limit: int, statuses: list[str], *, as_json: bool) -> None:
    from arco.cli.flow.reach import ask
    from arco.cli.listing import print_items, print_rows

    def read(remote: "Remote") -> "list[msgspec.Raw]":
        if len(statuses) <= 1:
            pages = remote.pages("/runs", {"status": statuses[0] if statuses else None})
            return list(islice(chain.from_iterable(pages), limit))
        runs = chain.from_iterable(remote.pages("/runs", {}))
        return list(islice((each for each in runs if _status_of(each) in statuses), limit))

    found = ask(reach, read)
    if as_json:
        print_items(iter([found]))
    elif found:
        print_rows(("RUN", "STATUS", "STARTED", "TIME", "BY", "ERROR"), [[_row(i) for i in found]])
    else:
        print("No runs yet: `arco run` starts one.")


def _status_of(raw: "msgspec.Raw") -> str:
    from arco.core import json

    return str(json.decode(bytes(raw), dict).get("status") or "")


def _row(raw: "msgspec.Raw") -> tuple[str, ...]:
    from arco.cli.flow.screen.words import cut, duration, first_line
    from arco.core import json

    item = json.decode(bytes(raw), dict)
    started = str(item.get("started_at") or "")
    return (
        str(item["run_id"]),
        str(item.get("status") or "").lower(),
        f"{started[:19]}Z" if started else "",
        duration(item.get("duration_ms")),
        str(item.get("triggered_by") or item.get("trigger_type") or ""),
        cut(first_line(item.get("error_message")), 80),
    )


def _show(reach: "Reach", run_id: str, statuses: list[str], *, as_json: bool) -> None:
    import msgspec

    from arco.cli.flow.reach import ask
    from arco.cli.flow.run_ids import find_run
    from arco.cli.output import print_document
    from arco.cli.remote import path
    from arco.core import json
    from arco.flow.coordinator.messages import RunView

    def read(remote: "Remote") -> bytes:
        return remote.get(path("runs", find_run(remote, run_id)))

    view = json.decode(ask(reach, read), RunView)
    if statuses:
        chosen = tuple(each for each in view.changed if each.status in statuses)
        view = msgspec.structs.replace(view, changed=chosen)
    if as_json:
        print_document(view)
    else:
        print_run(view, reach.flags())


def print_run(view: "RunView", flags: str) -> None:
    """A run for people."""
    from arco.cli.flow.screen.words import duration, first_line, moment
    from arco.cli.listing import one_line, print_fields, print_rows

    took = None
    if view.requested_at_ms is not None and view.completed_at_ms is not None:
        took = view.completed_at_ms - view.requested_at_ms
    counts = ", ".join(f"{count:,} {status.lower()}" for status, count in view.counts.items())
    print_fields(
        (
            ("run", view.run_id),
            ("status", view.status.lower()),
            ("requested", moment(view.requested_at_ms)),
            ("ended", moment(view.completed_at_ms)),
            ("time", duration(took)),
            ("tasks", counts),
            ("error", first_line(view.error)),
        )
    )
    if view.changed:
        print()
        rows = [_task(each) for each in sorted(view.changed, key=_when)]
        print_rows(("TASK", "STATUS", "ATTEMPT", "ROWS", "CHECKS", "TIME", "ERROR"), [rows])
    for line in (*code_lines(view), *_warned(view.changed)):
        print(one_line(line))
    bad = next((each.key for each in view.changed if each.status in ("FAILED", "BLOCKED")), None)
    if bad is not None:
        logs = f"arco logs {view.run_id} {quote(bad)}{f' {flags}' if flags else ''}"
        print(f"\n`{one_line(logs)}` tells more.")


def code_lines(view: "RunView") -> "Iterator[str]":
    """Why ready tasks do not begin: which code they were planned with, and which the workers have."""
    from arco.cli.flow.screen.words import counted
    from arco.flow.plan.keys import short_name

    for wait in view.waits_for_code[:_MOST_CODE_WAITS]:
        name, planned = short_name(wait.maker), wait.planned
        tasks = f"{counted(wait.tasks, 'ready task')} of {name}"
        if not wait.workers:
            yield f"waiting  {tasks}: no worker is connected that takes them: `arco worker` starts one"
        for each in wait.workers:
            if each.code is None:
                has = f"has no code of {name}, or is of an older version of Arco"
            elif each.code.code != planned.code:
                has = f"has the code {each.code.code[:12]}"
            else:
                has = "has the same code and other checks"
            yield f"waiting  {tasks}, planned with the code {planned.code[:12]}: worker {each.worker} {has}"
    if any(wait.workers for wait in view.waits_for_code):
        yield (
            "Update the project where the worker runs: it reloads by itself. Or plan what is left with the "
            f"present code: `arco cancel {view.run_id}`, then `arco retry {view.run_id}`."
        )
    more = len(view.waits_for_code) - _MOST_CODE_WAITS
    if more > 0:
        yield f"and {counted(more, 'asset')} more, which --json shows"


def _when(view: "TaskView") -> tuple[float, str]:
    """Tasks in the order in which they were begun; those that were not come last."""
    return (math.inf if view.started_at_ms is None else view.started_at_ms, view.key)


def _task(view: "TaskView") -> tuple[str, ...]:
    from arco.cli.flow.screen.board import failed_checks, took_ms
    from arco.cli.flow.screen.lines import check_line
    from arco.cli.flow.screen.words import cut, duration, first_line, number

    failed = failed_checks(view)
    passed = len(view.checks) - len(failed)
    blocking = (check_line(each) for each in failed if each.severity == "error")
    said = first_line(view.error) or "; ".join(blocking)
    return (
        view.key,
        view.status.lower(),
        str(view.attempt or ""),
        number(view.rows_written),
        f"{passed}/{len(view.checks)}" if view.checks else "",
        duration(took_ms(view)),
        cut(said, 100),
    )


def _warned(views: "Iterable[TaskView]") -> "Iterator[str]":
    """A line for each warning, with whom it was given to: the one that most tasks were given first."""
    from arco.cli.flow.screen.words import counted, some

    said: dict[str, list[str]] = {}
    for view in views:
        for text in _warnings(view):
            said.setdefault(text, []).append(view.key)
    found = sorted(said.items(), key=lambda each: -len(each[1]))
    for text, keys in found[:_MOST_WARNINGS]:
        yield f"warning  {some(keys, 2)}: {text}"
    if len(found) > _MOST_WARNINGS:
        yield f"and {counted(len(found) - _MOST_WARNINGS, 'warning')} more, which --json tells"


def _warnings(view: "TaskView") -> list[str]:
    """What a task was warned of, by the words of the worker, who knows of more than checks."""
    from arco.cli.flow.screen.board import failed_checks
    from arco.cli.flow.screen.lines import check_line

    failed = (each for each in failed_checks(view) if each.severity != "error")
    return list(view.warnings) or [check_line(each) for each in failed]
