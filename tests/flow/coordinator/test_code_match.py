"""A worker gets only tasks that were planned with the code it has loaded."""

import msgspec
import pytest

from arco.flow.coordinator.messages import (
    LEASE_MS,
    AttemptOutcome,
    CodeVersion,
    RunStatus,
    TaskStatus,
)
from arco.flow.plan.plan import Plan
from tests.flow.coordinator.plans import asset, plan, run_request, task
from tests.flow.coordinator.rig import Rig, simulated

NEW, OLD = CodeVersion(code="new"), CodeVersion(code="old")


def _planned(checks: str | None = None) -> Plan:
    made = msgspec.structs.replace(asset("t", code="new"), checks_fingerprint=checks)
    return plan(task("t@1", maker="t", partition="ds=1"), makers=[made])


@pytest.mark.parametrize(
    "offered",
    [{}, {"t": OLD}, {"u": NEW}, {"t": CodeVersion(code="new", checks="other checks")}],
    ids=["none", "old code", "no such asset", "other checks"],
)
@simulated
async def test_a_worker_with_other_code_gets_no_task_and_the_run_shows_it(
    rig: Rig, offered: dict[str, CodeVersion]
) -> None:
    rig.chains.make("t")
    view = await rig.coordinator.submit(run_request(_planned()))
    rig.code = offered
    assert await rig.lease("stale") == ()
    [wait] = (await rig.coordinator.get_run(view.run_id)).waits_for_code
    assert (wait.maker, wait.tasks, wait.planned) == ("t", 1, NEW)
    [worker] = wait.workers
    assert (worker.worker, worker.code) == ("stale", offered.get("t"))
    rig.code = {"t": NEW}
    [leased] = await rig.lease("fresh")
    assert leased.code == NEW
    assert (await rig.coordinator.get_run(view.run_id)).waits_for_code == ()


@simulated
async def test_a_worker_with_the_planned_checks_is_given_the_task(rig: Rig) -> None:
    rig.chains.make("t")
    await rig.coordinator.submit(run_request(_planned("checks")))
    rig.code = {"t": NEW}
    assert await rig.lease() == ()
    rig.code = {"t": CodeVersion(code="new", checks="checks")}
    assert len(await rig.lease()) == 1


@simulated
async def test_a_code_mismatch_is_reported_to_a_waiting_worker_once(rig: Rig) -> None:
    rig.chains.make("t")
    rig.code = {"t": OLD}
    waiting = rig.runtime.tasks.spawn(rig.request(wait_ms=10_000))
    await rig.sleep(1_000)
    began_ms = rig.runtime.clock.elapsed_ms()
    view = await rig.coordinator.submit(run_request(_planned()))
    assert (await waiting.wait()).other_code == (view.run_id,)
    assert rig.runtime.clock.elapsed_ms() - began_ms < 5_000
    asked_ms = rig.runtime.clock.elapsed_ms()
    assert (await rig.request(wait_ms=10_000)).other_code == ()
    assert rig.runtime.clock.elapsed_ms() - asked_ms >= 9_000


@simulated
async def test_other_runs_are_worked_on_while_one_waits_for_its_code(rig: Rig) -> None:
    rig.chains.make("t")
    rig.chains.make("u")
    both = plan(
        task("t@1", maker="t", partition="ds=1"),
        task("u@1", maker="u", partition="ds=1"),
        makers=[asset("t", code="new"), asset("u", code="u")],
    )
    view = await rig.coordinator.submit(run_request(both))
    rig.code = {"t": OLD, "u": CodeVersion(code="u")}
    [leased] = await rig.lease()
    assert leased.key == "u@1"
    waits = (await rig.coordinator.get_run(view.run_id)).waits_for_code
    assert [each.maker for each in waits] == ["t"]


@simulated
async def test_without_a_connected_worker_the_run_names_the_code_it_waits_for(rig: Rig) -> None:
    rig.chains.make("t")
    view = await rig.coordinator.submit(run_request(_planned()))
    rig.code = {"t": OLD}
    await rig.lease("stale")
    await rig.sleep(LEASE_MS + 1_000)
    [wait] = (await rig.coordinator.get_run(view.run_id)).waits_for_code
    assert (wait.planned, wait.workers) == (NEW, ())


@simulated
async def test_a_success_of_other_code_than_planned_is_a_failure(rig: Rig) -> None:
    rig.chains.make("t")
    view = await rig.coordinator.submit(run_request(_planned()))
    rig.code = {"t": NEW}
    [leased] = await rig.lease()
    await rig.complete(leased, rig.publish(leased, "old"))
    over = await rig.over(view.run_id)
    assert over.status is RunStatus.FAILED
    [failed] = over.changed
    assert "planned with new" in (failed.error or "")
    assert "ran old" in (failed.error or "")
    [row] = await rig.reader.rows("partitions")
    assert row["code_fingerprint"] == "old"


@simulated
async def test_a_failure_need_not_name_its_code(rig: Rig) -> None:
    rig.chains.make("t")
    view = await rig.coordinator.submit(run_request(_planned()))
    rig.code = {"t": NEW}
    [leased] = await rig.lease()
    await rig.complete(leased, AttemptOutcome(status=TaskStatus.FAILED, error="it broke"))
    [failed] = (await rig.over(view.run_id)).changed
    assert failed.error == "it broke"
