"""A worker over a real book of runs: in the same process, and over HTTP."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arco.core.errors import Invalid, NotFound, Unavailable, Unknown
from arco.flow.run.port import Coordinator
from arco.flow.run.wire import (
    Beat,
    CheckOutcome,
    Completed,
    Leased,
    LeasedTask,
    Offer,
    Outcome,
    OutputDone,
    Progress,
    Pulse,
    TaskStatus,
)
from arco.flow.work.attempt import Pace
from arco.flow.work.code import FixedCode
from arco.flow.work.worker import Worker
from arco.server.embedded import embedded_server
from tests.flow.work.scripted import (
    DONE,
    LONG_S,
    PROJECT,
    STOPPED,
    Doing,
    Scripted,
    book_here,
    carried_out,
    disk,
    hurried,
    plan,
    spoken_to,
    statuses,
    submitted,
    until,
    until_true,
    usual,
)

NO_UTF8 = os.fsdecode(b"caf\xe9.csv")  # a file's name, as the system gives it
NOT_PYTHONS: Any = np.float32(0.5)

both_ways = pytest.mark.parametrize("way", ["here", "http"])


@both_ways
async def test_tasks_are_carried_out_in_their_order_as_many_at_once_as_there_are_slots(
    way: str,
) -> None:
    meet = threading.Barrier(2, timeout=60)

    def both(_: Doing) -> Outcome:
        meet.wait()  # passes only if two are at work at once
        return DONE

    executor, runtime = Scripted(b=both, c=both), usual()
    planned = plan("a", "b", "c", "d", b=["a"], c=["a"], d=["b", "c"])
    async with book_here(way, runtime) as book:
        view = await carried_out(book, runtime, executor, planned)
    assert view.status == "SUCCESS"
    keys = [key for key, _ in executor.begun]
    assert (keys[0], {*keys[1:3]}, keys[3]) == ("a", {"b", "c"}, "d")
    assert executor.most_at_once == 2


@both_ways
async def test_a_task_that_fails_is_tried_again_and_those_behind_it_are_skipped(way: str) -> None:
    def second(doing: Doing) -> Outcome:
        failed = Outcome(status=TaskStatus.FAILED, error="not yet")
        return DONE if doing.task.attempt == 2 else failed

    def never(_: Doing) -> Outcome:
        raise ValueError("it breaks")

    executor, runtime = Scripted(a=second, b=never), usual()
    planned = plan("a", "b", "c", "d", retries=1, c=["a"], d=["b"])
    async with book_here(way, runtime) as book:
        view = await carried_out(book, runtime, executor, planned)
    ends = {"a": "SUCCESS", "b": "FAILED", "c": "SUCCESS", "d": "SKIPPED"}
    assert (view.status, statuses(view)) == ("FAILED", ends)
    failed = next(task for task in view.changed if task.key == "b")
    assert failed.attempt == 2
    assert "the executor has failed: ValueError: it breaks" in (failed.error or "")


@both_ways
async def test_what_a_task_says_while_it_works_can_be_seen(way: str) -> None:
    go_on = threading.Event()

    def speak(doing: Doing) -> Outcome:
        doing.watch.log("first line")
        doing.watch.progress(Progress(phase="writing", done=0.5, rows=7))
        assert go_on.wait(60)
        doing.watch.log("last line")
        return DONE

    executor, runtime = Scripted(a=speak), usual()
    async with book_here(way, runtime) as book:
        run_id = await submitted(book, plan("a"))
        pace = Pace(beat_ms=100)
        worker = Worker(
            book, executor, runtime, name="w", slots=1, code=FixedCode(PROJECT), pace=pace
        )
        working = asyncio.create_task(worker.run(run_id))
        view = await book.look(run_id)
        while not view.changed or view.changed[0].progress is None:
            view = await book.look(run_id, since=view.number, wait_ms=10_000)
        go_on.set()
        await working
    assert view.changed[0].progress == Progress(phase="writing", done=0.5, rows=7)


async def test_the_log_of_an_attempt_that_failed_ends_with_why(tmp_path: Path) -> None:
    why = "ValueError: it breaks\nin your code, the innermost line last:\n  pipelines/a.py:3 in a"

    def fail(doing: Doing) -> Outcome:
        doing.watch.log("so far so good")
        return Outcome(status=TaskStatus.FAILED, error=why)

    executor, runtime = Scripted(a=fail), usual()
    async with book_here("here", runtime, disk(tmp_path)) as book:
        await carried_out(book, runtime, executor, plan("a"))
    logs = [path.read_text() for path in tmp_path.rglob("logs/**/*") if path.is_file()]
    assert logs == [f"so far so good\n{why}\n"]


@both_ways
async def test_whatever_a_task_says_its_worker_goes_on(way: str) -> None:
    check = CheckOutcome(
        table="t", table_id="id", name="x" * 256, type="CUSTOM_SQL", severity="error", passed=True
    )

    def fail(_: Doing) -> Outcome:
        return Outcome(status=TaskStatus.FAILED, error=f"FileNotFoundError: {NO_UTF8}")

    def count(_: Doing) -> Outcome:
        return Outcome(status=TaskStatus.SUCCESS, metrics={"mean": NOT_PYTHONS})

    def judge(_: Doing) -> Outcome:
        return Outcome(status=TaskStatus.SUCCESS, checks=(check,))

    executor, runtime = Scripted(a=fail, b=count, c=judge), usual()
    async with book_here(way, runtime) as book:
        view = await carried_out(book, runtime, executor, plan("a", "b", "c", "d"), slots=1)
    assert statuses(view) == {"a": "FAILED", "b": "SUCCESS", "c": "SUCCESS", "d": "SUCCESS"}
    assert executor.begun == [("a", 1), ("b", 1), ("c", 1), ("d", 1)]
    errors = [task.error for task in view.changed if task.key == "a"]
    assert errors == ["FileNotFoundError: caf\\udce9.csv"]


@both_ways
async def test_a_task_that_says_odd_things_lives_on(way: str) -> None:
    go_on = threading.Event()

    def speak(doing: Doing) -> Outcome:
        doing.watch.log(f"reading {NO_UTF8}")
        doing.watch.progress(Progress(phase="writing", done=NOT_PYTHONS))
        assert go_on.wait(LONG_S)
        return STOPPED if doing.watch.is_stopped() else DONE

    executor, runtime = Scripted(a=speak), usual()
    async with book_here(way, runtime) as book:
        run_id = await submitted(book, plan("a"))
        there, pace = Away(book), Pace(beat_ms=100)
        worker = Worker(
            there, executor, runtime, name="w", slots=1, code=FixedCode(PROJECT), pace=pace
        )
        working = asyncio.create_task(worker.run(run_id))
        await until_true(lambda: there.beats > 2)
        go_on.set()
        await working
        view = await book.look(run_id)
    assert (view.status, executor.begun) == ("SUCCESS", [("a", 1)])


@both_ways
async def test_a_cancelled_run_wakes_a_task_that_sleeps(way: str) -> None:
    executor, runtime = Scripted(a=Doing.sleep), usual()
    async with book_here(way, runtime) as book:
        run_id = await submitted(book, plan("a", "b", b=["a"]))
        worker = Worker(book, executor, runtime, name="w", slots=2, code=FixedCode(PROJECT))
        working = asyncio.create_task(worker.run(run_id))
        await until(executor.has_begun)
        await book.cancel(run_id)
        await working
        view = await book.look(run_id)
    assert executor.interrupted == ["a"]
    assert (view.status, statuses(view)) == ("CANCELLED", {"a": "CANCELLED", "b": "CANCELLED"})


async def test_a_task_that_takes_too_long_is_stopped_and_has_failed() -> None:
    executor, runtime = Scripted(a=Doing.sleep), usual()
    async with book_here("here", runtime) as book:
        view = await carried_out(book, runtime, executor, plan("a", timeout_ms=50))
    assert executor.interrupted == ["a"]
    assert (view.status, view.changed[0].error) == ("FAILED", "timed out after 0.05s")


async def test_what_was_done_in_spite_of_being_stopped_is_done() -> None:
    def just_in_time(doing: Doing) -> Outcome:
        doing.sleep()
        return DONE

    executor, runtime = Scripted(a=just_in_time), usual()
    async with book_here("here", runtime) as book:
        view = await carried_out(book, runtime, executor, plan("a", timeout_ms=50))
    assert (executor.interrupted, view.status) == (["a"], "SUCCESS")


async def test_a_task_that_will_not_stop_does_not_hold_up_others() -> None:
    let_go, is_told = threading.Event(), list[bool]()

    def stubborn(doing: Doing) -> Outcome:
        assert let_go.wait(60)
        is_told.append(doing.watch.is_stopped())
        return STOPPED

    executor, runtime = Scripted(a=stubborn), usual()
    async with book_here("here", runtime) as book:
        run_id = await submitted(book, plan("a", "b", timeout_ms=50))
        pace, gone = Pace(grace_ms=50), list[LeasedTask]()
        worker = Worker(
            book,
            executor,
            runtime,
            name="w",
            slots=1,
            code=FixedCode(PROJECT),
            pace=pace,
            gave_up=gone.append,
        )
        await worker.run(run_id)
        view = await book.look(run_id)
        assert is_told == []  # its thread is still there
        let_go.set()
        await until_true(lambda: is_told == [True])
    assert statuses(view) == {"a": "FAILED", "b": "SUCCESS"}
    assert [each.key for each in gone] == ["a"]


async def test_what_a_task_publishes_after_it_was_given_up_is_told() -> None:
    let_go, stop = threading.Event(), usual().tasks.event()
    output = OutputDone(table="default.a.b", table_id="id", partition="", version=7)

    def publish(_: Doing) -> Outcome:
        assert let_go.wait(LONG_S)  # inside of the call that publishes
        return Outcome(status=TaskStatus.SUCCESS, outputs=(output,))

    executor, runtime = Scripted(a=publish), usual()
    async with book_here("here", runtime) as book:
        run_id = await submitted(book, plan("a", timeout_ms=50))
        way, pace = Away(book), Pace(grace_ms=50)
        worker = Worker(
            way, executor, runtime, name="w", slots=1, code=FixedCode(PROJECT), pace=pace
        )
        working = asyncio.create_task(worker.run(until=stop))
        await until_true(lambda: len(way.completed) == 1)
        given_up = await book.look(run_id)
        let_go.set()
        await until_true(lambda: len(way.completed) == 2)
        view = await book.look(run_id)
        stop.set()
        await working
    assert (statuses(given_up), statuses(view)) == ({"a": "FAILED"}, {"a": "SUCCESS"})


@both_ways
async def test_a_worker_that_is_stopped_gives_back_what_it_has_begun(way: str) -> None:
    executor, others, runtime = Scripted(a=Doing.sleep), Scripted(), usual()
    async with book_here(way, runtime) as book:
        run_id = await submitted(book, plan("a"))  # which uses up no retry: there is none
        stop = runtime.tasks.event()
        first = Worker(book, executor, runtime, name="first", slots=1, code=FixedCode(PROJECT))
        working = asyncio.create_task(first.run(until=stop))
        await until(executor.has_begun)
        stop.set()
        await working
        second = Worker(book, others, runtime, name="second", slots=1, code=FixedCode(PROJECT))
        await second.run(run_id)
        view = await book.look(run_id)
    assert executor.interrupted == ["a"]
    assert (view.status, others.begun) == ("SUCCESS", [("a", 2)])


async def test_a_worker_that_is_stopped_gives_back_even_what_will_not_stop() -> None:
    let_go = threading.Event()

    def stubborn(_: Doing) -> Outcome:
        assert let_go.wait(60)
        return STOPPED

    executor, others, runtime = Scripted(a=stubborn), Scripted(), usual()
    async with book_here("here", runtime) as book:
        run_id = await submitted(book, plan("a"))
        stop, pace = runtime.tasks.event(), Pace(grace_ms=60_000, farewell_ms=50)
        first = Worker(
            book, executor, runtime, name="1", slots=1, code=FixedCode(PROJECT), pace=pace
        )
        working = asyncio.create_task(first.run(until=stop))
        await until(executor.has_begun)
        await asyncio.sleep(0.3)  # it is looked after by then
        stop.set()
        await asyncio.wait_for(working, 30)
        await Worker(book, others, runtime, name="2", slots=1, code=FixedCode(PROJECT)).run(run_id)
        view = await book.look(run_id)
        let_go.set()
    assert (view.status, others.begun) == ("SUCCESS", [("a", 2)])


async def test_what_is_to_stop_stops_sooner_if_its_worker_is_in_a_hurry() -> None:
    let_go = threading.Event()

    def stubborn(_: Doing) -> Outcome:
        assert let_go.wait(60)
        return STOPPED

    executor, runtime = Scripted(a=stubborn), usual()
    async with book_here("here", runtime) as book:
        run_id = await submitted(book, plan("a"))
        pace = Pace(grace_ms=60_000, farewell_ms=50)
        worker = Worker(
            book, executor, runtime, name="w", slots=1, code=FixedCode(PROJECT), pace=pace
        )
        working = asyncio.create_task(worker.run(run_id))
        await until(executor.has_begun)
        await book.cancel(run_id)
        worker.hurry()
        await asyncio.wait_for(working, 30)
        view = await book.look(run_id)
        let_go.set()
    assert (view.status, statuses(view)) == ("CANCELLED", {"a": "CANCELLED"})


async def test_a_worker_that_waits_for_nothing_can_be_stopped() -> None:
    executor, runtime = Scripted(), usual()
    async with book_here("http", runtime) as book:
        stop = runtime.tasks.event()
        worker = Worker(book, executor, runtime, name="w", slots=1, code=FixedCode(PROJECT))
        working = asyncio.create_task(worker.run(until=stop))
        await asyncio.sleep(0.05)
        stop.set()
        await working


async def test_once_means_until_there_is_nothing_to_do() -> None:
    executor, runtime = Scripted(), usual()
    async with book_here("here", runtime) as book:
        first = await submitted(book, plan("a", "b", b=["a"]))
        second = await submitted(book, plan("c"))
        worker = Worker(book, executor, runtime, name="w", slots=1, code=FixedCode(PROJECT))
        await worker.run(once=True)
        found = [statuses(await book.look(each)) for each in (first, second)]
    assert found == [{"a": "SUCCESS", "b": "SUCCESS"}, {"c": "SUCCESS"}]


async def test_a_run_that_nobody_knows_is_an_error() -> None:
    runtime = usual()
    async with book_here("http", runtime) as book:
        worker = Worker(book, Scripted(), runtime, name="w", slots=1, code=FixedCode(PROJECT))
        with pytest.raises(NotFound):
            await worker.run("01K0B3Q4N5RJ6Y7Z8A9BCDEFGH")
        run_id = await submitted(book, plan("a"))
        other = Worker(book, Scripted(), runtime, name="w", slots=1, code=FixedCode("another"))
        with pytest.raises(Invalid, match="project"):
            await other.run(run_id)


class Away:
    """The way to a book: it may be cut, and answers to completions may be lost on it."""

    def __init__(self, book: Coordinator, lost_answers: int = 0) -> None:
        self._book = book
        self._lost_answers = lost_answers
        self.is_cut = False
        self.beats = 0
        self.completed: list[Completed] = []

    def _pass(self) -> None:
        if self.is_cut:
            raise Unavailable("the way is cut")

    async def lease(self, offer: Offer) -> Leased:
        self._pass()
        return await self._book.lease(offer)

    async def beat(self, beat: Beat) -> Pulse:
        self._pass()
        pulse = await self._book.beat(beat)
        self.beats += 1
        return pulse

    async def watch(
        self, worker: str, attempt_ids: tuple[str, ...], wait_ms: int = 0
    ) -> tuple[str, ...]:
        self._pass()
        return await self._book.watch(worker, attempt_ids, wait_ms)

    async def complete(self, completed: Completed) -> None:
        self._pass()
        await self._book.complete(completed)
        self.completed.append(completed)
        if self._lost_answers:
            self._lost_answers -= 1
            raise Unknown("the answer was lost")


async def test_a_worker_without_a_way_to_the_book_gives_up_its_task_when_its_lease_is_over() -> (
    None
):
    runtime = hurried()

    def first_waits(doing: Doing) -> Outcome:
        return doing.sleep() if doing.task.attempt == 1 else DONE

    executor = Scripted(a=first_waits)
    async with book_here("here", runtime) as book:
        run_id = await submitted(book, plan("a"))
        way = Away(book)
        worker = Worker(way, executor, runtime, name="w", slots=1, code=FixedCode(PROJECT))
        working = asyncio.create_task(worker.run(run_id))
        await until(executor.has_begun)
        way.is_cut = True
        await until_true(lambda: executor.interrupted == ["a"])
        way.is_cut = False
        await working
        view = await book.look(run_id)
    assert (view.status, executor.begun) == ("SUCCESS", [("a", 1), ("a", 2)])
    assert [each.outcome.status for each in way.completed] == [
        "SUCCESS"
    ]  # of what was lost: nothing


async def test_the_end_of_a_task_is_told_until_it_was_heard() -> None:
    executor, runtime = Scripted(), usual()
    async with book_here("here", runtime) as book:
        run_id = await submitted(book, plan("a"))
        way = Away(book, lost_answers=2)
        worker = Worker(way, executor, runtime, name="w", slots=1, code=FixedCode(PROJECT))
        await worker.run(run_id)
        view = await book.look(run_id)
    assert (view.status, executor.begun) == ("SUCCESS", [("a", 1)])
    assert len({each.attempt_id for each in way.completed}) == 1
    assert len(way.completed) == 3


async def test_a_task_outlives_the_restart_of_the_arco_that_gave_it_out(tmp_path: Path) -> None:
    go_on, runtime = threading.Event(), usual()

    def wait(doing: Doing) -> Outcome:
        assert go_on.wait(60)
        return STOPPED if doing.watch.is_stopped() else DONE

    executor, troubles = Scripted(a=wait), list[str]()
    async with embedded_server(disk(tmp_path), runtime) as here:
        async with spoken_to("http", here, runtime) as book:
            run_id = await submitted(book, plan("a", "b", b=["a"]))
        port = int(here.url.rpartition(":")[2])
        way = spoken_to("http", here, runtime)
        book = await way.__aenter__()
        worker = Worker(
            book,
            executor,
            runtime,
            name="w",
            slots=2,
            code=FixedCode(PROJECT),
            tell=lambda problem: troubles.append(problem.code),
        )
        working = asyncio.create_task(worker.run(run_id))
        await until(executor.has_begun)
    await until_true(lambda: bool(troubles))  # it has met nobody there
    async with embedded_server(disk(tmp_path), runtime, port=port):
        go_on.set()
        await working
        view = await book.look(run_id)
        await way.__aexit__(None, None, None)
    assert (view.status, executor.begun) == ("SUCCESS", [("a", 1), ("b", 1)])
