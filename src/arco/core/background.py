"""Background work of a process: a task that runs for as long as a block, and work that is repeated.

Neither fails silently: an error goes to the caller's `failed`, which logs and counts it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Never

from arco.core.runtime import Runtime
from arco.core.tasks import Task, Tasks

Failed = Callable[[Exception], None]
Work = Callable[[], Coroutine[Any, Any, None]]


@asynccontextmanager
async def background(
    tasks: Tasks, work: Work, failed: Failed | None = None
) -> AsyncIterator[Task[None]]:
    """Run `work` beside a block, and cancel it at the end of the block wherever it is.

    An error that ends `work` goes to `failed`; without one it is raised from `Task.wait`.
    """
    task = tasks.spawn(work() if failed is None else _reporting(work, failed))
    try:
        yield task
    finally:
        task.cancel()


async def repeat(
    runtime: Runtime,
    work: Callable[[], Awaitable[None]],
    *,
    every_ms: float,
    failed: Failed,
    retry_ms: float | None = None,
) -> Never:
    """Call `work` for ever, `every_ms` after each end, or `retry_ms` after one that raised."""
    while True:
        pause_ms = every_ms
        try:
            await work()
        except Exception as problem:
            failed(problem)
            pause_ms = every_ms if retry_ms is None else retry_ms
        await runtime.clock.sleep(pause_ms)


async def _reporting(work: Work, failed: Failed) -> None:
    try:
        await work()
    except Exception as problem:
        failed(problem)
