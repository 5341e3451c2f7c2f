"""Pools: how many attempts may be under way at once. A slot is held by a lease, and ends with it."""

from collections import Counter

Pool = tuple[str, str]  # the project, and the name of the pool in it


class Pools:
    """The slots that are taken, of all pools of all projects."""

    def __init__(self) -> None:
        self._taken: Counter[Pool] = Counter()

    def has_room(self, pool: Pool, most: int | None) -> bool:
        """Whether another attempt may begin; a pool that nobody has bounded always has room."""
        return most is None or self._taken[pool] < most

    def take(self, pool: Pool) -> None:
        """An attempt begins, or is known to be under way."""
        self._taken[pool] += 1

    def give(self, pool: Pool) -> None:
        """It is over."""
        self._taken[pool] -= 1
        if not self._taken[pool]:
            del self._taken[pool]
