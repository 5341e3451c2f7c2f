"""Turns: one at a time for each name, in the order of asking; nothing to wait for where nobody else is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from arco.core.tasks import Event, Tasks


class Turns:
    """Who is at what."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._busy: dict[str, list[Event]] = {}

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        """While this lasts nobody else has the turn of the same name."""
        waiting = self._busy.get(name)
        if waiting is None:
            self._busy[name] = []
        else:
            mine = self._tasks.event()
            waiting.append(mine)
            try:
                await mine.wait()
            except BaseException:
                if mine.is_set():
                    self._pass_on(name)
                else:
                    waiting.remove(mine)
                raise
        try:
            yield
        finally:
            self._pass_on(name)

    def _pass_on(self, name: str) -> None:
        behind = self._busy[name]
        if behind:
            behind.pop(0).set()
        else:
            del self._busy[name]
