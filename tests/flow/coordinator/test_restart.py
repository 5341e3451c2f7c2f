"""What a restart keeps: leases, pools, retry delays, and the workers of tasks."""

from collections.abc import Callable

import pytest

from arco.core.errors import Corrupt, Invalid, NotFound, Unavailable
from arco.events.execution import ExecutionStarted
from arco.flow.coordinator.event_writer import LedgerEventWriter
from arco.flow.coordinator.events import run_event
from arco.flow.coordinator.messages import LEASE_MS, RunStatus
from arco.flow.coordinator.plan_store import plan_key
from arco.flow.plan.plan import RetryPolicy
from arco.storage.roles import Role
from tests.flow.coordinator.plans import asset, chain, maker, plan, run_request, task
from tests.flow.coordinator.rig import CANCELLED, FAILED, Rig, in_virtual_time, simulated
from tests.ledger.simulated import Calm
from tests.sim.faults import Faults


@simulated
async def test_an_attempt_that_is_under_way_keeps_its_task_over_a_restart(rig: Rig) -> None:
    view = await rig.coordinator.submit(run_request(chain(2)))
    [leased] = await rig.lease()
    await rig.restart()
    assert await rig.lease() == ()
    assert not (await rig.heartbeat(leased)).is_lost
    await rig.complete(leased)
    [second] = await rig.lease()
    await rig.complete(second)
    assert (await rig.over(view.run_id)).status is RunStatus.SUCCESS


@simulated
async def test_an_attempt_that_died_with_the_coordinator_is_lost_one_lease_after_the_restart(
    rig: Rig,
) -> None:
    await rig.coordinator.submit(run_request(chain(1)))
    await rig.lease("dead")
    await rig.restart()
    await rig.sleep(LEASE_MS - 1_000)
    assert await rig.lease() == ()
    await rig.sleep(2_000)
    [leased] = await rig.lease()
    assert leased.attempt == 2


@in_virtual_time
async def test_clocks_that_jump_lose_no_lease(calm: Calm) -> None:
    rig = Rig(calm.store, calm.runtime)
    await rig.coordinator.begin()
    await rig.coordinator.submit(run_request(chain(1)))
    [leased] = await rig.lease()
    calm.wall.jump(50 * 60_000)
    await rig.sleep(5_000)
    assert not (await rig.heartbeat(leased)).is_lost
    calm.wall.jump(-50 * 60_000)
    await rig.sleep(5_000)
    assert not (await rig.heartbeat(leased)).is_lost
    calm.wall.jump(50 * 60_000)
    await rig.restart()
    await rig.sleep(5_000)
    assert not (await rig.heartbeat(leased)).is_lost
    await rig.complete(leased)


@in_virtual_time
async def test_a_partition_is_complete_though_the_clock_went_back_meanwhile(calm: Calm) -> None:
    rig = Rig(calm.store, calm.runtime)
    await rig.coordinator.begin()
    rig.chains.make("t")
    made = plan(task("t@1", maker="t", partition="ds=1"), makers=[asset("t")])
    view = await rig.coordinator.submit(run_request(made))
    [leased] = await rig.lease()
    calm.wall.jump(-30 * 60_000)
    await rig.complete(leased, rig.publish(leased))
    await rig.over(view.run_id)
    [row] = await rig.reader.rows("partitions")
    assert row["status"] == "COMPLETE"


@simulated
async def test_slots_of_attempts_under_way_stay_taken_over_a_restart(rig: Rig) -> None:
    tasks = [task(f"t{n}") for n in range(3)]
    await rig.coordinator.submit(run_request(plan(*tasks, pools={"default": 2})))
    [first] = await rig.lease(slots=1)
    await rig.restart()
    [second] = await rig.lease()
    assert await rig.lease() == ()
    await rig.complete(first)
    [third] = await rig.lease()
    assert {first.key, second.key, third.key} == {"t0", "t1", "t2"}


@simulated
async def test_a_pause_before_another_attempt_ends_after_a_restart(rig: Rig) -> None:
    made = plan(task("a"), makers=[maker(retry=RetryPolicy(times=1, delay_ms=3_000))])
    await rig.coordinator.submit(run_request(made))
    [leased] = await rig.lease()
    await rig.complete(leased, FAILED)
    await rig.restart()
    assert await rig.lease() == ()
    [again] = await rig.lease(wait_ms=5_000)
    assert again.attempt == 2


_BACK_OFF = RetryPolicy(times=3, delay_ms=1_000, factor=3)


async def _fail_after(rig: Rig, wait_ms: int) -> int:
    """Fail the next attempt, which begins after so long and no earlier; its number."""
    began_ms = rig.runtime.clock.elapsed_ms()
    [leased] = await rig.lease(wait_ms=10_000)
    waited_ms = rig.runtime.clock.elapsed_ms() - began_ms
    assert wait_ms <= waited_ms < wait_ms + 500
    await rig.complete(leased, FAILED)
    return leased.attempt


@pytest.mark.parametrize("restarts_at", ["in the pause", "under way"])
@simulated
async def test_attempts_that_failed_before_a_restart_count(rig: Rig, restarts_at: str) -> None:
    run = await rig.coordinator.submit(
        run_request(plan(task("a"), makers=[maker(retry=_BACK_OFF)]))
    )
    assert [await _fail_after(rig, 0), await _fail_after(rig, 1_000)] == [1, 2]
    if restarts_at == "in the pause":
        await rig.restart()
        assert await _fail_after(rig, 3_000) == 3
    else:
        [third] = await rig.lease(wait_ms=5_000)
        await rig.restart()
        await rig.complete(third, FAILED)
    assert await _fail_after(rig, 9_000) == 4
    assert (await rig.over(run.run_id)).status is RunStatus.FAILED
    assert await rig.lease(wait_ms=10_000) == ()


@simulated
async def test_attempts_that_were_lost_or_given_back_before_a_restart_do_not_count_as_failed(
    rig: Rig,
) -> None:
    run = await rig.coordinator.submit(
        run_request(plan(task("a"), makers=[maker(retry=_BACK_OFF)]))
    )
    assert await _fail_after(rig, 0) == 1
    [second] = await rig.lease(wait_ms=5_000)
    await rig.complete(second, CANCELLED)
    [third] = await rig.lease("dead", wait_ms=1_000)
    assert third.attempt == 3
    await rig.sleep(LEASE_MS + 1_000)
    [fourth] = await rig.lease()
    await rig.restart()
    await rig.complete(fourth, FAILED)
    assert [await _fail_after(rig, 3_000), await _fail_after(rig, 9_000)] == [5, 6]
    assert (await rig.over(run.run_id)).status is RunStatus.FAILED


@simulated
async def test_a_run_whose_worker_does_not_come_back_is_given_up(rig: Rig) -> None:
    view = await rig.coordinator.submit(run_request(chain(2), worker="mine"))
    await rig.lease("mine")
    await rig.restart()
    assert (await rig.over(view.run_id, 60_000)).error == "its runner is gone"


@simulated
async def test_executions_of_other_programs_are_ignored(rig: Rig) -> None:

    theirs = ExecutionStarted(execution_id="airflow/run 1", pipeline_id="dag")
    told = run_event("execution_started", "start:theirs", "airflow/run 1", theirs)
    await LedgerEventWriter(rig.writers).append([told])
    await rig.restart()
    [row] = await rig.reader.rows("executions")
    assert row["status"] == "RUNNING"
    assert await rig.lease() == ()


@simulated
async def test_a_coordinator_rejects_calls_before_it_opens_and_after_it_closes(rig: Rig) -> None:
    await rig.coordinator.close()
    with pytest.raises(Unavailable):
        await rig.coordinator.submit(run_request(chain(1)))
    with pytest.raises(Unavailable):
        await rig.lease()


@in_virtual_time
async def test_a_coordinator_that_failed_to_open_can_be_opened_again(calm: Calm) -> None:
    rig = Rig(calm.store, calm.runtime)
    await rig.coordinator.begin()
    tasks = [task(f"t{n}") for n in range(3)]
    await rig.coordinator.submit(run_request(plan(*tasks, pools={"default": 2})))
    [first] = await rig.lease(slots=1)
    calm.objects.faults = Faults(refused=1.0)
    with pytest.raises(Unavailable):
        await rig.restart()
    calm.objects.faults = Faults()
    await rig.coordinator.begin()
    assert [each.key for each in await rig.lease()] == ["t1"]
    await rig.complete(first)
    assert [each.key for each in await rig.lease()] == ["t2"]


_SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "torn": lambda raw: raw[: len(raw) // 2],
    "garbage": lambda _raw: b"\xff\x00 no plan",
    "newer": lambda raw: raw.replace(b'"format":1', b'"format":2', 1),
    "inconsistent": lambda raw: raw.replace(b'"deps":["t0"]', b'"deps":["t9"]', 1),
}


@pytest.mark.parametrize("how", _SPOILT)
@simulated
async def test_a_run_with_an_unreadable_plan_ends_and_the_others_go_on(rig: Rig, how: str) -> None:
    bad = await rig.coordinator.submit(run_request(chain(3), "bad"))
    [lost] = await rig.lease()
    good = await rig.coordinator.submit(run_request(chain(1), "good"))
    key = plan_key(bad.run_id)
    raw = await rig.store(Role.API).get(key)
    spoilt = _SPOILT[how](raw)
    assert spoilt != raw
    await rig.store(Role.JANITOR).delete(key)
    await rig.store(Role.FLOW).create(key, spoilt)
    await rig.restart()
    told = await rig.reader.run(bad.run_id)
    assert told is not None
    assert (told.status, told.is_over) == (RunStatus.FAILED, True)
    assert "its plan cannot be read" in (told.error or "")
    assert await rig.recorded(bad.run_id) == {"t0": "FAILED", "t1": "SKIPPED", "t2": "SKIPPED"}
    assert rig.coordinator.figures.set_aside == 1
    [(_, problem, whose)] = rig.errors
    assert whose == {"run": bad.run_id}
    assert isinstance(problem, Corrupt | Invalid)
    with pytest.raises(NotFound):
        await rig.complete(lost)
    [leased] = await rig.lease()
    await rig.complete(leased)
    assert (await rig.over(good.run_id)).status is RunStatus.SUCCESS
    await rig.restart()
    assert rig.coordinator.figures.set_aside == 0


@simulated
async def test_a_coordinator_resumes_from_where_another_process_stopped(rig: Rig) -> None:
    run = await rig.coordinator.submit(run_request(chain(3)))
    [first] = await rig.lease()
    mine = rig.coordinator
    await mine.close("somebody else has it")
    with pytest.raises(Unavailable, match="somebody else has it"):
        await mine.get_run(run.run_id)
    await rig.restart()
    await rig.complete(first)
    [second] = await rig.lease()
    await rig.coordinator.close()
    rig.coordinator = mine
    await mine.begin()
    assert await rig.statuses(run.run_id) == {"t0": "SUCCESS", "t1": "RUNNING", "t2": "PENDING"}
    await rig.complete(second)
    [third] = await rig.lease()
    await rig.complete(third)
    assert (await rig.over(run.run_id)).status is RunStatus.SUCCESS


@pytest.mark.parametrize("again_here", [False, True])
@simulated
async def test_leases_of_a_worker_that_died_with_the_coordinator_end_at_once(
    rig: Rig, again_here: bool
) -> None:
    rig.coordinator.host("inside")
    mine = rig.coordinator
    dead = await rig.coordinator.submit(run_request(chain(2), worker="inside"))
    [leased] = await rig.lease("inside")
    outside = await rig.coordinator.submit(run_request(chain(1), "other"))
    [other] = await rig.lease("outside")
    if again_here:  # it was only closed for a moment, and the worker is still there
        await mine.close()
        await mine.begin()
        await rig.sleep(1_000)
        assert not (await rig.heartbeat(leased, "inside")).is_lost
        return
    await rig.restart()
    view = await rig.over(dead.run_id, 2_000)
    assert (view.status, view.error) == (RunStatus.FAILED, "its runner is gone")
    assert await rig.recorded(dead.run_id) == {"t0": "FAILED", "t1": "SKIPPED"}
    assert not (await rig.heartbeat(other, "outside")).is_lost
    assert (await rig.coordinator.get_run(outside.run_id)).status is RunStatus.RUNNING


@simulated
async def test_ending_orphaned_runs_ends_no_other_run(rig: Rig) -> None:
    rig.coordinator.host("inside")
    dead = await rig.coordinator.submit(run_request(chain(2), worker="inside"))
    await rig.lease("inside")
    alive = await rig.coordinator.submit(run_request(chain(1), "other"))
    [other] = await rig.lease("outside")
    await rig.coordinator.close()
    passing = rig.new_coordinator()
    passing.allow_reads()
    assert (await passing.get_run(dead.run_id)).status is RunStatus.RUNNING
    assert await passing.has_orphaned_runs()
    began_ms = rig.runtime.clock.elapsed_ms()
    await passing.end_orphaned_runs(5_000)
    assert rig.runtime.clock.elapsed_ms() - began_ms < 2_000
    assert not await passing.has_orphaned_runs()
    view = await passing.get_run(dead.run_id)
    assert (view.status, view.error) == (RunStatus.FAILED, "its runner is gone")
    with pytest.raises(Unavailable):
        await passing.submit(run_request(chain(1), "more"))
    await rig.restart()
    assert not (await rig.heartbeat(other, "outside")).is_lost
    await rig.complete(other, worker="outside")
    assert (await rig.over(alive.run_id)).status is RunStatus.SUCCESS
    assert (await passing.get_run(alive.run_id)).status is RunStatus.SUCCESS


@simulated
async def test_orphaned_runs_that_do_not_end_in_time_are_left_to_the_next_coordinator(
    rig: Rig,
) -> None:
    rig.chains.make("t")
    rig.coordinator.host("inside")
    made = plan(task("t@1", maker="t", partition="ds=1"), makers=[asset("t", mode="append")])
    dead = await rig.coordinator.submit(run_request(made, worker="inside"))
    await rig.lease("inside")
    await rig.coordinator.close()
    passing = rig.new_coordinator()
    passing.allow_reads()
    rig.chains.is_away = True
    began_ms = rig.runtime.clock.elapsed_ms()
    await passing.end_orphaned_runs(5_000)
    assert 5_000 <= rig.runtime.clock.elapsed_ms() - began_ms < 6_000
    assert (await passing.get_run(dead.run_id)).status is RunStatus.RUNNING
    rig.chains.is_away = False
    await passing.end_orphaned_runs(5_000)
    assert (await passing.get_run(dead.run_id)).status is RunStatus.FAILED
