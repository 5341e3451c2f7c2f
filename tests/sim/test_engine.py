"""Tasks, clocks and processes of the simulator keep their promises."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from arco.core.runtime import Runtime
from arco.core.tasks import Task

from .future import Cancelled
from .process import Ambush, Incarnation, Process
from .world import HOUR_MS, World

Body = Callable[[Runtime], Awaitable[None]]


def play(body: Body, seed: int = 1) -> World:
    """Run one process to its end."""
    world = World(seed)

    async def main(incarnation: Incarnation) -> None:
        await body(incarnation.runtime)

    Process(world, "p", main).start()
    world.run()
    world.close()
    return world


def done(body: Body, seed: int = 1) -> None:
    assert play(body, seed).failures == []


def test_the_order_of_ready_tasks_differs_from_seed_to_seed() -> None:
    orders = set()
    for seed in range(20):
        order: list[int] = []

        async def body(runtime: Runtime, order: list[int] = order) -> None:
            async def note(number: int) -> None:
                order.append(number)

            await runtime.tasks.gather(*(note(n) for n in range(3)))

        done(body, seed)
        orders.add(tuple(order))
    assert len(orders) == 6


def test_a_draw_from_one_stream_does_not_shift_another() -> None:
    one, other = World(7), World(7)
    one.stream("a").random()
    assert one.stream("b").random() == other.stream("b").random()
    assert World(8).stream("b").random() != World(7).stream("b").random()


def test_gather_waits_for_all_and_raises_the_first_error_in_order() -> None:
    ended = []

    async def body(runtime: Runtime) -> None:
        async def fail(ms: float, error: Exception) -> None:
            await runtime.clock.sleep(ms)
            ended.append(ms)
            raise error

        with pytest.raises(KeyError):
            await runtime.tasks.gather(fail(50, KeyError()), fail(10, ValueError()))

    done(body)
    assert ended == [10, 50]


def test_a_deadline_stops_the_work_and_an_outer_one_the_inner() -> None:
    stopped = []

    async def body(runtime: Runtime) -> None:
        async def work(name: str) -> None:
            try:
                await runtime.clock.sleep(1_000)
            finally:
                stopped.append((name, runtime.clock.elapsed_ms() - started))

        started = runtime.clock.elapsed_ms()
        with pytest.raises(TimeoutError):
            await runtime.tasks.deadline(10, work("alone"))
        with pytest.raises(TimeoutError):
            await runtime.tasks.deadline(20, runtime.tasks.deadline(500, work("inner")))
        await runtime.tasks.deadline(2_000, runtime.tasks.turn())
        await runtime.clock.sleep(5_000)  # no deadline of the past strikes here

    done(body)
    assert [name for name, _ in stopped] == ["alone", "inner"]
    assert [ms for _, ms in stopped] == pytest.approx([10, 30])


def test_no_except_exception_swallows_a_cancellation() -> None:
    async def body(runtime: Runtime) -> None:
        async def stubborn() -> str:
            try:
                await runtime.clock.sleep(1_000)
            except Exception:
                return "swallowed"
            return "slept"

        task = runtime.tasks.spawn(stubborn())
        await runtime.clock.sleep(1)
        task.cancel()
        with pytest.raises(Cancelled):
            await task.wait()

    done(body)


def test_a_cancelled_waiter_does_not_take_the_task_with_it() -> None:
    async def body(runtime: Runtime) -> None:
        async def work() -> int:
            await runtime.clock.sleep(100)
            return 5

        task: Task[int] = runtime.tasks.spawn(work())
        with pytest.raises(TimeoutError):
            await runtime.tasks.deadline(10, task.wait())
        assert not task.done()
        assert [await task.wait(), await task.wait()] == [5, 5]

    done(body)


def test_an_event_wakes_every_waiter_and_can_be_lowered() -> None:
    async def body(runtime: Runtime) -> None:
        event = runtime.tasks.event()
        waiters = [runtime.tasks.spawn(event.wait()) for _ in range(3)]
        await runtime.clock.sleep(1)
        event.set()
        for waiter in waiters:
            await waiter.wait()
        event.clear()
        assert not event.is_set()
        with pytest.raises(TimeoutError):
            await runtime.tasks.deadline(10, event.wait())

    done(body)


@pytest.mark.parametrize("seed", range(20))
def test_a_turn_lets_everything_that_is_ready_run_once(seed: int) -> None:
    async def body(runtime: Runtime) -> None:
        ran: list[int] = []

        async def note(number: int) -> None:
            ran.append(number)

        for number in range(5):
            runtime.tasks.spawn(note(number))
        await runtime.tasks.turn()
        assert sorted(ran) == [0, 1, 2, 3, 4]

    done(body, seed)


def test_a_blocking_call_runs_and_its_result_comes_back() -> None:
    async def body(runtime: Runtime) -> None:
        assert await runtime.tasks.in_thread(lambda: 3) == 3

    done(body)


def test_an_error_that_escapes_is_a_failure_with_its_traceback() -> None:
    async def body(runtime: Runtime) -> None:
        raise LookupError("not caught by any task")

    [failure] = play(body).failures
    assert "not caught by any task" in failure
    assert "Traceback" in failure


def test_an_error_of_a_task_that_is_never_awaited_is_a_failure_too() -> None:
    async def body(runtime: Runtime) -> None:
        async def fail(text: str) -> None:
            raise LookupError(text)

        watched = runtime.tasks.spawn(fail("seen"))
        runtime.tasks.spawn(fail("unseen"))
        with pytest.raises(LookupError):
            await watched.wait()

    [failure] = play(body).failures
    assert "unseen" in failure


def test_awaiting_asyncio_is_a_failure() -> None:
    async def body(runtime: Runtime) -> None:
        await asyncio.sleep(0)

    [failure] = play(body).failures
    assert "none of the simulator's futures" in failure


def test_a_run_that_never_moves_on_is_a_failure() -> None:
    async def body(runtime: Runtime) -> None:
        while True:
            await runtime.tasks.turn()

    [failure] = play(body).failures
    assert "livelock" in failure


def test_a_crash_stops_every_task_and_runs_no_finally() -> None:
    world, ran = World(1), []

    async def main(incarnation: Incarnation) -> None:
        async def work(name: str) -> None:
            try:
                while True:
                    await incarnation.runtime.clock.sleep(10)
                    ran.append((world.now_ms, name))
            finally:
                ran.append((world.now_ms, "finally"))

        incarnation.runtime.tasks.spawn(work("a"))
        await work("b")

    process = Process(world, "p", main)
    process.start()
    world.after(35, process.crash)
    world.end_ms = HOUR_MS
    world.run()
    assert len(ran) == 6
    assert max(ran)[0] == 30
    world.close()
    assert ran[6:] == [(35, "finally")] * 2


def test_a_coroutine_that_awaits_while_it_is_closed_makes_no_sound() -> None:
    world = World(1)

    async def main(incarnation: Incarnation) -> None:
        try:
            await incarnation.runtime.clock.sleep(1_000)
        finally:
            await incarnation.runtime.clock.sleep(1)
            incarnation.runtime.tasks.spawn(incarnation.runtime.clock.sleep(1))

    process = Process(world, "p", main)
    process.start()
    world.after(5, process.crash)
    world.run()
    world.close()
    assert world.failures == []


def test_a_restart_begins_with_an_empty_memory_and_other_randomness() -> None:
    world, incarnations = World(1), []

    async def main(incarnation: Incarnation) -> None:
        incarnations.append((incarnation.name, incarnation.runtime.rng.random()))
        await incarnation.runtime.clock.sleep(HOUR_MS)

    process = Process(world, "p", main)
    process.start()
    world.after(10, process.crash)
    world.after(20, process.restart)
    world.after(30, process.restart)  # it is alive: nothing happens
    world.run()
    world.close()
    assert [name for name, _ in incarnations] == ["p.0", "p.1"]
    assert incarnations[0][1] != incarnations[1][1]
    assert (world.tally["crashes"], world.tally["restarts"]) == (1, 1)


def test_a_suspended_process_runs_nothing_and_knows_how_long_it_slept() -> None:
    world, seen = World(1), []

    async def main(incarnation: Incarnation) -> None:
        clock = incarnation.runtime.clock
        started = clock.elapsed_ms()
        for _ in range(3):
            await clock.sleep(100)
            seen.append((world.now_ms, clock.elapsed_ms() - started))

    process = Process(world, "p", main)
    process.start()
    world.after(150, lambda: process.suspend(HOUR_MS))
    world.run()
    world.close()
    woken = 150 + HOUR_MS
    assert [at_ms for at_ms, _ in seen] == [100, woken, woken + 100]
    assert [elapsed_ms for _, elapsed_ms in seen] == pytest.approx([100, woken, woken + 100])


def test_a_shorter_sleep_inside_a_longer_one_does_not_end_it() -> None:
    world, seen = World(1), []

    async def main(incarnation: Incarnation) -> None:
        await incarnation.runtime.clock.sleep(100)
        seen.append(world.now_ms)

    process = Process(world, "p", main)
    process.start()
    world.after(10, lambda: process.suspend(1_000))
    world.after(20, lambda: process.stall(50))
    world.run()
    world.close()
    assert seen == [1_010]


def test_the_wall_clock_jumps_within_its_bound_and_elapsed_time_does_not() -> None:
    world, seen = World(1), []

    async def main(incarnation: Incarnation) -> None:
        clock = incarnation.runtime.clock
        wall, elapsed = clock.now_ms(), clock.elapsed_ms()
        await clock.sleep(100)
        seen.append((clock.now_ms() - wall, clock.elapsed_ms() - elapsed))

    process = Process(world, "p", main)
    process.start()
    world.after(50, lambda: process.jump(-60_000))
    world.run()
    world.close()
    [(wall_ms, elapsed_ms)] = seen
    assert wall_ms == pytest.approx(100 - 60_000, abs=1)
    assert elapsed_ms == pytest.approx(100)
    process.jump(10 * HOUR_MS)
    assert process.wall.offset_ms < HOUR_MS


def test_an_ambush_strikes_between_two_steps_of_one_moment() -> None:
    world, steps = World(1), []

    async def main(incarnation: Incarnation) -> None:
        for number in range(5):
            steps.append(number)
            await incarnation.runtime.tasks.turn()

    process = Process(world, "p", main)
    process.start()
    assert process.incarnation is not None
    process.incarnation.ambush(Ambush(3, process.crash))
    world.run()
    world.close()
    assert steps == [0, 1, 2]
