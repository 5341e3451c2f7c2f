"""Galloping: the end of a run of numbers that has no holes, in twice its logarithm of probes."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

Probe = Callable[[int], Awaitable[T | None]]


async def last_present(
    probe: Probe[T], base: int, best: T | None = None, *, best_offset: int = 0, step: int = 1
) -> tuple[int, T | None]:
    """The last number above `base` that is there, with what was found; `base` and `best` if none.

    `best` is what stands at `base + best_offset`, and `step` the first distance to try.
    """
    low = base + best_offset
    while (found := await probe(base + step)) is not None:
        low, best, step = base + step, found, step * 2
    missing = base + step
    while missing - low > 1:
        middle = (low + missing) // 2
        found = await probe(middle)
        if found is None:
            missing = middle
        else:
            low, best = middle, found
    return low, best
