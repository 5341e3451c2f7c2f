"""Garbage collection of a chain: raise the floor, then delete the numbers below it (P6, P9).

A number is old when its successor has existed for the retention, by the clock of the store. The floor is
raised before anything is deleted; a crash in between leaves numbers that the next collection finds by its
listing (law 6).
"""

from dataclasses import dataclass
from math import inf

from arco.core.errors import Invalid, NotFound
from arco.storage.chain import SHORTEST_RETENTION_MS, Chain
from arco.storage.store import store_now_ms

DEFAULT_RETENTION_MS = 7 * 24 * 3_600_000


@dataclass(frozen=True)
class ChainGcResult:
    """The floor after a collection, and the number of deleted objects."""

    floor: int
    deleted: int


async def collect(
    chain: Chain, *, retention_ms: int = DEFAULT_RETENTION_MS, ceiling: int | None = None
) -> ChainGcResult:
    """Raise the floor to the youngest number whose predecessors are all old, and delete those.

    Numbers from `ceiling` up stay, however old: a reader still needs them.
    """
    floor, target = await _bounds(chain, retention_ms, ceiling)
    if target > floor:
        await chain.raise_floor(target)
        floor = target
    deleted = 0
    async for meta in chain.store.list(f"{chain.path}/"):
        number = _number(meta.key.removeprefix(f"{chain.path}/"))
        if number is not None and number < floor:
            await chain.store.delete(meta.key)
            deleted += 1
    return ChainGcResult(floor, deleted)


async def oldest_retained(chain: Chain, *, retention_ms: int = DEFAULT_RETENTION_MS) -> int:
    """The first number that a process may still rely on: the youngest whose predecessors are all old.

    0 for an empty chain.
    """
    return (await _bounds(chain, retention_ms, None))[1]


async def _bounds(chain: Chain, retention_ms: int, ceiling: int | None) -> tuple[int, int]:
    """The floor, and the highest floor that the retention allows."""
    if retention_ms < SHORTEST_RETENTION_MS:
        raise Invalid(f"a chain keeps its numbers for at least {SHORTEST_RETENTION_MS} ms")
    head = await chain.head()
    floor = await chain.floor()
    highest = head.number if ceiling is None else min(head.number, ceiling)
    created_before_ms = await store_now_ms(chain.store) - retention_ms
    return floor, await _youngest_old(chain, floor, highest, created_before_ms)


async def _youngest_old(chain: Chain, low: int, high: int, created_before_ms: int) -> int:
    """The highest number that has existed for the retention; ages fall with the numbers."""
    while low < high:
        middle = (low + high + 1) // 2
        if await _created_ms(chain, middle) <= created_before_ms:
            low = middle
        else:
            high = middle - 1
    return low


async def _created_ms(chain: Chain, number: int) -> float:
    try:
        return (await chain.store.head(chain.key(number))).modified_ms
    except NotFound:
        return inf  # another collection is deleting here: keep the rest


def _number(name: str) -> int | None:
    stem, dot, kind = name.partition(".")
    return int(stem) if dot and kind == "json" and stem.isascii() and stem.isdigit() else None
