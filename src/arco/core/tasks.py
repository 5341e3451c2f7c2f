"""Concurrency as an argument (law 12): spawn, gather, events, deadlines and threads.

Protocol code awaits only the store, the clock and these, so that asyncio and the simulator can each
drive it. This module and `clock` alone import asyncio.
"""

import asyncio
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

import uvloop

T = TypeVar("T")
Result_co = TypeVar("Result_co", covariant=True)

# Enough threads that durable creates overlap their fsyncs instead of queueing for a thread.
_THREADS = 64


class AsyncEvent(Protocol):
    """A flag that tasks wait for."""

    def set(self) -> None:
        """Raise the flag and wake every waiter."""

    def clear(self) -> None:
        """Lower the flag."""

    def is_set(self) -> bool:
        """Whether the flag is up."""

    async def wait(self) -> None:
        """Return as soon as the flag is up."""


class Task(Protocol[Result_co]):
    """Work that runs beside the task that spawned it."""

    def cancel(self) -> None:
        """Cancel it at its next await."""

    def done(self) -> bool:
        """Whether it has ended."""

    async def wait(self) -> Result_co:
        """Its result, or its error. Waiting twice is fine."""


class Tasks(Protocol):
    """Concurrency as an argument."""

    def spawn(self, work: Coroutine[Any, Any, T]) -> Task[T]:
        """Run `work` beside the caller."""

    async def gather(self, *work: Coroutine[Any, Any, T]) -> list[T]:
        """Run all at once, wait for all, return results in order, or raise the first error."""

    def event(self) -> AsyncEvent:
        """A new flag, lowered."""

    async def deadline(self, ms: float, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, or `TimeoutError` and `work` cancelled after `ms`."""

    async def turn(self) -> None:
        """Let every task that is ready run once."""

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Run a blocking call without holding up other tasks."""


class _Begun(Generic[T]):
    """A coroutine after its first step: done, or waiting.

    Most awaits of the protocols do not wait: a small file of the local disk, a value in memory. A task or
    a timer for each of them would cost more than the work itself.
    """

    __slots__ = ("_waits", "_work", "is_done", "result")

    result: T

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        try:
            self._waits = work.send(None)
            self.is_done = False
        except StopIteration as done:
            self.result = done.value
            self.is_done = True

    async def rest(self) -> T:
        """Run it to its end. Awaited once, by the task that started it."""
        return await _rest(self._work, self._waits)


@types.coroutine
def _rest(work: Coroutine[Any, Any, T], waits: object) -> Generator[Any, Any, T]:
    try:
        yield waits
    except BaseException as problem:
        try:
            waits = work.throw(problem)
        except StopIteration as done:
            result: T = done.value
        else:
            result = yield from _rest(work, waits)
    else:
        result = yield from work
    return result


class _AsyncioTask(Generic[T]):
    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._task = asyncio.ensure_future(work)

    def cancel(self) -> None:
        self._task.cancel()

    def done(self) -> bool:
        return self._task.done()

    async def wait(self) -> T:
        # A waiter that is cancelled must not take the task with it: others may wait too.
        return await asyncio.shield(self._task)


class AsyncioTasks:
    """Concurrency on the running asyncio loop, with a pool of threads for blocking calls."""

    def __init__(self, threads: int = _THREADS) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="arco")

    def spawn(self, work: Coroutine[Any, Any, T]) -> Task[T]:
        return _AsyncioTask(work)

    async def gather(self, *work: Coroutine[Any, Any, T]) -> list[T]:
        return [_result(each) for each in await _outcomes(work)]

    def event(self) -> AsyncEvent:
        return AsyncioEvent()

    async def deadline(self, ms: float, work: Coroutine[Any, Any, T]) -> T:
        begun = _Begun(work)
        if begun.is_done:
            return begun.result
        async with asyncio.timeout(ms / 1000):
            return await begun.rest()

    async def turn(self) -> None:
        await asyncio.sleep(0)

    async def in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


class AsyncioEvent:
    """A flag on the running asyncio loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        await self._event.wait()


async def _outcomes(work: Sequence[Coroutine[Any, Any, T]]) -> list[T | BaseException]:
    """Results and errors in order. Tasks are created only when a coroutine really waits."""
    outcomes: list[T | BaseException] = []
    for number, each in enumerate(work):
        try:
            begun = _Begun(each)
        except (Exception, asyncio.CancelledError) as problem:
            outcomes.append(problem)
            continue
        if begun.is_done:
            outcomes.append(begun.result)
            continue
        others = asyncio.gather(*work[number + 1 :], return_exceptions=True)
        last_outcome: T | BaseException = await _last_outcome(begun, others)
        return [*outcomes, last_outcome, *await others]
    return outcomes


async def _last_outcome(begun: _Begun[T], others: "asyncio.Future[Any]") -> T | BaseException:
    """The outcome of the coroutine that runs in this task; if the task is cancelled, so are the others."""
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    outcome: T | BaseException
    try:
        outcome = await begun.rest()
    except (Exception, asyncio.CancelledError) as problem:
        outcome = problem
    if task is not None and task.cancelling() > before:
        others.cancel()
        with suppress(asyncio.CancelledError):
            await others
        raise asyncio.CancelledError
    return outcome


def _result(outcome: T | BaseException) -> T:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` on a new asyncio loop: for the main function of a process.

    The result does not go through asyncio, which formats its main task as text when it restores the
    handling of Ctrl-C: for the state of 100,000 partitions that takes longer than to read it.
    """
    results: list[T] = []

    async def main() -> None:
        results.append(await work)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    return results[0]


def iterate(items: AsyncIterator[T]) -> Iterator[T]:
    """The items one by one, for a caller that is not async: the loop is stopped between them."""
    buffered: list[T] = []

    async def step() -> bool:
        async for item in items:
            buffered.append(item)
            return True
        return False

    with asyncio.Runner() as runner:
        while runner.run(step()):
            yield buffered.pop()
