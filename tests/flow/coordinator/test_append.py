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
from tests.flow.coordinator.plans import asset, plan, run_request, task
from tests.flow.coordinator.rig import FAILED, Rig, run_scenario, simulated


def _appending(code: str = "code", reason: Reason = Reason.MISSING, times: int = 0) -> Plan:
    made = asset("t", mode="append", code=code, retry=RetryPolicy(times=times))
    one = task("t@1", maker="t", partition="ds=1")
    return plan(msgspec.structs.replace(one, reason=reason), makers=[made])


async def _published_and_died(rig: Rig) -> str:
    """A run whose only worker dies between publishing and reporting it."""
    rig.chains.make("t")
    dead = await rig.coordinator.submit(run_request(_appending(), "dead", worker="dead"))
    [lost] = await rig.lease("dead")
    rig.publish(lost)
    return dead.run_id


async def _task_or_end(rig: Rig, run_id: str) -> LeasedTask | None:
    """The next task of a run; None if the run ends without one."""
    for _ in range(10):
        answer = await rig.request(run_id=run_id, wait_ms=10_000)
        if answer.tasks or answer.is_over:
            return answer.tasks[0] if answer.tasks else None
    pytest.fail("neither a task nor an end came")


@pytest.mark.parametrize("restarts", [False, True])
@simulated
async def test_a_second_run_does_not_append_what_a_lost_attempt_published(
    rig: Rig, restarts: bool
) -> None:
    dead = await _published_and_died(rig)
    if restarts:
        await rig.restart()
    alive = await rig.coordinator.submit(run_request(_appending(), "alive", worker="w"))
    assert await _task_or_end(rig, alive.run_id) is None
    assert len(rig.chains.published("t")) == 1
    view = await rig.over(alive.run_id)
    assert view.status is RunStatus.SUCCESS
    [made] = view.changed
    assert "its rows exist already" in (made.note or "")
    assert made.warnings == ()
    assert await rig.recorded(alive.run_id) == {"t@1": "SUCCESS"}
    assert (await rig.over(dead)).status is RunStatus.SUCCESS
    [row] = await rig.reader.rows("partitions")
    assert (row["status"], row["code_fingerprint"]) == ("COMPLETE", "code")


@simulated
async def test_a_run_after_the_end_of_the_first_does_not_append_it_either(rig: Rig) -> None:
    dead = await _published_and_died(rig)
    await rig.over(dead, 60_000)
    alive = await rig.coordinator.submit(run_request(_appending(), "alive", worker="w"))
    assert await _task_or_end(rig, alive.run_id) is None
    assert len(rig.chains.published("t")) == 1


_ANEW = pytest.mark.parametrize(
    "anew", [_appending(code="other"), _appending(reason=Reason.FORCED)], ids=["code", "forced"]
)


@_ANEW
@simulated
async def test_rows_that_were_appended_since_the_plan_was_made_are_not_appended_again(
    rig: Rig, anew: Plan
) -> None:
    await _published_and_died(rig)
    alive = await rig.coordinator.submit(run_request(anew, "alive", worker="w"))
    rig.code = {"t": CodeVersion(code=anew.makers[0].code_fingerprint or "")}
    assert await _task_or_end(rig, alive.run_id) is None
    view = await rig.over(alive.run_id)
    assert view.status is RunStatus.FAILED
    assert "its rows would be added a second time" in (view.changed[0].error or "")
    assert len(rig.chains.published("t")) == 1


@simulated
async def test_the_retry_of_a_run_does_not_append_what_another_run_has_appended_since(
    rig: Rig,
) -> None:
    rig.chains.make("t")
    first = await rig.coordinator.submit(run_request(_appending(), "first"))
    [failing] = await rig.lease()
    await rig.complete(failing, FAILED)
    assert (await rig.over(first.run_id)).status is RunStatus.FAILED
    second = await rig.coordinator.submit(run_request(_appending(code="other"), "second"))
    rig.code = {"t": CodeVersion(code="other")}
    [other] = await rig.lease()
    await rig.complete(other, rig.publish(other, "other"))
    assert (await rig.over(second.run_id)).status is RunStatus.SUCCESS
    again = await rig.coordinator.retry(first.run_id)
    rig.code = {"t": CodeVersion(code="code")}
    assert await _task_or_end(rig, again.run_id) is None
    assert (await rig.over(again.run_id)).status is RunStatus.FAILED
    assert len(rig.chains.published("t")) == 1


@simulated
async def test_rows_that_are_replaced_on_change_are_replaced_by_the_run(rig: Rig) -> None:
    rig.chains.make("t")
    for number, replaces in enumerate((False, True)):
        anew = _appending(code=f"code {number}")
        [made] = anew.makers
        [target] = made.targets
        target = msgspec.structs.replace(target, on_change="replace")
        made = msgspec.structs.replace(made, targets=(target,))
        run = await rig.coordinator.submit(
            run_request(msgspec.structs.replace(anew, makers=(made,)), f"{number}")
        )
        rig.code = {"t": CodeVersion(code=f"code {number}")}
        [leased] = await rig.lease()
        assert [each.replaces for each in leased.outputs] == [replaces]
        await rig.complete(leased, rig.publish(leased))
        assert (await rig.over(run.run_id)).status is RunStatus.SUCCESS


@_ANEW
@simulated
async def test_rows_are_appended_again_on_request(rig: Rig, anew: Plan) -> None:
    await _published_and_died(rig)
    consented = msgspec.structs.replace(anew, append_again=("t@1",))
    alive = await rig.coordinator.submit(run_request(consented, "alive", worker="w"))
    rig.code = {"t": CodeVersion(code=anew.makers[0].code_fingerprint or "")}
    again = await _task_or_end(rig, alive.run_id)
    assert again is not None
    await rig.complete(again, rig.publish(again))
    assert (await rig.over(alive.run_id)).status is RunStatus.SUCCESS
    assert len(rig.chains.published("t")) == 2


@simulated
async def test_two_runs_that_were_planned_at_once_append_once(rig: Rig) -> None:
    rig.chains.make("t")
    await rig.coordinator.submit(run_request(_appending(), "one"))
    second = await rig.coordinator.submit(run_request(_appending(), "two"))
    [first] = await rig.lease()
    await rig.complete(first, rig.publish(first))
    assert await _task_or_end(rig, second.run_id) is None
    assert (await rig.over(second.run_id)).status is RunStatus.SUCCESS
    assert len(rig.chains.published("t")) == 1


@pytest.mark.parametrize("times", [0, 1])
@simulated
async def test_a_failed_attempt_that_has_published_is_a_success(rig: Rig, times: int) -> None:
    rig.chains.make("t")
    run = await rig.coordinator.submit(run_request(_appending(times=times)))
    [only] = await rig.lease()
    rig.publish(only)
    await rig.complete(only, FAILED)
    assert (await rig.over(run.run_id)).status is RunStatus.SUCCESS
    assert await rig.recorded(run.run_id) == {"t@1": "SUCCESS"}


@simulated
async def test_an_attempt_that_failed_cannot_append_later(rig: Rig) -> None:
    rig.chains.make("t")
    run = await rig.coordinator.submit(run_request(_appending()))
    [only] = await rig.lease()
    await rig.complete(only, FAILED)
    assert (await rig.over(run.run_id)).status is RunStatus.FAILED
    with pytest.raises(Fenced):
        rig.publish(only)


@simulated
async def test_a_catalog_that_is_away_when_a_lease_ends_is_asked_until_it_answers(rig: Rig) -> None:
    dead = await _published_and_died(rig)
    rig.chains.is_away = True
    await rig.sleep(3 * LEASE_MS)
    assert rig.coordinator.at_work == 1
    rig.chains.is_away = False
    assert (await rig.over(dead)).status is RunStatus.SUCCESS
    assert rig.coordinator.at_work == 0


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
    rig: Rig, refusal: ArcoError
) -> None:
    chains = rig.chains = _Refusing()
    await rig.restart()
    dead = await _published_and_died(rig)
    chains.refusal = refusal
    await rig.sleep(3 * LEASE_MS)
    assert rig.coordinator.at_work == 1
    assert [(problem, whose["task"]) for _, problem, whose in rig.errors] == [(refusal, "t@1")]
    chains.refusal = None
    assert (await rig.over(dead)).status is RunStatus.SUCCESS
    alive = await rig.coordinator.submit(run_request(_appending(), "alive", worker="w"))
    assert await _task_or_end(rig, alive.run_id) is None
    assert len(rig.chains.published("t")) == 1


@pytest.mark.parametrize("refusal", _REFUSALS, ids=["denied", "corrupt"])
@simulated
async def test_a_worker_repeats_its_report_until_its_rows_can_be_read(
    rig: Rig, refusal: ArcoError
) -> None:
    chains = rig.chains = _Refusing()
    await rig.restart()
    rig.chains.make("t")
    run = await rig.coordinator.submit(run_request(_appending()))
    [only] = await rig.lease()
    rig.publish(only)
    chains.refusal = refusal
    for _ in range(2):
        with pytest.raises(Unavailable):
            await rig.complete(only, FAILED)
    assert [problem for _, problem, _ in rig.errors] == [refusal]
    chains.refusal = None
    await rig.complete(only, FAILED)
    assert (await rig.over(run.run_id)).status is RunStatus.SUCCESS


@simulated
async def test_the_end_of_a_task_whose_table_was_dropped_is_recorded(rig: Rig) -> None:
    dead = await _published_and_died(rig)
    del rig.chains.ids["t"]
    assert (await rig.over(dead, 60_000)).status is RunStatus.FAILED


@simulated
async def test_a_task_that_writes_tables_itself_gets_their_heads(rig: Rig) -> None:
    rig.chains.make("t")
    targets = (PlanTarget(table="t", format="", mode="task"),)
    maker = Maker(name="train", kind="task", targets=targets)
    run = await rig.coordinator.submit(
        run_request(plan(task("train", maker="train"), makers=[maker]))
    )
    [leased] = await rig.lease()
    assert [each.table for each in leased.outputs] == ["t"]
    await rig.complete(leased, rig.publish(leased))
    await rig.over(run.run_id)
    [row] = await rig.reader.rows("partitions")
    assert (row["status"], row["materialization_id"]) == ("COMPLETE", leased.attempt_id)


class _Slow(Chains):
    """Chains whose answers are old when they come."""

    slow_ms = 0
    rig: Rig

    async def place(self, table: str) -> TableHead | None:
        found = await super().place(table)
        if self.slow_ms:
            await self.rig.sleep(self.slow_ms)
        return found


@simulated
async def test_a_task_that_ends_while_it_is_dispatched_is_not_leased(rig: Rig) -> None:
    chains = rig.chains = _Slow()
    chains.rig = rig
    await rig.restart()
    made = asset("t")
    run = await rig.coordinator.submit(
        run_request(plan(task("t@1", maker="t", partition="ds=1"), makers=[made]))
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
    assert rig.coordinator.at_work == 0


def _from_raw(code: str = "code", *also: str, times: int = 0) -> Plan:
    made = asset("t", mode="append", code=code, also=also, retry=RetryPolicy(times=times))
    reads = [ReadPartitions(table="raw", partitions=("ds=1",))]
    return plan(task("t@1", maker="t", partition="ds=1", inputs=(0,)), makers=[made], reads=reads)


def _ground(rig: Rig, *tables: str) -> None:
    for name in ("raw", "t", *tables):
        rig.chains.make(name)
    _bring_data(rig, "files")


def _bring_data(rig: Rig, files: str) -> None:
    rig.chains.versions_of["id-raw"] = (files, {"ds=1": files})


def _counts(rig: Rig, *tables: str) -> list[int]:
    return [len(rig.chains.published(name)) for name in tables]


async def _states(rig: Rig) -> set[str]:
    return {row["status"] for row in await rig.reader.rows("partitions")}


async def _state_of(rig: Rig, table: str) -> str:
    rows = await rig.reader.rows("partitions")
    [state] = [row["status"] for row in rows if row["table_id"] == f"id-{table}"]
    return str(state)


async def _lose_hint(rig: Rig, lost: LeasedTask) -> None:
    await rig.sleep(1_000)  # it is written beside the answer
    await rig.store(Role.JANITOR).delete(lease_key(lost.attempt_id))


_RAW = frozenset({"raw"})


@pytest.mark.parametrize("speaks", [False, True])
def test_lost_inputs_do_not_make_rows_be_appended_again(speaks: bool) -> None:
    async def scenario(rig: Rig) -> None:
        _ground(rig)
        first = await rig.coordinator.submit(run_request(_from_raw(), "one"))
        [leased] = await rig.lease("first")
        await _lose_hint(rig, leased)
        await rig.restart()
        outcome = rig.publish(leased)
        if speaks:
            await rig.complete(leased, outcome, "first")
        assert (await rig.over(first.run_id)).status is RunStatus.SUCCESS
        again = await rig.coordinator.submit(run_request(_from_raw(), "two"))
        assert await _task_or_end(rig, again.run_id) is None
        assert _counts(rig, "t") == [1]

    run_scenario(scenario, _RAW)


def test_rows_of_a_late_report_are_not_appended_again() -> None:
    async def scenario(rig: Rig) -> None:
        rig.chains.make("raw")
        _bring_data(rig, "files")
        first = await rig.coordinator.submit(run_request(_from_raw(), "one"))
        [late] = await rig.lease("late")
        await rig.sleep(LEASE_MS + 1_000)
        await rig.lease("next")
        await rig.complete(late, rig.publish(late), "late")
        assert (await rig.over(first.run_id)).status is RunStatus.SUCCESS
        again = await rig.coordinator.submit(run_request(_from_raw(), "two"))
        assert await _task_or_end(rig, again.run_id) is None
        assert _counts(rig, "t") == [1]

    run_scenario(scenario, _RAW)


async def _died_between(rig: Rig, *, says: bool = False, append_again: tuple[str, ...] = ()) -> str:
    """A run over two tables whose worker publishes the first, and no more."""
    _ground(rig, "u")
    made = msgspec.structs.replace(_from_raw("code", "u"), append_again=append_again)
    dead = await rig.coordinator.submit(run_request(made, "dead", worker="dead"))
    [lost] = await rig.lease("dead")
    rig.chains.publish(stamp_outputs(lost, "code").outputs[0])
    if says:
        await rig.complete(lost, FAILED, "dead")
    view = await rig.over(dead.run_id, 60_000)
    assert view.status is RunStatus.FAILED
    assert [await _state_of(rig, each) for each in ("t", "u")] == ["COMPLETE", "FAILED"]
    return dead.run_id


@pytest.mark.parametrize("says", [False, True])
@pytest.mark.parametrize("retries", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_task_that_died_between_its_tables_appends_to_the_others_alone(
    says: bool, retries: bool, restarts: bool
) -> None:
    async def scenario(rig: Rig) -> None:
        dead = await _died_between(rig, says=says)
        if restarts:
            await rig.restart()
        if retries:
            alive = await rig.coordinator.retry(dead)
        else:
            alive = await rig.coordinator.submit(run_request(_from_raw("code", "u"), "alive"))
        rest = await _task_or_end(rig, alive.run_id)
        assert rest is not None
        assert [each.is_made for each in rest.outputs] == [True, False]
        await rig.complete(rest, rig.publish(rest))
        assert (await rig.over(alive.run_id)).status is RunStatus.SUCCESS
        assert _counts(rig, "t", "u") == [1, 1]
        assert await _states(rig) == {"COMPLETE"}

    run_scenario(scenario, _RAW)


@pytest.mark.parametrize("code", ["code", "edited"])
def test_a_retry_does_not_append_again_though_code_or_data_have_changed(code: str) -> None:
    async def scenario(rig: Rig) -> None:
        dead = await _died_between(rig)
        _bring_data(rig, "more files")
        second = await rig.coordinator.retry(dead)
        rest = await _task_or_end(rig, second.run_id)
        assert rest is not None
        await rig.complete(rest, FAILED)
        await rig.over(second.run_id)
        assert await _state_of(rig, "t") == "COMPLETE"
        third = await rig.coordinator.retry(dead, plan=_from_raw(code, "u"))
        rig.code = {"t": CodeVersion(code=code)}
        rest = await _task_or_end(rig, third.run_id)
        assert rest is not None
        await rig.complete(rest, rig.publish(rest))
        assert _counts(rig, "t", "u") == [1, 1]
        assert (await rig.over(third.run_id)).status is RunStatus.SUCCESS
        assert await _states(rig) == {"COMPLETE"}

    run_scenario(scenario, _RAW)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("retries", [1, 2])
def test_a_retry_knows_its_rows_though_a_forced_run_has_appended_since(
    retries: int, restarts: bool
) -> None:
    async def scenario(rig: Rig) -> None:
        dead = await _died_between(rig, append_again=("t@1",))
        made = _from_raw("code", "u")
        [only] = made.tasks
        again = msgspec.structs.replace(only, reason=Reason.FORCED)
        made = msgspec.structs.replace(made, tasks=(again,), append_again=("t@1",))
        forced = await rig.coordinator.submit(run_request(made, "forced"))
        more = await _task_or_end(rig, forced.run_id)
        assert more is not None
        await rig.complete(more, rig.publish(more))
        assert (await rig.over(forced.run_id)).status is RunStatus.SUCCESS
        assert _counts(rig, "t", "u") == [2, 1]
        _bring_data(rig, "more files")  # or the forced run's rows would be as good as its own
        if restarts:
            await rig.restart()
        for number in range(retries):
            alive = await rig.coordinator.retry(dead)
            rest = await _task_or_end(rig, alive.run_id)
            assert rest is not None
            assert [each.is_made for each in rest.outputs] == [True, False]
            await rig.complete(rest, rig.publish(rest) if number == retries - 1 else FAILED)
            await rig.over(alive.run_id)
        assert _counts(rig, "t", "u") == [2, 2]
        assert await _states(rig) == {"COMPLETE"}

    run_scenario(scenario, _RAW)


def test_a_table_that_has_its_rows_is_complete_in_the_end_though_a_restart_forgot_that() -> None:
    async def scenario(rig: Rig) -> None:
        dead = await _died_between(rig)
        second = await rig.coordinator.retry(dead)
        rest = await _task_or_end(rig, second.run_id)
        assert rest is not None
        await rig.restart()
        await rig.complete(rest, FAILED)
        await rig.over(second.run_id)
        third = await rig.coordinator.retry(second.run_id)
        rest = await _task_or_end(rig, third.run_id)
        assert rest is not None
        await rig.complete(rest, rig.publish(rest))
        await rig.over(third.run_id)
        assert _counts(rig, "t", "u") == [1, 1]
        assert await _states(rig) == {"COMPLETE"}

    run_scenario(scenario, _RAW)


def test_another_attempt_appends_only_what_the_one_before_it_has_not() -> None:
    async def scenario(rig: Rig) -> None:
        _ground(rig, "u")
        run = await rig.coordinator.submit(run_request(_from_raw("code", "u")))
        [lost] = await rig.lease("dead")
        rig.chains.publish(stamp_outputs(lost, "code").outputs[0])
        second = await _task_or_end(rig, run.run_id)
        assert second is not None
        await rig.complete(second, rig.publish(second))
        assert (await rig.over(run.run_id)).status is RunStatus.SUCCESS
        assert _counts(rig, "t", "u") == [1, 1]
        rows = {row["table_id"]: row for row in await rig.reader.rows("partitions")}
        assert await _states(rig) == {"COMPLETE"}
        assert rows["id-t"]["materialization_id"] == lost.attempt_id
        assert rows["id-u"]["materialization_id"] == second.attempt_id
        assert rows["id-t"]["input_fingerprint"] == rows["id-u"]["input_fingerprint"]

    run_scenario(scenario, _RAW)


def test_an_unreported_retry_by_edited_code_is_not_repeated_by_that_code() -> None:
    async def scenario(rig: Rig) -> None:
        _ground(rig)
        failed = await rig.coordinator.submit(run_request(_from_raw("code"), "one"))
        [first] = await rig.lease()
        await rig.complete(first, FAILED)
        await rig.over(failed.run_id)
        again = await rig.coordinator.retry(failed.run_id, "dead")
        [lost] = await rig.lease("dead")
        rig.publish(lost, "edited")
        assert (await rig.over(again.run_id, 60_000)).status is RunStatus.SUCCESS
        new = await rig.coordinator.submit(run_request(_from_raw("edited"), "two"))
        rig.code = {"t": CodeVersion(code="edited")}
        assert await _task_or_end(rig, new.run_id) is None
        assert _counts(rig, "t") == [1]

    run_scenario(scenario, _RAW)


@simulated
async def test_a_failed_forced_run_does_not_make_existing_rows_be_appended_again(rig: Rig) -> None:
    _ground(rig)
    made = await rig.coordinator.submit(run_request(_appending(), "one"))
    [first] = await rig.lease()
    await rig.complete(first, rig.publish(first))
    await rig.over(made.run_id)
    anew = msgspec.structs.replace(_appending(reason=Reason.FORCED), append_again=("t@1",))
    forced = await rig.coordinator.submit(run_request(anew, "forced"))
    [second] = await rig.lease()
    await rig.complete(second, FAILED)
    await rig.over(forced.run_id)
    assert await _states(rig) == {"FAILED"}
    rows = await rig.reader.rows("partitions")
    again = await rig.coordinator.submit(run_request(_appending(reason=Reason.FAILED), "two"))
    assert await _task_or_end(rig, again.run_id) is None
    assert _counts(rig, "t") == [1]
    [after] = await rig.reader.rows("partitions")
    assert after["status"] == "COMPLETE"
    assert after["row_count"] == rows[0]["row_count"] == 10
    assert after["materialization_id"] == first.attempt_id
