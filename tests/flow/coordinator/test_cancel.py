"""Cancelling a run: at once for tasks that have not started, soon for those that have, and for good."""

import pytest

from arco.core.errors import Invalid
from arco.flow.coordinator.messages import LEASE_MS, AttemptOutcome, RunStatus, TaskStatus
from arco.flow.plan.plan import RetryPolicy
from tests.flow.coordinator.coordinator_setup import (
    CANCELLED,
    FAILED,
    CoordinatorSetup,
    run_scenario,
    simulated,
)
from tests.flow.coordinator.plans import asset, chain, maker, plan, run_request, task


@simulated
async def test_tasks_that_have_not_begun_are_cancelled_at_once(setup: CoordinatorSetup) -> None:
    view = await setup.coordinator.submit(run_request(chain(3)))
    [leased] = await setup.lease()
    await setup.coordinator.cancel(view.run_id, "ann")
    await setup.sleep(500)
    assert await setup.recorded(view.run_id) == {
        "t0": "RUNNING",
        "t1": "CANCELLED",
        "t2": "CANCELLED",
    }
    assert (await setup.heartbeat(leased)).should_cancel
    await setup.complete(leased, CANCELLED)
    assert (await setup.over(view.run_id)).status is RunStatus.CANCELLED
    assert set((await setup.recorded(view.run_id)).values()) == {"CANCELLED"}
    [row] = await setup.reader.rows("executions")
    assert row["status"] == "CANCELLED"
    assert row["completed_at"] is not None


@pytest.mark.parametrize("before", [FAILED, AttemptOutcome(status=TaskStatus.SUCCESS)])
def test_a_cancelled_attempt_leaves_its_partition_as_it_was(before: AttemptOutcome) -> None:
    made = plan(task("a@1", maker="a", partition="ds=1"), makers=[asset("a")])

    async def scenario(setup: CoordinatorSetup) -> None:
        setup.chains.make("a")
        first = await setup.coordinator.submit(run_request(made, "first"))
        [leased] = await setup.lease()
        await setup.complete(leased, before)
        await setup.over(first.run_id)
        view = await setup.coordinator.submit(run_request(made, "second"))
        [leased] = await setup.lease()
        await setup.coordinator.cancel(view.run_id)
        await setup.complete(leased, CANCELLED)
        assert (await setup.over(view.run_id)).status is RunStatus.CANCELLED
        [row] = await setup.reader.rows("partitions")
        assert row["status"] == "PENDING"  # another run may make it; its data are unchanged

    run_scenario(scenario)


@simulated
async def test_a_watching_worker_learns_of_a_cancel_at_once(setup: CoordinatorSetup) -> None:
    view = await setup.coordinator.submit(run_request(chain(1)))
    [leased] = await setup.lease()
    watching = setup.runtime.tasks.spawn(setup.coordinator.watch("w", (leased.attempt_id,), 25_000))
    await setup.sleep(1_000)
    began = setup.runtime.clock.elapsed_ms()
    await setup.coordinator.cancel(view.run_id)
    assert await watching.wait() == (leased.attempt_id,)
    assert setup.runtime.clock.elapsed_ms() - began < 1_000


@simulated
async def test_an_active_attempt_is_not_asked_to_stop(setup: CoordinatorSetup) -> None:
    await setup.coordinator.submit(run_request(chain(1)))
    [leased] = await setup.lease()
    assert await setup.coordinator.watch("w", (leased.attempt_id,), 5_000) == ()
    assert await setup.coordinator.watch("w", ("unknown",), 5_000) == ("unknown",)


@simulated
async def test_a_cancelled_run_ends_with_the_lease_of_a_silent_worker(
    setup: CoordinatorSetup,
) -> None:
    view = await setup.coordinator.submit(run_request(chain(2)))
    await setup.lease()
    await setup.coordinator.cancel(view.run_id)
    ended = await setup.over(view.run_id, 2 * LEASE_MS)
    assert ended.status is RunStatus.CANCELLED
    assert set((await setup.recorded(view.run_id)).values()) == {"CANCELLED"}


@simulated
async def test_a_failure_in_a_cancelled_run_is_not_tried_again(setup: CoordinatorSetup) -> None:
    made = plan(task("a"), makers=[maker(retry=RetryPolicy(times=5))])
    view = await setup.coordinator.submit(run_request(made))
    [leased] = await setup.lease()
    await setup.coordinator.cancel(view.run_id)
    await setup.complete(leased, FAILED)
    assert (await setup.over(view.run_id)).status is RunStatus.CANCELLED
    assert await setup.lease() == ()


@simulated
async def test_a_success_that_was_published_outranks_a_cancel(setup: CoordinatorSetup) -> None:
    made = plan(task("t@1", maker="t", partition="ds=1"), makers=[asset("t")])
    view = await setup.coordinator.submit(run_request(made))
    [leased] = await setup.lease()
    outcome = setup.publish(leased)
    await setup.coordinator.cancel(view.run_id)
    await setup.complete(leased, outcome)
    assert (await setup.over(view.run_id)).status is RunStatus.SUCCESS
    assert await setup.recorded(view.run_id) == {"t@1": "SUCCESS"}
    [row] = await setup.reader.rows("executions")
    assert row["status"] == "SUCCESS"


@simulated
async def test_a_cancel_survives_a_restart(setup: CoordinatorSetup) -> None:
    view = await setup.coordinator.submit(run_request(chain(2)))
    [leased] = await setup.lease()
    await setup.coordinator.cancel(view.run_id)
    await setup.restart()
    assert await setup.lease() == ()
    assert (await setup.heartbeat(leased)).should_cancel
    await setup.complete(leased, CANCELLED)
    assert (await setup.over(view.run_id)).status is RunStatus.CANCELLED


@simulated
async def test_cancelling_what_is_over_changes_nothing(setup: CoordinatorSetup) -> None:
    view = await setup.coordinator.submit(run_request(chain(1)))
    [leased] = await setup.lease()
    await setup.complete(leased)
    await setup.over(view.run_id)
    assert (await setup.coordinator.cancel(view.run_id)).status is RunStatus.SUCCESS


@simulated
async def test_a_retry_makes_only_what_was_not_made(setup: CoordinatorSetup) -> None:
    view = await setup.coordinator.submit(run_request(chain(3)))
    [first] = await setup.lease()
    await setup.complete(first)
    with pytest.raises(Invalid, match="not over"):
        await setup.coordinator.retry(view.run_id)
    [second] = await setup.lease()
    await setup.complete(second, FAILED)
    await setup.over(view.run_id)
    await setup.restart()
    retried = await setup.coordinator.retry(view.run_id, "w")
    assert retried.run_id != view.run_id
    assert (await setup.coordinator.retry(view.run_id, "w")).run_id == retried.run_id
    for key in ("t1", "t2"):
        [leased] = await setup.lease()
        assert leased.key == key
        await setup.complete(leased)
    assert (await setup.over(retried.run_id)).status is RunStatus.SUCCESS
    with pytest.raises(Invalid, match="nothing to retry"):
        await setup.coordinator.retry(retried.run_id)
    third = await setup.coordinator.retry(view.run_id, "w")
    assert third.run_id not in (view.run_id, retried.run_id)
