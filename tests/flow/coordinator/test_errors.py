"""Errors in background work: they are reported, and the coordinator goes on."""

from collections.abc import Sequence

import pytest

from arco.core.errors import Denied, StoreFull, Unavailable
from arco.flow.coordinator.messages import LEASE_MS, RunStatus
from arco.flow.coordinator.ports import RunEvent
from tests.flow.coordinator.coordinator_setup import FAILED, CoordinatorSetup, simulated
from tests.flow.coordinator.plans import chain, plan, run_request, task


class _Broken:
    """Appends events, but raises an unexpected error a few times for events of one kind."""

    def __init__(self, setup: CoordinatorSetup, name: str, times: int, problem: Exception) -> None:
        self._append = setup.events.append
        self._name = name
        self._problem = problem
        self.left = times

    async def append(self, events: Sequence[RunEvent]) -> None:
        if self.left and any(each.name == self._name for each in events):
            self.left -= 1
            raise self._problem
        await self._append(events)


def _break(
    setup: CoordinatorSetup, name: str, times: int = 2, problem: Exception | None = None
) -> _Broken:
    broken = _Broken(setup, name, times, problem or RuntimeError("a bug"))
    setup.events.append = broken.append  # type: ignore[method-assign]
    return broken


@simulated
async def test_a_bug_while_a_run_is_ended_is_reported_and_the_run_ends(
    setup: CoordinatorSetup,
) -> None:
    broken = _break(setup, "execution_completed")
    run = await setup.coordinator.submit(run_request(chain(1)))
    [leased] = await setup.lease()
    await setup.complete(leased)
    assert (await setup.over(run.run_id, 60_000)).status is RunStatus.SUCCESS
    assert broken.left == 0
    assert [str(problem) for _, problem, _ in setup.errors] == ["a bug"]
    assert all(labels["run"] == run.run_id for _, _, labels in setup.errors)


@simulated
async def test_a_bug_while_a_lease_expires_is_reported_and_the_task_goes_on(
    setup: CoordinatorSetup,
) -> None:
    broken = _break(setup, "task_lost")
    run = await setup.coordinator.submit(run_request(chain(1)))
    await setup.lease("dead")
    await setup.sleep(LEASE_MS + 10_000)
    assert broken.left == 0
    [second_attempt] = await setup.lease()
    assert second_attempt.attempt == 2
    assert [str(problem) for _, problem, _ in setup.errors] == ["a bug"]
    assert all(labels["run"] == run.run_id for _, _, labels in setup.errors)


@simulated
async def test_a_bug_in_one_run_does_not_hold_up_another(setup: CoordinatorSetup) -> None:
    _break(setup, "execution_completed", times=3)
    first = await setup.coordinator.submit(run_request(chain(1), "one"))
    [leased] = await setup.lease()
    await setup.complete(leased, FAILED)
    second = await setup.coordinator.submit(run_request(plan(task("b")), "two"))
    [other] = await setup.lease()
    await setup.complete(other)
    assert (await setup.over(second.run_id, 60_000)).status is RunStatus.SUCCESS
    assert (await setup.over(first.run_id, 60_000)).status is RunStatus.FAILED


@simulated
async def test_waiting_for_a_run_fails_when_the_store_is_full(setup: CoordinatorSetup) -> None:
    broken = _break(setup, "execution_completed", 4, StoreFull("no space left"))
    run = await setup.coordinator.submit(run_request(chain(1)))
    [leased] = await setup.lease()
    await setup.complete(leased)
    now = await setup.coordinator.get_run(run.run_id)  # a call that does not wait succeeds
    assert now.status is RunStatus.RUNNING
    with pytest.raises(StoreFull):
        await setup.coordinator.get_run(run.run_id, since=now.number, wait_ms=5_000)
    await setup.sleep(10_000)  # space is freed
    assert broken.left == 0
    assert (await setup.over(run.run_id, 60_000)).status is RunStatus.SUCCESS


@simulated
async def test_a_rejected_end_of_a_run_is_reported_once_for_each_kind_of_error(
    setup: CoordinatorSetup,
) -> None:
    _break(setup, "execution_completed", 3, Denied("not with this key"))
    _break(setup, "execution_completed", 3, Unavailable("away"))  # which comes before
    run = await setup.coordinator.submit(run_request(chain(1)))
    [leased] = await setup.lease()
    await setup.complete(leased)
    assert (await setup.over(run.run_id, 60_000)).status is RunStatus.SUCCESS
    assert [(type(problem), labels) for _, problem, labels in setup.errors] == [
        (Unavailable, {"run": run.run_id}),
        (Denied, {"run": run.run_id}),
    ]


@simulated
async def test_an_expiry_that_fails_is_reported_once_for_each_kind_of_error(
    setup: CoordinatorSetup,
) -> None:
    _break(setup, "task_lost", 3, Denied("not with this key"))
    run = await setup.coordinator.submit(run_request(chain(1)))
    await setup.lease("dead")
    await setup.sleep(LEASE_MS + 10_000)
    [second_attempt] = await setup.lease()
    assert second_attempt.attempt == 2
    [(_, problem, labels)] = setup.errors
    assert isinstance(problem, Denied)
    assert labels == {"run": run.run_id, "task": "t0"}
