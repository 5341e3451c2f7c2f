"""Clocks of the coordinator and of workers that jump by hours: each task runs exactly once."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from arco.flow.coordinator.messages import AttemptOutcome, LeasedTask, RunStatus, TaskStatus
from arco.flow.worker.ports import AttemptContext, StaticProjectCode
from arco.flow.worker.worker import Worker
from tests.flow.coordinator.plans import PROJECT, asset, plan, run_request, task
from tests.flow.faults.test_attempts import TABLE, published, rows, staged
from tests.flow.faults.workspace import TIMES, Workspace
from tests.flow.worker.scripted_executor import FastClock

HOURS_MS = 5 * 3_600_000
JUMPS = [-HOURS_MS, HOURS_MS]
PARTS = ("p=a", "p=b", "p=c")


class JumpingClock(FastClock):
    """A wall clock that is set; the elapsed time is not affected."""

    def __init__(self) -> None:
        super().__init__(TIMES)
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@dataclass
class Slow:
    """Makes one row of a partition, and takes longer than a lease lasts; records what it began."""

    workspace: Workspace
    loop: asyncio.AbstractEventLoop
    begun: list[str] = field(default_factory=list)

    def execute(self, task: LeasedTask, watch: AttemptContext) -> AttemptOutcome:
        self.begun.append(task.key)
        return asyncio.run_coroutine_threadsafe(self._make(task), self.loop).result()

    async def _make(self, task: LeasedTask) -> AttemptOutcome:
        files = await staged(self.workspace, task)
        await self.workspace.runtime.clock.sleep(20_000)
        return await published(self.workspace, task, files)

    def interrupt(self, attempt_id: str) -> None:
        """Nobody stops it."""

    def close(self) -> None:
        """Nothing was opened."""


async def _begin(
    workspace: Workspace, clock: JumpingClock
) -> tuple[str, Slow, list[asyncio.Task[None]]]:
    """A run with two workers at work, whose clock may be another one."""
    await workspace.make(TABLE)
    tasks = [task(f"t@{each}", maker=TABLE, partition=each) for each in PARTS]
    made = plan(*tasks, makers=[asset(TABLE, mode="append")])
    view = await workspace.coordinator.submit(run_request(made))
    slow = Slow(workspace, asyncio.get_running_loop())
    runtime = replace(workspace.runtime, clock=clock)
    code = StaticProjectCode(PROJECT)
    cluster = [
        asyncio.create_task(
            Worker(_Book(workspace), slow, runtime, name=name, slots=2, code=code).run(view.run_id)  # type: ignore[arg-type]
        )
        for name in ("one", "two")
    ]
    while len(slow.begun) < len(PARTS):  # noqa: ASYNC110 - it happens in a thread
        await asyncio.sleep(0.01)
    return view.run_id, slow, cluster


class _Book:
    """The current coordinator."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def __getattr__(self, name: str) -> object:
        return getattr(self._workspace.coordinator, name)


async def _check(
    workspace: Workspace, run_id: str, slow: Slow, cluster: list[asyncio.Task[None]]
) -> None:
    view = await workspace.over(run_id)
    await asyncio.gather(*cluster)
    assert view.status is RunStatus.SUCCESS, view
    assert sorted(slow.begun) == [f"t@{each}" for each in PARTS]
    assert {key: len(made) for key, made in (await rows(workspace)).items()} == dict.fromkeys(
        PARTS, 1
    )
    stored = await workspace.reader.run(run_id)
    assert stored is not None
    assert {each.status for each in stored.tasks} == {TaskStatus.SUCCESS}
    assert stored.is_over
    assert workspace.coordinator.at_work == 0
    assert workspace.coordinator.figures.lost == 0


@pytest.mark.parametrize("by_ms", JUMPS)
async def test_the_clock_of_a_worker_is_of_no_matter(by_ms: int) -> None:
    workspace, clock = await Workspace.open(1), JumpingClock()
    clock.ahead_ms = by_ms
    run_id, slow, cluster = await _begin(workspace, clock)
    clock.ahead_ms = -by_ms
    await _check(workspace, run_id, slow, cluster)
    await workspace.close()


@pytest.mark.parametrize("by_ms", JUMPS)
async def test_a_jump_of_the_clock_of_the_book_ends_no_lease(by_ms: int) -> None:
    clock = JumpingClock()
    workspace = await Workspace.open(2, clock)
    run_id, slow, cluster = await _begin(workspace, clock)
    clock.ahead_ms = by_ms
    await _check(workspace, run_id, slow, cluster)
    await workspace.close()


@pytest.mark.parametrize("by_ms", JUMPS)
async def test_a_book_that_is_opened_again_with_another_clock_goes_on(by_ms: int) -> None:
    clock = JumpingClock()
    workspace = await Workspace.open(3, clock)
    run_id, slow, cluster = await _begin(workspace, clock)
    clock.ahead_ms = by_ms
    await workspace.restart()
    await _check(workspace, run_id, slow, cluster)
    await workspace.close()
