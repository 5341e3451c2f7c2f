"""Cancelling: at once for what has not begun, soon for what has, and for good."""

import pytest

from arco.core.errors import Invalid
from arco.flow.plan.plan import RetryPolicy
from arco.flow.run.wire import LEASE_MS, Outcome, RunStatus, TaskStatus
from tests.flow.run.plans import asset, chain, maker, plan, task, wish
from tests.flow.run.rig import CANCELLED, FAILED, Rig, story


def test_tasks_that_have_not_begun_are_cancelled_at_once() -> None:
    async def tell(rig: Rig) -> None:
        view = await rig.book.submit(wish(chain(3)))
        [leased] = await rig.lease()
        await rig.book.cancel(view.run_id, "ann")
        await rig.sleep(500)
        assert await rig.told(view.run_id) == {
            "t0": "RUNNING",
            "t1": "CANCELLED",
            "t2": "CANCELLED",
        }
        assert (await rig.beat(leased)).should_cancel
        await rig.complete(leased, CANCELLED)
        assert (await rig.over(view.run_id)).status is RunStatus.CANCELLED
        assert set((await rig.told(view.run_id)).values()) == {"CANCELLED"}
        [row] = await rig.reader.rows("executions")
        assert row["status"] == "CANCELLED"
        assert row["completed_at"] is not None

    story(tell)


@pytest.mark.parametrize("before", [FAILED, Outcome(status=TaskStatus.SUCCESS)])
def test_a_cancelled_attempt_says_nothing_against_its_partition(before: Outcome) -> None:
    made = plan(task("a@1", maker="a", partition="ds=1"), makers=[asset("a")])

    async def tell(rig: Rig) -> None:
        rig.chains.make("a")
        first = await rig.book.submit(wish(made, "first"))
        [leased] = await rig.lease()
        await rig.complete(leased, before)
        await rig.over(first.run_id)
        view = await rig.book.submit(wish(made, "second"))
        [leased] = await rig.lease()
        await rig.book.cancel(view.run_id)
        await rig.complete(leased, CANCELLED)
        assert (await rig.over(view.run_id)).status is RunStatus.CANCELLED
        [row] = await rig.reader.rows("partitions")
        assert row["status"] == "PENDING"  # somebody else may make it; its data are those of before

    story(tell)


def test_a_worker_that_watches_hears_of_it_at_once() -> None:
    async def tell(rig: Rig) -> None:
        view = await rig.book.submit(wish(chain(1)))
        [leased] = await rig.lease()
        watching = rig.runtime.tasks.spawn(rig.book.watch("w", (leased.attempt_id,), 25_000))
        await rig.sleep(1_000)
        began = rig.runtime.clock.elapsed_ms()
        await rig.book.cancel(view.run_id)
        assert await watching.wait() == (leased.attempt_id,)
        assert rig.runtime.clock.elapsed_ms() - began < 1_000

    story(tell)


def test_nobody_is_told_to_stop_without_need() -> None:
    async def tell(rig: Rig) -> None:
        await rig.book.submit(wish(chain(1)))
        [leased] = await rig.lease()
        assert await rig.book.watch("w", (leased.attempt_id,), 5_000) == ()
        assert await rig.book.watch("w", ("unknown",), 5_000) == ("unknown",)

    story(tell)


def test_a_cancelled_run_ends_with_the_lease_of_a_silent_worker() -> None:
    async def tell(rig: Rig) -> None:
        view = await rig.book.submit(wish(chain(2)))
        await rig.lease()
        await rig.book.cancel(view.run_id)
        ended = await rig.over(view.run_id, 2 * LEASE_MS)
        assert ended.status is RunStatus.CANCELLED
        assert set((await rig.told(view.run_id)).values()) == {"CANCELLED"}

    story(tell)


def test_a_failure_in_a_cancelled_run_is_not_tried_again() -> None:
    async def tell(rig: Rig) -> None:
        made = plan(task("a"), makers=[maker(retry=RetryPolicy(times=5))])
        view = await rig.book.submit(wish(made))
        [leased] = await rig.lease()
        await rig.book.cancel(view.run_id)
        await rig.complete(leased, FAILED)
        assert (await rig.over(view.run_id)).status is RunStatus.CANCELLED
        assert await rig.lease() == ()

    story(tell)


def test_a_success_that_was_published_outranks_a_cancel() -> None:
    async def tell(rig: Rig) -> None:
        made = plan(task("t@1", maker="t", partition="ds=1"), makers=[asset("t")])
        view = await rig.book.submit(wish(made))
        [leased] = await rig.lease()
        outcome = rig.publish(leased)
        await rig.book.cancel(view.run_id)
        await rig.complete(leased, outcome)
        assert (await rig.over(view.run_id)).status is RunStatus.SUCCESS
        assert await rig.told(view.run_id) == {"t@1": "SUCCESS"}
        [row] = await rig.reader.rows("executions")
        assert row["status"] == "SUCCESS"

    story(tell)


def test_a_cancel_survives_a_restart() -> None:
    async def tell(rig: Rig) -> None:
        view = await rig.book.submit(wish(chain(2)))
        [leased] = await rig.lease()
        await rig.book.cancel(view.run_id)
        await rig.restart()
        assert await rig.lease() == ()
        assert (await rig.beat(leased)).should_cancel
        await rig.complete(leased, CANCELLED)
        assert (await rig.over(view.run_id)).status is RunStatus.CANCELLED

    story(tell)


def test_cancelling_what_is_over_changes_nothing() -> None:
    async def tell(rig: Rig) -> None:
        view = await rig.book.submit(wish(chain(1)))
        [leased] = await rig.lease()
        await rig.complete(leased)
        await rig.over(view.run_id)
        assert (await rig.book.cancel(view.run_id)).status is RunStatus.SUCCESS

    story(tell)


def test_trying_again_makes_only_what_was_not_made() -> None:
    async def tell(rig: Rig) -> None:
        view = await rig.book.submit(wish(chain(3)))
        [first] = await rig.lease()
        await rig.complete(first)
        with pytest.raises(Invalid, match="not over"):
            await rig.book.retry(view.run_id)
        [second] = await rig.lease()
        await rig.complete(second, FAILED)
        await rig.over(view.run_id)
        await rig.restart()
        again = await rig.book.retry(view.run_id, "w")
        assert again.run_id != view.run_id
        assert (await rig.book.retry(view.run_id, "w")).run_id == again.run_id
        for key in ("t1", "t2"):
            [leased] = await rig.lease()
            assert leased.key == key
            await rig.complete(leased)
        assert (await rig.over(again.run_id)).status is RunStatus.SUCCESS
        with pytest.raises(Invalid, match="nothing to try again"):
            await rig.book.retry(again.run_id)
        third = await rig.book.retry(view.run_id, "w")
        assert third.run_id not in (view.run_id, again.run_id)

    story(tell)
