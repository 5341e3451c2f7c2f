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
from tests.flow.coordinator.plans import asset, plan, run_request, task
from tests.flow.coordinator.rig import FAILED, Rig, run_scenario, simulated


def _one(times: int = 0, *, also: tuple[str, ...] = ()) -> Plan:
    made = asset("t", retry=RetryPolicy(times=times), also=also)
    return plan(task("t@1", maker="t", partition="ds=1"), makers=[made])


def _for(reason: Reason) -> Plan:
    one = task("t@1", maker="t", partition="ds=1")
    return plan(msgspec.structs.replace(one, reason=reason), makers=[asset("t", code="code")])


async def _wait_for_task(rig: Rig, worker: str = "w") -> LeasedTask:
    for _ in range(10):
        leased = await rig.lease(worker, wait_ms=10_000)
        if leased:
            return leased[0]
    pytest.fail("no task came")


@simulated
async def test_the_first_attempt_needs_no_fence(rig: Rig) -> None:
    rig.chains.make("t")
    await rig.coordinator.submit(run_request(_one()))
    [leased] = await rig.lease()
    assert rig.chains.fences == 0
    assert leased.outputs[0].attempt.dispatched_at_number == 0
    assert leased.outputs[0].attempt.partitions == ("ds=1",)


@simulated
async def test_a_table_that_does_not_exist_yet_has_no_base(rig: Rig) -> None:
    view = await rig.coordinator.submit(run_request(_one()))
    [leased] = await rig.lease()
    assert leased.outputs[0].table_id is None
    assert leased.outputs[0].attempt.dispatched_at_number == -1
    await rig.complete(leased, rig.publish(leased))
    await rig.over(view.run_id)
    [row] = await rig.reader.rows("partitions")
    assert (row["partition_key"], row["status"]) == ("ds=1", "COMPLETE")
    assert row["materialization_id"] == leased.attempt_id


@simulated
async def test_another_attempt_fences_the_one_before_it(rig: Rig) -> None:
    rig.chains.make("t")
    await rig.coordinator.submit(run_request(_one(times=1)))
    [first] = await rig.lease()
    await rig.complete(first, FAILED)
    second = await _wait_for_task(rig)
    assert second.outputs[0].attempt.dispatched_at_number == 1
    with pytest.raises(Fenced):
        rig.publish(first)
    await rig.complete(second, rig.publish(second))
    assert [each.attempt_id for each in rig.chains.published("t")] == [second.attempt_id]


@simulated
async def test_a_lost_attempt_that_had_published_has_done_the_task(rig: Rig) -> None:
    rig.chains.make("t")
    view = await rig.coordinator.submit(run_request(_one()))
    [lost] = await rig.lease("dead")
    rig.publish(lost)
    await rig.sleep(LEASE_MS + 2_000)
    assert await rig.lease() == ()
    assert (await rig.over(view.run_id)).status is RunStatus.SUCCESS
    [row] = await rig.reader.rows("partitions")
    assert (row["status"], row["materialization_id"]) == ("COMPLETE", lost.attempt_id)
    [told] = await rig.reader.rows("tasks")
    assert (told["status"], told["attempt"]) == ("SUCCESS", 1)
    assert rig.chains.fences == 0


def _reads_raw() -> Plan:
    made = asset("t", code="planned code")
    reads = [ReadPartitions(table="raw", partitions=("ds=1",))]
    return plan(task("t@1", maker="t", partition="ds=1", inputs=(0,)), makers=[made], reads=reads)


@pytest.mark.parametrize("restarts", [False, True])
def test_the_publication_of_a_lost_attempt_is_recorded_with_its_code_and_inputs(
    restarts: bool,
) -> None:
    async def scenario(rig: Rig) -> None:
        rig.chains.make("t")
        rig.chains.make("raw")
        rig.chains.versions_of["id-raw"] = ("7", {"ds=1": "old files"})
        view = await rig.coordinator.submit(run_request(_reads_raw()))
        rig.code = {"t": CodeVersion(code="planned code")}
        [lost] = await rig.lease("dead")
        rig.publish(lost, "code that ran")
        rig.chains.versions_of["id-raw"] = ("8", {"ds=1": "new files"})
        await rig.sleep(2_000)
        if restarts:
            await rig.restart()
        await rig.sleep(LEASE_MS + 2_000)
        assert await rig.lease() == ()
        await rig.over(view.run_id)
        [row] = await rig.reader.rows("partitions")
        digest = material_digest([("ds=1", "old files")])
        assert row["code_fingerprint"] == "code that ran"
        assert row["input_fingerprint"] == input_fingerprint("code that ran", [("id-raw", digest)])

    run_scenario(scenario, sources=frozenset({"raw"}))


@pytest.mark.parametrize("stamped", [False, True])
def test_lost_inputs_are_not_guessed(stamped: bool) -> None:
    async def scenario(rig: Rig) -> None:
        rig.chains.make("t")
        rig.chains.make("raw")
        rig.chains.versions_of["id-raw"] = ("7", {"ds=1": "files"})
        await rig.coordinator.submit(run_request(_reads_raw()))
        rig.code = {"t": CodeVersion(code="planned code")}
        [lost] = await rig.lease("dead")
        if stamped:
            rig.publish(lost, "code that ran")
        else:  # as workers of older versions do
            rig.chains.publish(lost.outputs[0])
        await rig.sleep(2_000)
        await rig.store(Role.JANITOR).delete(lease_key(lost.attempt_id))
        await rig.sleep(LEASE_MS)
        assert await rig.lease() == ()
        [row] = await rig.reader.rows("partitions")
        assert row["status"] == "COMPLETE"
        digest = material_digest([("ds=1", "files")])
        known = input_fingerprint("code that ran", [("id-raw", digest)])
        # If it is unknown, the partition is made once more rather than be stale.
        told = ("code that ran", known) if stamped else ("planned code", None)
        assert (row["code_fingerprint"], row["input_fingerprint"]) == told

    run_scenario(scenario, sources=frozenset({"raw"}))


@simulated
async def test_a_late_publication_counts_and_stops_the_next_attempt(rig: Rig) -> None:
    # No table yet: the second attempt finds nothing to fence, and the first publishes after it began.
    view = await rig.coordinator.submit(run_request(_one()))
    [late] = await rig.lease("slow")
    await rig.sleep(LEASE_MS + 2_000)
    second = await _wait_for_task(rig)
    watching = rig.runtime.tasks.spawn(rig.coordinator.watch("w", (second.attempt_id,), 20_000))
    await rig.sleep(100)
    await rig.complete(late, rig.publish(late), "slow")
    assert await watching.wait() == (second.attempt_id,)
    assert (await rig.heartbeat(second)).is_lost
    with pytest.raises(Fenced):
        await rig.complete(second, FAILED)
    assert (await rig.over(view.run_id)).status is RunStatus.SUCCESS
    [row] = await rig.reader.rows("partitions")
    assert row["materialization_id"] == late.attempt_id
    [told] = await rig.reader.rows("tasks")
    assert told["status"] == "SUCCESS"


@simulated
async def test_what_an_abandoned_attempt_publishes_is_recorded_once(rig: Rig) -> None:
    rig.chains.make("t")
    view = await rig.coordinator.submit(run_request(_one()))
    [leased] = await rig.lease()
    await rig.complete(leased, FAILED)
    await rig.over(view.run_id)
    outcome = rig.publish(leased)  # the stop came inside of the call that publishes
    for each in (FAILED, outcome, outcome, FAILED):
        await rig.complete(leased, each)
    assert await rig.statuses(view.run_id) == {"t@1": "SUCCESS"}
    assert await rig.recorded(view.run_id) == {"t@1": "SUCCESS"}
    [row] = await rig.reader.rows("partitions")
    assert (row["status"], row["materialization_id"]) == ("COMPLETE", leased.attempt_id)


@simulated
async def test_a_second_run_fences_the_partition_of_a_lost_attempt(rig: Rig) -> None:
    rig.chains.make("t")
    dead = await rig.coordinator.submit(run_request(_one(), "one", worker="dead"))
    [lost] = await rig.lease("dead")
    alive = await rig.coordinator.submit(run_request(_one(), "two", worker="w"))
    taken = await _wait_for_task(rig)
    assert (taken.run_id, taken.attempt) == (alive.run_id, 1)
    assert rig.chains.fences == 1
    with pytest.raises(Fenced):
        rig.publish(lost)
    await rig.complete(taken, rig.publish(taken))
    assert (await rig.over(alive.run_id)).status is RunStatus.SUCCESS
    assert (await rig.over(dead.run_id)).error == "its runner is gone"


@simulated
async def test_a_partition_whose_last_attempt_was_lost_before_a_restart_is_fenced(rig: Rig) -> None:
    rig.chains.make("t")
    dead = await rig.coordinator.submit(run_request(_one(), "one", worker="dead"))
    [lost] = await rig.lease("dead")
    await rig.over(dead.run_id, 60_000)
    await rig.restart()
    await rig.coordinator.submit(run_request(_one(), "two"))
    await rig.lease()
    with pytest.raises(Fenced):
        rig.publish(lost)


@simulated
async def test_a_live_attempt_of_another_run_is_waited_for(rig: Rig) -> None:
    await rig.coordinator.submit(run_request(_one(), "one"))
    [first] = await rig.lease("busy")
    second = await rig.coordinator.submit(run_request(_one(), "two"))
    for _ in range(6):
        assert await rig.lease(wait_ms=5_000) == ()
        await rig.heartbeat(first, "busy")
    await rig.complete(first, rig.publish(first), "busy")
    assert (await _wait_for_task(rig)).run_id == second.run_id


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
    rig: Rig, reason: Reason, is_made_again: bool
) -> None:
    rig.chains.make("t")
    await rig.coordinator.submit(run_request(_for(reason), "one"))
    second = await rig.coordinator.submit(run_request(_for(reason), "two"))
    [first] = await rig.lease()
    await rig.complete(first, rig.publish(first))
    answer = await rig.request(run_id=second.run_id, wait_ms=10_000)
    assert bool(answer.tasks) is is_made_again
    if not is_made_again:
        assert (await rig.over(second.run_id)).status is RunStatus.SUCCESS
        assert len(rig.chains.published("t")) == 1


@pytest.mark.parametrize("reason", [Reason.FAILED, Reason.FRESHNESS])
@simulated
async def test_existing_data_are_made_again_on_request(rig: Rig, reason: Reason) -> None:
    rig.chains.make("t")
    one = await rig.coordinator.submit(run_request(_for(Reason.MISSING), "one"))
    [first] = await rig.lease()
    await rig.complete(first, rig.publish(first))
    await rig.over(one.run_id)
    await rig.coordinator.submit(run_request(_for(reason), "two"))
    assert len(await rig.lease()) == 1


@simulated
async def test_an_output_that_was_published_is_not_published_again_with_the_others(
    rig: Rig,
) -> None:
    rig.chains.make("t")
    rig.chains.make("u")
    await rig.coordinator.submit(run_request(_one(times=1, also=("u",))))
    [first] = await rig.lease()
    number = rig.chains.publish(first.outputs[0])
    done = OutputResult(table="t", table_id="id-t", partition="ds=1", version=number)
    await rig.complete(
        first, AttemptOutcome(status=TaskStatus.FAILED, error="half", outputs=(done,))
    )
    second = await _wait_for_task(rig)
    with pytest.raises(Fenced):
        rig.chains.publish(second.outputs[0])
    with pytest.raises(Fenced):
        rig.chains.publish(first.outputs[1])
    rig.chains.publish(second.outputs[1])
    rows = {row["table_id"]: row for row in await rig.reader.rows("partitions")}
    assert rows["id-t"]["materialization_id"] == first.attempt_id


@simulated
async def test_a_catalog_that_is_away_costs_no_attempt(rig: Rig) -> None:
    rig.chains.make("t")
    await rig.coordinator.submit(run_request(_one()))
    rig.chains.is_away = True
    for _ in range(3):
        with pytest.raises(Unavailable):
            await rig.lease()
    rig.chains.is_away = False
    [leased] = await rig.lease()
    assert leased.attempt == 1


@simulated
async def test_the_end_of_an_attempt_is_recorded_after_its_run_left_memory(rig: Rig) -> None:
    view = await rig.coordinator.submit(run_request(_one(), worker="slow"))
    [late] = await rig.lease("slow")
    assert (await rig.over(view.run_id, 60_000)).status is RunStatus.FAILED
    await rig.restart()
    outcome = rig.publish(late)
    await rig.complete(late, outcome, "slow", run_id=view.run_id, key=late.key)
    [row] = await rig.reader.rows("partitions")
    assert (row["status"], row["materialization_id"]) == ("COMPLETE", late.attempt_id)
