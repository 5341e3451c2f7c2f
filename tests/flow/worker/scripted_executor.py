"""A scripted executor, plans for it, and a coordinator to run them."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from arco.client.coordinator import HttpCoordinator
from arco.core.clock import SystemClock
from arco.core.runtime import Runtime, system_runtime
from arco.core.tasks import AsyncioTasks
from arco.flow.coordinator.messages import (
    AttemptOutcome,
    LeasedTask,
    RunRequest,
    RunView,
    TaskStatus,
)
from arco.flow.coordinator.ports import Coordinator, TaskCoordinator
from arco.flow.plan.plan import Maker, Plan, PlannedTask, Reason, RetryPolicy
from arco.flow.worker.ports import AttemptContext, Executor, StaticProjectCode
from arco.flow.worker.worker import Worker
from arco.server.embedded import EmbeddedServer, embedded_server
from arco.server.workspace_address import WorkspaceAddress

T = TypeVar("T")

PROJECT = "shop"
DONE = AttemptOutcome(status=TaskStatus.SUCCESS)
STOPPED = AttemptOutcome(status=TaskStatus.CANCELLED)
LONG_S = 60.0  # longer than any test takes


class ScriptedExecutor:
    """Executes tasks by functions, by their makers; others succeed at once."""

    def __init__(self, **does: Callable[["ScriptedTask"], AttemptOutcome]) -> None:
        self._does = does
        self._lock = threading.Lock()
        self._stops: dict[str, threading.Event] = {}
        self._at_once = 0
        self.begun: list[tuple[str, int]] = []  # keys and attempts
        self.interrupted: list[str] = []  # keys
        self.most_at_once = 0
        self.has_begun = threading.Event()

    def execute(self, task: LeasedTask, watch: AttemptContext) -> AttemptOutcome:
        with self._lock:
            self.begun.append((task.key, task.attempt))
            stop = self._stops[task.attempt_id] = threading.Event()
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        self.has_begun.set()
        try:
            doing = ScriptedTask(task, watch, stop)
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


class ScriptedTask:
    """A task as its function sees it."""

    def __init__(self, task: LeasedTask, watch: AttemptContext, stop: threading.Event) -> None:
        self.task = task
        self.watch = watch
        self.stop = stop

    def sleep(self) -> AttemptOutcome:
        """Wait until it is stopped."""
        assert self.stop.wait(LONG_S), "it was not stopped"
        return STOPPED


def _done(_: ScriptedTask) -> AttemptOutcome:
    return DONE


def plan(
    *tasks: str, retries: int = 0, timeout_ms: int | None = None, **deps: Sequence[str]
) -> Plan:
    """Tasks without tables, each of a maker of its name; `deps` says what each waits for."""
    retry_policy = RetryPolicy(times=retries, delay_ms=1)
    makers = tuple(
        Maker(name=each, kind="task", retry=retry_policy, timeout_ms=timeout_ms) for each in tasks
    )
    planned = tuple(
        PlannedTask(
            key=each, maker=each, partition="", reason=Reason.FORCED, deps=tuple(deps.get(each, ()))
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


async def submit_plan(coordinator: Coordinator, planned: Plan, worker: str = "") -> str:
    """A run of a plan."""
    wish = RunRequest(run_key=f"test:{planned.plan_id}", plan=planned, worker=worker)
    return (await coordinator.submit(wish)).run_id


def new_worker(
    coordinator: TaskCoordinator, executor: Executor, runtime: Runtime, **options: Any
) -> Worker:
    """A worker of the project, by default named "w" and with one slot."""
    defaults = {"name": "w", "slots": 1, "code": StaticProjectCode(PROJECT)}
    return Worker(coordinator, executor, runtime, **{**defaults, **options})


async def run_plan(
    coordinator: Coordinator,
    runtime: Runtime,
    executor: ScriptedExecutor,
    planned: Plan,
    slots: int = 2,
) -> RunView:
    """The end of a run that one worker has executed."""
    run_id = await submit_plan(coordinator, planned)
    worker = new_worker(coordinator, executor, runtime, slots=slots)
    await worker.run(run_id)
    return await coordinator.get_run(run_id)


async def until(event: threading.Event) -> None:
    """Wait for something that happens in a thread."""
    assert await asyncio.to_thread(event.wait, LONG_S)


async def until_true(asked: Callable[[], bool]) -> None:
    """Poll for something that happens in a thread."""
    async with asyncio.timeout(LONG_S):
        while not asked():  # noqa: ASYNC110 - it happens in a thread
            await asyncio.sleep(0.005)


@asynccontextmanager
async def open_coordinator(
    way: str, runtime: Runtime, place: WorkspaceAddress | None = None
) -> AsyncIterator[Coordinator]:
    """The coordinator of a new Arco, called directly or over HTTP."""
    where = place or WorkspaceAddress(store="memory://")
    async with (
        embedded_server(where, runtime) as server,
        connect(way, server, runtime) as coordinator,
    ):
        yield coordinator


@asynccontextmanager
async def connect(way: str, server: EmbeddedServer, runtime: Runtime) -> AsyncIterator[Coordinator]:
    if way == "here":
        yield server.coordinator
        return
    coordinator = HttpCoordinator(server.url, runtime)
    try:
        yield coordinator
    finally:
        await coordinator.close()


def disk_place(root: Path) -> WorkspaceAddress:
    """A place on disk that survives a restart."""
    return WorkspaceAddress(root=str(root), no_fsync=True)


class FastClock(SystemClock):
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


class FastTasks(AsyncioTasks):
    """Deadlines by the same clock."""

    def __init__(self, times: float) -> None:
        super().__init__()
        self._times = times

    async def deadline(self, ms: float, work: Coroutine[Any, Any, T]) -> T:
        return await super().deadline(ms / self._times, work)


def fast_runtime(times: float = 20) -> Runtime:
    return Runtime(FastClock(times), random.Random(7), FastTasks(times))


def usual() -> Runtime:
    return system_runtime()
