"""A task: one coroutine, driven step by step, that can be interrupted at the await where it stands."""

import contextlib
import warnings
from collections.abc import Coroutine
from typing import Any, Generic, Protocol, TypeVar

from .future import Cancelled, Future, Interrupt
from .world import Owner, World

T = TypeVar("T")

_STUBBORN = 10  # how often a coroutine may await in its `finally` before it is left alone


class Host(Owner, Protocol):
    """Where tasks run: an incarnation of a process."""

    world: World
    running: "SimTask[Any] | None"

    def stepped(self) -> None:
        """A task has just gone as far as its next await."""

    def ended(self, task: "SimTask[Any]") -> None:
        """A task has ended."""


class SimTask(Generic[T]):
    """A running coroutine, as `arco.core.tasks.Task`."""

    def __init__(self, host: Host, work: Coroutine[Any, Any, T], name: str) -> None:
        self.owner = host
        self.name = name
        self.over: Future[None] = Future()
        self.error: BaseException | None = None
        self.watched = False  # whether a task waits for it and will see its error
        self._work = work
        self._value: T
        self._waiting: Future[Any] | None = None
        self._interrupts: list[Interrupt] = []
        self._cancelled = False
        self._queued = False
        self.wake()

    def cancel(self) -> None:
        self._cancelled = True
        self.interrupt(Cancelled())

    def done(self) -> bool:
        return self.over.done

    async def wait(self) -> T:
        self.watched = True
        await self.over
        try:
            return self.result()
        finally:
            del self  # as in `result`

    def result(self) -> T:
        """The value of a task that is over, or its error."""
        self.watched = True
        if self.error is not None:
            try:
                raise self.error
            finally:
                del self  # the error's traceback holds this frame: no cycle for the collector
        return self._value

    def interrupt(self, interrupt: Interrupt) -> None:
        """Throw something into the task as soon as it is its turn."""
        if self.over.done:
            return
        self._interrupts.append(interrupt)
        if self._waiting is not None:
            self._waiting.drop(self)
            self._waiting = None
        if self.owner.running is not self:
            self.wake()

    def wake(self) -> None:
        """Queue the next step."""
        if not self._queued and not self.over.done:
            self._queued = True
            world = self.owner.world
            world.push(world.now_ms, self)

    def fire(self) -> None:
        host = self.owner
        world = host.world
        world.trace.step(world.now_ms, self.name)
        self._queued, self._waiting = False, None
        interrupt = self._next_interrupt() if self._interrupts else None
        host.running = self
        try:
            future = self._work.send(None) if interrupt is None else self._work.throw(interrupt)
        except StopIteration as stop:
            self._value = stop.value
            self._end(None)
        except (Exception, Interrupt) as error:
            # From the coroutine on: this frame would hold the task that holds the error.
            inner = error.__traceback__.tb_next if error.__traceback__ else None
            self._end(error.with_traceback(inner))
        else:
            self._wait_for(future)
        finally:
            host.running = None
        host.stepped()

    def close(self) -> None:
        """Let the coroutine go without a sound, after its process has ended."""
        for _ in range(_STUBBORN):
            with contextlib.suppress(BaseException), warnings.catch_warnings():
                # A coroutine that it was given and has not begun yet is let go with it.
                warnings.simplefilter("ignore", RuntimeWarning)
                self._work.close()
                return

    def was_cancelled(self) -> bool:
        """Whether it ended because it was cancelled."""
        return self._cancelled and isinstance(self.error, Cancelled)

    def _wait_for(self, future: object) -> None:
        if not isinstance(future, Future):
            self.close()
            self._end(TypeError(f"awaited {future!r}, which is none of the simulator's futures"))
            return
        if self._interrupts:
            self.wake()
        else:
            self._waiting = future
            future.add(self)

    def _next_interrupt(self) -> Interrupt | None:
        while self._interrupts:
            interrupt = self._interrupts.pop(0)
            if interrupt.wanted:
                return interrupt
        return None

    def _end(self, error: BaseException | None) -> None:
        self.error = error
        self.over.resolve(None)
        self.owner.ended(self)
