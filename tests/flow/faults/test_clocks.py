"""Clocks that jump by hours, of the book of runs and of workers: each task is done, and done once."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from arco.flow.coordinator.messages import AttemptOutcome, LeasedTask, RunStatus, TaskStatus
from arco.flow.worker.ports import AttemptContext, StaticProjectCode
from arco.flow.worker.worker import Worker
from tests.flow.coordinator.plans import PROJECT, asset, plan, run_request, task
from tests.flow.faults.hut import TIMES, Hut
from tests.flow.faults.test_attempts import TABLE, published, rows, staged
from tests.flow.worker.scripted import FastClock

HOURS_MS = 5 * 3_600_000
JUMPS = [-HOURS_MS, HOURS_MS]
PARTS = ("p=a", "p=b", "p=c")


class JumpingClock(FastClock):
    """A wall clock that somebody sets; how much time goes by it does not change."""

    def __init__(self) -> None:
        super().__init__(TIMES)
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


@dataclass
class Slow:
    """Makes one row of a partition, and takes longer for it than a lease lasts; tells what it began."""

    hut: Hut
    loop: asyncio.AbstractEventLoop
    begun: list[str] = field(default_factory=list)

    def execute(self, task: LeasedTask, watch: AttemptContext) -> AttemptOutcome:
        self.begun.append(task.key)
        return asyncio.run_coroutine_threadsafe(self._make(task), self.loop).result()

    async def _make(self, task: LeasedTask) -> AttemptOutcome:
        said = await staged(self.hut, task)
        await self.hut.runtime.clock.sleep(20_000)
        return await published(self.hut, task, said)

    def interrupt(self, attempt_id: str) -> None:
        """Nobody stops it."""

    def close(self) -> None:
        """Nothing was opened."""


async def _begin(hut: Hut, clock: JumpingClock) -> tuple[str, Slow, list[asyncio.Task[None]]]:
    """A run with two workers at work, whose clock may be another one."""
    await hut.make(TABLE)
    tasks = [task(f"t@{each}", maker=TABLE, partition=each) for each in PARTS]
    made = plan(*tasks, makers=[asset(TABLE, mode="append")])
    view = await hut.book.submit(run_request(made))
    slow = Slow(hut, asyncio.get_running_loop())
    runtime = replace(hut.runtime, clock=clock)
    code = StaticProjectCode(PROJECT)
    crew = [
        asyncio.create_task(
            Worker(_Book(hut), slow, runtime, name=name, slots=2, code=code).run(view.run_id)  # type: ignore[arg-type]
        )
        for name in ("one", "two")
    ]
    while len(slow.begun) < len(PARTS):  # noqa: ASYNC110 - it happens in a thread
        await asyncio.sleep(0.01)
    return view.run_id, slow, crew


class _Book:
    """Whichever book is open now."""

    def __init__(self, hut: Hut) -> None:
        self._hut = hut

    def __getattr__(self, name: str) -> object:
        return getattr(self._hut.book, name)


async def _check(hut: Hut, run_id: str, slow: Slow, crew: list[asyncio.Task[None]]) -> None:
    view = await hut.over(run_id)
    await asyncio.gather(*crew)
    assert view.status is RunStatus.SUCCESS, view
    assert sorted(slow.begun) == [f"t@{each}" for each in PARTS]
    assert {key: len(made) for key, made in (await rows(hut)).items()} == dict.fromkeys(PARTS, 1)
    stored = await hut.reader.run(run_id)
    assert stored is not None
    assert {each.status for each in stored.tasks} == {TaskStatus.SUCCESS}
    assert stored.is_over
    assert hut.book.at_work == 0
    assert hut.book.figures.lost == 0


@pytest.mark.parametrize("by_ms", JUMPS)
async def test_the_clock_of_a_worker_is_of_no_matter(by_ms: int) -> None:
    hut, clock = await Hut.open(1), JumpingClock()
    clock.ahead_ms = by_ms
    run_id, slow, crew = await _begin(hut, clock)
    clock.ahead_ms = -by_ms
    await _check(hut, run_id, slow, crew)
    await hut.close()


@pytest.mark.parametrize("by_ms", JUMPS)
async def test_a_jump_of_the_clock_of_the_book_ends_no_lease(by_ms: int) -> None:
    clock = JumpingClock()
    hut = await Hut.open(2, clock)
    run_id, slow, crew = await _begin(hut, clock)
    clock.ahead_ms = by_ms
    await _check(hut, run_id, slow, crew)
    await hut.close()


@pytest.mark.parametrize("by_ms", JUMPS)
async def test_a_book_that_is_opened_again_with_another_clock_goes_on(by_ms: int) -> None:
    clock = JumpingClock()
    hut = await Hut.open(3, clock)
    run_id, slow, crew = await _begin(hut, clock)
    clock.ahead_ms = by_ms
    await hut.restart()
    await _check(hut, run_id, slow, crew)
    await hut.close()
