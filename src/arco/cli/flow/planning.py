"""From a project and an Arco to a plan, as `arco plan` and `arco run` both need it."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from arco.cli.flow.flags import Choice
from arco.cli.flow.project import Loaded
from arco.core.clock import utc
from arco.core.errors import Invalid
from arco.flow.coordinator.messages import RunView, TaskView
from arco.flow.coordinator.ports import Coordinator
from arco.flow.coordinator.submission import restrict_plan
from arco.flow.define.project import Project
from arco.flow.plan.plan import Plan, PlannedTask, Reason
from arco.flow.plan.table_state import PlanningState


async def make_plan(
    coordinator: Coordinator,
    loaded: Loaded,
    selection: Sequence[str],
    choice: Choice,
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


def plan_again(project: Project, left: RunView, state: PlanningState, now: datetime) -> Plan:
    """A plan of the tasks that a run has left, with the present code; what is gone from the project is not.

    `Invalid` if nothing of it can be planned.
    """
    from arco.flow.plan.keys import read_key, short_name
    from arco.flow.plan.planner import plan

    views = {each.key: each for each in left.changed}
    known = {each.name for each in project.makers()}
    makers = dict.fromkeys(read_key(key).maker for key in views)
    selection = [short_name(each) for each in makers if each in known]
    if not selection:
        named = ", ".join(map(short_name, makers))
        raise Invalid(
            f"the project {project.name!r} has none of what run {left.run_id} has left: {named}. Name "
            "another project with --project."
        )
    made = plan(project, " ".join(selection), state, now, force=True)
    some = restrict_plan(made, views.keys())
    gone = views.keys() - {each.key for each in some.tasks}
    waiting = tuple(each for each in made.waiting if each.key in views)
    gone -= {each.key for each in waiting}
    if not some.tasks:
        raise Invalid(
            f"nothing that run {left.run_id} has left can be made now: `arco plan` shows what is missing"
        )
    tasks = {task.maker for task in some.tasks}
    warnings = [
        f"{key}: the project does not declare it any more: left out" for key in sorted(gone)
    ]
    return structs.replace(
        some,
        makers=tuple(each for each in some.makers if each.name in tasks),
        tasks=tuple(_with_reason(each, views[each.key]) for each in some.tasks),
        waiting=waiting,
        up_to_date=0,
        warnings=tuple(warnings),
    )


def _with_reason(task: PlannedTask, view: TaskView) -> PlannedTask:
    """A task for the reason that it was first planned for."""
    if view.reason not in set(Reason):
        return task
    return structs.replace(task, reason=Reason(view.reason), detail="it was left undone")
