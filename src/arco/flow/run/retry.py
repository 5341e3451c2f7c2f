"""Trying a run again: what it has not made, as a new run that knows all others that have tried the same.

A run may be tried again, and so may each run that comes of that, so that they are a tree. Rows that any of
them has appended must not come once more, whichever is tried next; so a new one comes after all of them,
and while one of them is at work there is no other.
"""

from collections.abc import Collection, Sequence

import msgspec

from arco.core.errors import Invalid
from arco.flow.plan.plan import Plan
from arco.flow.run.desk import Desk
from arco.flow.run.live import LiveRun
from arco.flow.run.plan_store import PlanStore, RunClaim
from arco.flow.run.recovery import Recovery
from arco.flow.run.refused import all_made, not_over
from arco.flow.run.wire import RunWish, TaskStatus


class Retries:
    """Finds what has tried the same as a run."""

    def __init__(self, desk: Desk, plans: PlanStore, recovery: Recovery) -> None:
        self._desk = desk
        self._plans = plans
        self._recovery = recovery

    async def wish(self, run: LiveRun, worker: str, plan: Plan | None = None) -> RunWish:
        """The wish for what a run that is over has not made; the last one again if that is not over.

        `plan` is that of the rest, made anew; by default it is cut out of the run's own.
        """
        rest = _rest_of(run, worker, plan)
        own, tried = await self._claims(run.run_id), await self._tried(rest.after)
        number = len(own) + 1
        if own and own[-1].plan_id == rest.plan.plan_id and not await self._is_over(own[-1].run_id):
            number = len(own)  # it was asked for before
            tried.remove(own[-1].run_id)
        for each in tried:
            if await self._is_at_work(each):
                raise not_over(each)
        key = retry_key(run.run_id, number)
        return msgspec.structs.replace(rest, run_key=key, after=(*rest.after, *tried))

    async def _tried(self, known: Sequence[str]) -> list[str]:
        """The runs that were begun to try these again, and those again, and so on."""
        family = [*known]
        for each in family:  # which grows
            family += [again for again in await self._again(each) if again not in family]
        return family[len(known) :]

    async def _again(self, run_id: str) -> list[str]:
        """The runs that were begun to try one again, the last one last."""
        return [each.run_id for each in await self._claims(run_id)]

    async def _claims(self, run_id: str) -> list[RunClaim]:
        found: list[RunClaim] = []
        while claim := await self._plans.find_claim(retry_key(run_id, len(found) + 1)):
            found.append(claim)
        return found

    async def _is_over(self, run_id: str) -> bool:
        """Whether a run was begun and has ended."""
        run = await self._begun(run_id)
        return run is not None and run.state.is_over

    async def _is_at_work(self, run_id: str) -> bool:
        """Whether a run was begun and has not ended."""
        run = await self._begun(run_id)
        return run is not None and not run.state.is_over

    async def _begun(self, run_id: str) -> LiveRun | None:
        """A run; None if its key was claimed, and no more."""
        return self._desk.find(run_id) or await self._recovery.archived(run_id)


def _rest_of(run: LiveRun, worker: str, planned: Plan | None) -> RunWish:
    """What a run has not made, after itself and those that have tried it before."""
    done = {key for key, task in run.state.tasks.items() if task.status is TaskStatus.SUCCESS}
    wish = run.stored.wish
    left = {task.key for task in wish.plan.tasks} - done
    if not left:
        raise all_made(run.run_id)
    if planned is None:
        planned = plan_of_some(wish.plan, left)
    _check_rest(run, planned, left)
    return msgspec.structs.replace(
        wish,
        plan=planned,
        worker=worker,
        after=(*wish.after, run.run_id),
    )


def _check_rest(run: LiveRun, planned: Plan, left: set[str]) -> None:
    """`Invalid` if a plan is not one of what a run has left undone."""
    if planned.project != run.plan.project:
        raise Invalid(
            f"run {run.run_id} is one of project {run.plan.project!r}, and the plan to retry it with one "
            f"of {planned.project!r}"
        )
    if not planned.tasks:
        raise Invalid(f"the plan to retry run {run.run_id} with has no tasks")
    for task in planned.tasks:
        if task.key not in left:
            raise Invalid(
                f"the plan to retry run {run.run_id} with has the task {task.key}, which that run has "
                "made or never had: plan only what is left of it"
            )


def plan_of_some(plan: Plan, keys: Collection[str]) -> Plan:
    """A plan without all tasks but these, which wait for no others."""
    tasks = tuple(
        msgspec.structs.replace(task, deps=tuple(dep for dep in task.deps if dep in keys))
        for task in plan.tasks
        if task.key in keys
    )
    return msgspec.structs.replace(plan, tasks=tasks)


def retry_key(run_id: str, number: int) -> str:
    """The run key of the n-th time that a run is tried again."""
    return f"retry:{run_id}:{number}"
