"""Errors in background work: they are reported, and the coordinator goes on."""

from collections.abc import Sequence

import pytest

from arco.core.errors import Denied, StoreFull, Unavailable
from arco.flow.coordinator.messages import LEASE_MS, RunStatus
from arco.flow.coordinator.ports import RunEvent
from tests.flow.coordinator.plans import chain, plan, run_request, task
from tests.flow.coordinator.rig import FAILED, Rig, simulated


class _Broken:
    """Appends events, but raises an unexpected error a few times for events of one kind."""

    def __init__(self, rig: Rig, name: str, times: int, problem: Exception) -> None:
        self._append = rig.events.append
        self._name = name
        self._problem = problem
        self.left = times

    async def append(self, events: Sequence[RunEvent]) -> None:
        if self.left and any(each.name == self._name for each in events):
            self.left -= 1
            raise self._problem
        await self._append(events)


def _break(rig: Rig, name: str, times: int = 2, problem: Exception | None = None) -> _Broken:
    broken = _Broken(rig, name, times, problem or RuntimeError("a bug"))
    rig.events.append = broken.append  # type: ignore[method-assign]
    return broken


@simulated
async def test_a_bug_while_a_run_is_ended_is_reported_and_the_run_ends(rig: Rig) -> None:
    broken = _break(rig, "execution_completed")
    run = await rig.coordinator.submit(run_request(chain(1)))
    [leased] = await rig.lease()
    await rig.complete(leased)
    assert (await rig.over(run.run_id, 60_000)).status is RunStatus.SUCCESS
    assert broken.left == 0
    assert [str(problem) for _, problem, _ in rig.errors] == ["a bug"]
    assert all(whose["run"] == run.run_id for _, _, whose in rig.errors)


@simulated
async def test_a_bug_while_a_lease_expires_is_reported_and_the_task_goes_on(rig: Rig) -> None:
    broken = _break(rig, "task_lost")
    run = await rig.coordinator.submit(run_request(chain(1)))
    await rig.lease("dead")
    await rig.sleep(LEASE_MS + 10_000)
    assert broken.left == 0
    [again] = await rig.lease()
    assert again.attempt == 2
    assert [str(problem) for _, problem, _ in rig.errors] == ["a bug"]
    assert all(whose["run"] == run.run_id for _, _, whose in rig.errors)


@simulated
async def test_a_bug_in_one_run_does_not_hold_up_another(rig: Rig) -> None:
    _break(rig, "execution_completed", times=3)
    first = await rig.coordinator.submit(run_request(chain(1), "one"))
    [leased] = await rig.lease()
    await rig.complete(leased, FAILED)
    second = await rig.coordinator.submit(run_request(plan(task("b")), "two"))
    [other] = await rig.lease()
    await rig.complete(other)
    assert (await rig.over(second.run_id, 60_000)).status is RunStatus.SUCCESS
    assert (await rig.over(first.run_id, 60_000)).status is RunStatus.FAILED


@simulated
async def test_waiting_for_a_run_fails_when_the_store_is_full(rig: Rig) -> None:
    broken = _break(rig, "execution_completed", 4, StoreFull("no space left"))
    run = await rig.coordinator.submit(run_request(chain(1)))
    [leased] = await rig.lease()
    await rig.complete(leased)
    now = await rig.coordinator.get_run(run.run_id)  # a call that does not wait succeeds
    assert now.status is RunStatus.RUNNING
    with pytest.raises(StoreFull):
        await rig.coordinator.get_run(run.run_id, since=now.number, wait_ms=5_000)
    await rig.sleep(10_000)  # space is freed
    assert broken.left == 0
    assert (await rig.over(run.run_id, 60_000)).status is RunStatus.SUCCESS


@simulated
async def test_a_rejected_end_of_a_run_is_reported_once_for_each_kind_of_error(rig: Rig) -> None:
    _break(rig, "execution_completed", 3, Denied("not with this key"))
    _break(rig, "execution_completed", 3, Unavailable("away"))  # which comes before
    run = await rig.coordinator.submit(run_request(chain(1)))
    [leased] = await rig.lease()
    await rig.complete(leased)
    assert (await rig.over(run.run_id, 60_000)).status is RunStatus.SUCCESS
    assert [(type(problem), whose) for _, problem, whose in rig.errors] == [
        (Unavailable, {"run": run.run_id}),
        (Denied, {"run": run.run_id}),
    ]


@simulated
async def test_an_expiry_that_fails_is_reported_once_for_each_kind_of_error(rig: Rig) -> None:
    _break(rig, "task_lost", 3, Denied("not with this key"))
    run = await rig.coordinator.submit(run_request(chain(1)))
    await rig.lease("dead")
    await rig.sleep(LEASE_MS + 10_000)
    [again] = await rig.lease()
    assert again.attempt == 2
    [(_, problem, whose)] = rig.errors
    assert isinstance(problem, Denied)
    assert whose == {"run": run.run_id, "task": "t0"}
