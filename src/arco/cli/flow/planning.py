"""From a project and an Arco to a plan, as `arco plan` and `arco run` both need it."""

from collections.abc import Sequence

from arco.cli.flow.flags import Choice
from arco.cli.flow.project import Loaded
from arco.core.clock import utc
from arco.flow.plan.plan import Plan
from arco.flow.run.port import Coordinator


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
