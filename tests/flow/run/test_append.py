"""Rows that are appended are appended once, whoever died before telling of them."""

import msgspec
import pytest

from arco.core.errors import Fenced
from arco.flow.plan.plan import Again, Maker, Plan, Reason, Target
from arco.flow.run.ports import Place
from arco.flow.run.wire import LEASE_MS, LeasedTask, RunStatus, TaskStatus
from tests.flow.run.chains import Chains
from tests.flow.run.plans import asset, plan, task, wish
from tests.flow.run.rig import FAILED, Rig, story


def _appending(code: str = "code", reason: Reason = Reason.MISSING, times: int = 0) -> Plan:
    made = asset("t", mode="append", code=code, retry=Again(times=times))
    one = task("t@1", maker="t", partition="ds=1")
    return plan(msgspec.structs.replace(one, reason=reason), makers=[made])


async def _published_and_died(rig: Rig) -> str:
    """A run whose only worker dies between publishing and telling of it."""
    rig.chains.make("t")
    dead = await rig.book.submit(wish(_appending(), "dead", worker="dead"))
    [lost] = await rig.lease("dead")
    rig.publish(lost)
    return dead.run_id


async def _task_or_end(rig: Rig, run_id: str) -> LeasedTask | None:
    """A task of a run once there is one; None if it ends without."""
    for _ in range(10):
        answer = await rig.offer(run_id=run_id, wait_ms=10_000)
        if answer.tasks or answer.is_over:
            return answer.tasks[0] if answer.tasks else None
    pytest.fail("neither a task nor an end came")


@pytest.mark.parametrize("restarts", [False, True])
def test_a_second_run_does_not_append_what_a_dead_one_has(restarts: bool) -> None:
    async def tell(rig: Rig) -> None:
        dead = await _published_and_died(rig)
        if restarts:
            await rig.restart()
        alive = await rig.book.submit(wish(_appending(), "alive", worker="w"))
        assert await _task_or_end(rig, alive.run_id) is None
        assert len(rig.chains.published("t")) == 1
        view = await rig.over(alive.run_id)
        assert view.status is RunStatus.SUCCESS
        assert "another run" in view.changed[0].warnings[0]
        assert await rig.told(alive.run_id) == {"t@1": "SUCCESS"}
        assert (await rig.over(dead)).status is RunStatus.SUCCESS
        [row] = await rig.reader.rows("partitions")
        assert (row["status"], row["code_fingerprint"]) == ("COMPLETE", "code")

    story(tell)


def test_a_run_that_begins_once_the_dead_one_is_over_does_not_append_it_either() -> None:
    async def tell(rig: Rig) -> None:
        dead = await _published_and_died(rig)
        await rig.over(dead, 60_000)
        alive = await rig.book.submit(wish(_appending(), "alive", worker="w"))
        assert await _task_or_end(rig, alive.run_id) is None
        assert len(rig.chains.published("t")) == 1

    story(tell)


@pytest.mark.parametrize(
    "anew", [_appending(code="other"), _appending(reason=Reason.FORCED)], ids=["code", "forced"]
)
def test_other_code_and_whoever_insists_append_again(anew: Plan) -> None:
    async def tell(rig: Rig) -> None:
        await _published_and_died(rig)
        alive = await rig.book.submit(wish(anew, "alive", worker="w"))
        again = await _task_or_end(rig, alive.run_id)
        assert again is not None
        await rig.complete(again, rig.publish(again))
        assert (await rig.over(alive.run_id)).status is RunStatus.SUCCESS
        assert len(rig.chains.published("t")) == 2

    story(tell)


def test_two_runs_that_were_planned_at_once_append_once() -> None:
    async def tell(rig: Rig) -> None:
        rig.chains.make("t")
        await rig.book.submit(wish(_appending(), "one"))
        second = await rig.book.submit(wish(_appending(), "two"))
        [first] = await rig.lease()
        await rig.complete(first, rig.publish(first))
        assert await _task_or_end(rig, second.run_id) is None
        assert (await rig.over(second.run_id)).status is RunStatus.SUCCESS
        assert len(rig.chains.published("t")) == 1

    story(tell)


@pytest.mark.parametrize("times", [0, 1])
def test_an_attempt_that_never_heard_that_it_has_published_has(times: int) -> None:
    async def tell(rig: Rig) -> None:
        rig.chains.make("t")
        run = await rig.book.submit(wish(_appending(times=times)))
        [only] = await rig.lease()
        rig.publish(only)
        await rig.complete(only, FAILED)
        assert (await rig.over(run.run_id)).status is RunStatus.SUCCESS
        assert await rig.told(run.run_id) == {"t@1": "SUCCESS"}

    story(tell)


def test_an_attempt_that_failed_cannot_append_later() -> None:
    async def tell(rig: Rig) -> None:
        rig.chains.make("t")
        run = await rig.book.submit(wish(_appending()))
        [only] = await rig.lease()
        await rig.complete(only, FAILED)
        assert (await rig.over(run.run_id)).status is RunStatus.FAILED
        with pytest.raises(Fenced):
            rig.publish(only)

    story(tell)


def test_a_catalog_that_is_away_when_a_lease_ends_is_asked_until_it_answers() -> None:
    async def tell(rig: Rig) -> None:
        dead = await _published_and_died(rig)
        rig.chains.is_away = True
        await rig.sleep(3 * LEASE_MS)
        assert rig.book.at_work == 1
        rig.chains.is_away = False
        assert (await rig.over(dead)).status is RunStatus.SUCCESS
        assert rig.book.at_work == 0

    story(tell)


def test_a_task_that_writes_by_itself_is_told_where_its_tables_stand() -> None:
    async def tell(rig: Rig) -> None:
        rig.chains.make("t")
        targets = (Target(table="t", format="", mode="task"),)
        maker = Maker(name="train", kind="task", targets=targets)
        run = await rig.book.submit(wish(plan(task("train", maker="train"), makers=[maker])))
        [leased] = await rig.lease()
        assert [each.table for each in leased.outputs] == ["t"]
        await rig.complete(leased, rig.publish(leased))
        await rig.over(run.run_id)
        [row] = await rig.reader.rows("partitions")
        assert (row["status"], row["materialization_id"]) == ("COMPLETE", leased.attempt_id)

    story(tell)


class _Slow(Chains):
    """Chains whose answers are old when they come."""

    slow_ms = 0
    rig: Rig

    async def place(self, table: str) -> Place | None:
        found = await super().place(table)
        if self.slow_ms:
            await self.rig.sleep(self.slow_ms)
        return found


def test_a_task_that_turns_out_to_be_done_while_it_is_given_out_is_not_given_out() -> None:
    async def tell(rig: Rig) -> None:
        chains = rig.chains = _Slow()
        chains.rig = rig
        await rig.restart()
        made = asset("t")
        run = await rig.book.submit(
            wish(plan(task("t@1", maker="t", partition="ds=1"), makers=[made]))
        )
        [first] = await rig.lease("late")
        await rig.sleep(LEASE_MS + 1_000)
        chains.slow_ms = 1_000
        asking = rig.runtime.tasks.spawn(rig.lease("next"))
        await rig.sleep(100)
        await rig.complete(first, rig.publish(first), "late")
        assert await asking.wait() == ()
        assert await rig.statuses(run.run_id) == {"t@1": TaskStatus.SUCCESS}
        assert (await rig.over(run.run_id)).status is RunStatus.SUCCESS
        assert rig.book.at_work == 0

    story(tell)
