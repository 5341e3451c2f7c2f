"""Retries of runs and of their retries: rows are appended once in all of them."""

import msgspec
import pytest

from arco.core.errors import Invalid
from arco.flow.coordinator.messages import CodeVersion, LeasedTask, RunStatus
from arco.flow.plan.plan import Plan, Reason
from tests.flow.coordinator.plans import asset, plan, run_request, task
from tests.flow.coordinator.rig import FAILED, Rig, simulated


def _forced() -> Plan:
    """A plan that would append whatever is there, did no run before it say what it has appended."""
    made = asset("t", mode="append", code="code")
    only = task("t@1", maker="t", partition="ds=1")
    return plan(msgspec.structs.replace(only, reason=Reason.FORCED), makers=[made])


async def _failed(rig: Rig) -> str:
    rig.chains.make("t")
    run = await rig.coordinator.submit(run_request(_forced()))
    [leased] = await rig.lease()
    await rig.complete(leased, FAILED)
    await rig.over(run.run_id)
    return run.run_id


async def _again(rig: Rig, run_id: str, *, fails: bool = False) -> tuple[str, bool]:
    """Try a run again: the new run, and whether it was given anything to do."""
    run = await rig.coordinator.retry(run_id)
    leased: tuple[LeasedTask, ...] = await rig.lease()
    for each in leased:
        await rig.complete(each, FAILED if fails else rig.publish(each))
    view = await rig.over(run.run_id)
    assert view.status is (RunStatus.FAILED if fails else RunStatus.SUCCESS)
    return run.run_id, bool(leased)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("branch", ["retried below", "retried beside"])
@simulated
async def test_rows_that_another_branch_of_retries_has_appended_are_not_appended_again(
    rig: Rig, branch: str, restarts: bool
) -> None:
    first = await _failed(rig)
    second, _ = await _again(rig, first, fails=True)
    one, other = (second, first) if branch == "retried below" else (first, second)
    third, made = await _again(rig, one)
    assert made
    if restarts:
        await rig.restart()
    fourth, made = await _again(rig, other)
    assert not made
    assert len({first, second, third, fourth}) == 4
    assert len(rig.chains.published("t")) == 1


@simulated
async def test_while_a_retry_is_at_work_no_other_branch_begins(rig: Rig) -> None:
    first = await _failed(rig)
    second, _ = await _again(rig, first, fails=True)
    third = await rig.coordinator.retry(second)
    with pytest.raises(Invalid, match=f"run {third.run_id} is not over"):
        await rig.coordinator.retry(first)
    assert (await rig.coordinator.retry(second)).run_id == third.run_id
    [leased] = await rig.lease()
    await rig.complete(leased, rig.publish(leased))
    await rig.over(third.run_id)
    _, made = await _again(rig, first)
    assert not made
    assert len(rig.chains.published("t")) == 1


@simulated
async def test_two_branches_that_are_tried_again_at_once_do_not_both_begin(rig: Rig) -> None:
    first = await _failed(rig)
    second, _ = await _again(rig, first, fails=True)
    asking = [rig.runtime.tasks.spawn(rig.coordinator.retry(each)) for each in (first, second)]
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
async def test_a_retry_with_a_new_plan_is_given_to_workers_with_the_present_code(rig: Rig) -> None:
    run_id = await _failed(rig)
    again = await rig.coordinator.retry(run_id, plan=_edited())
    assert await rig.lease() == ()
    rig.code = {"t": CodeVersion(code="edited")}
    [leased] = await rig.lease()
    await rig.complete(leased, rig.publish(leased))
    assert (await rig.over(again.run_id)).status is RunStatus.SUCCESS


@simulated
async def test_a_retry_that_is_asked_for_again_is_the_same_and_one_with_another_plan_waits(
    rig: Rig,
) -> None:
    run_id = await _failed(rig)
    again = await rig.coordinator.retry(run_id, plan=_edited())
    assert (await rig.coordinator.retry(run_id, plan=_edited())).run_id == again.run_id
    with pytest.raises(Invalid, match=f"run {again.run_id} is not over"):
        await rig.coordinator.retry(run_id, plan=_edited("edited once more"))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (_edited(key="t@2"), "has the task t@2"),
        (_edited(project="other"), "the plan to retry it with one of 'other'"),
        (plan(makers=[asset("t")]), "has no tasks"),
    ],
)
@simulated
async def test_a_retry_with_a_plan_of_something_else_is_refused(
    rig: Rig, wrong: Plan, said: str
) -> None:
    run_id = await _failed(rig)
    with pytest.raises(Invalid, match=said):
        await rig.coordinator.retry(run_id, plan=wrong)
