"""Work beside a block ends with the block, and repeated work goes on after errors, which are reported."""

import asyncio
from functools import partial

import pytest

from arco.core.background import background, repeat
from arco.core.errors import Unavailable
from arco.core.runtime import Runtime
from tests.clocks import HandClock, hand_runtime


async def test_background_work_runs_beside_a_block_and_is_cancelled_at_its_end(
    runtime: Runtime,
) -> None:
    steps: list[str] = []

    async def work() -> None:
        steps.append("started")
        try:
            await runtime.tasks.event().wait()
        finally:
            steps.append("cancelled")

    async with background(runtime.tasks, work) as task:
        await asyncio.sleep(0)
        assert (steps, task.done()) == (["started"], False)
    await asyncio.sleep(0)
    assert (steps, task.done()) == (["started", "cancelled"], True)


async def test_an_error_of_background_work_is_reported_or_kept_for_the_waiter(
    runtime: Runtime,
) -> None:
    async def fail() -> None:
        raise Unavailable("no answer")

    errors: list[Exception] = []
    async with background(runtime.tasks, fail, errors.append) as task:
        await task.wait()
    assert [str(each) for each in errors] == ["no answer"]
    async with background(runtime.tasks, fail) as task:
        with pytest.raises(Unavailable):
            await task.wait()


async def test_work_that_is_cancelled_before_it_starts_leaves_no_coroutine(
    runtime: Runtime,
) -> None:
    async def work() -> None:
        raise AssertionError

    async with background(runtime.tasks, work, lambda _problem: None) as task:
        pass
    with pytest.raises(asyncio.CancelledError):
        await task.wait()


async def test_repeated_work_pauses_after_each_call_and_goes_on_after_an_error() -> None:
    clock, calls, errors = HandClock(), list[int](), list[Exception]()
    runtime = hand_runtime(clock)

    async def work() -> None:
        calls.append(len(calls))
        if len(calls) == 2:
            raise Unavailable("no answer")

    repeating = partial(repeat, runtime, work, every_ms=500, retry_ms=20, failed=errors.append)
    async with background(runtime.tasks, repeating):
        for _ in range(20):
            await asyncio.sleep(0)
    assert clock.slept_ms[:3] == [500, 20, 500]
    assert len(calls) > 3
    assert [str(each) for each in errors] == ["no answer"]
