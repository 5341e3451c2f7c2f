"""The ready tasks of a run, by pool and in the order of the plan."""

import heapq


class ReadyQueue:
    """Tasks wait here until a worker takes them; what is taken may be stale, so look at its status."""

    def __init__(self) -> None:
        self._pools: dict[str, list[tuple[int, str]]] = {}

    def put(self, pool: str, place: int, key: str) -> None:
        """A task is ready; `place` is that in the plan."""
        heapq.heappush(self._pools.setdefault(pool, []), (place, key))

    def pools(self) -> list[str]:
        """The pools that tasks wait for, that of the first task of the plan first."""
        waiting = [(queue[0], pool) for pool, queue in self._pools.items() if queue]
        return [pool for _, pool in sorted(waiting)]

    def take(self, pool: str) -> str | None:
        """The next task of a pool."""
        queue = self._pools.get(pool)
        return heapq.heappop(queue)[1] if queue else None
