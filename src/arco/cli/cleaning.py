"""Garbage collection beside a server, for as long as that serves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from arco.compactor.janitor import Janitor
from arco.core.tasks import Tasks


@asynccontextmanager
async def cleaning(janitor: Janitor | None, tasks: Tasks) -> AsyncIterator[None]:
    """A block that a janitor cleans beside, if there is one."""
    if janitor is None:
        yield
        return
    running = tasks.spawn(janitor.run())
    try:
        yield
    finally:
        janitor.close()
        running.cancel()  # a collection may end anywhere; the next finds what it has left
