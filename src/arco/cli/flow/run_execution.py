"""Carries out a run in this process: a worker, the progress on the screen, and signals."""

import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn, Protocol, Self

from arco.cli.flow.run_progress import RunProgress
from arco.cli.flow.text_format import first_line
from arco.core.errors import ArcoError, Unavailable, Unknown
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime, with_own_threads
from arco.core.tasks import AsyncEvent, Task
from arco.flow.coordinator.messages import AttemptOutcome, LeasedTask, Progress, RunView, TaskStatus
from arco.flow.coordinator.ports import Coordinator
from arco.flow.worker.ports import AttemptContext, Executor, ProjectCode
from arco.flow.worker.stdout import capture_stdout
from arco.flow.worker.worker import Worker
from arco.server.full_store import FullStoreWatch

INTERRUPTED = 130

_LOOK_MS = 5_000
_RETRY_MS = 1_000
_WORKER_END_MS = 20_000
_LEAVE_MS = 3_000  # for each thing to wait for, once the user has interrupted it
_SPARE_THREADS = 8  # for tasks that do not end although they were stopped
_TICK_MS = 100
_SHOW_CURSOR = "\x1b[?25h\n"  # a live display hides it
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_GIVEN_UP = "GIVEN_UP"
_UNSUCCESSFUL = frozenset({TaskStatus.FAILED, TaskStatus.BLOCKED})


class ProgressView(Protocol):
    """Shows the progress of a run."""

    def update(self, view: RunView) -> None:
        """Show what has changed."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_failure: object) -> None: ...


@dataclass(frozen=True)
class LocalWorker:
    """The worker of this process: its executor, name and code, and how many tasks it runs at once."""

    executor: Executor
    name: str
    slots: int
    code: ProjectCode


def worker_name(runtime: Runtime) -> str:
    """A unique name with the machine and the process."""
    return f"{socket.gethostname()}:{os.getpid()}:{new_ulid(runtime)[-6:]}"


def worker_runtime(runtime: Runtime, slots: int) -> Runtime:
    """The runtime of a worker: a thread for each task, and one to interrupt it.

    Tasks wait for an Arco that may be in the same process and needs threads for its store.
    """
    return with_own_threads(runtime, 2 * slots + _SPARE_THREADS)


class RunExecution:
    """One run, from its first task to its end."""

    def __init__(
        self,
        coordinator: Coordinator,
        runtime: Runtime,
        progress: RunProgress,
        print_line: Callable[[str], None],
    ) -> None:
        self._coordinator = self._store_watch = FullStoreWatch(coordinator, runtime)
        self._runtime = runtime
        self._progress = progress
        self._print = print_line
        self._is_waiting = False

    async def execute(
        self, submitted: RunView, local: LocalWorker, screen: ProgressView
    ) -> int | None:
        """Work until the run is over; the exit code if the user interrupted it."""
        changed = self._runtime.tasks.event()
        worker = Worker(
            self._coordinator,
            _ProgressExecutor(local.executor, self._progress),
            worker_runtime(self._runtime, local.slots),
            name=local.name,
            slots=local.slots,
            code=local.code,
            on_unavailable=self._report_problem,
        )
        with catch_signals() as signals, screen, capture_stdout():  # the screen may replace stdout
            screen.update(submitted)
            spawn = self._runtime.tasks.spawn
            working = spawn(_notify(worker.run(submitted.run_id), changed))
            following = spawn(_notify(self._follow(submitted.run_id, screen), changed))
            interrupting = spawn(signals.wait(self._runtime, changed))
            giving_up = spawn(_notify(self._store_watch.given_up.wait(), changed))
            try:
                await changed.wait()
                if self._store_watch.problem is not None:
                    raise self._store_watch.problem
                if not following.done() and signals.count:
                    await self._leave(submitted.run_id, worker, following)
                else:
                    if working.done():
                        await working.wait()  # raise its error
                    await following.wait()
                    await self._runtime.tasks.deadline(_WORKER_END_MS, working.wait())
            except TimeoutError:
                worker.stop()
            finally:
                for each in (interrupting, giving_up, following, working):
                    each.cancel()
        return INTERRUPTED if signals.count else None

    async def _follow(self, run_id: str, screen: ProgressView) -> None:
        number = 0
        while not self._progress.is_over:
            try:
                view = await self._coordinator.get_run(run_id, since=number, wait_ms=_LOOK_MS)
            except (Unavailable, Unknown) as problem:
                if self._store_watch.problem is not None:
                    raise
                self._report_problem(problem)
                await self._runtime.clock.sleep(_RETRY_MS)
                continue
            number = view.number
            screen.update(view)

    async def _leave(self, run_id: str, worker: Worker, following: Task[None]) -> None:
        """Cancel the run and wait for its end; `TimeoutError` if either takes long."""
        self._print("Cancelling the run; press Ctrl-C again to exit immediately.")
        deadline = self._runtime.tasks.deadline
        try:
            await deadline(_LEAVE_MS, self._coordinator.cancel(run_id, by="user:interrupt"))
        except (TimeoutError, ArcoError) as problem:
            self._print(
                f"It could not be cancelled ({type(problem).__name__}): {problem}".rstrip(": ")
            )
            raise TimeoutError from problem
        worker.hurry()
        await deadline(_LEAVE_MS, following.wait())

    def _report_problem(self, problem: ArcoError) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._print(f"Waiting for Arco: {problem}")


async def _notify(work: Coroutine[Any, Any, None], changed: AsyncEvent) -> None:
    """Do `work`, and set `changed` however it ends."""
    try:
        await work
    finally:
        changed.set()


class _ProgressExecutor:
    """An executor whose progress is shown at once, not with the next heartbeat."""

    def __init__(self, executor: Executor, progress: RunProgress) -> None:
        self._executor = executor
        self._progress = progress

    def execute(self, task: LeasedTask, watch: AttemptContext) -> AttemptOutcome:
        return self._executor.execute(task, _ProgressWatch(watch, self._progress, task.key))

    def interrupt(self, attempt_id: str) -> None:
        self._executor.interrupt(attempt_id)

    def close(self) -> None:
        self._executor.close()


class CountingExecutor:
    """An executor that prints a line when an attempt starts and ends, and counts the outcomes."""

    def __init__(self, executor: Executor, print_line: Callable[[str], None]) -> None:
        self._executor = executor
        self._print = print_line
        self.counts: dict[str, int] = {}
        self.unsuccessful: set[tuple[str, str]] = (
            set()
        )  # tasks whose last attempt failed or was blocked
        self._running: dict[str, LeasedTask] = {}  # by attempt

    def execute(self, task: LeasedTask, watch: AttemptContext) -> AttemptOutcome:
        self._print(f"{'start':<9} {task.key}")
        self._running[task.attempt_id] = task
        outcome = self._executor.execute(task, watch)
        if self._running.pop(task.attempt_id, None) is not None:
            self._count(outcome.status)
        if outcome.status in _UNSUCCESSFUL:
            self.unsuccessful.add((task.run_id, task.key))
        elif outcome.status is TaskStatus.SUCCESS:
            self.unsuccessful.discard((task.run_id, task.key))
        self._print(f"{outcome.status.lower():<9} {task.key}  {first_line(outcome.error)}".rstrip())
        return outcome

    def interrupt(self, attempt_id: str) -> None:
        if (task := self._running.get(attempt_id)) is not None:
            self._print(f"{'stopping':<9} {task.key}")
        self._executor.interrupt(attempt_id)

    def on_abandoned(self, task: LeasedTask) -> None:
        """Count an attempt that does not stop; the worker does not wait for it."""
        if self._running.pop(task.attempt_id, None) is not None:
            self._count(_GIVEN_UP)
            self._print(f"{'given up':<9} {task.key}  its code does not stop, and goes on alone")

    def close(self) -> None:
        self._executor.close()

    def _count(self, end: str) -> None:
        self.counts[end] = self.counts.get(end, 0) + 1


@dataclass(frozen=True)
class _ProgressWatch:
    watch: AttemptContext
    run: RunProgress
    key: str

    def log(self, line: str) -> None:
        self.watch.log(line)

    def progress(self, progress: Progress) -> None:
        self.run.local[self.key] = progress
        self.watch.progress(progress)

    def is_stopped(self) -> bool:
        return self.watch.is_stopped()


def is_interactive() -> bool:
    """Whether stdout is a terminal, and not the log of a build."""
    return sys.stdout.isatty() and not os.environ.get("CI")


class StopSignals:
    """Counts SIGINT and SIGTERM: the first asks for an end, the second ends the process at once."""

    def __init__(self) -> None:
        self.count = 0

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """Count a signal."""
        self.count += 1
        if self.count > 1:
            exit_at_once()

    async def wait(self, runtime: Runtime, changed: AsyncEvent) -> None:
        """Set `changed` after the first signal, which by itself does not wake a waiting loop."""
        while not self.count:
            await runtime.clock.sleep(_TICK_MS)
        changed.set()


def exit_at_once() -> NoReturn:
    """End the process, whatever it does: what is durable stays, and Spark ends with its parent."""
    with suppress(Exception):
        if sys.stdout.isatty():
            sys.stdout.write(_SHOW_CURSOR)
        sys.stdout.flush()
    os._exit(INTERRUPTED)


@contextmanager
def catch_signals() -> Iterator[StopSignals]:
    """Count signals while the block runs; in a thread, which gets none, nothing is counted."""
    signals = StopSignals()
    before = []
    with suppress(ValueError):
        before = [(each, signal.signal(each, signals.handle)) for each in _SIGNALS]
    try:
        yield signals
    finally:
        for number, handler in before:
            signal.signal(number, handler)
