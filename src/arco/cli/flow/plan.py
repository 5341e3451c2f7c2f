"""`arco plan`: what would be made, and why."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.flags import AsJson, Server
from arco.cli.flow.flags import Choice, FormatFlag, Own, ProjectDir, Selection, command

if TYPE_CHECKING:
    from arco.flow.plan.plan import Plan

_EXAMPLES = """\
Examples:
  arco plan                                what is missing, failed or stale
  arco plan gold.spend_7d+ --partitions 2026-01-11..2026-01-14
  arco plan tag:gold --stale               only what has to be made anew
  arco plan +gold.spend_7d --force --json  for a program

Nothing is changed. The same project, state and time give the same plan, with
the same plan_id."""

_SERVER, _PLACE, _CHOICE = Server(), Own(), Choice()

app = command("plan", "Say what would be made, and why.", _EXAMPLES)


@app.default
def plan(
    *selection: Selection,
    project: ProjectDir = None,
    choice: Choice = _CHOICE,
    all_: Annotated[
        bool,
        Parameter(name="--all", negative="", show_default=False, help="A line for each task."),
    ] = False,
    format_: FormatFlag = None,
    server: Server = _SERVER,
    place: Own = _PLACE,
    json: AsJson = False,
) -> int:
    """Say which partitions have to be made, and why.

    Parameters
    ----------
    choice
        Which partitions are meant.
    server
        The Arco that knows what there is.
    place
        An Arco for the life of this command.
    """
    from arco.cli.flow.connection import ArcoTarget, connect_arco
    from arco.cli.flow.planning import make_plan
    from arco.cli.flow.project import load
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run

    choice.only()  # refused before anything is asked
    loaded, runtime = load(project, format_), system_runtime()

    async def work() -> "Plan":
        async with connect_arco(
            ArcoTarget(server, place), runtime, needs_coordinator=False
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
    from arco.cli.flow.screen.plan_view import (
        ALL_HEADINGS,
        HEADINGS,
        all_rows,
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
    for line in (*waiting_lines(made), *blocked_lines(made), *made.warnings):
        print(one_line(line))
    print(headline(made))


def _print_document(made: "Plan") -> None:
    from arco.cli.output import print_document
    from arco.flow.plan.document import plan_document

    print_document(plan_document(made))
