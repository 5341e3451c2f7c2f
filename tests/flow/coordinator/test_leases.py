"""Tasks that wait for a table are woken when it is free, whatever else waits for it."""

import pytest

from arco.flow.coordinator.leases import LockRequest, PartitionLocks
from arco.flow.coordinator.messages import LEASE_MS, RunStatus
from arco.flow.plan.plan import Plan, RetryPolicy
from tests.flow.coordinator.coordinator_setup import FAILED, CoordinatorSetup, simulated
from tests.flow.coordinator.plans import asset, plan, run_request, task

ALONE = (LockRequest("t", "ds=1", is_exclusive=True),)


def _alone(partition: str) -> Plan:
    made = asset("t", mode="replace", alone=True)
    return plan(task("t@1", maker="t", partition=f"ds={partition}"), makers=[made])


def test_one_task_of_each_run_that_waits_for_a_table_is_woken_when_it_is_free() -> None:
    locks = PartitionLocks()
    locks.take(ALONE, ("holder", "t"))
    lock_key = locks.find_held(ALONE)
    assert lock_key is not None
    waiting = [("one", "a"), ("one", "b"), ("two", "a"), ("one", "c")]
    for each in waiting:
        locks.wait(lock_key, each)
    assert locks.release(ALONE, ("holder", "t")) == [("one", "a"), ("two", "a")]
    assert locks.wake({"t"}) == [("one", "b"), ("one", "c")]


@simulated
async def test_a_run_without_workers_does_not_keep_a_free_table_from_others(
    setup: CoordinatorSetup,
) -> None:
    setup.chains.make("t")
    await setup.coordinator.submit(run_request(_alone("1"), "first"))
    [first] = await setup.lease()
    await setup.coordinator.submit(run_request(_alone("2"), "idle", worker="idle"))
    assert await setup.lease("idle") == ()
    second = await setup.coordinator.submit(run_request(_alone("3"), "second"))
    assert await setup.lease() == ()
    await setup.complete(first, setup.publish(first))
    [next_one] = await setup.lease()
    assert next_one.run_id == second.run_id


@pytest.mark.parametrize("woken", [False, True])
@simulated
async def test_a_task_that_is_done_while_it_waits_does_not_keep_the_table_from_the_next(
    setup: CoordinatorSetup, woken: bool
) -> None:
    setup.chains.make("t")
    made = asset("t", mode="merge", alone=True, retry=RetryPolicy(times=3, delay_ms=5_000))
    tasks = [task(f"t@{n}", maker="t", partition=f"ds={n}") for n in (1, 2, 3)]
    run = await setup.coordinator.submit(run_request(plan(*tasks, makers=[made])))
    [first] = await setup.lease()
    await setup.complete(first, FAILED)
    [late] = await setup.lease("late")
    await setup.sleep(LEASE_MS + 2_000)  # the first is due again, and the second lost
    [first] = await setup.lease()
    if woken:
        await setup.complete(first, setup.publish(first))
        await setup.complete(late, setup.publish(late), "late")
    else:
        await setup.complete(late, setup.publish(late), "late")
        await setup.complete(first, setup.publish(first))
    [third] = await setup.lease()
    await setup.complete(third, setup.publish(third))
    assert third.key == "t@3"
    assert (await setup.over(run.run_id)).status is RunStatus.SUCCESS
