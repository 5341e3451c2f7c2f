"""A coordinator that crashes at any of its calls and restarts: nothing acknowledged is lost.

The second half runs random plans with failures, lost workers, repeated reports, crashes and store faults.
"""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from arco.flow.coordinator.messages import LeasedTask, RunStatus
from arco.flow.plan.plan import Plan, PlannedTask, RetryPolicy
from tests.flow.coordinator.coordinator_setup import CoordinatorSetup
from tests.flow.coordinator.crashing_coordinator import CHANGES, CrashPoints, Service
from tests.flow.coordinator.plans import asset, maker, plan, run_request, task
from tests.flow.coordinator.workers import FAIL, LATE, SILENT, SUCCEED, TWICE, Workers
from tests.ledger.simulated import Calm, simulate
from tests.sim.faults import MILD

_RETRIES = 2
_SLOTS = 2


def _run(crashes: list[tuple[int, bool]]) -> tuple[list[str], str]:
    """The calls of the last process, and what is wrong."""
    points = CrashPoints(crashes)
    calls: list[str] = []
    wrong: list[str] = []
    tasks = (
        task("a@1", maker="a", partition="ds=1"),
        task("a@2", maker="a", partition="ds=2"),
        task("report", "a@1", "a@2"),
    )
    request = run_request(plan(*tasks, makers=[asset("a"), maker()], pools={"default": 2}))

    async def scenario(calm: Calm) -> None:
        service = Service(calm, points)
        service.start()
        workers = Workers(service, request)
        view = await workers.run()
        calls.extend(points.calls)
        recorded = await service.call(lambda setup: setup.recorded(view.run_id))
        log = workers.log
        if view.status is not RunStatus.SUCCESS or set(recorded.values()) != {"SUCCESS"}:
            wrong.append(f"the run ended as {view.status} {view.error}, recorded as {recorded}")
        if log.most_at_once > 1 or log.most_by_pool > 2:
            wrong.append(f"too many at once: {log}")
        if log.started_early:
            wrong.append(f"started before its dependencies: {log.started_early}")
        published = [each.task for each in service.chains.published("a")]
        if len(published) != 2 or len(set(published)) != 2:
            wrong.append(f"published {published}")
        if crashes and service.processes == 1:
            wrong.append("no process crashed")

    simulate(scenario)
    return calls, "; ".join(wrong)


def test_a_run_survives_a_crash_of_the_coordinator_at_any_call() -> None:
    calls, wrong = _run([])
    assert not wrong
    assert calls.count("create") >= 10
    points = [
        (number, after)
        for number, verb in enumerate(calls, start=1)
        for after in ((False, True) if verb in CHANGES else (False,))
    ]
    for point in points:
        _, wrong = _run([point])
        assert not wrong, f"{point} ({calls[point[0] - 1]}): {wrong}"


def test_a_run_survives_several_crashes_in_a_row() -> None:
    for number in range(3, 40, 4):
        _, wrong = _run([(number, True), (7, False), (number // 2 + 3, True)])
        assert not wrong, f"{number}: {wrong}"


def _random_plan(random: Random) -> Plan:
    """Some tasks that write partitions of one table, some that write none."""
    tasks: list[PlannedTask] = []
    for number in range(random.randrange(2, 7)):
        keys = [each.key for each in tasks]
        deps = random.sample(keys, random.randrange(min(3, len(keys)) + 1))
        if random.random() < 0.5:
            tasks.append(task(f"t@{number}", *deps, maker="t", partition=f"ds={number}"))
        else:
            tasks.append(task(f"x{number}", *deps))
    retry = RetryPolicy(times=_RETRIES, delay_ms=200)
    makers = [asset("t", retry=retry), maker(retry=retry)]
    return plan(*tasks, makers=makers, pools={"default": _SLOTS})


async def _crash_at_random(service: Service, random: Random, crashes: int) -> None:
    for _ in range(crashes):
        await service.runtime.clock.sleep(random.random() * 4_000)
        service.crash()


async def _active_attempts(setup: CoordinatorSetup) -> int:
    return setup.coordinator.at_work


def _random_scenario(
    seed: int, behaviours: tuple[str, ...], crashes: int, wrong: list[str]
) -> Callable[[Calm], Coroutine[Any, Any, None]]:
    random = Random(seed)
    planned = _random_plan(random)

    def script(leased: LeasedTask) -> str:
        # Only first attempts misbehave, so that no task runs out of attempts.
        return random.choice(behaviours) if leased.attempt == 1 else SUCCEED

    async def scenario(calm: Calm) -> None:
        service = Service(calm, CrashPoints())
        service.start()
        calm.runtime.tasks.spawn(_crash_at_random(service, random, crashes))
        workers = Workers(service, run_request(planned), script)
        view = await workers.run(count=3)
        recorded = await workers.retry(lambda setup: setup.recorded(view.run_id))
        if view.status is not RunStatus.SUCCESS or set(recorded.values()) != {"SUCCESS"}:
            wrong.append(f"{view.status} {view.error} {recorded}")
        if workers.log.started_early:
            wrong.append(f"started early: {workers.log.started_early}")
        published = [each.task for each in service.chains.published("t")]
        expected = sum(each.maker == "t" for each in planned.tasks)
        if len(published) != expected or len(set(published)) != expected:
            wrong.append(f"published {published}")
        if held := await service.call(_active_attempts):
            wrong.append(f"{held} slots are held for ever")
        if set(behaviours) <= {SUCCEED, FAIL, TWICE} and workers.log.most_by_pool > _SLOTS:
            wrong.append(f"{workers.log.most_by_pool} at once in a pool of {_SLOTS}")

    return scenario


@given(seed=st.integers(0, 2**32))
@settings(max_examples=15)
def test_failures_losses_and_crashes_do_not_change_the_result(seed: int) -> None:
    wrong: list[str] = []
    behaviours = (SUCCEED, SUCCEED, FAIL, SILENT, LATE, TWICE)
    simulate(_random_scenario(seed, behaviours, 2, wrong), hours=48, seed=seed)
    assert not wrong


@given(seed=st.integers(0, 2**32))
@settings(max_examples=15)
def test_store_faults_do_not_change_the_result(seed: int) -> None:
    wrong: list[str] = []
    scenario = _random_scenario(seed, (SUCCEED, FAIL, TWICE), 1, wrong)
    simulate(scenario, hours=48, seed=seed, faults=MILD)
    assert not wrong
