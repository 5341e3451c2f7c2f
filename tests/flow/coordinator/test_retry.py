"""Retries of runs and of their retries: rows are appended once in all of them."""

import msgspec
import pytest

from arco.core.errors import Invalid
from arco.flow.coordinator.messages import CodeVersion, LeasedTask, RunStatus
from arco.flow.plan.plan import Plan, Reason
from tests.flow.coordinator.coordinator_setup import FAILED, CoordinatorSetup, simulated
from tests.flow.coordinator.plans import asset, plan, run_request, task


def _forced() -> Plan:
    """A plan that would append whatever is there, did no run before it say what it has appended."""
    made = asset("t", mode="append", code="code")
    only = task("t@1", maker="t", partition="ds=1")
    return plan(msgspec.structs.replace(only, reason=Reason.FORCED), makers=[made])


async def _failed(setup: CoordinatorSetup) -> str:
    setup.chains.make("t")
    run = await setup.coordinator.submit(run_request(_forced()))
    [leased] = await setup.lease()
    await setup.complete(leased, FAILED)
    await setup.over(run.run_id)
    return run.run_id


async def _retry(setup: CoordinatorSetup, run_id: str, *, fails: bool = False) -> tuple[str, bool]:
    """Try a run again: the new run, and whether it was given anything to do."""
    run = await setup.coordinator.retry(run_id)
    leased: tuple[LeasedTask, ...] = await setup.lease()
    for each in leased:
        await setup.complete(each, FAILED if fails else setup.publish(each))
    view = await setup.over(run.run_id)
    assert view.status is (RunStatus.FAILED if fails else RunStatus.SUCCESS)
    return run.run_id, bool(leased)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("branch", ["retried below", "retried beside"])
@simulated
async def test_rows_that_another_branch_of_retries_has_appended_are_not_appended_again(
    setup: CoordinatorSetup, branch: str, restarts: bool
) -> None:
    first = await _failed(setup)
    second, _ = await _retry(setup, first, fails=True)
    one, other = (second, first) if branch == "retried below" else (first, second)
    third, made = await _retry(setup, one)
    assert made
    if restarts:
        await setup.restart()
    fourth, made = await _retry(setup, other)
    assert not made
    assert len({first, second, third, fourth}) == 4
    assert len(setup.chains.published("t")) == 1


@simulated
async def test_while_a_retry_is_at_work_no_other_branch_begins(setup: CoordinatorSetup) -> None:
    first = await _failed(setup)
    second, _ = await _retry(setup, first, fails=True)
    third = await setup.coordinator.retry(second)
    with pytest.raises(Invalid, match=f"run {third.run_id} is not over"):
        await setup.coordinator.retry(first)
    assert (await setup.coordinator.retry(second)).run_id == third.run_id
    [leased] = await setup.lease()
    await setup.complete(leased, setup.publish(leased))
    await setup.over(third.run_id)
    _, made = await _retry(setup, first)
    assert not made
    assert len(setup.chains.published("t")) == 1


@simulated
async def test_two_branches_that_are_tried_again_at_once_do_not_both_begin(
    setup: CoordinatorSetup,
) -> None:
    first = await _failed(setup)
    second, _ = await _retry(setup, first, fails=True)
    asking = [setup.runtime.tasks.spawn(setup.coordinator.retry(each)) for each in (first, second)]
    begun, refused = 0, 0
    for each in asking:
        try:
            await each.wait()
            begun += 1
        except Invalid:
            refused += 1
    assert (begun, refused) == (1, 1)


def _edited(code: str = "edited", key: str = "t@1", project: str = "shop") -> Plan:
    made = asset("t", mode="append", code=code)
    only = task(key, maker="t", partition="ds=1")
    return msgspec.structs.replace(plan(only, makers=[made]), project=project)


@simulated
async def test_a_retry_with_a_new_plan_is_given_to_workers_with_the_present_code(
    setup: CoordinatorSetup,
) -> None:
    run_id = await _failed(setup)
    retried = await setup.coordinator.retry(run_id, plan=_edited())
    assert await setup.lease() == ()
    setup.code = {"t": CodeVersion(code="edited")}
    [leased] = await setup.lease()
    await setup.complete(leased, setup.publish(leased))
    assert (await setup.over(retried.run_id)).status is RunStatus.SUCCESS


@simulated
async def test_a_retry_that_is_asked_for_again_is_the_same_and_one_with_another_plan_waits(
    setup: CoordinatorSetup,
) -> None:
    run_id = await _failed(setup)
    retried = await setup.coordinator.retry(run_id, plan=_edited())
    assert (await setup.coordinator.retry(run_id, plan=_edited())).run_id == retried.run_id
    with pytest.raises(Invalid, match=f"run {retried.run_id} is not over"):
        await setup.coordinator.retry(run_id, plan=_edited("edited once more"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (_edited(key="t@2"), "has the task t@2"),
        (_edited(project="other"), "the plan to retry it with one of 'other'"),
        (plan(makers=[asset("t")]), "has no tasks"),
    ],
)
@simulated
async def test_a_retry_with_a_plan_of_something_else_is_refused(
    setup: CoordinatorSetup, wrong: Plan, message: str
) -> None:
    run_id = await _failed(setup)
    with pytest.raises(Invalid, match=message):
        await setup.coordinator.retry(run_id, plan=wrong)
