"""Collection of a chain's old numbers: the floor first, then what lies below it (P6, P9).

A number is old when its successor has existed for the retention, by the writer's clock and by the
store's. The floor is raised before anything goes, and a crash in between leaves numbers that the
next collection finds: here, and only here, a listing is in order (law 6).
"""

from dataclasses import dataclass

from arco.core.errors import NotFound
from arco.storage.chain import Chain


@dataclass(frozen=True)
class Collected:
    """What one collection did."""

    floor: int
    deleted: int


async def collect(chain: Chain, *, ceiling: int | None = None) -> Collected:
    """Raise the floor to the youngest number whose predecessors are all old, and delete those.

    Numbers from `ceiling` up stay, however old: somebody has yet to read them.
    """
    head = await chain.head()
    floor = await chain.floor()
    highest = head.number if ceiling is None else min(head.number, ceiling)
    target = await _youngest_old(chain, floor, highest)
    if target > floor:
        await chain.raise_floor(target)
        floor = target
    deleted = 0
    async for meta in chain.store.list(f"{chain.path}/"):
        number = _number(meta.key.removeprefix(f"{chain.path}/"))
        if number is not None and number < floor:
            await chain.store.delete(meta.key)
            deleted += 1
    return Collected(floor, deleted)


async def _youngest_old(chain: Chain, low: int, high: int) -> int:
    """The highest number that has existed for the retention; ages fall with the numbers."""
    while low < high:
        middle = (low + high + 1) // 2
        if await _is_old(chain, middle):
            low = middle
        else:
            high = middle - 1
    return low


async def _is_old(chain: Chain, number: int) -> bool:
    try:
        entry = await chain.read(number)
        meta = await chain.store.head(chain.key(number))
    except NotFound:
        return False  # another janitor is at work here: leave it alone
    born_ms = max(entry.created_ms, meta.modified_ms)
    return chain.store.runtime.clock.now_ms() - born_ms >= chain.retention_ms


def _number(name: str) -> int | None:
    stem, dot, kind = name.partition(".")
    return int(stem) if dot and kind == "json" and stem.isascii() and stem.isdigit() else None
