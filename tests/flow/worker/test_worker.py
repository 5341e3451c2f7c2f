"""A worker with a real coordinator, in the same process and over HTTP."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arco.core.errors import Invalid, NotFound, Unavailable, Unknown
from arco.flow.coordinator.messages import (
    AttemptOutcome,
    AttemptReport,
    CheckOutcome,
    Heartbeat,
    HeartbeatResponse,
    LeasedTask,
    LeaseRequest,
    LeaseResponse,
    OutputResult,
    Progress,
    TaskStatus,
)
from arco.flow.coordinator.ports import Coordinator
from arco.flow.worker.attempt import WorkerTiming
from arco.flow.worker.ports import StaticProjectCode
from arco.flow.worker.worker import Worker
from arco.server.embedded import embedded_server
from tests.flow.worker.scripted_executor import (
    DONE,
    LONG_S,
    STOPPED,
    ScriptedExecutor,
    ScriptedTask,
    connect,
    disk_place,
    fast_runtime,
    new_worker,
    open_coordinator,
    plan,
    run_plan,
    statuses,
    submit_plan,
    until,
    until_true,
    usual,
)

NOT_UTF8 = os.fsdecode(b"caf\xe9.csv")  # a file name as the system returns it
NUMPY_NUMBER: Any = np.float32(0.5)

both_ways = pytest.mark.parametrize("way", ["here", "http"])


@both_ways
async def test_tasks_are_executed_in_order_as_many_at_once_as_there_are_slots(way: str) -> None:
    meet = threading.Barrier(2, timeout=60)

    def both(_: ScriptedTask) -> AttemptOutcome:
        meet.wait()  # passes only if two are at work at once
        return DONE

    executor, runtime = ScriptedExecutor(b=both, c=both), usual()
    planned = plan("a", "b", "c", "d", b=["a"], c=["a"], d=["b", "c"])
    async with open_coordinator(way, runtime) as coordinator:
        view = await run_plan(coordinator, runtime, executor, planned)
    assert view.status == "SUCCESS"
    keys = [key for key, _ in executor.begun]
    assert (keys[0], {*keys[1:3]}, keys[3]) == ("a", {"b", "c"}, "d")
    assert executor.most_at_once == 2


@both_ways
async def test_a_failed_task_is_retried_and_its_downstream_tasks_are_skipped(way: str) -> None:
    def second(doing: ScriptedTask) -> AttemptOutcome:
        failed = AttemptOutcome(status=TaskStatus.FAILED, error="not yet")
        return DONE if doing.task.attempt == 2 else failed

    def never(_: ScriptedTask) -> AttemptOutcome:
        raise ValueError("it breaks")

    executor, runtime = ScriptedExecutor(a=second, b=never), usual()
    planned = plan("a", "b", "c", "d", retries=1, c=["a"], d=["b"])
    async with open_coordinator(way, runtime) as coordinator:
        view = await run_plan(coordinator, runtime, executor, planned)
    ends = {"a": "SUCCESS", "b": "FAILED", "c": "SUCCESS", "d": "SKIPPED"}
    assert (view.status, statuses(view)) == ("FAILED", ends)
    failed = next(task for task in view.changed if task.key == "b")
    assert failed.attempt == 2
    assert "the executor has failed: ValueError: it breaks" in (failed.error or "")


@both_ways
async def test_the_progress_and_log_of_a_running_task_are_visible(way: str) -> None:
    go_on = threading.Event()

    def speak(doing: ScriptedTask) -> AttemptOutcome:
        doing.watch.log("first line")
        doing.watch.progress(Progress(phase="writing", done=0.5, rows=7))
        assert go_on.wait(60)
        doing.watch.log("last line")
        return DONE

    executor, runtime = ScriptedExecutor(a=speak), usual()
    async with open_coordinator(way, runtime) as coordinator:
        run_id = await submit_plan(coordinator, plan("a"))
        timing = WorkerTiming(heartbeat_ms=100)
        worker = new_worker(coordinator, executor, runtime, timing=timing)
        working = asyncio.create_task(worker.run(run_id))
        view = await coordinator.get_run(run_id)
        while not view.changed or view.changed[0].progress is None:
            view = await coordinator.get_run(run_id, since=view.number, wait_ms=10_000)
        go_on.set()
        await working
    assert view.changed[0].progress == Progress(phase="writing", done=0.5, rows=7)


async def test_the_log_of_a_failed_attempt_ends_with_the_error(tmp_path: Path) -> None:
    why = "ValueError: it breaks\nin your code, the innermost line last:\n  pipelines/a.py:3 in a"

    def fail(doing: ScriptedTask) -> AttemptOutcome:
        doing.watch.log("so far so good")
        return AttemptOutcome(status=TaskStatus.FAILED, error=why)

    executor, runtime = ScriptedExecutor(a=fail), usual()
    async with open_coordinator("here", runtime, disk_place(tmp_path)) as coordinator:
        await run_plan(coordinator, runtime, executor, plan("a"))
    logs = [path.read_text() for path in tmp_path.rglob("logs/**/*") if path.is_file()]
    assert logs == [f"so far so good\n{why}\n"]


@both_ways
async def test_odd_logs_do_not_stop_the_worker(way: str) -> None:
    check = CheckOutcome(
        table="t", table_id="id", name="x" * 256, type="CUSTOM_SQL", severity="error", passed=True
    )

    def fail(_: ScriptedTask) -> AttemptOutcome:
        return AttemptOutcome(status=TaskStatus.FAILED, error=f"FileNotFoundError: {NOT_UTF8}")

    def count(_: ScriptedTask) -> AttemptOutcome:
        return AttemptOutcome(status=TaskStatus.SUCCESS, metrics={"mean": NUMPY_NUMBER})

    def judge(_: ScriptedTask) -> AttemptOutcome:
        return AttemptOutcome(status=TaskStatus.SUCCESS, checks=(check,))

    executor, runtime = ScriptedExecutor(a=fail, b=count, c=judge), usual()
    async with open_coordinator(way, runtime) as coordinator:
        view = await run_plan(coordinator, runtime, executor, plan("a", "b", "c", "d"), slots=1)
    assert statuses(view) == {"a": "FAILED", "b": "SUCCESS", "c": "SUCCESS", "d": "SUCCESS"}
    assert executor.begun == [("a", 1), ("b", 1), ("c", 1), ("d", 1)]
    errors = [task.error for task in view.changed if task.key == "a"]
    assert errors == ["FileNotFoundError: caf\\udce9.csv"]


@both_ways
async def test_a_task_that_logs_odd_text_keeps_its_lease(way: str) -> None:
    go_on = threading.Event()

    def speak(doing: ScriptedTask) -> AttemptOutcome:
        doing.watch.log(f"reading {NOT_UTF8}")
        doing.watch.progress(Progress(phase="writing", done=NUMPY_NUMBER))
        assert go_on.wait(LONG_S)
        return STOPPED if doing.watch.is_stopped() else DONE

    executor, runtime = ScriptedExecutor(a=speak), usual()
    async with open_coordinator(way, runtime) as coordinator:
        run_id = await submit_plan(coordinator, plan("a"))
        flaky, timing = FlakyCoordinator(coordinator), WorkerTiming(heartbeat_ms=100)
        worker = new_worker(flaky, executor, runtime, timing=timing)
        working = asyncio.create_task(worker.run(run_id))
        await until_true(lambda: flaky.heartbeats > 2)
        go_on.set()
        await working
        view = await coordinator.get_run(run_id)
    assert (view.status, executor.begun) == ("SUCCESS", [("a", 1)])


@both_ways
async def test_a_cancelled_run_wakes_a_task_that_sleeps(way: str) -> None:
    executor, runtime = ScriptedExecutor(a=ScriptedTask.sleep), usual()
    async with open_coordinator(way, runtime) as coordinator:
        run_id = await submit_plan(coordinator, plan("a", "b", b=["a"]))
        worker = new_worker(coordinator, executor, runtime, slots=2)
        working = asyncio.create_task(worker.run(run_id))
        await until(executor.has_begun)
        await coordinator.cancel(run_id)
        await working
        view = await coordinator.get_run(run_id)
    assert executor.interrupted == ["a"]
    assert (view.status, statuses(view)) == ("CANCELLED", {"a": "CANCELLED", "b": "CANCELLED"})


async def test_a_task_that_takes_too_long_is_stopped_and_has_failed() -> None:
    executor, runtime = ScriptedExecutor(a=ScriptedTask.sleep), usual()
    async with open_coordinator("here", runtime) as coordinator:
        view = await run_plan(coordinator, runtime, executor, plan("a", timeout_ms=50))
    assert executor.interrupted == ["a"]
    assert (view.status, view.changed[0].error) == ("FAILED", "timed out after 0.05s")


async def test_a_success_after_a_stop_stays_a_success() -> None:
    def just_in_time(doing: ScriptedTask) -> AttemptOutcome:
        doing.sleep()
        return DONE

    executor, runtime = ScriptedExecutor(a=just_in_time), usual()
    async with open_coordinator("here", runtime) as coordinator:
        view = await run_plan(coordinator, runtime, executor, plan("a", timeout_ms=50))
    assert (executor.interrupted, view.status) == (["a"], "SUCCESS")


async def test_a_task_that_will_not_stop_does_not_hold_up_others() -> None:
    let_go, stops = threading.Event(), list[bool]()

    def stubborn(doing: ScriptedTask) -> AttemptOutcome:
        assert let_go.wait(60)
        stops.append(doing.watch.is_stopped())
        return STOPPED

    executor, runtime = ScriptedExecutor(a=stubborn), usual()
    async with open_coordinator("here", runtime) as coordinator:
        run_id = await submit_plan(coordinator, plan("a", "b", timeout_ms=50))
        timing, abandoned = WorkerTiming(grace_ms=50), list[LeasedTask]()
        worker = new_worker(
            coordinator, executor, runtime, timing=timing, on_abandoned=abandoned.append
        )
        await worker.run(run_id)
        view = await coordinator.get_run(run_id)
        assert stops == []  # its thread still runs
        let_go.set()
        await until_true(lambda: stops == [True])
    assert statuses(view) == {"a": "FAILED", "b": "SUCCESS"}
    assert [each.key for each in abandoned] == ["a"]


async def test_what_an_abandoned_task_publishes_is_reported() -> None:
    let_go, stop = threading.Event(), usual().tasks.event()
    output = OutputResult(table="default.a.b", table_id="id", partition="", version=7)

    def publish(_: ScriptedTask) -> AttemptOutcome:
        assert let_go.wait(LONG_S)  # inside of the call that publishes
        return AttemptOutcome(status=TaskStatus.SUCCESS, outputs=(output,))

    executor, runtime = ScriptedExecutor(a=publish), usual()
    async with open_coordinator("here", runtime) as coordinator:
        run_id = await submit_plan(coordinator, plan("a", timeout_ms=50))
        flaky, timing = FlakyCoordinator(coordinator), WorkerTiming(grace_ms=50)
        worker = new_worker(flaky, executor, runtime, timing=timing)
        working = asyncio.create_task(worker.run(until=stop))
        await until_true(lambda: len(flaky.reports) == 1)
        given_up = await coordinator.get_run(run_id)
        let_go.set()
        await until_true(lambda: len(flaky.reports) == 2)
        view = await coordinator.get_run(run_id)
        stop.set()
        await working
    assert (statuses(given_up), statuses(view)) == ({"a": "FAILED"}, {"a": "SUCCESS"})


@both_ways
async def test_a_worker_that_is_stopped_gives_its_tasks_back(way: str) -> None:
    executor, others, runtime = ScriptedExecutor(a=ScriptedTask.sleep), ScriptedExecutor(), usual()
    async with open_coordinator(way, runtime) as coordinator:
        run_id = await submit_plan(coordinator, plan("a"))  # which uses up no retry: there is none
        stop = runtime.tasks.event()
        first = new_worker(coordinator, executor, runtime, name="first")
        working = asyncio.create_task(first.run(until=stop))
        await until(executor.has_begun)
        stop.set()
        await working
        second = new_worker(coordinator, others, runtime, name="second")
        await second.run(run_id)
        view = await coordinator.get_run(run_id)
    assert executor.interrupted == ["a"]
    assert (view.status, others.begun) == ("SUCCESS", [("a", 2)])


async def test_a_worker_that_is_stopped_gives_back_a_task_that_does_not_stop() -> None:
    let_go = threading.Event()

    def stubborn(_: ScriptedTask) -> AttemptOutcome:
        assert let_go.wait(60)
        return STOPPED

    executor, others, runtime = ScriptedExecutor(a=stubborn), ScriptedExecutor(), usual()
    async with open_coordinator("here", runtime) as coordinator:
        run_id = await submit_plan(coordinator, plan("a"))
        stop, timing = runtime.tasks.event(), WorkerTiming(grace_ms=60_000, shutdown_ms=50)
        first = new_worker(coordinator, executor, runtime, name="1", timing=timing)
        working = asyncio.create_task(first.run(until=stop))
        await until(executor.has_begun)
        await asyncio.sleep(0.3)  # it is looked after by then
        stop.set()
        await asyncio.wait_for(working, 30)
        await new_worker(coordinator, others, runtime, name="2").run(run_id)
        view = await coordinator.get_run(run_id)
        let_go.set()
    assert (view.status, others.begun) == ("SUCCESS", [("a", 2)])


async def test_a_stopped_task_has_less_time_if_its_worker_exits() -> None:
    let_go = threading.Event()

    def stubborn(_: ScriptedTask) -> AttemptOutcome:
        assert let_go.wait(60)
        return STOPPED

    executor, runtime = ScriptedExecutor(a=stubborn), usual()
    async with open_coordinator("here", runtime) as coordinator:
        run_id = await submit_plan(coordinator, plan("a"))
        timing = WorkerTiming(grace_ms=60_000, shutdown_ms=50)
        worker = new_worker(coordinator, executor, runtime, timing=timing)
        working = asyncio.create_task(worker.run(run_id))
        await until(executor.has_begun)
        await coordinator.cancel(run_id)
        worker.hurry()
        await asyncio.wait_for(working, 30)
        view = await coordinator.get_run(run_id)
        let_go.set()
    assert (view.status, statuses(view)) == ("CANCELLED", {"a": "CANCELLED"})


async def test_a_worker_that_waits_for_nothing_can_be_stopped() -> None:
    executor, runtime = ScriptedExecutor(), usual()
    async with open_coordinator("http", runtime) as coordinator:
        stop = runtime.tasks.event()
        worker = new_worker(coordinator, executor, runtime)
        working = asyncio.create_task(worker.run(until=stop))
        await asyncio.sleep(0.05)
        stop.set()
        await working


async def test_once_means_until_there_is_nothing_to_do() -> None:
    executor, runtime = ScriptedExecutor(), usual()
    async with open_coordinator("here", runtime) as coordinator:
        first = await submit_plan(coordinator, plan("a", "b", b=["a"]))
        second = await submit_plan(coordinator, plan("c"))
        worker = new_worker(coordinator, executor, runtime)
        await worker.run(once=True)
        run_statuses = [statuses(await coordinator.get_run(each)) for each in (first, second)]
    assert run_statuses == [{"a": "SUCCESS", "b": "SUCCESS"}, {"c": "SUCCESS"}]


async def test_an_unknown_run_is_an_error() -> None:
    runtime = usual()
    async with open_coordinator("http", runtime) as coordinator:
        worker = new_worker(coordinator, ScriptedExecutor(), runtime)
        with pytest.raises(NotFound):
            await worker.run("01K0B3Q4N5RJ6Y7Z8A9BCDEFGH")
        run_id = await submit_plan(coordinator, plan("a"))
        other = Worker(
            coordinator,
            ScriptedExecutor(),
            runtime,
            name="w",
            slots=1,
            code=StaticProjectCode("another"),
        )
        with pytest.raises(Invalid, match="project"):
            await other.run(run_id)


class FlakyCoordinator:
    """A coordinator whose connection may be cut, and whose answers to reports may be lost."""

    def __init__(self, coordinator: Coordinator, lost_answers: int = 0) -> None:
        self._coordinator = coordinator
        self._lost_answers = lost_answers
        self.is_cut = False
        self.heartbeats = 0
        self.reports: list[AttemptReport] = []

    def _check(self) -> None:
        if self.is_cut:
            raise Unavailable("the connection is cut")

    async def lease(self, request: LeaseRequest) -> LeaseResponse:
        self._check()
        return await self._coordinator.lease(request)

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatResponse:
        self._check()
        response = await self._coordinator.heartbeat(heartbeat)
        self.heartbeats += 1
        return response

    async def watch(
        self, worker: str, attempt_ids: tuple[str, ...], wait_ms: int = 0
    ) -> tuple[str, ...]:
        self._check()
        return await self._coordinator.watch(worker, attempt_ids, wait_ms)

    async def complete(self, report: AttemptReport) -> None:
        self._check()
        await self._coordinator.complete(report)
        self.reports.append(report)
        if self._lost_answers:
            self._lost_answers -= 1
            raise Unknown("the answer was lost")


class LateCoordinator(FlakyCoordinator):
    """A coordinator whose answer without tasks, to a busy worker, arrives after the worker's task ended."""

    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__(coordinator)
        self.has_answered = threading.Event()

    async def lease(self, request: LeaseRequest) -> LeaseResponse:
        response = await super().lease(request)
        if request.slots == 1 and not response.tasks:  # one of two slots is taken
            self.has_answered.set()
            await until_true(lambda: bool(self.reports))
            await asyncio.sleep(0.1)  # the worker has counted the end of its task
        return response


async def test_a_worker_that_ends_when_idle_still_executes_the_retry_of_its_last_task() -> None:
    def second(doing: ScriptedTask) -> AttemptOutcome:
        assert late.has_answered.wait(60)
        failed = AttemptOutcome(status=TaskStatus.FAILED, error="not yet")
        return DONE if doing.task.attempt == 2 else failed

    executor, runtime = ScriptedExecutor(a=second), usual()
    async with open_coordinator("here", runtime) as coordinator:
        late = LateCoordinator(coordinator)
        run_id = await submit_plan(coordinator, plan("a", retries=1))
        await new_worker(late, executor, runtime, slots=2).run(once=True)
        view = await coordinator.get_run(run_id)
    assert (view.status, executor.begun) == ("SUCCESS", [("a", 1), ("a", 2)])


async def test_a_worker_that_cannot_reach_the_coordinator_gives_up_its_task_after_a_lease() -> None:
    runtime = fast_runtime()

    def first_waits(doing: ScriptedTask) -> AttemptOutcome:
        return doing.sleep() if doing.task.attempt == 1 else DONE

    executor = ScriptedExecutor(a=first_waits)
    async with open_coordinator("here", runtime) as coordinator:
        run_id = await submit_plan(coordinator, plan("a"))
        flaky = FlakyCoordinator(coordinator)
        worker = new_worker(flaky, executor, runtime)
        working = asyncio.create_task(worker.run(run_id))
        await until(executor.has_begun)
        flaky.is_cut = True
        await until_true(lambda: executor.interrupted == ["a"])
        flaky.is_cut = False
        await working
        view = await coordinator.get_run(run_id)
    assert (view.status, executor.begun) == ("SUCCESS", [("a", 1), ("a", 2)])
    assert [each.outcome.status for each in flaky.reports] == ["SUCCESS"]


async def test_the_end_of_a_task_is_reported_until_it_is_acknowledged() -> None:
    executor, runtime = ScriptedExecutor(), usual()
    async with open_coordinator("here", runtime) as coordinator:
        run_id = await submit_plan(coordinator, plan("a"))
        flaky = FlakyCoordinator(coordinator, lost_answers=2)
        worker = new_worker(flaky, executor, runtime)
        await worker.run(run_id)
        view = await coordinator.get_run(run_id)
    assert (view.status, executor.begun) == ("SUCCESS", [("a", 1)])
    assert len({each.attempt_id for each in flaky.reports}) == 1
    assert len(flaky.reports) == 3


async def test_a_task_survives_a_restart_of_the_coordinator(tmp_path: Path) -> None:
    go_on, runtime = threading.Event(), usual()

    def wait(doing: ScriptedTask) -> AttemptOutcome:
        assert go_on.wait(60)
        return STOPPED if doing.watch.is_stopped() else DONE

    executor, errors = ScriptedExecutor(a=wait), list[str]()
    async with embedded_server(disk_place(tmp_path), runtime) as server:
        async with connect("http", server, runtime) as coordinator:
            run_id = await submit_plan(coordinator, plan("a", "b", b=["a"]))
        port = int(server.url.rpartition(":")[2])
        way = connect("http", server, runtime)
        coordinator = await way.__aenter__()
        worker = new_worker(
            coordinator,
            executor,
            runtime,
            slots=2,
            on_unavailable=lambda error: errors.append(error.code),
        )
        working = asyncio.create_task(worker.run(run_id))
        await until(executor.has_begun)
    await until_true(lambda: bool(errors))  # the coordinator is not there
    async with embedded_server(disk_place(tmp_path), runtime, port=port):
        go_on.set()
        await working
        view = await coordinator.get_run(run_id)
        await way.__aexit__(None, None, None)
    assert (view.status, executor.begun) == ("SUCCESS", [("a", 1), ("b", 1)])
