"""Rows are appended once, even if an attempt or the coordinator dies before it records them."""

import msgspec
import pytest

from arco.catalog.publication import DispatchedAttempt, NumberedPublication
from arco.core.errors import ArcoError, Corrupt, Denied, Fenced, Unavailable
from arco.flow.coordinator.attempt_events import stamp_outputs
from arco.flow.coordinator.leases import lease_key
from arco.flow.coordinator.messages import LEASE_MS, CodeVersion, LeasedTask, RunStatus, TaskStatus
from arco.flow.coordinator.ports import TableHead
from arco.flow.plan.plan import Maker, Plan, PlanTarget, ReadPartitions, Reason, RetryPolicy
from arco.storage.roles import Role
from tests.flow.coordinator.chains import Chains
from tests.flow.coordinator.coordinator_setup import (
    FAILED,
    CoordinatorSetup,
    run_scenario,
    simulated,
)
from tests.flow.coordinator.plans import asset, plan, run_request, task


def _appending(code: str = "code", reason: Reason = Reason.MISSING, times: int = 0) -> Plan:
    made = asset("t", mode="append", code=code, retry=RetryPolicy(times=times))
    one = task("t@1", maker="t", partition="ds=1")
    return plan(msgspec.structs.replace(one, reason=reason), makers=[made])


async def _published_and_died(setup: CoordinatorSetup) -> str:
    """A run whose only worker dies between publishing and reporting it."""
    setup.chains.make("t")
    dead = await setup.coordinator.submit(run_request(_appending(), "dead", worker="dead"))
    [lost] = await setup.lease("dead")
    setup.publish(lost)
    return dead.run_id


async def _task_or_end(setup: CoordinatorSetup, run_id: str) -> LeasedTask | None:
    """The next task of a run; None if the run ends without one."""
    for _ in range(10):
        answer = await setup.request(run_id=run_id, wait_ms=10_000)
        if answer.tasks or answer.is_over:
            return answer.tasks[0] if answer.tasks else None
    pytest.fail("neither a task nor an end came")


@pytest.mark.parametrize("restarts", [False, True])
@simulated
async def test_a_second_run_does_not_append_what_a_lost_attempt_published(
    setup: CoordinatorSetup, restarts: bool
) -> None:
    dead = await _published_and_died(setup)
    if restarts:
        await setup.restart()
    alive = await setup.coordinator.submit(run_request(_appending(), "alive", worker="w"))
    assert await _task_or_end(setup, alive.run_id) is None
    assert len(setup.chains.published("t")) == 1
    view = await setup.over(alive.run_id)
    assert view.status is RunStatus.SUCCESS
    [made] = view.changed
    assert "its rows exist already" in (made.note or "")
    assert made.warnings == ()
    assert await setup.recorded(alive.run_id) == {"t@1": "SUCCESS"}
    assert (await setup.over(dead)).status is RunStatus.SUCCESS
    [row] = await setup.reader.rows("partitions")
    assert (row["status"], row["code_fingerprint"]) == ("COMPLETE", "code")


@simulated
async def test_a_run_after_the_end_of_the_first_does_not_append_it_either(
    setup: CoordinatorSetup,
) -> None:
    dead = await _published_and_died(setup)
    await setup.over(dead, 60_000)
    alive = await setup.coordinator.submit(run_request(_appending(), "alive", worker="w"))
    assert await _task_or_end(setup, alive.run_id) is None
    assert len(setup.chains.published("t")) == 1


_REMAKE_PLANS = pytest.mark.parametrize(
    "remake_plan",
    [_appending(code="other"), _appending(reason=Reason.FORCED)],
    ids=["code", "forced"],
)


@_REMAKE_PLANS
@simulated
async def test_rows_that_were_appended_since_the_plan_was_made_are_not_appended_again(
    setup: CoordinatorSetup, remake_plan: Plan
) -> None:
    await _published_and_died(setup)
    alive = await setup.coordinator.submit(run_request(remake_plan, "alive", worker="w"))
    setup.code = {"t": CodeVersion(code=remake_plan.makers[0].code_fingerprint or "")}
    assert await _task_or_end(setup, alive.run_id) is None
    view = await setup.over(alive.run_id)
    assert view.status is RunStatus.FAILED
    assert "its rows would be added a second time" in (view.changed[0].error or "")
    assert len(setup.chains.published("t")) == 1


@simulated
async def test_the_retry_of_a_run_does_not_append_what_another_run_has_appended_since(
    setup: CoordinatorSetup,
) -> None:
    setup.chains.make("t")
    first = await setup.coordinator.submit(run_request(_appending(), "first"))
    [failing] = await setup.lease()
    await setup.complete(failing, FAILED)
    assert (await setup.over(first.run_id)).status is RunStatus.FAILED
    second = await setup.coordinator.submit(run_request(_appending(code="other"), "second"))
    setup.code = {"t": CodeVersion(code="other")}
    [other] = await setup.lease()
    await setup.complete(other, setup.publish(other, "other"))
    assert (await setup.over(second.run_id)).status is RunStatus.SUCCESS
    retried = await setup.coordinator.retry(first.run_id)
    setup.code = {"t": CodeVersion(code="code")}
    assert await _task_or_end(setup, retried.run_id) is None
    assert (await setup.over(retried.run_id)).status is RunStatus.FAILED
    assert len(setup.chains.published("t")) == 1


@simulated
async def test_rows_that_are_replaced_on_change_are_replaced_by_the_run(
    setup: CoordinatorSetup,
) -> None:
    setup.chains.make("t")
    for number, replaces in enumerate((False, True)):
        appending_plan = _appending(code=f"code {number}")
        [made] = appending_plan.makers
        [target] = made.targets
        target = msgspec.structs.replace(target, on_change="replace")
        made = msgspec.structs.replace(made, targets=(target,))
        run = await setup.coordinator.submit(
            run_request(msgspec.structs.replace(appending_plan, makers=(made,)), f"{number}")
        )
        setup.code = {"t": CodeVersion(code=f"code {number}")}
        [leased] = await setup.lease()
        assert [each.replaces for each in leased.outputs] == [replaces]
        await setup.complete(leased, setup.publish(leased))
        assert (await setup.over(run.run_id)).status is RunStatus.SUCCESS


@_REMAKE_PLANS
@simulated
async def test_rows_are_appended_again_on_request(
    setup: CoordinatorSetup, remake_plan: Plan
) -> None:
    await _published_and_died(setup)
    consented = msgspec.structs.replace(remake_plan, append_again=("t@1",))
    alive = await setup.coordinator.submit(run_request(consented, "alive", worker="w"))
    setup.code = {"t": CodeVersion(code=remake_plan.makers[0].code_fingerprint or "")}
    leased = await _task_or_end(setup, alive.run_id)
    assert leased is not None
    await setup.complete(leased, setup.publish(leased))
    assert (await setup.over(alive.run_id)).status is RunStatus.SUCCESS
    assert len(setup.chains.published("t")) == 2


@simulated
async def test_two_runs_that_were_planned_at_once_append_once(setup: CoordinatorSetup) -> None:
    setup.chains.make("t")
    await setup.coordinator.submit(run_request(_appending(), "one"))
    second = await setup.coordinator.submit(run_request(_appending(), "two"))
    [first] = await setup.lease()
    await setup.complete(first, setup.publish(first))
    assert await _task_or_end(setup, second.run_id) is None
    assert (await setup.over(second.run_id)).status is RunStatus.SUCCESS
    assert len(setup.chains.published("t")) == 1


@pytest.mark.parametrize("times", [0, 1])
@simulated
async def test_a_failed_attempt_that_has_published_is_a_success(
    setup: CoordinatorSetup, times: int
) -> None:
    setup.chains.make("t")
    run = await setup.coordinator.submit(run_request(_appending(times=times)))
    [only] = await setup.lease()
    setup.publish(only)
    await setup.complete(only, FAILED)
    assert (await setup.over(run.run_id)).status is RunStatus.SUCCESS
    assert await setup.recorded(run.run_id) == {"t@1": "SUCCESS"}


@simulated
async def test_an_attempt_that_failed_cannot_append_later(setup: CoordinatorSetup) -> None:
    setup.chains.make("t")
    run = await setup.coordinator.submit(run_request(_appending()))
    [only] = await setup.lease()
    await setup.complete(only, FAILED)
    assert (await setup.over(run.run_id)).status is RunStatus.FAILED
    with pytest.raises(Fenced):
        setup.publish(only)


@simulated
async def test_a_catalog_that_is_away_when_a_lease_ends_is_asked_until_it_answers(
    setup: CoordinatorSetup,
) -> None:
    dead = await _published_and_died(setup)
    setup.chains.is_away = True
    await setup.sleep(3 * LEASE_MS)
    assert setup.coordinator.at_work == 1
    setup.chains.is_away = False
    assert (await setup.over(dead)).status is RunStatus.SUCCESS
    assert setup.coordinator.at_work == 0


class _Refusing(Chains):
    """Chains that refuse to be looked at."""

    refusal: ArcoError | None = None

    async def fence(
        self, table_id: str, attempt: DispatchedAttempt, since: int
    ) -> NumberedPublication | int:
        if self.refusal is not None:
            raise self.refusal
        return await super().fence(table_id, attempt, since)


_REFUSALS = [Denied("the token is too old"), Corrupt("a version is missing")]


@pytest.mark.parametrize("refusal", _REFUSALS, ids=["denied", "corrupt"])
@simulated
async def test_a_lease_does_not_expire_while_its_rows_cannot_be_read(
    setup: CoordinatorSetup, refusal: ArcoError
) -> None:
    chains = setup.chains = _Refusing()
    await setup.restart()
    dead = await _published_and_died(setup)
    chains.refusal = refusal
    await setup.sleep(3 * LEASE_MS)
    assert setup.coordinator.at_work == 1
    assert [(problem, whose["task"]) for _, problem, whose in setup.errors] == [(refusal, "t@1")]
    chains.refusal = None
    assert (await setup.over(dead)).status is RunStatus.SUCCESS
    alive = await setup.coordinator.submit(run_request(_appending(), "alive", worker="w"))
    assert await _task_or_end(setup, alive.run_id) is None
    assert len(setup.chains.published("t")) == 1


@pytest.mark.parametrize("refusal", _REFUSALS, ids=["denied", "corrupt"])
@simulated
async def test_a_worker_repeats_its_report_until_its_rows_can_be_read(
    setup: CoordinatorSetup, refusal: ArcoError
) -> None:
    chains = setup.chains = _Refusing()
    await setup.restart()
    setup.chains.make("t")
    run = await setup.coordinator.submit(run_request(_appending()))
    [only] = await setup.lease()
    setup.publish(only)
    chains.refusal = refusal
    for _ in range(2):
        with pytest.raises(Unavailable):
            await setup.complete(only, FAILED)
    assert [problem for _, problem, _ in setup.errors] == [refusal]
    chains.refusal = None
    await setup.complete(only, FAILED)
    assert (await setup.over(run.run_id)).status is RunStatus.SUCCESS


@simulated
async def test_the_end_of_a_task_whose_table_was_dropped_is_recorded(
    setup: CoordinatorSetup,
) -> None:
    dead = await _published_and_died(setup)
    del setup.chains.ids["t"]
    assert (await setup.over(dead, 60_000)).status is RunStatus.FAILED


@simulated
async def test_a_task_that_writes_tables_itself_gets_their_heads(setup: CoordinatorSetup) -> None:
    setup.chains.make("t")
    targets = (PlanTarget(table="t", format="", mode="task"),)
    maker = Maker(name="train", kind="task", targets=targets)
    run = await setup.coordinator.submit(
        run_request(plan(task("train", maker="train"), makers=[maker]))
    )
    [leased] = await setup.lease()
    assert [each.table for each in leased.outputs] == ["t"]
    await setup.complete(leased, setup.publish(leased))
    await setup.over(run.run_id)
    [row] = await setup.reader.rows("partitions")
    assert (row["status"], row["materialization_id"]) == ("COMPLETE", leased.attempt_id)


class _Slow(Chains):
    """Chains whose answers are old when they come."""

    slow_ms = 0
    setup: CoordinatorSetup

    async def head(self, table: str) -> TableHead | None:
        table_head = await super().head(table)
        if self.slow_ms:
            await self.setup.sleep(self.slow_ms)
        return table_head


@simulated
async def test_a_task_that_ends_while_it_is_dispatched_is_not_leased(
    setup: CoordinatorSetup,
) -> None:
    chains = setup.chains = _Slow()
    chains.setup = setup
    await setup.restart()
    made = asset("t")
    run = await setup.coordinator.submit(
        run_request(plan(task("t@1", maker="t", partition="ds=1"), makers=[made]))
    )
    [first] = await setup.lease("late")
    await setup.sleep(LEASE_MS + 1_000)
    chains.slow_ms = 1_000
    asking = setup.runtime.tasks.spawn(setup.lease("next"))
    await setup.sleep(100)
    await setup.complete(first, setup.publish(first), "late")
    assert await asking.wait() == ()
    assert await setup.statuses(run.run_id) == {"t@1": TaskStatus.SUCCESS}
    assert (await setup.over(run.run_id)).status is RunStatus.SUCCESS
    assert setup.coordinator.at_work == 0


def _from_raw(code: str = "code", *also: str, times: int = 0) -> Plan:
    made = asset("t", mode="append", code=code, also=also, retry=RetryPolicy(times=times))
    reads = [ReadPartitions(table="raw", partitions=("ds=1",))]
    return plan(task("t@1", maker="t", partition="ds=1", inputs=(0,)), makers=[made], reads=reads)


def _ground(setup: CoordinatorSetup, *tables: str) -> None:
    for name in ("raw", "t", *tables):
        setup.chains.make(name)
    _bring_data(setup, "files")


def _bring_data(setup: CoordinatorSetup, files: str) -> None:
    setup.chains.versions_of["id-raw"] = (files, {"ds=1": files})


def _counts(setup: CoordinatorSetup, *tables: str) -> list[int]:
    return [len(setup.chains.published(name)) for name in tables]


async def _states(setup: CoordinatorSetup) -> set[str]:
    return {row["status"] for row in await setup.reader.rows("partitions")}


async def _state_of(setup: CoordinatorSetup, table: str) -> str:
    rows = await setup.reader.rows("partitions")
    [state] = [row["status"] for row in rows if row["table_id"] == f"id-{table}"]
    return str(state)


async def _lose_hint(setup: CoordinatorSetup, lost: LeasedTask) -> None:
    await setup.sleep(1_000)  # it is written beside the answer
    await setup.store(Role.JANITOR).delete(lease_key(lost.attempt_id))


_RAW = frozenset({"raw"})


@pytest.mark.parametrize("speaks", [False, True])
def test_lost_inputs_do_not_make_rows_be_appended_again(speaks: bool) -> None:
    async def scenario(setup: CoordinatorSetup) -> None:
        _ground(setup)
        first = await setup.coordinator.submit(run_request(_from_raw(), "one"))
        [leased] = await setup.lease("first")
        await _lose_hint(setup, leased)
        await setup.restart()
        outcome = setup.publish(leased)
        if speaks:
            await setup.complete(leased, outcome, "first")
        assert (await setup.over(first.run_id)).status is RunStatus.SUCCESS
        second = await setup.coordinator.submit(run_request(_from_raw(), "two"))
        assert await _task_or_end(setup, second.run_id) is None
        assert _counts(setup, "t") == [1]

    run_scenario(scenario, _RAW)


def test_rows_of_a_late_report_are_not_appended_again() -> None:
    async def scenario(setup: CoordinatorSetup) -> None:
        setup.chains.make("raw")
        _bring_data(setup, "files")
        first = await setup.coordinator.submit(run_request(_from_raw(), "one"))
        [late] = await setup.lease("late")
        await setup.sleep(LEASE_MS + 1_000)
        await setup.lease("next")
        await setup.complete(late, setup.publish(late), "late")
        assert (await setup.over(first.run_id)).status is RunStatus.SUCCESS
        second = await setup.coordinator.submit(run_request(_from_raw(), "two"))
        assert await _task_or_end(setup, second.run_id) is None
        assert _counts(setup, "t") == [1]

    run_scenario(scenario, _RAW)


async def _died_between(
    setup: CoordinatorSetup, *, says: bool = False, append_again: tuple[str, ...] = ()
) -> str:
    """A run over two tables whose worker publishes the first, and no more."""
    _ground(setup, "u")
    made = msgspec.structs.replace(_from_raw("code", "u"), append_again=append_again)
    dead = await setup.coordinator.submit(run_request(made, "dead", worker="dead"))
    [lost] = await setup.lease("dead")
    setup.chains.publish(stamp_outputs(lost, "code").outputs[0])
    if says:
        await setup.complete(lost, FAILED, "dead")
    view = await setup.over(dead.run_id, 60_000)
    assert view.status is RunStatus.FAILED
    assert [await _state_of(setup, each) for each in ("t", "u")] == ["COMPLETE", "FAILED"]
    return dead.run_id


@pytest.mark.parametrize("says", [False, True])
@pytest.mark.parametrize("retries", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_task_that_died_between_its_tables_appends_to_the_others_alone(
    says: bool, retries: bool, restarts: bool
) -> None:
    async def scenario(setup: CoordinatorSetup) -> None:
        dead = await _died_between(setup, says=says)
        if restarts:
            await setup.restart()
        if retries:
            alive = await setup.coordinator.retry(dead)
        else:
            alive = await setup.coordinator.submit(run_request(_from_raw("code", "u"), "alive"))
        rest = await _task_or_end(setup, alive.run_id)
        assert rest is not None
        assert [each.is_made for each in rest.outputs] == [True, False]
        await setup.complete(rest, setup.publish(rest))
        assert (await setup.over(alive.run_id)).status is RunStatus.SUCCESS
        assert _counts(setup, "t", "u") == [1, 1]
        assert await _states(setup) == {"COMPLETE"}

    run_scenario(scenario, _RAW)


@pytest.mark.parametrize("code", ["code", "edited"])
def test_a_retry_does_not_append_again_though_code_or_data_have_changed(code: str) -> None:
    async def scenario(setup: CoordinatorSetup) -> None:
        dead = await _died_between(setup)
        _bring_data(setup, "more files")
        second = await setup.coordinator.retry(dead)
        rest = await _task_or_end(setup, second.run_id)
        assert rest is not None
        await setup.complete(rest, FAILED)
        await setup.over(second.run_id)
        assert await _state_of(setup, "t") == "COMPLETE"
        third = await setup.coordinator.retry(dead, plan=_from_raw(code, "u"))
        setup.code = {"t": CodeVersion(code=code)}
        rest = await _task_or_end(setup, third.run_id)
        assert rest is not None
        await setup.complete(rest, setup.publish(rest))
        assert _counts(setup, "t", "u") == [1, 1]
        assert (await setup.over(third.run_id)).status is RunStatus.SUCCESS
        assert await _states(setup) == {"COMPLETE"}

    run_scenario(scenario, _RAW)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("retries", [1, 2])
def test_a_retry_knows_its_rows_though_a_forced_run_has_appended_since(
    retries: int, restarts: bool
) -> None:
    async def scenario(setup: CoordinatorSetup) -> None:
        dead = await _died_between(setup, append_again=("t@1",))
        made = _from_raw("code", "u")
        [only] = made.tasks
        forced_task = msgspec.structs.replace(only, reason=Reason.FORCED)
        made = msgspec.structs.replace(made, tasks=(forced_task,), append_again=("t@1",))
        forced = await setup.coordinator.submit(run_request(made, "forced"))
        more = await _task_or_end(setup, forced.run_id)
        assert more is not None
        await setup.complete(more, setup.publish(more))
        assert (await setup.over(forced.run_id)).status is RunStatus.SUCCESS
        assert _counts(setup, "t", "u") == [2, 1]
        _bring_data(setup, "more files")  # or the forced run's rows would be as good as its own
        if restarts:
            await setup.restart()
        for number in range(retries):
            alive = await setup.coordinator.retry(dead)
            rest = await _task_or_end(setup, alive.run_id)
            assert rest is not None
            assert [each.is_made for each in rest.outputs] == [True, False]
            await setup.complete(rest, setup.publish(rest) if number == retries - 1 else FAILED)
            await setup.over(alive.run_id)
        assert _counts(setup, "t", "u") == [2, 2]
        assert await _states(setup) == {"COMPLETE"}

    run_scenario(scenario, _RAW)


def test_a_table_that_has_its_rows_is_complete_in_the_end_though_a_restart_forgot_that() -> None:
    async def scenario(setup: CoordinatorSetup) -> None:
        dead = await _died_between(setup)
        second = await setup.coordinator.retry(dead)
        rest = await _task_or_end(setup, second.run_id)
        assert rest is not None
        await setup.restart()
        await setup.complete(rest, FAILED)
        await setup.over(second.run_id)
        third = await setup.coordinator.retry(second.run_id)
        rest = await _task_or_end(setup, third.run_id)
        assert rest is not None
        await setup.complete(rest, setup.publish(rest))
        await setup.over(third.run_id)
        assert _counts(setup, "t", "u") == [1, 1]
        assert await _states(setup) == {"COMPLETE"}

    run_scenario(scenario, _RAW)


def test_another_attempt_appends_only_what_the_one_before_it_has_not() -> None:
    async def scenario(setup: CoordinatorSetup) -> None:
        _ground(setup, "u")
        run = await setup.coordinator.submit(run_request(_from_raw("code", "u")))
        [lost] = await setup.lease("dead")
        setup.chains.publish(stamp_outputs(lost, "code").outputs[0])
        second = await _task_or_end(setup, run.run_id)
        assert second is not None
        await setup.complete(second, setup.publish(second))
        assert (await setup.over(run.run_id)).status is RunStatus.SUCCESS
        assert _counts(setup, "t", "u") == [1, 1]
        rows = {row["table_id"]: row for row in await setup.reader.rows("partitions")}
        assert await _states(setup) == {"COMPLETE"}
        assert rows["id-t"]["materialization_id"] == lost.attempt_id
        assert rows["id-u"]["materialization_id"] == second.attempt_id
        assert rows["id-t"]["input_fingerprint"] == rows["id-u"]["input_fingerprint"]

    run_scenario(scenario, _RAW)


def test_an_unreported_retry_by_edited_code_is_not_repeated_by_that_code() -> None:
    async def scenario(setup: CoordinatorSetup) -> None:
        _ground(setup)
        failed = await setup.coordinator.submit(run_request(_from_raw("code"), "one"))
        [first] = await setup.lease()
        await setup.complete(first, FAILED)
        await setup.over(failed.run_id)
        retried = await setup.coordinator.retry(failed.run_id, "dead")
        [lost] = await setup.lease("dead")
        setup.publish(lost, "edited")
        assert (await setup.over(retried.run_id, 60_000)).status is RunStatus.SUCCESS
        new = await setup.coordinator.submit(run_request(_from_raw("edited"), "two"))
        setup.code = {"t": CodeVersion(code="edited")}
        assert await _task_or_end(setup, new.run_id) is None
        assert _counts(setup, "t") == [1]

    run_scenario(scenario, _RAW)


@simulated
async def test_a_failed_forced_run_does_not_make_existing_rows_be_appended_again(
    setup: CoordinatorSetup,
) -> None:
    _ground(setup)
    made = await setup.coordinator.submit(run_request(_appending(), "one"))
    [first] = await setup.lease()
    await setup.complete(first, setup.publish(first))
    await setup.over(made.run_id)
    forced_plan = msgspec.structs.replace(_appending(reason=Reason.FORCED), append_again=("t@1",))
    forced = await setup.coordinator.submit(run_request(forced_plan, "forced"))
    [second] = await setup.lease()
    await setup.complete(second, FAILED)
    await setup.over(forced.run_id)
    assert await _states(setup) == {"FAILED"}
    rows = await setup.reader.rows("partitions")
    next_run = await setup.coordinator.submit(run_request(_appending(reason=Reason.FAILED), "two"))
    assert await _task_or_end(setup, next_run.run_id) is None
    assert _counts(setup, "t") == [1]
    [after] = await setup.reader.rows("partitions")
    assert after["status"] == "COMPLETE"
    assert after["row_count"] == rows[0]["row_count"] == 10
    assert after["materialization_id"] == first.attempt_id
