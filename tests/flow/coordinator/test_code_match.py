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
from tests.flow.coordinator.coordinator_setup import CoordinatorSetup, simulated
from tests.flow.coordinator.plans import asset, plan, run_request, task

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
    setup: CoordinatorSetup, offered: dict[str, CodeVersion]
) -> None:
    setup.chains.make("t")
    view = await setup.coordinator.submit(run_request(_planned()))
    setup.code = offered
    assert await setup.lease("stale") == ()
    [wait] = (await setup.coordinator.get_run(view.run_id)).waits_for_code
    assert (wait.maker, wait.tasks, wait.planned) == ("t", 1, NEW)
    [worker] = wait.workers
    assert (worker.worker, worker.code) == ("stale", offered.get("t"))
    setup.code = {"t": NEW}
    [leased] = await setup.lease("fresh")
    assert leased.code == NEW
    assert (await setup.coordinator.get_run(view.run_id)).waits_for_code == ()


@simulated
async def test_a_worker_with_the_planned_checks_is_given_the_task(setup: CoordinatorSetup) -> None:
    setup.chains.make("t")
    await setup.coordinator.submit(run_request(_planned("checks")))
    setup.code = {"t": NEW}
    assert await setup.lease() == ()
    setup.code = {"t": CodeVersion(code="new", checks="checks")}
    assert len(await setup.lease()) == 1


@simulated
async def test_a_code_mismatch_is_reported_to_a_waiting_worker_once(
    setup: CoordinatorSetup,
) -> None:
    setup.chains.make("t")
    setup.code = {"t": OLD}
    waiting = setup.runtime.tasks.spawn(setup.request(wait_ms=10_000))
    await setup.sleep(1_000)
    began_ms = setup.runtime.clock.elapsed_ms()
    view = await setup.coordinator.submit(run_request(_planned()))
    assert (await waiting.wait()).other_code == (view.run_id,)
    assert setup.runtime.clock.elapsed_ms() - began_ms < 5_000
    asked_ms = setup.runtime.clock.elapsed_ms()
    assert (await setup.request(wait_ms=10_000)).other_code == ()
    assert setup.runtime.clock.elapsed_ms() - asked_ms >= 9_000


@simulated
async def test_other_runs_are_worked_on_while_one_waits_for_its_code(
    setup: CoordinatorSetup,
) -> None:
    setup.chains.make("t")
    setup.chains.make("u")
    both = plan(
        task("t@1", maker="t", partition="ds=1"),
        task("u@1", maker="u", partition="ds=1"),
        makers=[asset("t", code="new"), asset("u", code="u")],
    )
    view = await setup.coordinator.submit(run_request(both))
    setup.code = {"t": OLD, "u": CodeVersion(code="u")}
    [leased] = await setup.lease()
    assert leased.key == "u@1"
    waits = (await setup.coordinator.get_run(view.run_id)).waits_for_code
    assert [each.maker for each in waits] == ["t"]


@simulated
async def test_without_a_connected_worker_the_run_names_the_code_it_waits_for(
    setup: CoordinatorSetup,
) -> None:
    setup.chains.make("t")
    view = await setup.coordinator.submit(run_request(_planned()))
    setup.code = {"t": OLD}
    await setup.lease("stale")
    await setup.sleep(LEASE_MS + 1_000)
    [wait] = (await setup.coordinator.get_run(view.run_id)).waits_for_code
    assert (wait.planned, wait.workers) == (NEW, ())


@simulated
async def test_a_success_of_other_code_than_planned_is_a_failure(setup: CoordinatorSetup) -> None:
    setup.chains.make("t")
    view = await setup.coordinator.submit(run_request(_planned()))
    setup.code = {"t": NEW}
    [leased] = await setup.lease()
    await setup.complete(leased, setup.publish(leased, "old"))
    over = await setup.over(view.run_id)
    assert over.status is RunStatus.FAILED
    [failed] = over.changed
    assert "planned with new" in (failed.error or "")
    assert "ran old" in (failed.error or "")
    [row] = await setup.reader.rows("partitions")
    assert row["code_fingerprint"] == "old"


@simulated
async def test_a_failure_need_not_name_its_code(setup: CoordinatorSetup) -> None:
    setup.chains.make("t")
    view = await setup.coordinator.submit(run_request(_planned()))
    setup.code = {"t": NEW}
    [leased] = await setup.lease()
    await setup.complete(leased, AttemptOutcome(status=TaskStatus.FAILED, error="it broke"))
    [failed] = (await setup.over(view.run_id)).changed
    assert failed.error == "it broke"
