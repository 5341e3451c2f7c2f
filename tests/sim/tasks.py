"""Concurrency inside a simulated process: `arco.core.tasks.Tasks` on the world's queue."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from arco.core.tasks import AsyncEvent, Task

from .future import Expired, Future, Interrupt
from .task import Host, SimTask
from .world import Timer

T = TypeVar("T")

_THREAD_MS = 2.0  # the longest wait for a free thread


class SimEvent:
    """A flag that tasks wait for."""

    def __init__(self) -> None:
        self._is_set = False
        self._raised: Future[None] = Future()

    def set(self) -> None:
        self._is_set = True
        self._raised.resolve(None)

    def clear(self) -> None:
        if self._is_set:
            self._is_set = False
            self._raised = Future()

    def is_set(self) -> bool:
        return self._is_set

    async def wait(self) -> None:
        await self._raised


class SimTasks:
    """The tasks of one incarnation of a process."""

    def __init__(self, host: Host, name: str) -> None:
        self._host = host
        self._name = name
        self._count = 0
        self._threads = host.world.stream(f"{name} threads")
        self._live: dict[int, SimTask[Any]] = {}

    def start(self, work: Coroutine[Any, Any, T]) -> SimTask[T]:
        """Run `work` beside whatever runs, unless the process has ended."""
        self._count += 1
        task = SimTask(self._host, work, f"{self._name}#{self._count}")
        self._live[id(task)] = task
        return task

    def spawn(self, work: Coroutine[Any, Any, T]) -> Task[T]:
        return self.start(work)

    async def gather(self, *work: Coroutine[Any, Any, T]) -> list[T]:
        children = [self.start(each) for each in work]
        for child in children:
            child.watched = True
        try:
            for child in children:
                await child.over
        except Interrupt:
            for child in children:
                child.cancel()
            for child in children:
                await child.over
            raise
        try:
            return [child.result() for child in children]
        finally:
            children.clear()  # the traceback of a child's error holds this frame

    def event(self) -> AsyncEvent:
        return SimEvent()

    async def deadline(self, ms: float, work: Coroutine[Any, Any, T]) -> T:
        # The work runs inside the caller's own task, so all it takes to stop it is to throw there.
        task = self._host.running
        if task is None:
            work.close()
            raise RuntimeError("a deadline is awaited inside a task")
        expired = Expired()
        timer = self._host.world.after(ms, lambda: task.interrupt(expired), self._host)
        try:
            return await work
        except Expired as caught:
            if caught is expired:
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()
            expired.wanted = False
            expired.__traceback__ = None  # which would hold this frame, and so the interrupt

    async def turn(self) -> None:
        passed: Future[None] = Future()
        self._host.world.push_turn(Timer(lambda: passed.resolve(None), self._host))
        await passed

    async def in_thread(self, call: Callable[[], T]) -> T:
        ready: Future[None] = Future()
        wait_ms = self._threads.random() * _THREAD_MS
        self._host.world.after(wait_ms, lambda: ready.resolve(None), self._host)
        await ready
        return call()

    def forget(self, task: SimTask[Any]) -> None:
        """A task is over."""
        self._live.pop(id(task), None)

    def close(self) -> None:
        """Let go of every task that has not ended."""
        while self._live:
            self._live.popitem()[1].close()
