"""The ready tasks of a run, by pool and maker, in the order of the plan."""

import heapq
from collections.abc import Container, Iterator


class ReadyQueue:
    """Tasks wait here until a worker takes them; what is taken may be stale, so look at its status."""

    def __init__(self) -> None:
        # By pool and then by maker: a worker has the code of some makers and not of others.
        self._pools: dict[str, dict[str, list[tuple[int, str]]]] = {}

    def put(self, pool: str, maker: str, place: int, key: str) -> None:
        """A task is ready; `place` is that in the plan."""
        heapq.heappush(self._pools.setdefault(pool, {}).setdefault(maker, []), (place, key))

    def pools(self) -> list[str]:
        """The pools that tasks wait for, that of the first task of the plan first."""
        waiting = [(min(each[0] for each in by.values()), pool) for pool, by in self._pools.items()]
        return [pool for _, pool in sorted(waiting)]

    def take(self, pool: str, makers: Container[str]) -> str | None:
        """The next task of a pool among those of some makers."""
        by_maker = self._pools.get(pool, {})
        heads = ((each[0], maker) for maker, each in by_maker.items() if maker in makers)
        first = min(heads, default=None)
        if first is None:
            return None
        maker = first[1]
        key = heapq.heappop(by_maker[maker])[1]
        if not by_maker[maker]:
            del by_maker[maker]
        if not by_maker:
            del self._pools[pool]
        return key

    def waiting(self) -> Iterator[tuple[str, str, Iterator[str]]]:
        """The pool, the maker and the tasks that wait."""
        for pool, by_maker in sorted(self._pools.items()):
            for maker, queue in sorted(by_maker.items()):
                yield pool, maker, (key for _, key in queue)
