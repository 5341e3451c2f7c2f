"""Cancelling a run: at once for tasks that have not started, soon for those that have, and for good."""

import pytest

from arco.core.errors import Invalid
from arco.flow.coordinator.messages import LEASE_MS, AttemptOutcome, RunStatus, TaskStatus
from arco.flow.plan.plan import RetryPolicy
from tests.flow.coordinator.plans import asset, chain, maker, plan, run_request, task
from tests.flow.coordinator.rig import CANCELLED, FAILED, Rig, run_scenario, simulated


@simulated
async def test_tasks_that_have_not_begun_are_cancelled_at_once(rig: Rig) -> None:
    view = await rig.coordinator.submit(run_request(chain(3)))
    [leased] = await rig.lease()
    await rig.coordinator.cancel(view.run_id, "ann")
    await rig.sleep(500)
    assert await rig.recorded(view.run_id) == {
        "t0": "RUNNING",
        "t1": "CANCELLED",
        "t2": "CANCELLED",
    }
    assert (await rig.heartbeat(leased)).should_cancel
    await rig.complete(leased, CANCELLED)
    assert (await rig.over(view.run_id)).status is RunStatus.CANCELLED
    assert set((await rig.recorded(view.run_id)).values()) == {"CANCELLED"}
    [row] = await rig.reader.rows("executions")
    assert row["status"] == "CANCELLED"
    assert row["completed_at"] is not None


@pytest.mark.parametrize("before", [FAILED, AttemptOutcome(status=TaskStatus.SUCCESS)])
def test_a_cancelled_attempt_leaves_its_partition_as_it_was(before: AttemptOutcome) -> None:
    made = plan(task("a@1", maker="a", partition="ds=1"), makers=[asset("a")])

    async def scenario(rig: Rig) -> None:
        rig.chains.make("a")
        first = await rig.coordinator.submit(run_request(made, "first"))
        [leased] = await rig.lease()
        await rig.complete(leased, before)
        await rig.over(first.run_id)
        view = await rig.coordinator.submit(run_request(made, "second"))
        [leased] = await rig.lease()
        await rig.coordinator.cancel(view.run_id)
        await rig.complete(leased, CANCELLED)
        assert (await rig.over(view.run_id)).status is RunStatus.CANCELLED
        [row] = await rig.reader.rows("partitions")
        assert row["status"] == "PENDING"  # another run may make it; its data are unchanged

    run_scenario(scenario)


@simulated
async def test_a_watching_worker_learns_of_a_cancel_at_once(rig: Rig) -> None:
    view = await rig.coordinator.submit(run_request(chain(1)))
    [leased] = await rig.lease()
    watching = rig.runtime.tasks.spawn(rig.coordinator.watch("w", (leased.attempt_id,), 25_000))
    await rig.sleep(1_000)
    began = rig.runtime.clock.elapsed_ms()
    await rig.coordinator.cancel(view.run_id)
    assert await watching.wait() == (leased.attempt_id,)
    assert rig.runtime.clock.elapsed_ms() - began < 1_000


@simulated
async def test_an_active_attempt_is_not_told_to_stop(rig: Rig) -> None:
    await rig.coordinator.submit(run_request(chain(1)))
    [leased] = await rig.lease()
    assert await rig.coordinator.watch("w", (leased.attempt_id,), 5_000) == ()
    assert await rig.coordinator.watch("w", ("unknown",), 5_000) == ("unknown",)


@simulated
async def test_a_cancelled_run_ends_with_the_lease_of_a_silent_worker(rig: Rig) -> None:
    view = await rig.coordinator.submit(run_request(chain(2)))
    await rig.lease()
    await rig.coordinator.cancel(view.run_id)
    ended = await rig.over(view.run_id, 2 * LEASE_MS)
    assert ended.status is RunStatus.CANCELLED
    assert set((await rig.recorded(view.run_id)).values()) == {"CANCELLED"}


@simulated
async def test_a_failure_in_a_cancelled_run_is_not_tried_again(rig: Rig) -> None:
    made = plan(task("a"), makers=[maker(retry=RetryPolicy(times=5))])
    view = await rig.coordinator.submit(run_request(made))
    [leased] = await rig.lease()
    await rig.coordinator.cancel(view.run_id)
    await rig.complete(leased, FAILED)
    assert (await rig.over(view.run_id)).status is RunStatus.CANCELLED
    assert await rig.lease() == ()


@simulated
async def test_a_success_that_was_published_outranks_a_cancel(rig: Rig) -> None:
    made = plan(task("t@1", maker="t", partition="ds=1"), makers=[asset("t")])
    view = await rig.coordinator.submit(run_request(made))
    [leased] = await rig.lease()
    outcome = rig.publish(leased)
    await rig.coordinator.cancel(view.run_id)
    await rig.complete(leased, outcome)
    assert (await rig.over(view.run_id)).status is RunStatus.SUCCESS
    assert await rig.recorded(view.run_id) == {"t@1": "SUCCESS"}
    [row] = await rig.reader.rows("executions")
    assert row["status"] == "SUCCESS"


@simulated
async def test_a_cancel_survives_a_restart(rig: Rig) -> None:
    view = await rig.coordinator.submit(run_request(chain(2)))
    [leased] = await rig.lease()
    await rig.coordinator.cancel(view.run_id)
    await rig.restart()
    assert await rig.lease() == ()
    assert (await rig.heartbeat(leased)).should_cancel
    await rig.complete(leased, CANCELLED)
    assert (await rig.over(view.run_id)).status is RunStatus.CANCELLED


@simulated
async def test_cancelling_what_is_over_changes_nothing(rig: Rig) -> None:
    view = await rig.coordinator.submit(run_request(chain(1)))
    [leased] = await rig.lease()
    await rig.complete(leased)
    await rig.over(view.run_id)
    assert (await rig.coordinator.cancel(view.run_id)).status is RunStatus.SUCCESS


@simulated
async def test_a_retry_makes_only_what_was_not_made(rig: Rig) -> None:
    view = await rig.coordinator.submit(run_request(chain(3)))
    [first] = await rig.lease()
    await rig.complete(first)
    with pytest.raises(Invalid, match="not over"):
        await rig.coordinator.retry(view.run_id)
    [second] = await rig.lease()
    await rig.complete(second, FAILED)
    await rig.over(view.run_id)
    await rig.restart()
    again = await rig.coordinator.retry(view.run_id, "w")
    assert again.run_id != view.run_id
    assert (await rig.coordinator.retry(view.run_id, "w")).run_id == again.run_id
    for key in ("t1", "t2"):
        [leased] = await rig.lease()
        assert leased.key == key
        await rig.complete(leased)
    assert (await rig.over(again.run_id)).status is RunStatus.SUCCESS
    with pytest.raises(Invalid, match="nothing to retry"):
        await rig.coordinator.retry(again.run_id)
    third = await rig.coordinator.retry(view.run_id, "w")
    assert third.run_id not in (view.run_id, again.run_id)
