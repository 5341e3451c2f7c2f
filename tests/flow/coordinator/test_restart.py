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
from tests.flow.coordinator.coordinator_setup import (
    CANCELLED,
    FAILED,
    CoordinatorSetup,
    in_virtual_time,
    simulated,
)
from tests.flow.coordinator.plans import asset, chain, maker, plan, run_request, task
from tests.ledger.simulated import Calm
from tests.sim.faults import Faults


@simulated
async def test_an_attempt_that_is_under_way_keeps_its_task_over_a_restart(
    setup: CoordinatorSetup,
) -> None:
    view = await setup.coordinator.submit(run_request(chain(2)))
    [leased] = await setup.lease()
    await setup.restart()
    assert await setup.lease() == ()
    assert not (await setup.heartbeat(leased)).is_lost
    await setup.complete(leased)
    [second] = await setup.lease()
    await setup.complete(second)
    assert (await setup.over(view.run_id)).status is RunStatus.SUCCESS


@simulated
async def test_an_attempt_that_died_with_the_coordinator_is_lost_one_lease_after_the_restart(
    setup: CoordinatorSetup,
) -> None:
    await setup.coordinator.submit(run_request(chain(1)))
    await setup.lease("dead")
    await setup.restart()
    await setup.sleep(LEASE_MS - 1_000)
    assert await setup.lease() == ()
    await setup.sleep(2_000)
    [leased] = await setup.lease()
    assert leased.attempt == 2


@in_virtual_time
async def test_clocks_that_jump_lose_no_lease(calm: Calm) -> None:
    setup = CoordinatorSetup(calm.store, calm.runtime)
    await setup.coordinator.begin()
    await setup.coordinator.submit(run_request(chain(1)))
    [leased] = await setup.lease()
    calm.wall.jump(50 * 60_000)
    await setup.sleep(5_000)
    assert not (await setup.heartbeat(leased)).is_lost
    calm.wall.jump(-50 * 60_000)
    await setup.sleep(5_000)
    assert not (await setup.heartbeat(leased)).is_lost
    calm.wall.jump(50 * 60_000)
    await setup.restart()
    await setup.sleep(5_000)
    assert not (await setup.heartbeat(leased)).is_lost
    await setup.complete(leased)


@in_virtual_time
async def test_a_partition_is_complete_though_the_clock_went_back_meanwhile(calm: Calm) -> None:
    setup = CoordinatorSetup(calm.store, calm.runtime)
    await setup.coordinator.begin()
    setup.chains.make("t")
    made = plan(task("t@1", maker="t", partition="ds=1"), makers=[asset("t")])
    view = await setup.coordinator.submit(run_request(made))
    [leased] = await setup.lease()
    calm.wall.jump(-30 * 60_000)
    await setup.complete(leased, setup.publish(leased))
    await setup.over(view.run_id)
    [row] = await setup.reader.rows("partitions")
    assert row["status"] == "COMPLETE"


@simulated
async def test_slots_of_attempts_under_way_stay_taken_over_a_restart(
    setup: CoordinatorSetup,
) -> None:
    tasks = [task(f"t{n}") for n in range(3)]
    await setup.coordinator.submit(run_request(plan(*tasks, pools={"default": 2})))
    [first] = await setup.lease(slots=1)
    await setup.restart()
    [second] = await setup.lease()
    assert await setup.lease() == ()
    await setup.complete(first)
    [third] = await setup.lease()
    assert {first.key, second.key, third.key} == {"t0", "t1", "t2"}


@simulated
async def test_a_pause_before_another_attempt_ends_after_a_restart(setup: CoordinatorSetup) -> None:
    made = plan(task("a"), makers=[maker(retry=RetryPolicy(times=1, delay_ms=3_000))])
    await setup.coordinator.submit(run_request(made))
    [leased] = await setup.lease()
    await setup.complete(leased, FAILED)
    await setup.restart()
    assert await setup.lease() == ()
    [second_attempt] = await setup.lease(wait_ms=5_000)
    assert second_attempt.attempt == 2


_BACK_OFF = RetryPolicy(times=3, delay_ms=1_000, factor=3)


async def _fail_after(setup: CoordinatorSetup, wait_ms: int) -> int:
    """Fail the next attempt, which begins after so long and no earlier; its number."""
    began_ms = setup.runtime.clock.elapsed_ms()
    [leased] = await setup.lease(wait_ms=10_000)
    waited_ms = setup.runtime.clock.elapsed_ms() - began_ms
    assert wait_ms <= waited_ms < wait_ms + 500
    await setup.complete(leased, FAILED)
    return leased.attempt


@pytest.mark.parametrize("restarts_at", ["in the pause", "under way"])
@simulated
async def test_attempts_that_failed_before_a_restart_count(
    setup: CoordinatorSetup, restarts_at: str
) -> None:
    run = await setup.coordinator.submit(
        run_request(plan(task("a"), makers=[maker(retry=_BACK_OFF)]))
    )
    assert [await _fail_after(setup, 0), await _fail_after(setup, 1_000)] == [1, 2]
    if restarts_at == "in the pause":
        await setup.restart()
        assert await _fail_after(setup, 3_000) == 3
    else:
        [third] = await setup.lease(wait_ms=5_000)
        await setup.restart()
        await setup.complete(third, FAILED)
    assert await _fail_after(setup, 9_000) == 4
    assert (await setup.over(run.run_id)).status is RunStatus.FAILED
    assert await setup.lease(wait_ms=10_000) == ()


@simulated
async def test_attempts_that_were_lost_or_given_back_before_a_restart_do_not_count_as_failed(
    setup: CoordinatorSetup,
) -> None:
    run = await setup.coordinator.submit(
        run_request(plan(task("a"), makers=[maker(retry=_BACK_OFF)]))
    )
    assert await _fail_after(setup, 0) == 1
    [second] = await setup.lease(wait_ms=5_000)
    await setup.complete(second, CANCELLED)
    [third] = await setup.lease("dead", wait_ms=1_000)
    assert third.attempt == 3
    await setup.sleep(LEASE_MS + 1_000)
    [fourth] = await setup.lease()
    await setup.restart()
    await setup.complete(fourth, FAILED)
    assert [await _fail_after(setup, 3_000), await _fail_after(setup, 9_000)] == [5, 6]
    assert (await setup.over(run.run_id)).status is RunStatus.FAILED


@simulated
async def test_a_run_whose_worker_does_not_come_back_is_given_up(setup: CoordinatorSetup) -> None:
    view = await setup.coordinator.submit(run_request(chain(2), worker="mine"))
    await setup.lease("mine")
    await setup.restart()
    assert (await setup.over(view.run_id, 60_000)).error == "its worker stopped reporting"


@simulated
async def test_executions_of_other_programs_are_ignored(setup: CoordinatorSetup) -> None:

    theirs = ExecutionStarted(execution_id="airflow/run 1", pipeline_id="dag")
    event = run_event("execution_started", "start:theirs", "airflow/run 1", theirs)
    await LedgerEventWriter(setup.writers).append([event])
    await setup.restart()
    [row] = await setup.reader.rows("executions")
    assert row["status"] == "RUNNING"
    assert await setup.lease() == ()


@simulated
async def test_a_coordinator_rejects_calls_before_it_opens_and_after_it_closes(
    setup: CoordinatorSetup,
) -> None:
    await setup.coordinator.close()
    with pytest.raises(Unavailable):
        await setup.coordinator.submit(run_request(chain(1)))
    with pytest.raises(Unavailable):
        await setup.lease()


@in_virtual_time
async def test_a_coordinator_that_failed_to_open_can_be_opened_again(calm: Calm) -> None:
    setup = CoordinatorSetup(calm.store, calm.runtime)
    await setup.coordinator.begin()
    tasks = [task(f"t{n}") for n in range(3)]
    await setup.coordinator.submit(run_request(plan(*tasks, pools={"default": 2})))
    [first] = await setup.lease(slots=1)
    calm.objects.faults = Faults(refused=1.0)
    with pytest.raises(Unavailable):
        await setup.restart()
    calm.objects.faults = Faults()
    await setup.coordinator.begin()
    assert [each.key for each in await setup.lease()] == ["t1"]
    await setup.complete(first)
    assert [each.key for each in await setup.lease()] == ["t2"]


_SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "torn": lambda raw: raw[: len(raw) // 2],
    "garbage": lambda _raw: b"\xff\x00 no plan",
    "newer": lambda raw: raw.replace(b'"format":1', b'"format":2', 1),
    "inconsistent": lambda raw: raw.replace(b'"deps":["t0"]', b'"deps":["t9"]', 1),
}


@pytest.mark.parametrize("damage", _SPOILT)
@simulated
async def test_a_run_with_an_unreadable_plan_ends_and_the_others_go_on(
    setup: CoordinatorSetup, damage: str
) -> None:
    bad = await setup.coordinator.submit(run_request(chain(3), "bad"))
    [lost] = await setup.lease()
    good = await setup.coordinator.submit(run_request(chain(1), "good"))
    key = plan_key(bad.run_id)
    raw = await setup.store(Role.API).get(key)
    spoilt = _SPOILT[damage](raw)
    assert spoilt != raw
    await setup.store(Role.JANITOR).delete(key)
    await setup.store(Role.FLOW).create(key, spoilt)
    await setup.restart()
    run = await setup.reader.run(bad.run_id)
    assert run is not None
    assert (run.status, run.is_over) == (RunStatus.FAILED, True)
    assert "its plan cannot be read" in (run.error or "")
    assert await setup.recorded(bad.run_id) == {"t0": "FAILED", "t1": "SKIPPED", "t2": "SKIPPED"}
    assert setup.coordinator.figures.set_aside == 1
    [(_, problem, labels)] = setup.errors
    assert labels == {"run": bad.run_id}
    assert isinstance(problem, Corrupt | Invalid)
    with pytest.raises(NotFound):
        await setup.complete(lost)
    [leased] = await setup.lease()
    await setup.complete(leased)
    assert (await setup.over(good.run_id)).status is RunStatus.SUCCESS
    await setup.restart()
    assert setup.coordinator.figures.set_aside == 0


@simulated
async def test_a_coordinator_resumes_from_where_another_process_stopped(
    setup: CoordinatorSetup,
) -> None:
    run = await setup.coordinator.submit(run_request(chain(3)))
    [first] = await setup.lease()
    mine = setup.coordinator
    await mine.close("somebody else has it")
    with pytest.raises(Unavailable, match="somebody else has it"):
        await mine.get_run(run.run_id)
    await setup.restart()
    await setup.complete(first)
    [second] = await setup.lease()
    await setup.coordinator.close()
    setup.coordinator = mine
    await mine.begin()
    assert await setup.statuses(run.run_id) == {"t0": "SUCCESS", "t1": "RUNNING", "t2": "PENDING"}
    await setup.complete(second)
    [third] = await setup.lease()
    await setup.complete(third)
    assert (await setup.over(run.run_id)).status is RunStatus.SUCCESS


@pytest.mark.parametrize("reopens", [False, True])
@simulated
async def test_leases_of_a_worker_that_died_with_the_coordinator_end_at_once(
    setup: CoordinatorSetup, reopens: bool
) -> None:
    setup.coordinator.host("inside")
    mine = setup.coordinator
    dead = await setup.coordinator.submit(run_request(chain(2), worker="inside"))
    [leased] = await setup.lease("inside")
    outside = await setup.coordinator.submit(run_request(chain(1), "other"))
    [other] = await setup.lease("outside")
    if reopens:  # it was only closed for a moment, and the worker is still there
        await mine.close()
        await mine.begin()
        await setup.sleep(1_000)
        assert not (await setup.heartbeat(leased, "inside")).is_lost
        return
    await setup.restart()
    view = await setup.over(dead.run_id, 2_000)
    assert (view.status, view.error) == (RunStatus.FAILED, "its worker stopped reporting")
    assert await setup.recorded(dead.run_id) == {"t0": "FAILED", "t1": "SKIPPED"}
    assert not (await setup.heartbeat(other, "outside")).is_lost
    assert (await setup.coordinator.get_run(outside.run_id)).status is RunStatus.RUNNING


@simulated
async def test_ending_orphaned_runs_ends_no_other_run(setup: CoordinatorSetup) -> None:
    setup.coordinator.host("inside")
    dead = await setup.coordinator.submit(run_request(chain(2), worker="inside"))
    await setup.lease("inside")
    alive = await setup.coordinator.submit(run_request(chain(1), "other"))
    [other] = await setup.lease("outside")
    await setup.coordinator.close()
    passing = setup.new_coordinator()
    passing.allow_reads()
    assert (await passing.get_run(dead.run_id)).status is RunStatus.RUNNING
    assert await passing.has_orphaned_runs()
    began_ms = setup.runtime.clock.elapsed_ms()
    await passing.end_orphaned_runs(5_000)
    assert setup.runtime.clock.elapsed_ms() - began_ms < 2_000
    assert not await passing.has_orphaned_runs()
    view = await passing.get_run(dead.run_id)
    assert (view.status, view.error) == (RunStatus.FAILED, "its worker stopped reporting")
    with pytest.raises(Unavailable):
        await passing.submit(run_request(chain(1), "more"))
    await setup.restart()
    assert not (await setup.heartbeat(other, "outside")).is_lost
    await setup.complete(other, worker="outside")
    assert (await setup.over(alive.run_id)).status is RunStatus.SUCCESS
    assert (await passing.get_run(alive.run_id)).status is RunStatus.SUCCESS


@simulated
async def test_orphaned_runs_that_do_not_end_in_time_are_left_to_the_next_coordinator(
    setup: CoordinatorSetup,
) -> None:
    setup.chains.make("t")
    setup.coordinator.host("inside")
    made = plan(task("t@1", maker="t", partition="ds=1"), makers=[asset("t", mode="append")])
    dead = await setup.coordinator.submit(run_request(made, worker="inside"))
    await setup.lease("inside")
    await setup.coordinator.close()
    passing = setup.new_coordinator()
    passing.allow_reads()
    setup.chains.is_away = True
    began_ms = setup.runtime.clock.elapsed_ms()
    await passing.end_orphaned_runs(5_000)
    assert 5_000 <= setup.runtime.clock.elapsed_ms() - began_ms < 6_000
    assert (await passing.get_run(dead.run_id)).status is RunStatus.RUNNING
    setup.chains.is_away = False
    await passing.end_orphaned_runs(5_000)
    assert (await passing.get_run(dead.run_id)).status is RunStatus.FAILED
