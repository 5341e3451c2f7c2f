"""What a restart keeps: leases, pools, pauses, and who works on what."""

from collections.abc import Callable

import pytest

from arco.core.errors import Corrupt, Invalid, NotFound, Unavailable
from arco.events.execution import ExecutionStarted
from arco.flow.plan.plan import RetryPolicy
from arco.flow.run.events import fact
from arco.flow.run.facts import LedgerFacts
from arco.flow.run.plan_store import plan_key
from arco.flow.run.wire import LEASE_MS, RunStatus
from arco.storage.roles import Role
from tests.flow.run.plans import asset, chain, maker, plan, task, wish
from tests.flow.run.rig import CANCELLED, FAILED, Rig, story
from tests.ledger.simulated import Calm, simulate
from tests.sim.faults import Faults


def test_an_attempt_that_is_under_way_keeps_its_task_over_a_restart() -> None:
    async def tell(rig: Rig) -> None:
        view = await rig.book.submit(wish(chain(2)))
        [leased] = await rig.lease()
        await rig.restart()
        assert await rig.lease() == ()
        assert not (await rig.beat(leased)).is_lost
        await rig.complete(leased)
        [second] = await rig.lease()
        await rig.complete(second)
        assert (await rig.over(view.run_id)).status is RunStatus.SUCCESS

    story(tell)


def test_an_attempt_that_died_with_the_book_is_lost_one_lease_after_the_restart() -> None:
    async def tell(rig: Rig) -> None:
        await rig.book.submit(wish(chain(1)))
        await rig.lease("dead")
        await rig.restart()
        await rig.sleep(LEASE_MS - 1_000)
        assert await rig.lease() == ()
        await rig.sleep(2_000)
        [leased] = await rig.lease()
        assert leased.attempt == 2

    story(tell)


def test_clocks_that_jump_lose_no_lease() -> None:
    async def tell(calm: Calm) -> None:
        rig = Rig(calm.store, calm.runtime)
        await rig.book.begin()
        await rig.book.submit(wish(chain(1)))
        [leased] = await rig.lease()
        calm.wall.jump(50 * 60_000)
        await rig.sleep(5_000)
        assert not (await rig.beat(leased)).is_lost
        calm.wall.jump(-50 * 60_000)
        await rig.sleep(5_000)
        assert not (await rig.beat(leased)).is_lost
        calm.wall.jump(50 * 60_000)
        await rig.restart()
        await rig.sleep(5_000)
        assert not (await rig.beat(leased)).is_lost
        await rig.complete(leased)

    simulate(tell)


def test_a_partition_is_complete_though_the_clock_went_back_meanwhile() -> None:
    async def tell(calm: Calm) -> None:
        rig = Rig(calm.store, calm.runtime)
        await rig.book.begin()
        rig.chains.make("t")
        made = plan(task("t@1", maker="t", partition="ds=1"), makers=[asset("t")])
        view = await rig.book.submit(wish(made))
        [leased] = await rig.lease()
        calm.wall.jump(-30 * 60_000)
        await rig.complete(leased, rig.publish(leased))
        await rig.over(view.run_id)
        [row] = await rig.reader.rows("partitions")
        assert row["status"] == "COMPLETE"

    simulate(tell)


def test_slots_of_attempts_under_way_stay_taken_over_a_restart() -> None:
    async def tell(rig: Rig) -> None:
        tasks = [task(f"t{n}") for n in range(3)]
        await rig.book.submit(wish(plan(*tasks, pools={"default": 2})))
        [first] = await rig.lease(slots=1)
        await rig.restart()
        [second] = await rig.lease()
        assert await rig.lease() == ()
        await rig.complete(first)
        [third] = await rig.lease()
        assert {first.key, second.key, third.key} == {"t0", "t1", "t2"}

    story(tell)


def test_a_pause_before_another_attempt_ends_after_a_restart() -> None:
    async def tell(rig: Rig) -> None:
        made = plan(task("a"), makers=[maker(retry=RetryPolicy(times=1, delay_ms=3_000))])
        await rig.book.submit(wish(made))
        [leased] = await rig.lease()
        await rig.complete(leased, FAILED)
        await rig.restart()
        assert await rig.lease() == ()
        [again] = await rig.lease(wait_ms=5_000)
        assert again.attempt == 2

    story(tell)


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
def test_attempts_that_failed_before_a_restart_count(restarts_at: str) -> None:
    async def tell(rig: Rig) -> None:
        run = await rig.book.submit(wish(plan(task("a"), makers=[maker(retry=_BACK_OFF)])))
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

    story(tell)


def test_attempts_that_were_lost_or_given_back_before_a_restart_do_not_count_as_failed() -> None:
    async def tell(rig: Rig) -> None:
        run = await rig.book.submit(wish(plan(task("a"), makers=[maker(retry=_BACK_OFF)])))
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

    story(tell)


def test_a_run_whose_worker_does_not_come_back_is_given_up() -> None:
    async def tell(rig: Rig) -> None:
        view = await rig.book.submit(wish(chain(2), worker="mine"))
        await rig.lease("mine")
        await rig.restart()
        assert (await rig.over(view.run_id, 60_000)).error == "its runner is gone"

    story(tell)


def test_runs_of_others_are_left_alone() -> None:
    async def tell(rig: Rig) -> None:

        theirs = ExecutionStarted(execution_id="airflow/run 1", pipeline_id="dag")
        told = fact("execution_started", "start:theirs", "airflow/run 1", theirs)
        await LedgerFacts(rig.writers).append([told])
        await rig.restart()
        [row] = await rig.reader.rows("executions")
        assert row["status"] == "RUNNING"
        assert await rig.lease() == ()

    story(tell)


def test_a_book_answers_nothing_before_it_is_opened_and_after_it_is_closed() -> None:
    async def tell(rig: Rig) -> None:
        await rig.book.close()
        with pytest.raises(Unavailable):
            await rig.book.submit(wish(chain(1)))
        with pytest.raises(Unavailable):
            await rig.lease()

    story(tell)


def test_a_book_that_could_not_be_opened_is_opened_the_next_time() -> None:
    async def tell(calm: Calm) -> None:
        rig = Rig(calm.store, calm.runtime)
        await rig.book.begin()
        tasks = [task(f"t{n}") for n in range(3)]
        await rig.book.submit(wish(plan(*tasks, pools={"default": 2})))
        [first] = await rig.lease(slots=1)
        calm.objects.faults = Faults(refused=1.0)
        with pytest.raises(Unavailable):
            await rig.restart()
        calm.objects.faults = Faults()
        await rig.book.begin()
        assert [each.key for each in await rig.lease()] == ["t1"]
        await rig.complete(first)
        assert [each.key for each in await rig.lease()] == ["t2"]

    simulate(tell)


_SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "torn": lambda raw: raw[: len(raw) // 2],
    "garbage": lambda _raw: b"\xff\x00 no plan",
    "newer": lambda raw: raw.replace(b'"format":1', b'"format":2', 1),
    "inconsistent": lambda raw: raw.replace(b'"deps":["t0"]', b'"deps":["t9"]', 1),
}


@pytest.mark.parametrize("how", _SPOILT)
def test_a_run_whose_plan_cannot_be_read_is_set_aside_and_the_others_go_on(how: str) -> None:
    async def tell(rig: Rig) -> None:
        bad = await rig.book.submit(wish(chain(3), "bad"))
        [lost] = await rig.lease()
        good = await rig.book.submit(wish(chain(1), "good"))
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
        assert await rig.told(bad.run_id) == {"t0": "FAILED", "t1": "SKIPPED", "t2": "SKIPPED"}
        assert rig.book.figures.set_aside == 1
        [(_, problem, whose)] = rig.troubles
        assert whose == {"run": bad.run_id}
        assert isinstance(problem, Corrupt | Invalid)
        with pytest.raises(NotFound):
            await rig.complete(lost)
        [leased] = await rig.lease()
        await rig.complete(leased)
        assert (await rig.over(good.run_id)).status is RunStatus.SUCCESS
        await rig.restart()
        assert rig.book.figures.set_aside == 0

    story(tell)


def test_a_book_that_another_process_has_kept_meanwhile_goes_on_from_where_that_stopped() -> None:
    async def tell(rig: Rig) -> None:
        run = await rig.book.submit(wish(chain(3)))
        [first] = await rig.lease()
        mine = rig.book
        await mine.close("somebody else has it")
        with pytest.raises(Unavailable, match="somebody else has it"):
            await mine.look(run.run_id)
        await rig.restart()
        await rig.complete(first)
        [second] = await rig.lease()
        await rig.book.close()
        rig.book = mine
        await mine.begin()
        assert await rig.statuses(run.run_id) == {"t0": "SUCCESS", "t1": "RUNNING", "t2": "PENDING"}
        await rig.complete(second)
        [third] = await rig.lease()
        await rig.complete(third)
        assert (await rig.over(run.run_id)).status is RunStatus.SUCCESS

    story(tell)


@pytest.mark.parametrize("again_here", [False, True])
def test_a_worker_that_died_with_the_book_is_not_waited_for(again_here: bool) -> None:
    async def tell(rig: Rig) -> None:
        rig.book.host("inside")
        mine = rig.book
        dead = await rig.book.submit(wish(chain(2), worker="inside"))
        [leased] = await rig.lease("inside")
        outside = await rig.book.submit(wish(chain(1), "other"))
        [other] = await rig.lease("outside")
        if again_here:  # it was only closed for a moment, and the worker is still there
            await mine.close()
            await mine.begin()
            await rig.sleep(1_000)
            assert not (await rig.beat(leased, "inside")).is_lost
            return
        await rig.restart()
        view = await rig.over(dead.run_id, 2_000)
        assert (view.status, view.error) == (RunStatus.FAILED, "its runner is gone")
        assert await rig.told(dead.run_id) == {"t0": "FAILED", "t1": "SKIPPED"}
        assert not (await rig.beat(other, "outside")).is_lost
        assert (await rig.book.look(outside.run_id)).status is RunStatus.RUNNING

    story(tell)


def test_who_ends_the_dead_ends_no_other_run_and_keeps_nothing() -> None:
    async def tell(rig: Rig) -> None:
        rig.book.host("inside")
        dead = await rig.book.submit(wish(chain(2), worker="inside"))
        await rig.lease("inside")
        alive = await rig.book.submit(wish(chain(1), "other"))
        [other] = await rig.lease("outside")
        await rig.book.close()
        passing = rig._new()
        passing.let_read()
        assert (await passing.look(dead.run_id)).status is RunStatus.RUNNING
        assert await passing.has_dead()
        began_ms = rig.runtime.clock.elapsed_ms()
        await passing.end_dead(5_000)
        assert rig.runtime.clock.elapsed_ms() - began_ms < 2_000
        assert not await passing.has_dead()
        view = await passing.look(dead.run_id)
        assert (view.status, view.error) == (RunStatus.FAILED, "its runner is gone")
        with pytest.raises(Unavailable):
            await passing.submit(wish(chain(1), "more"))
        await rig.restart()
        assert not (await rig.beat(other, "outside")).is_lost
        await rig.complete(other, worker="outside")
        assert (await rig.over(alive.run_id)).status is RunStatus.SUCCESS
        assert (await passing.look(alive.run_id)).status is RunStatus.SUCCESS

    story(tell)


def test_who_cannot_end_the_dead_in_time_leaves_them_to_the_next() -> None:
    async def tell(rig: Rig) -> None:
        rig.chains.make("t")
        rig.book.host("inside")
        made = plan(task("t@1", maker="t", partition="ds=1"), makers=[asset("t", mode="append")])
        dead = await rig.book.submit(wish(made, worker="inside"))
        await rig.lease("inside")
        await rig.book.close()
        passing = rig._new()
        passing.let_read()
        rig.chains.is_away = True
        began_ms = rig.runtime.clock.elapsed_ms()
        await passing.end_dead(5_000)
        assert 5_000 <= rig.runtime.clock.elapsed_ms() - began_ms < 6_000
        assert (await passing.look(dead.run_id)).status is RunStatus.RUNNING
        rig.chains.is_away = False
        await passing.end_dead(5_000)
        assert (await passing.look(dead.run_id)).status is RunStatus.FAILED

    story(tell)
