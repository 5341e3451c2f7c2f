"""What a restart keeps: leases, pools, pauses, and who works on what."""

import pytest

from arco.core.errors import Unavailable
from arco.events.execution import ExecutionStarted
from arco.flow.plan.plan import Again
from arco.flow.run.events import fact
from arco.flow.run.facts import LedgerFacts
from arco.flow.run.wire import LEASE_MS, RunStatus
from tests.flow.run.plans import asset, chain, maker, plan, task, wish
from tests.flow.run.rig import FAILED, Rig, story
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
        made = plan(task("a"), makers=[maker(retry=Again(times=1, delay_ms=3_000))])
        await rig.book.submit(wish(made))
        [leased] = await rig.lease()
        await rig.complete(leased, FAILED)
        await rig.restart()
        assert await rig.lease() == ()
        [again] = await rig.lease(wait_ms=5_000)
        assert again.attempt == 2

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
