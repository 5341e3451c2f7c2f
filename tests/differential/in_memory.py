"""Ways that need no store: lines are read and folded, all at once or bit by bit."""

from random import Random

import pyarrow as pa

from arco.fold.fold import fold
from arco.fold.tier2 import TIER2
from tests.differential.history import History
from tests.differential.layout import crooked, straight
from tests.differential.rows import Segments, Tables, differences, folded, placeless, read


def reference(history: History) -> Tables:
    """The rows of a history, read in one piece and folded once."""
    return folded(history.domain, read(history.domain, straight(history), history.bounds).rows)


def bit_by_bit(rng: Random, history: History, segments: Segments) -> Tables:
    """Each segment is folded by itself, then whatever is there with whatever else, in any order."""
    domain, bounds = history.domain, history.bounds
    heaps: dict[str, list[pa.Table]] = {}
    for at, lines in segments.items():
        for name, rows in read(domain, {at: lines}, bounds).rows.items():
            heaps.setdefault(name, []).append(fold(TIER2[domain][name], rows))
    return {name: _heaped(rng, domain, name, heap) for name, heap in heaps.items()}


def _heaped(rng: Random, domain: str, name: str, heap: list[pa.Table]) -> pa.Table:
    while len(heap) > 1:
        rng.shuffle(heap)
        some = [heap.pop() for _ in range(rng.randint(2, len(heap)))]
        heap.append(fold(TIER2[domain][name], pa.concat_tables(some)))
    return heap[0]


def other_orders(rng: Random, history: History, wanted: Tables) -> list[str]:
    """What is wrong when the lines come in another order, twice, in pieces."""
    segments = crooked(rng, history)
    at_once = folded(history.domain, read(history.domain, segments, history.bounds).rows)
    found = bit_by_bit(rng, history, segments)
    return [
        *differences("another order", placeless(wanted), placeless(at_once)),
        *differences("bit by bit", at_once, found),
    ]
