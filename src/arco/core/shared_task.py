"""Work that concurrent callers share: the first caller starts it, and all wait for the same result."""

from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from arco.core.tasks import Task, Tasks

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SharedTasks(Generic[K, T]):
    """The tasks in progress, by key. A task that has ended is forgotten: results are cached elsewhere."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._running: dict[K, Task[T]] = {}

    async def run(self, key: K, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of `work`, or of the work that is in progress under the same key."""
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = self._tasks.spawn(self._once(key, work))
        return await task.wait()

    async def _once(self, key: K, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            return await work()
        finally:
            del self._running[key]
