"""The concurrency seam (law 12): spawn, gather, events, deadlines and threads as an argument.

Protocol code awaits only the store, the clock and these, so that asyncio and the simulator can each
drive it. This module and `clock` alone import asyncio.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from arco.core.eager import Begun

T = TypeVar("T")
Result_co = TypeVar("Result_co", covariant=True)

# Enough threads that durable creates overlap their fsyncs instead of queueing for a thread.
_THREADS = 64


class Event(Protocol):
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
    """Something that runs beside its spawner."""

    def cancel(self) -> None:
        """Ask it to stop at its next await."""

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

    def event(self) -> Event:
        """A new flag, lowered."""

    async def deadline(self, ms: float, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, or `TimeoutError` and `work` cancelled after `ms`."""

    async def turn(self) -> None:
        """Let every task that is ready run once."""

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Run a blocking call without holding up other tasks."""


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

    def event(self) -> Event:
        return _AsyncioEvent()

    async def deadline(self, ms: float, work: Coroutine[Any, Any, T]) -> T:
        begun = Begun(work)
        if begun.is_done:
            return begun.result
        async with asyncio.timeout(ms / 1000):
            return await begun.rest()

    async def turn(self) -> None:
        await asyncio.sleep(0)

    async def in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


class _AsyncioEvent:
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
    """Results and errors in order. Tasks are made only once something really has to wait."""
    outcomes: list[T | BaseException] = []
    for number, each in enumerate(work):
        try:
            begun = Begun(each)
        except (Exception, asyncio.CancelledError) as problem:
            outcomes.append(problem)
            continue
        if begun.is_done:
            outcomes.append(begun.result)
            continue
        others = asyncio.gather(*work[number + 1 :], return_exceptions=True)
        last: T | BaseException = await _last(begun, others)
        return [*outcomes, last, *await others]
    return outcomes


async def _last(begun: Begun[T], others: "asyncio.Future[Any]") -> T | BaseException:
    """The outcome of what is carried on in this very task; if that is cancelled, so are the others."""
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
    """Run `work` on a fresh asyncio loop: the way in for a process's main function.

    The result goes around asyncio, which writes its main task down as text when it gives the handling of
    Ctrl-C back: for the state of a hundred thousand partitions that takes longer than to read it.
    """
    found: list[T] = []

    async def kept() -> None:
        found.append(await work)

    asyncio.run(kept())
    return found[0]


def iterate(items: AsyncIterator[T]) -> Iterator[T]:
    """The items one by one, for a caller that is not async: the loop stands still between them."""
    found: list[T] = []

    async def step() -> bool:
        async for item in items:
            found.append(item)
            return True
        return False

    with asyncio.Runner() as runner:
        while runner.run(step()):
            yield found.pop()
