"""`arco plan`: what would be made, and why; and the plans of `arco run` and `arco retry`."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from msgspec import structs

from arco.cli.flags import AsJson, Server
from arco.cli.flow.flags import (
    EmbeddedAddress,
    FormatFlag,
    PartitionChoice,
    ProjectDir,
    Selection,
    command,
)
from arco.cli.flow.project import LoadedProject
from arco.core.clock import utc
from arco.core.errors import Invalid
from arco.flow.coordinator.messages import RunView, TaskView
from arco.flow.coordinator.ports import Coordinator
from arco.flow.define.project import Project
from arco.flow.plan.plan import Plan, PlannedTask, Reason, restrict_plan
from arco.flow.plan.table_state import PlanningState

if TYPE_CHECKING:
    from arco.flow.plan.plan import Plan

_EXAMPLES = """\
Examples:
  arco plan                                all missing, failed and stale partitions
  arco plan gold.spend_7d+ --partitions 2026-01-11..2026-01-14
  arco plan tag:gold --stale               only stale partitions of these assets
  arco plan +gold.spend_7d --force --json  as JSON

It changes nothing. The same project, state and time give the same plan, with
the same plan_id."""

_SERVER, _ADDRESS, _CHOICE = Server(), EmbeddedAddress(), PartitionChoice()

_GONE = "the project does not declare it any more"

app = command("plan", "Show which partitions would be made, and why.", _EXAMPLES)


@app.default
def plan(
    *selection: Selection,
    project: ProjectDir = None,
    choice: PartitionChoice = _CHOICE,
    all_: Annotated[
        bool,
        Parameter(name="--all", negative="", show_default=False, help="Print one line per task."),
    ] = False,
    format_: FormatFlag = None,
    server: Server = _SERVER,
    address: EmbeddedAddress = _ADDRESS,
    json: AsJson = False,
) -> int:
    """Show which partitions would be made, and why.

    Parameters
    ----------
    choice
        The partitions to select.
    server
        The server to read the state from.
    address
        Start a server for this command only.
    """
    from arco.cli.flow.connection import ArcoTarget, connect_arco
    from arco.cli.flow.project import load
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run

    choice.only()  # refused before anything is asked
    loaded, runtime = load(project, format_), system_runtime()

    async def work() -> "Plan":
        target = ArcoTarget(server, address)
        # Before the first run there is no store, and the plan of it is what a user wants to see.
        async with connect_arco(
            target, runtime, needs_coordinator=False, creates_store=True
        ) as arco:
            now_ms = runtime.clock.now_ms()
            return await make_plan(arco.coordinator, loaded, selection, choice, now_ms)

    made = run(work())
    if json:
        _print_document(made)
    else:
        print_plan(made, every=all_)
    return 0


def print_plan(made: "Plan", *, every: bool = False) -> None:
    """A plan for people."""
    from arco.cli.flow.plan_rendering import (
        ALL_HEADINGS,
        HEADINGS,
        all_rows,
        appended_again_lines,
        blocked_lines,
        grouped_rows,
        headline,
        waiting_lines,
    )
    from arco.cli.rendering import one_line, print_rows

    if made.tasks and every:
        print_rows(ALL_HEADINGS, all_rows(made))
    elif made.tasks:
        print_rows(HEADINGS, grouped_rows(made))
    notes = (*waiting_lines(made), *blocked_lines(made), *appended_again_lines(made))
    for line in (*notes, *made.warnings):
        print(one_line(line))
    print(headline(made))


def _print_document(made: "Plan") -> None:
    from arco.cli.output import print_document
    from arco.flow.plan.plan import plan_document

    print_document(plan_document(made))


async def make_plan(
    coordinator: Coordinator,
    loaded: LoadedProject,
    selection: Sequence[str],
    choice: PartitionChoice,
    now_ms: int,
) -> Plan:
    """What has to be made of what is meant, by the state of the tables at this moment."""
    from arco.flow.plan.planner import plan

    only = choice.only()
    state = await coordinator.state(loaded.tables, loaded.replaced)
    return plan(
        loaded.project,
        " ".join(selection),
        state,
        utc(now_ms),
        partitions=choice.partitions,
        only=only,
        force=choice.force,
        append_again=choice.append_again,
    )


def plan_again(project: Project, run: RunView, state: PlanningState, now: datetime) -> Plan:
    """A plan of the tasks that a run has left, with the present code; what is gone from the project is not.

    `Invalid` if nothing of it can be planned.
    """
    from arco.flow.plan.keys import read_key, short_name
    from arco.flow.plan.planner import plan

    views = {each.key: each for each in run.changed}
    declared = {each.name for each in project.makers()}
    makers = dict.fromkeys(read_key(key).maker for key in views)
    selection = [short_name(each) for each in makers if each in declared]
    if not selection:
        named = ", ".join(map(short_name, makers))
        raise Invalid(
            f"the project {project.name!r} has none of what run {run.run_id} has left: {named}. Name "
            "another project with --project."
        )
    made = plan(project, " ".join(selection), state, now, force=True)
    remaining = restrict_plan(made, views.keys())
    waiting = tuple(each for each in made.waiting if each.key in views)
    blocked = tuple(each for each in made.blocked if each.key in views)
    gone = views.keys() - {
        *(each.key for each in remaining.tasks),
        *(each.key for each in waiting),
        *(each.key for each in blocked),
    }
    remaining = structs.replace(remaining, waiting=waiting, blocked=blocked)
    if not remaining.tasks:
        raise _nothing_left(run.run_id, remaining, gone)
    tasks = {task.maker for task in remaining.tasks}
    warnings = [f"{key}: {_GONE}: left out" for key in sorted(gone)]
    return structs.replace(
        remaining,
        makers=tuple(each for each in remaining.makers if each.name in tasks),
        tasks=tuple(_with_reason(each, views[each.key]) for each in remaining.tasks),
        up_to_date=0,
        warnings=tuple(warnings),
    )


def _nothing_left(run_id: str, plan: Plan, gone: Collection[str]) -> Invalid:
    """The error of a retry without tasks: what keeps each of them from being made, and what to do."""
    from arco.cli.flow.plan_rendering import blocked_lines, waiting_lines
    from arco.cli.flow.text_format import list_some

    causes = [*blocked_lines(plan), *waiting_lines(plan)]
    if gone:
        causes.append(f"{list_some(sorted(gone))}: {_GONE}")
    problem = Invalid(f"nothing that run {run_id} has left can be made now: {'; '.join(causes)}")
    problem.add_note("`arco plan` shows what else is blocked or missing.")
    return problem


def _with_reason(task: PlannedTask, view: TaskView) -> PlannedTask:
    """A task for the reason that it was first planned for."""
    if view.reason not in set(Reason):
        return task
    return structs.replace(task, reason=Reason(view.reason), detail="it was left undone")
