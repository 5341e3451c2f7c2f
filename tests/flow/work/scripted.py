"""An executor that does what a test says, plans of tasks for it, and an Arco to carry them out with."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from arco.cli.flow.here import Here, arco_here
from arco.cli.place import Place
from arco.client.coordinator import HttpCoordinator
from arco.core.clock import SystemClock
from arco.core.runtime import Runtime, system_runtime
from arco.core.tasks import AsyncioTasks
from arco.flow.plan.plan import Again, Maker, Plan, PlannedTask, Reason
from arco.flow.run.port import Coordinator
from arco.flow.run.wire import LeasedTask, Outcome, RunView, RunWish, TaskStatus
from arco.flow.work.code import FixedCode
from arco.flow.work.port import Watch
from arco.flow.work.worker import Worker

T = TypeVar("T")

PROJECT = "shop"
DONE = Outcome(status=TaskStatus.SUCCESS)
STOPPED = Outcome(status=TaskStatus.CANCELLED)
LONG_S = 60.0  # longer than any test takes: who waits so long was not woken


class Scripted:
    """Carries out tasks by functions, by their keys; others succeed at once."""

    def __init__(self, **does: Callable[["Doing"], Outcome]) -> None:
        self._does = does
        self._lock = threading.Lock()
        self._stops: dict[str, threading.Event] = {}
        self._at_once = 0
        self.begun: list[tuple[str, int]] = []  # keys and attempts
        self.interrupted: list[str] = []  # keys
        self.most_at_once = 0
        self.has_begun = threading.Event()

    def execute(self, task: LeasedTask, watch: Watch) -> Outcome:
        with self._lock:
            self.begun.append((task.key, task.attempt))
            stop = self._stops[task.attempt_id] = threading.Event()
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        self.has_begun.set()
        try:
            doing = Doing(task, watch, stop)
            return self._does.get(task.maker, _done)(doing)
        finally:
            with self._lock:
                self._at_once -= 1
                if stop.is_set():
                    self.interrupted.append(task.key)

    def interrupt(self, attempt_id: str) -> None:
        self._stops[attempt_id].set()

    def close(self) -> None:
        """Nothing was opened."""


class Doing:
    """A task as its function sees it."""

    def __init__(self, task: LeasedTask, watch: Watch, stop: threading.Event) -> None:
        self.task = task
        self.watch = watch
        self.stop = stop

    def sleep(self) -> Outcome:
        """Wait until somebody stops it."""
        assert self.stop.wait(LONG_S), "nobody has stopped it"
        return STOPPED


def _done(_: Doing) -> Outcome:
    return DONE


def plan(
    *tasks: str, retries: int = 0, timeout_ms: int | None = None, **deps: Sequence[str]
) -> Plan:
    """Tasks without tables, each of a maker of its name; `deps` says what each waits for."""
    again = Again(times=retries, delay_ms=1)
    makers = tuple(
        Maker(name=each, kind="task", retry=again, timeout_ms=timeout_ms) for each in tasks
    )
    planned = tuple(
        PlannedTask(
            key=each,
            maker=each,
            partition="",
            reason=Reason.FORCED,
            deps=tuple(deps.get(each, ())),
        )
        for each in tasks
    )
    return Plan(
        project=PROJECT,
        selection="",
        now_ms=1,
        state_number=0,
        makers=makers,
        tasks=planned,
        pools={"default": 64},
    )


def statuses(view: RunView) -> dict[str, str]:
    return {task.key: task.status.value for task in view.changed}


async def submitted(book: Coordinator, planned: Plan, worker: str = "") -> str:
    """A run of a plan."""
    wish = RunWish(run_key=f"test:{planned.plan_id}", plan=planned, worker=worker)
    return (await book.submit(wish)).run_id


async def carried_out(
    book: Coordinator, runtime: Runtime, executor: Scripted, planned: Plan, slots: int = 2
) -> RunView:
    """The end of a run that one worker has carried out."""
    run_id = await submitted(book, planned)
    worker = Worker(book, executor, runtime, name="w", slots=slots, code=FixedCode(PROJECT))
    await worker.run(run_id)
    return await book.look(run_id)


async def until(event: threading.Event) -> None:
    """Wait for something that happens in a thread."""
    assert await asyncio.to_thread(event.wait, LONG_S)


async def until_true(asked: Callable[[], bool]) -> None:
    """Wait for something that nobody tells of; no test rests on how long."""
    async with asyncio.timeout(LONG_S):
        while not asked():  # noqa: ASYNC110 - it happens in a thread
            await asyncio.sleep(0.005)


@asynccontextmanager
async def book_here(
    way: str, runtime: Runtime, place: Place | None = None
) -> AsyncIterator[Coordinator]:
    """The book of runs of an Arco of its own, spoken to directly or over HTTP."""
    where = place or Place(store="memory://")
    async with arco_here(where, runtime) as here, spoken_to(way, here, runtime) as book:
        yield book


@asynccontextmanager
async def spoken_to(way: str, here: Here, runtime: Runtime) -> AsyncIterator[Coordinator]:
    if way == "here":
        yield here.coordinator
        return
    book = HttpCoordinator(here.url, runtime)
    try:
        yield book
    finally:
        await book.close()


def disk(root: Path) -> Place:
    """A place that another Arco finds again."""
    return Place(root=str(root), no_fsync=True)


class HurriedClock(SystemClock):
    """The machine's clock, so many times as fast: leases end soon."""

    def __init__(self, times: float) -> None:
        self._times = times
        self._began_ms = super().now_ms()

    def now_ms(self) -> int:
        passed = super().now_ms() - self._began_ms
        return self._began_ms + round(passed * self._times)

    def elapsed_ms(self) -> float:
        return super().elapsed_ms() * self._times

    async def sleep(self, ms: float) -> None:
        await super().sleep(ms / self._times)


class HurriedTasks(AsyncioTasks):
    """Deadlines by the same clock."""

    def __init__(self, times: float) -> None:
        super().__init__()
        self._times = times

    async def deadline(self, ms: float, work: Coroutine[Any, Any, T]) -> T:
        return await super().deadline(ms / self._times, work)


def hurried(times: float = 20) -> Runtime:
    return Runtime(HurriedClock(times), random.Random(7), HurriedTasks(times))


def usual() -> Runtime:
    return system_runtime()
