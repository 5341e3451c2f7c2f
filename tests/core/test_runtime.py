"""Runtimes whose threads are apart."""

import asyncio
from threading import Event

from arco.core.runtime import system_runtime, with_own_threads


async def test_tasks_that_block_their_own_threads_delay_no_other() -> None:
    runtime = system_runtime()
    blocking, over = with_own_threads(runtime, 2), Event()
    stuck = [asyncio.create_task(blocking.tasks.in_thread(over.wait)) for _ in range(100)]
    try:
        async with asyncio.timeout(10):
            assert await runtime.tasks.in_thread(lambda: "served") == "served"
    finally:
        over.set()
        await asyncio.gather(*stuck)
