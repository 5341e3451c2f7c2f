"""Which attempt may publish, and when a task runs again (P35)."""

import msgspec
import pytest

from arco.core.errors import Fenced, Unavailable
from arco.flow.coordinator.leases import lease_key
from arco.flow.coordinator.messages import (
    LEASE_MS,
    AttemptOutcome,
    CodeVersion,
    LeasedTask,
    OutputResult,
    RunStatus,
    TaskStatus,
)
from arco.flow.plan.input_fingerprint import input_fingerprint, material_digest
from arco.flow.plan.plan import Plan, ReadPartitions, Reason, RetryPolicy
from arco.storage.roles import Role
from tests.flow.coordinator.coordinator_setup import (
    FAILED,
    CoordinatorSetup,
    run_scenario,
    simulated,
)
from tests.flow.coordinator.plans import asset, plan, run_request, task


def _one(times: int = 0, *, also: tuple[str, ...] = ()) -> Plan:
    made = asset("t", retry=RetryPolicy(times=times), also=also)
    return plan(task("t@1", maker="t", partition="ds=1"), makers=[made])


def _for(reason: Reason) -> Plan:
    one = task("t@1", maker="t", partition="ds=1")
    return plan(msgspec.structs.replace(one, reason=reason), makers=[asset("t", code="code")])


async def _wait_for_task(setup: CoordinatorSetup, worker: str = "w") -> LeasedTask:
    for _ in range(10):
        leased = await setup.lease(worker, wait_ms=10_000)
        if leased:
            return leased[0]
    pytest.fail("no task came")


@simulated
async def test_the_first_attempt_needs_no_fence(setup: CoordinatorSetup) -> None:
    setup.chains.make("t")
    await setup.coordinator.submit(run_request(_one()))
    [leased] = await setup.lease()
    assert setup.chains.fences == 0
    assert leased.outputs[0].attempt.dispatched_at_number == 0
    assert leased.outputs[0].attempt.partitions == ("ds=1",)


@simulated
async def test_a_table_that_does_not_exist_yet_has_no_base(setup: CoordinatorSetup) -> None:
    view = await setup.coordinator.submit(run_request(_one()))
    [leased] = await setup.lease()
    assert leased.outputs[0].table_id is None
    assert leased.outputs[0].attempt.dispatched_at_number == -1
    await setup.complete(leased, setup.publish(leased))
    await setup.over(view.run_id)
    [row] = await setup.reader.rows("partitions")
    assert (row["partition_key"], row["status"]) == ("ds=1", "COMPLETE")
    assert row["materialization_id"] == leased.attempt_id


@simulated
async def test_another_attempt_fences_the_one_before_it(setup: CoordinatorSetup) -> None:
    setup.chains.make("t")
    await setup.coordinator.submit(run_request(_one(times=1)))
    [first] = await setup.lease()
    await setup.complete(first, FAILED)
    second = await _wait_for_task(setup)
    assert second.outputs[0].attempt.dispatched_at_number == 1
    with pytest.raises(Fenced):
        setup.publish(first)
    await setup.complete(second, setup.publish(second))
    assert [each.attempt_id for each in setup.chains.published("t")] == [second.attempt_id]


@simulated
async def test_a_lost_attempt_that_had_published_has_done_the_task(setup: CoordinatorSetup) -> None:
    setup.chains.make("t")
    view = await setup.coordinator.submit(run_request(_one()))
    [lost] = await setup.lease("dead")
    setup.publish(lost)
    await setup.sleep(LEASE_MS + 2_000)
    assert await setup.lease() == ()
    assert (await setup.over(view.run_id)).status is RunStatus.SUCCESS
    [row] = await setup.reader.rows("partitions")
    assert (row["status"], row["materialization_id"]) == ("COMPLETE", lost.attempt_id)
    [task_row] = await setup.reader.rows("tasks")
    assert (task_row["status"], task_row["attempt"]) == ("SUCCESS", 1)
    assert setup.chains.fences == 0


def _reads_raw() -> Plan:
    made = asset("t", code="planned code")
    reads = [ReadPartitions(table="raw", partitions=("ds=1",))]
    return plan(task("t@1", maker="t", partition="ds=1", inputs=(0,)), makers=[made], reads=reads)


@pytest.mark.parametrize("restarts", [False, True])
def test_the_publication_of_a_lost_attempt_is_recorded_with_its_code_and_inputs(
    restarts: bool,
) -> None:
    async def scenario(setup: CoordinatorSetup) -> None:
        setup.chains.make("t")
        setup.chains.make("raw")
        setup.chains.versions_of["id-raw"] = ("7", {"ds=1": "old files"})
        view = await setup.coordinator.submit(run_request(_reads_raw()))
        setup.code = {"t": CodeVersion(code="planned code")}
        [lost] = await setup.lease("dead")
        setup.publish(lost, "code that ran")
        setup.chains.versions_of["id-raw"] = ("8", {"ds=1": "new files"})
        await setup.sleep(2_000)
        if restarts:
            await setup.restart()
        await setup.sleep(LEASE_MS + 2_000)
        assert await setup.lease() == ()
        await setup.over(view.run_id)
        [row] = await setup.reader.rows("partitions")
        digest = material_digest([("ds=1", "old files")])
        assert row["code_fingerprint"] == "code that ran"
        assert row["input_fingerprint"] == input_fingerprint("code that ran", [("id-raw", digest)])

    run_scenario(scenario, sources=frozenset({"raw"}))


@pytest.mark.parametrize("stamped", [False, True])
def test_lost_inputs_are_not_guessed(stamped: bool) -> None:
    async def scenario(setup: CoordinatorSetup) -> None:
        setup.chains.make("t")
        setup.chains.make("raw")
        setup.chains.versions_of["id-raw"] = ("7", {"ds=1": "files"})
        await setup.coordinator.submit(run_request(_reads_raw()))
        setup.code = {"t": CodeVersion(code="planned code")}
        [lost] = await setup.lease("dead")
        if stamped:
            setup.publish(lost, "code that ran")
        else:  # as workers of older versions do
            setup.chains.publish(lost.outputs[0])
        await setup.sleep(2_000)
        await setup.store(Role.JANITOR).delete(lease_key(lost.attempt_id))
        await setup.sleep(LEASE_MS)
        assert await setup.lease() == ()
        [row] = await setup.reader.rows("partitions")
        assert row["status"] == "COMPLETE"
        digest = material_digest([("ds=1", "files")])
        ran_fingerprint = input_fingerprint("code that ran", [("id-raw", digest)])
        # If it is unknown, the partition is made once more rather than be stale.
        expected_fingerprints = (
            ("code that ran", ran_fingerprint) if stamped else ("planned code", None)
        )
        assert (row["code_fingerprint"], row["input_fingerprint"]) == expected_fingerprints

    run_scenario(scenario, sources=frozenset({"raw"}))


@simulated
async def test_a_late_publication_counts_and_stops_the_next_attempt(
    setup: CoordinatorSetup,
) -> None:
    # No table yet: the second attempt finds nothing to fence, and the first publishes after it began.
    view = await setup.coordinator.submit(run_request(_one()))
    [late] = await setup.lease("slow")
    await setup.sleep(LEASE_MS + 2_000)
    second = await _wait_for_task(setup)
    watching = setup.runtime.tasks.spawn(setup.coordinator.watch("w", (second.attempt_id,), 20_000))
    await setup.sleep(100)
    await setup.complete(late, setup.publish(late), "slow")
    assert await watching.wait() == (second.attempt_id,)
    assert (await setup.heartbeat(second)).is_lost
    with pytest.raises(Fenced):
        await setup.complete(second, FAILED)
    assert (await setup.over(view.run_id)).status is RunStatus.SUCCESS
    [row] = await setup.reader.rows("partitions")
    assert row["materialization_id"] == late.attempt_id
    [task_row] = await setup.reader.rows("tasks")
    assert task_row["status"] == "SUCCESS"


@simulated
async def test_what_an_abandoned_attempt_publishes_is_recorded_once(
    setup: CoordinatorSetup,
) -> None:
    setup.chains.make("t")
    view = await setup.coordinator.submit(run_request(_one()))
    [leased] = await setup.lease()
    await setup.complete(leased, FAILED)
    await setup.over(view.run_id)
    outcome = setup.publish(leased)  # the stop came inside of the call that publishes
    for each in (FAILED, outcome, outcome, FAILED):
        await setup.complete(leased, each)
    assert await setup.statuses(view.run_id) == {"t@1": "SUCCESS"}
    assert await setup.recorded(view.run_id) == {"t@1": "SUCCESS"}
    [row] = await setup.reader.rows("partitions")
    assert (row["status"], row["materialization_id"]) == ("COMPLETE", leased.attempt_id)


@simulated
async def test_a_second_run_fences_the_partition_of_a_lost_attempt(setup: CoordinatorSetup) -> None:
    setup.chains.make("t")
    dead = await setup.coordinator.submit(run_request(_one(), "one", worker="dead"))
    [lost] = await setup.lease("dead")
    alive = await setup.coordinator.submit(run_request(_one(), "two", worker="w"))
    taken = await _wait_for_task(setup)
    assert (taken.run_id, taken.attempt) == (alive.run_id, 1)
    assert setup.chains.fences == 1
    with pytest.raises(Fenced):
        setup.publish(lost)
    await setup.complete(taken, setup.publish(taken))
    assert (await setup.over(alive.run_id)).status is RunStatus.SUCCESS
    assert (await setup.over(dead.run_id)).error == "its worker stopped reporting"


@simulated
async def test_a_partition_whose_last_attempt_was_lost_before_a_restart_is_fenced(
    setup: CoordinatorSetup,
) -> None:
    setup.chains.make("t")
    dead = await setup.coordinator.submit(run_request(_one(), "one", worker="dead"))
    [lost] = await setup.lease("dead")
    await setup.over(dead.run_id, 60_000)
    await setup.restart()
    await setup.coordinator.submit(run_request(_one(), "two"))
    await setup.lease()
    with pytest.raises(Fenced):
        setup.publish(lost)


@simulated
async def test_a_live_attempt_of_another_run_is_waited_for(setup: CoordinatorSetup) -> None:
    await setup.coordinator.submit(run_request(_one(), "one"))
    [first] = await setup.lease("busy")
    second = await setup.coordinator.submit(run_request(_one(), "two"))
    for _ in range(6):
        assert await setup.lease(wait_ms=5_000) == ()
        await setup.heartbeat(first, "busy")
    await setup.complete(first, setup.publish(first), "busy")
    assert (await _wait_for_task(setup)).run_id == second.run_id


@pytest.mark.parametrize(
    ("reason", "is_made_again"),
    [
        (Reason.MISSING, False),
        (Reason.CODE_CHANGED, False),
        (Reason.FAILED, False),
        (Reason.FRESHNESS, False),
        (Reason.FORCED, True),
    ],
)
@simulated
async def test_what_another_run_makes_meanwhile_is_not_made_again(
    setup: CoordinatorSetup, reason: Reason, is_made_again: bool
) -> None:
    setup.chains.make("t")
    await setup.coordinator.submit(run_request(_for(reason), "one"))
    second = await setup.coordinator.submit(run_request(_for(reason), "two"))
    [first] = await setup.lease()
    await setup.complete(first, setup.publish(first))
    answer = await setup.request(run_id=second.run_id, wait_ms=10_000)
    assert bool(answer.tasks) is is_made_again
    if not is_made_again:
        assert (await setup.over(second.run_id)).status is RunStatus.SUCCESS
        assert len(setup.chains.published("t")) == 1


@pytest.mark.parametrize("reason", [Reason.FAILED, Reason.FRESHNESS])
@simulated
async def test_existing_data_are_made_again_on_request(
    setup: CoordinatorSetup, reason: Reason
) -> None:
    setup.chains.make("t")
    one = await setup.coordinator.submit(run_request(_for(Reason.MISSING), "one"))
    [first] = await setup.lease()
    await setup.complete(first, setup.publish(first))
    await setup.over(one.run_id)
    await setup.coordinator.submit(run_request(_for(reason), "two"))
    assert len(await setup.lease()) == 1


@simulated
async def test_an_output_that_was_published_is_not_published_again_with_the_others(
    setup: CoordinatorSetup,
) -> None:
    setup.chains.make("t")
    setup.chains.make("u")
    await setup.coordinator.submit(run_request(_one(times=1, also=("u",))))
    [first] = await setup.lease()
    number = setup.chains.publish(first.outputs[0])
    done = OutputResult(table="t", table_id="id-t", partition="ds=1", version=number)
    await setup.complete(
        first, AttemptOutcome(status=TaskStatus.FAILED, error="half", outputs=(done,))
    )
    second = await _wait_for_task(setup)
    with pytest.raises(Fenced):
        setup.chains.publish(second.outputs[0])
    with pytest.raises(Fenced):
        setup.chains.publish(first.outputs[1])
    setup.chains.publish(second.outputs[1])
    rows = {row["table_id"]: row for row in await setup.reader.rows("partitions")}
    assert rows["id-t"]["materialization_id"] == first.attempt_id


@simulated
async def test_a_catalog_that_is_away_costs_no_attempt(setup: CoordinatorSetup) -> None:
    setup.chains.make("t")
    await setup.coordinator.submit(run_request(_one()))
    setup.chains.is_away = True
    for _ in range(3):
        with pytest.raises(Unavailable):
            await setup.lease()
    setup.chains.is_away = False
    [leased] = await setup.lease()
    assert leased.attempt == 1


@simulated
async def test_the_end_of_an_attempt_is_recorded_after_its_run_left_memory(
    setup: CoordinatorSetup,
) -> None:
    view = await setup.coordinator.submit(run_request(_one(), worker="slow"))
    [late] = await setup.lease("slow")
    assert (await setup.over(view.run_id, 60_000)).status is RunStatus.FAILED
    await setup.restart()
    outcome = setup.publish(late)
    await setup.complete(late, outcome, "slow", run_id=view.run_id, key=late.key)
    [row] = await setup.reader.rows("partitions")
    assert (row["status"], row["materialization_id"]) == ("COMPLETE", late.attempt_id)
