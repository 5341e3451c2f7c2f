import asyncio
import threading
import time

import pytest

from arco.core.runtime import Runtime
from arco.core.tasks import run


async def test_gather_returns_results_in_order_and_runs_all_at_once(runtime: Runtime) -> None:
    arrived = 0

    async def meet(n: int) -> int:
        nonlocal arrived
        arrived += 1
        while arrived < 3:
            await runtime.tasks.turn()
        return n

    assert await runtime.tasks.gather(meet(1), meet(2), meet(3)) == [1, 2, 3]


async def test_gather_waits_for_all_before_it_raises_the_first_error(runtime: Runtime) -> None:
    ended = []

    async def fail(n: int, turns: int) -> None:
        for _ in range(turns):
            await runtime.tasks.turn()
        ended.append(n)
        raise ValueError(n)

    with pytest.raises(ValueError) as raised:
        await runtime.tasks.gather(fail(1, 5), fail(2, 1))
    assert raised.value.args == (1,)
    assert ended == [2, 1]


async def test_gather_needs_no_turn_of_the_loop_for_results_that_are_ready(
    runtime: Runtime,
) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await runtime.tasks.turn()
            turns += 1

    async def return_at_once(n: int) -> int:
        return n

    counting = runtime.tasks.spawn(count())
    assert await runtime.tasks.gather(*(return_at_once(n) for n in range(100))) == list(range(100))
    assert await runtime.tasks.deadline(5_000, return_at_once(7)) == 7
    assert turns == 0
    counting.cancel()


async def test_gather_runs_what_is_behind_an_error_and_raises_it(runtime: Runtime) -> None:
    ended = []

    async def work(n: int, turns: int, problem: Exception | None = None) -> None:
        for _ in range(turns):
            await runtime.tasks.turn()
        ended.append(n)
        if problem is not None:
            raise problem

    with pytest.raises(KeyError):
        await runtime.tasks.gather(
            work(1, 0, KeyError()), work(2, 3, ValueError()), work(3, 1), work(4, 0, OSError())
        )
    assert sorted(ended) == [1, 2, 3, 4]


@pytest.mark.parametrize("swallows", [False, True])
async def test_a_gather_that_is_cancelled_cancels_all_and_waits_for_them(
    runtime: Runtime,
    swallows: bool,
) -> None:
    cleaned = []

    async def work(n: int) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await runtime.tasks.turn()
            cleaned.append(n)
            if not swallows:
                raise

    with pytest.raises(TimeoutError):
        await runtime.tasks.deadline(20, runtime.tasks.gather(work(1), work(2), work(3)))
    assert sorted(cleaned) == [1, 2, 3]


async def test_a_part_of_a_gather_that_was_cancelled_leaves_the_others_alone(
    runtime: Runtime,
) -> None:
    ended = []

    async def work() -> None:
        for _ in range(5):
            await runtime.tasks.turn()
        ended.append(True)

    broken = runtime.tasks.spawn(asyncio.Event().wait())
    await runtime.tasks.turn()
    broken.cancel()
    with pytest.raises(asyncio.CancelledError):
        await runtime.tasks.gather(broken.wait(), work())
    assert ended == [True]


async def test_a_deadline_within_a_gather_ends_its_own_part(runtime: Runtime) -> None:
    async def times_out() -> str:
        try:
            await runtime.tasks.deadline(10, asyncio.sleep(10))
        except TimeoutError:
            return "late"
        return "in time"

    async def slow() -> str:
        await runtime.clock.sleep(40)
        return "slow"

    assert await runtime.tasks.gather(times_out(), slow(), times_out()) == ["late", "slow", "late"]


async def test_what_is_late_may_clean_up_before_it_ends(runtime: Runtime) -> None:
    cleaned = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                await runtime.tasks.turn()
            cleaned.append(True)

    with pytest.raises(TimeoutError):
        await runtime.tasks.deadline(20, work())
    assert cleaned == [True]


async def test_a_deadline_cancels_what_is_late_and_passes_on_what_is_not(runtime: Runtime) -> None:
    cancelled = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    with pytest.raises(TimeoutError):
        await runtime.tasks.deadline(20, forever())
    assert cancelled == [True]
    await runtime.tasks.deadline(5_000, runtime.tasks.turn())


async def test_a_cancelled_waiter_leaves_the_task_to_the_others(runtime: Runtime) -> None:
    go = runtime.tasks.event()

    async def work() -> int:
        await go.wait()
        return 7

    task = runtime.tasks.spawn(work())
    with pytest.raises(TimeoutError):
        await runtime.tasks.deadline(10, task.wait())
    assert not task.done()
    go.set()
    assert (await task.wait(), await task.wait()) == (7, 7)
    assert task.done()


async def test_a_cancelled_task_ends(runtime: Runtime) -> None:
    task = runtime.tasks.spawn(runtime.tasks.event().wait())
    await runtime.tasks.turn()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task.wait()
    assert task.done()


async def test_an_event_wakes_every_waiter_and_can_be_lowered(runtime: Runtime) -> None:
    event = runtime.tasks.event()
    waiters = [runtime.tasks.spawn(event.wait()) for _ in range(3)]
    await runtime.tasks.turn()
    assert not any(waiter.done() for waiter in waiters)
    event.set()
    for waiter in waiters:
        await waiter.wait()
    assert event.is_set()
    event.clear()
    assert not event.is_set()


async def test_a_blocking_call_runs_beside_the_loop(runtime: Runtime) -> None:
    released = threading.Event()
    call = runtime.tasks.spawn(runtime.tasks.in_thread(lambda: released.wait(10)))
    await runtime.tasks.turn()
    released.set()
    assert await call.wait() is True


async def test_forty_blocking_calls_overlap(runtime: Runtime) -> None:
    together = threading.Barrier(40, timeout=10)
    calls = (runtime.tasks.in_thread(together.wait) for _ in range(40))
    ranks = await runtime.tasks.gather(*calls)
    assert sorted(ranks) == list(range(40))


async def test_a_sleep_lasts_at_least_as_long_as_asked(runtime: Runtime) -> None:
    started, wall = runtime.clock.elapsed_ms(), runtime.clock.now_ms()
    await runtime.clock.sleep(30)
    assert runtime.clock.elapsed_ms() - started >= 29
    assert abs(runtime.clock.now_ms() - wall) < 60_000
    assert abs(runtime.clock.now_ms() - time.time() * 1000) < 60_000


def test_what_comes_out_of_a_run_is_never_written_as_text() -> None:
    written: list[str] = []

    class Large:
        def __repr__(self) -> str:
            written.append("for asyncio, which tells of its main task")
            return "Large()"

    async def work() -> Large:
        return Large()

    assert isinstance(run(work()), Large)
    assert written == []


def test_what_is_raised_in_a_run_comes_out_of_it() -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run(work())
