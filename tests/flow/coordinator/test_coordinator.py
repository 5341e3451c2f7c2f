"""The coordinator as workers and clients see it, in virtual time."""

from collections.abc import Sequence

import msgspec
import pytest

from arco.core.errors import Fenced, Invalid, NotFound, Unavailable
from arco.flow.coordinator.event_writer import LedgerEventWriter
from arco.flow.coordinator.messages import (
    AttemptOutcome,
    LeasedTask,
    LeaseRequest,
    RunStatus,
    TaskStatus,
)
from arco.flow.coordinator.ports import EventWriter, RunEvent
from arco.flow.plan.plan import RetryPolicy
from tests.flow.coordinator.coordinator_setup import (
    BLOCKED,
    CANCELLED,
    FAILED,
    SUCCESS,
    CoordinatorSetup,
    run_scenario,
    simulated,
)
from tests.flow.coordinator.plans import asset, chain, maker, plan, run_request, task


@simulated
async def test_a_chain_runs_in_its_order_and_the_run_succeeds(setup: CoordinatorSetup) -> None:
    view = await setup.coordinator.submit(run_request(chain(3)))
    for number in range(3):
        [leased] = await setup.lease()
        assert leased.key == f"t{number}"
        await setup.complete(leased)
    assert (await setup.over(view.run_id)).status is RunStatus.SUCCESS
    assert await setup.recorded(view.run_id) == dict.fromkeys(("t0", "t1", "t2"), "SUCCESS")


@simulated
async def test_tasks_downstream_of_a_failure_are_skipped_and_the_rest_goes_on(
    setup: CoordinatorSetup,
) -> None:
    tasks = (task("a"), task("b"), task("c", "a"), task("d", "c", "b"), task("e", "b"))
    view = await setup.coordinator.submit(run_request(plan(*tasks)))
    for leased in await setup.lease():
        await setup.complete(leased, FAILED if leased.key == "a" else SUCCESS)
    [leased] = await setup.lease()
    assert leased.key == "e"
    await setup.complete(leased)
    ended = await setup.over(view.run_id)
    assert ended.status is RunStatus.FAILED
    assert ended.error is not None
    assert ended.error.startswith("a failed: it broke")
    expected = {"a": "FAILED", "b": "SUCCESS", "c": "SKIPPED", "d": "SKIPPED", "e": "SUCCESS"}
    assert await setup.statuses(view.run_id) == expected
    assert await setup.recorded(view.run_id) == expected


@simulated
async def test_tasks_downstream_of_a_failed_check_are_blocked(setup: CoordinatorSetup) -> None:
    view = await setup.coordinator.submit(
        run_request(plan(task("a"), task("b", "a"), task("c", "b")))
    )
    [leased] = await setup.lease()
    await setup.complete(leased, BLOCKED)
    await setup.over(view.run_id)
    assert await setup.recorded(view.run_id) == dict.fromkeys("abc", "BLOCKED")


@simulated
async def test_a_failed_attempt_is_made_again_after_its_pause(setup: CoordinatorSetup) -> None:
    retry_policy = RetryPolicy(times=2, delay_ms=1_000, factor=3.0, max_ms=2_500)
    made = plan(task("a"), makers=[maker(retry=retry_policy)])
    view = await setup.coordinator.submit(run_request(made))
    pauses = []
    for attempt in (1, 2, 3):
        began = setup.runtime.clock.elapsed_ms()
        [leased] = await setup.lease(wait_ms=5_000)
        pauses.append(setup.runtime.clock.elapsed_ms() - began)
        assert leased.attempt == attempt
        await setup.complete(leased, FAILED)
    assert (await setup.over(view.run_id)).status is RunStatus.FAILED
    assert pauses[0] < 500
    assert 900 < pauses[1] < 1_500
    assert 2_300 < pauses[2] < 3_000


@simulated
async def test_a_worker_that_waits_gets_a_task_as_soon_as_it_is_ready(
    setup: CoordinatorSetup,
) -> None:
    waiting = setup.runtime.tasks.spawn(setup.lease("other", wait_ms=10_000))
    await setup.sleep(100)
    await setup.coordinator.submit(run_request(chain(1)))
    began = setup.runtime.clock.elapsed_ms()
    [leased] = await waiting.wait()
    assert leased.key == "t0"
    assert setup.runtime.clock.elapsed_ms() - began < 500


@simulated
async def test_no_more_attempts_are_under_way_than_the_pool_has_slots(
    setup: CoordinatorSetup,
) -> None:
    tasks = [task(f"t{n}") for n in range(5)]
    await setup.coordinator.submit(run_request(plan(*tasks, pools={"default": 2})))
    first = await setup.lease()
    assert [each.key for each in first] == ["t0", "t1"]
    assert await setup.lease() == ()
    await setup.complete(first[0])
    assert [each.key for each in await setup.lease()] == ["t2"]


@simulated
async def test_the_same_run_key_is_the_same_run_and_another_plan_is_refused(
    setup: CoordinatorSetup,
) -> None:
    first = await setup.coordinator.submit(run_request(chain(2)))
    assert (await setup.coordinator.submit(run_request(chain(2)))).run_id == first.run_id
    with pytest.raises(Invalid, match="another plan"):
        await setup.coordinator.submit(run_request(chain(3)))
    assert len(await setup.lease()) == 1
    await setup.restart()
    assert (await setup.coordinator.submit(run_request(chain(2)))).run_id == first.run_id


@simulated
async def test_a_run_with_its_own_worker_is_leased_to_no_other(setup: CoordinatorSetup) -> None:
    await setup.coordinator.submit(run_request(chain(1), worker="mine"))
    assert await setup.lease("other") == ()
    assert len(await setup.lease("mine")) == 1


@simulated
async def test_a_run_is_given_up_when_its_only_worker_is_silent(setup: CoordinatorSetup) -> None:
    view = await setup.coordinator.submit(run_request(chain(3), worker="mine"))
    await setup.lease("mine")
    ended = await setup.over(view.run_id, 60_000)
    assert ended.status is RunStatus.FAILED
    assert ended.error == "its worker stopped reporting"
    assert await setup.recorded(view.run_id) == {"t0": "FAILED", "t1": "SKIPPED", "t2": "SKIPPED"}
    answer = await setup.request("mine", run_id=view.run_id)
    assert answer.is_over


@simulated
async def test_a_worker_that_sends_heartbeats_keeps_its_run(setup: CoordinatorSetup) -> None:
    view = await setup.coordinator.submit(run_request(chain(1), worker="w"))
    [leased] = await setup.lease()
    for _ in range(10):
        await setup.sleep(5_000)
        pulse = await setup.heartbeat(leased)
        assert not pulse.is_lost
        assert not pulse.should_cancel
    await setup.complete(leased)
    assert (await setup.over(view.run_id)).status is RunStatus.SUCCESS


@simulated
async def test_a_task_of_a_silent_worker_goes_to_another_after_one_lease(
    setup: CoordinatorSetup,
) -> None:
    view = await setup.coordinator.submit(run_request(chain(1)))
    [lost] = await setup.lease("dead")
    began = setup.runtime.clock.elapsed_ms()
    leased: tuple[LeasedTask, ...] = ()
    while not leased:
        leased = await setup.lease("w", wait_ms=10_000)
    assert 14_000 < setup.runtime.clock.elapsed_ms() - began < 17_000
    assert leased[0].attempt == 2
    assert (await setup.heartbeat(lost, "dead")).is_lost
    with pytest.raises(Fenced):
        await setup.complete(lost, worker="dead")
    await setup.complete(leased[0])
    assert (await setup.over(view.run_id)).status is RunStatus.SUCCESS
    assert setup.coordinator.figures.lost == 1


@simulated
async def test_a_task_whose_workers_are_always_lost_fails_in_the_end(
    setup: CoordinatorSetup,
) -> None:
    view = await setup.coordinator.submit(run_request(chain(1)))
    attempts = 0
    while (await setup.coordinator.get_run(view.run_id)).status is RunStatus.RUNNING:
        attempts += len(await setup.lease(f"w{attempts}", wait_ms=1_000))
    assert attempts == 4


@simulated
async def test_a_repeated_report_has_no_effect(setup: CoordinatorSetup) -> None:
    view = await setup.coordinator.submit(run_request(chain(2)))
    [leased] = await setup.lease()
    report = setup.completed(leased)
    spawn = setup.runtime.tasks.spawn
    for one in [spawn(setup.coordinator.complete(report)) for _ in range(3)]:
        await one.wait()
    await setup.coordinator.complete(report)
    assert len(await setup.lease()) == 1
    assert await setup.statuses(view.run_id) == {"t0": "SUCCESS", "t1": "RUNNING"}


@simulated
async def test_an_unknown_attempt_is_not_found(setup: CoordinatorSetup) -> None:
    await setup.coordinator.submit(run_request(chain(1)))
    [leased] = await setup.lease()
    report = setup.completed(leased)
    with pytest.raises(NotFound):
        await setup.coordinator.complete(msgspec.structs.replace(report, attempt_id="x" * 32))
    with pytest.raises(NotFound):
        await setup.coordinator.get_run("01ARZ3NDEKTSV4RRFFQ69G5FAV")


@simulated
async def test_another_project_gets_no_tasks(setup: CoordinatorSetup) -> None:
    view = await setup.coordinator.submit(run_request(chain(1)))
    other = LeaseRequest(worker="w", slots=1, project="other")
    assert (await setup.coordinator.lease(other)).tasks == ()
    with pytest.raises(Invalid, match="project"):
        await setup.coordinator.lease(
            LeaseRequest(worker="w", slots=1, project="other", run_id=view.run_id)
        )


@simulated
async def test_two_tasks_of_two_runs_never_make_the_same_partition_at_once(
    setup: CoordinatorSetup,
) -> None:
    made = plan(task("t@d", maker="t", partition="ds=1"), makers=[asset("t")])
    first = await setup.coordinator.submit(run_request(made, "one"))
    second = await setup.coordinator.submit(run_request(made, "two"))
    [leased] = await setup.lease()
    assert leased.run_id == first.run_id
    assert await setup.lease() == ()
    await setup.complete(leased, setup.publish(leased))
    [leased] = await setup.lease()
    assert leased.run_id == second.run_id


@simulated
async def test_a_task_that_wants_its_table_alone_waits_for_all_others(
    setup: CoordinatorSetup,
) -> None:
    parts = [task(f"t@{n}", maker="t", partition=f"ds={n}") for n in range(3)]
    await setup.coordinator.submit(run_request(plan(*parts, makers=[asset("t", alone=True)])))
    for number in range(3):
        [leased] = await setup.lease()
        assert leased.partition == f"ds={number}"
        await setup.complete(leased, setup.publish(leased))


@simulated
async def test_a_worker_that_waits_gets_a_task_as_soon_as_a_slot_is_free(
    setup: CoordinatorSetup,
) -> None:
    await setup.coordinator.submit(run_request(plan(task("a"), task("b"), pools={"default": 1})))
    [first] = await setup.lease()
    waiting = setup.runtime.tasks.spawn(setup.lease("other", wait_ms=10_000))
    await setup.sleep(1_000)
    began = setup.runtime.clock.elapsed_ms()
    await setup.complete(first)
    [second] = await waiting.wait()
    assert second.key == "b"
    assert setup.runtime.clock.elapsed_ms() - began < 1_000


@simulated
async def test_a_cancelled_run_gives_its_place_before_a_table_to_the_next(
    setup: CoordinatorSetup,
) -> None:
    made = plan(task("t@1", maker="t", partition="ds=1"), makers=[asset("t", alone=True)])
    runs = [
        await setup.coordinator.submit(run_request(made, key)) for key in ("one", "two", "three")
    ]
    [first] = await setup.lease()
    assert await setup.lease() == ()  # the others are waiting for the table
    await setup.complete(first, setup.publish(first))
    await setup.coordinator.cancel(runs[1].run_id)
    await setup.over(runs[1].run_id)
    [third] = await setup.lease()
    assert third.run_id == runs[2].run_id


class _FailingWriter:
    """Stores events, and raises a few times as if it had not."""

    def __init__(self, inner: EventWriter, failures: int) -> None:
        self._inner = inner
        self.failures = failures

    async def append(self, events: Sequence[RunEvent]) -> None:
        await self._inner.append(events)
        if self.failures:
            self.failures -= 1
            raise Unavailable("a part of it could not be stored")


@simulated
async def test_a_partly_recorded_run_starts_when_it_is_submitted_again(
    setup: CoordinatorSetup,
) -> None:
    writer = _FailingWriter(LedgerEventWriter(setup.writers), failures=1)
    setup.coordinator = setup.new_coordinator(writer)
    await setup.coordinator.begin()
    with pytest.raises(Unavailable):
        await setup.coordinator.submit(run_request(chain(1)))
    assert await setup.lease() == ()
    view = await setup.coordinator.submit(run_request(chain(1)))
    [leased] = await setup.lease()
    assert leased.run_id == view.run_id


@simulated
async def test_an_end_that_cannot_be_recorded_changes_nothing(setup: CoordinatorSetup) -> None:
    writer = _FailingWriter(LedgerEventWriter(setup.writers), failures=0)
    setup.coordinator = setup.new_coordinator(writer)
    await setup.coordinator.begin()
    view = await setup.coordinator.submit(run_request(chain(2)))
    [leased] = await setup.lease()
    writer.failures = 1
    with pytest.raises(Unavailable):
        await setup.complete(leased)
    assert await setup.statuses(view.run_id) == {"t0": "RUNNING", "t1": "PENDING"}
    assert await setup.lease() == ()
    await setup.complete(leased)
    writer.failures = 1
    with pytest.raises(Unavailable):
        await setup.lease()
    assert await setup.statuses(view.run_id) == {"t0": "SUCCESS", "t1": "READY"}
    [ready_task] = await setup.lease()
    assert (ready_task.key, ready_task.attempt) == ("t1", 1)


@simulated
async def test_a_worker_gets_tasks_of_the_pools_that_it_names_alone(
    setup: CoordinatorSetup,
) -> None:
    makers = [maker("big", pool="large"), maker("small"), maker("other", pool="third")]
    tasks = [task(each.name, maker=each.name) for each in makers]
    await setup.coordinator.submit(run_request(plan(*tasks, makers=makers)))
    assert await setup.lease(pools=("unused",)) == ()
    assert [each.key for each in await setup.lease(pools=("large", "third"))] == ["big", "other"]
    assert await setup.lease(pools=("large",)) == ()
    assert [each.key for each in await setup.lease()] == ["small"]


@simulated
async def test_a_task_that_was_given_back_is_tried_again_though_it_has_no_retries(
    setup: CoordinatorSetup,
) -> None:
    run = await setup.coordinator.submit(run_request(chain(1)))
    for attempt in range(1, 5):  # three more than it may have by its own fault
        [leased] = await setup.lease(wait_ms=1_000)
        assert leased.attempt == attempt
        await setup.complete(leased, CANCELLED)
    assert (await setup.over(run.run_id)).status is RunStatus.FAILED


def test_what_is_given_back_for_a_while_waits_and_fails_in_the_end_with_the_reason() -> None:
    no_spark = AttemptOutcome(status=TaskStatus.CANCELLED, error="no Spark here", pause_ms=5_000)

    async def scenario(setup: CoordinatorSetup) -> None:
        makers = [maker("t", retry=RetryPolicy(times=1))]
        run = await setup.coordinator.submit(
            run_request(plan(task("t0", maker="t"), makers=makers))
        )
        for attempt in range(1, 6):  # the one that it may have failed is not used up by these
            [leased] = await setup.lease()
            assert leased.attempt == attempt
            await setup.complete(leased, no_spark)
            assert await setup.lease() == ()
            await setup.sleep(5_100)
        ended = await setup.over(run.run_id)
        assert (ended.status, ended.error) == (RunStatus.FAILED, "t0 failed: no Spark here")

    run_scenario(scenario)


@simulated
async def test_each_task_is_counted_once_by_how_it_ended_those_that_never_began_too(
    setup: CoordinatorSetup,
) -> None:
    run = await setup.coordinator.submit(run_request(chain(3)))
    [leased] = await setup.lease()
    await setup.complete(leased, FAILED)
    await setup.over(run.run_id)
    assert setup.coordinator.figures.ended == {TaskStatus.FAILED: 1, TaskStatus.SKIPPED: 2}
