"""Carrying a run out in this process: a worker of our own, a screen, and an ear for signals."""

import os
import socket
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, Self

from arco.cli.flow.bell import INTERRUPTED, listening
from arco.cli.flow.screen.board import Board
from arco.cli.flow.screen.words import first_line
from arco.core.errors import ArcoError, Unavailable, Unknown
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime, with_own_threads
from arco.core.tasks import Event, Task
from arco.flow.coordinator.messages import AttemptOutcome, LeasedTask, Progress, RunView, TaskStatus
from arco.flow.coordinator.ports import Coordinator
from arco.flow.worker.ports import AttemptContext, Executor, ProjectCode
from arco.flow.worker.stdout import capture_stdout
from arco.flow.worker.worker import Worker
from arco.server.full_store import FullStoreWatch

_LOOK_MS = 5_000
_AGAIN_MS = 1_000
_FAREWELL_MS = 20_000
_LEAVE_MS = 3_000  # once somebody has interrupted it, for anything that is still to be waited for
_SPARE_THREADS = 8  # for those that never end though they were told to
_GIVEN_UP = "GIVEN_UP"
_BAD = frozenset({TaskStatus.FAILED, TaskStatus.BLOCKED})


class Shown(Protocol):
    """Where a run is watched."""

    def take(self, view: RunView) -> None:
        """What is new."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_failure: object) -> None: ...


@dataclass(frozen=True)
class Crew:
    """Who carries tasks out, and how many at once."""

    executor: Executor
    name: str
    slots: int
    code: ProjectCode


def worker_name(runtime: Runtime) -> str:
    """A name that no other worker has, and that says where it is."""
    return f"{socket.gethostname()}:{os.getpid()}:{new_ulid(runtime)[-6:]}"


def working_runtime(runtime: Runtime, slots: int) -> Runtime:
    """For a worker with so many slots: a thread for each task, and one to interrupt it.

    Tasks wait for answers of an Arco that may be in this very process and needs threads for its store.
    """
    return with_own_threads(runtime, 2 * slots + _SPARE_THREADS)


class Carrying:
    """One run, from its first task to its end."""

    def __init__(
        self, coordinator: Coordinator, runtime: Runtime, board: Board, say: Callable[[str], None]
    ) -> None:
        self._coordinator = self._room = FullStoreWatch(coordinator, runtime)
        self._runtime = runtime
        self._board = board
        self._say = say
        self._troubled = False

    async def carry_out(self, begun: RunView, crew: Crew, screen: Shown) -> int | None:
        """Work until the run is over; the exit code if somebody interrupted it."""
        news = self._runtime.tasks.event()
        worker = Worker(
            self._coordinator,
            _Overheard(crew.executor, self._board),
            working_runtime(self._runtime, crew.slots),
            name=crew.name,
            slots=crew.slots,
            code=crew.code,
            on_unavailable=self._trouble,
        )
        with listening() as bell, screen, capture_stdout():  # the screen may have one of its own
            screen.take(begun)
            spawn = self._runtime.tasks.spawn
            working = spawn(_then(worker.run(begun.run_id), news))
            following = spawn(_then(self._follow(begun.run_id, screen), news))
            ticking = spawn(bell.wait(self._runtime, news))
            noticing = spawn(_then(self._room.given_up.wait(), news))
            try:
                await news.wait()
                if self._room.problem is not None:
                    raise self._room.problem
                if not following.done() and bell.rung:
                    await self._leave(begun.run_id, worker, following)
                else:
                    if working.done():
                        await working.wait()  # its error is ours
                    await following.wait()
                    await self._runtime.tasks.deadline(_FAREWELL_MS, working.wait())
            except TimeoutError:
                worker.stop()
            finally:
                for each in (ticking, noticing, following, working):
                    each.cancel()
        return INTERRUPTED if bell.rung else None

    async def _follow(self, run_id: str, screen: Shown) -> None:
        number = 0
        while not self._board.is_over:
            try:
                view = await self._coordinator.get_run(run_id, since=number, wait_ms=_LOOK_MS)
            except (Unavailable, Unknown) as problem:
                if self._room.problem is not None:
                    raise
                self._trouble(problem)
                await self._runtime.clock.sleep(_AGAIN_MS)
                continue
            number = view.number
            screen.take(view)

    async def _leave(self, run_id: str, worker: Worker, following: Task[None]) -> None:
        """Cancel the run and see its end, but wait for neither for long: `TimeoutError` then."""
        self._say("Cancelling the run; once more Ctrl-C leaves at once.")
        deadline = self._runtime.tasks.deadline
        try:
            await deadline(_LEAVE_MS, self._coordinator.cancel(run_id, by="user:interrupt"))
        except (TimeoutError, ArcoError) as problem:
            self._say(
                f"It could not be cancelled ({type(problem).__name__}): {problem}".rstrip(": ")
            )
            raise TimeoutError from problem
        worker.hurry()
        await deadline(_LEAVE_MS, following.wait())

    def _trouble(self, problem: ArcoError) -> None:
        if not self._troubled:
            self._troubled = True
            self._say(f"Waiting for Arco: {problem}")


async def _then(work: Coroutine[Any, Any, None], news: Event) -> None:
    """`work`, and word that it is over, however it ended."""
    try:
        await work
    finally:
        news.set()


class _Overheard:
    """An executor of this very process: how far its tasks are is seen at once, not with the next beat."""

    def __init__(self, executor: Executor, board: Board) -> None:
        self._executor = executor
        self._board = board

    def execute(self, task: LeasedTask, watch: AttemptContext) -> AttemptOutcome:
        return self._executor.execute(task, _Tapped(watch, self._board, task.key))

    def interrupt(self, attempt_id: str) -> None:
        self._executor.interrupt(attempt_id)

    def close(self) -> None:
        self._executor.close()


class Counted:
    """An executor whose attempts are told of in a line each, and counted."""

    def __init__(self, executor: Executor, say: Callable[[str], None]) -> None:
        self._executor = executor
        self._say = say
        self.counts: dict[str, int] = {}
        self.left: set[tuple[str, str]] = set()  # tasks whose last attempt failed or was blocked
        self._at_work: dict[str, LeasedTask] = {}  # by attempt

    def execute(self, task: LeasedTask, watch: AttemptContext) -> AttemptOutcome:
        self._say(f"{'start':<9} {task.key}")
        self._at_work[task.attempt_id] = task
        outcome = self._executor.execute(task, watch)
        if self._at_work.pop(task.attempt_id, None) is not None:
            self._count(outcome.status)
        if outcome.status in _BAD:
            self.left.add((task.run_id, task.key))
        elif outcome.status is TaskStatus.SUCCESS:
            self.left.discard((task.run_id, task.key))
        self._say(f"{outcome.status.lower():<9} {task.key}  {first_line(outcome.error)}".rstrip())
        return outcome

    def interrupt(self, attempt_id: str) -> None:
        if (task := self._at_work.get(attempt_id)) is not None:
            self._say(f"{'stopping':<9} {task.key}")
        self._executor.interrupt(attempt_id)

    def on_abandoned(self, task: LeasedTask) -> None:
        """It was told to stop and does not; nobody waits for it."""
        if self._at_work.pop(task.attempt_id, None) is not None:
            self._count(_GIVEN_UP)
            self._say(f"{'given up':<9} {task.key}  its code does not stop, and goes on alone")

    def close(self) -> None:
        self._executor.close()

    def _count(self, end: str) -> None:
        self.counts[end] = self.counts.get(end, 0) + 1


@dataclass(frozen=True)
class _Tapped:
    watch: AttemptContext
    board: Board
    key: str

    def log(self, line: str) -> None:
        self.watch.log(line)

    def progress(self, progress: Progress) -> None:
        self.board.heard[self.key] = progress
        self.watch.progress(progress)

    def is_stopped(self) -> bool:
        return self.watch.is_stopped()


def is_watched() -> bool:
    """Whether a person looks at a terminal; the logs of a build are none."""
    return sys.stdout.isatty() and not os.environ.get("CI")
