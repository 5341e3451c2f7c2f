"""Seeds: all that is tried of one, in this process."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from tests.differential.comparison import check_oracle, other_orders, reference
from tests.differential.environment import in_process
from tests.differential.history import History, histories_of
from tests.differential.lifecycle import aged, compacted

_ORDERS = 2
_EVERY_COMPACTED, _EVERY_AGED = 8, 16  # these take much longer than all the rest


@dataclass(frozen=True)
class Result:
    """What was tried, and what was wrong."""

    seed: int
    problems: list[str]
    tally: Counter[str] = field(default_factory=Counter)


def check_seed(seed: int, *, everything: bool = False) -> Result:
    """Try one seed; `everything`: also what is tried of some seeds only."""
    tally: Counter[str] = Counter()
    problems: list[str] = []
    for place, history in enumerate(histories_of(seed)):
        wanted = reference(history)
        rng = Random(f"{seed}/{history.domain}/ways")
        problems += check_oracle(history, wanted)
        for _ in range(_ORDERS):
            problems += other_orders(rng, history, wanted)
        _count(tally, history)
        turn = seed + place  # not all domains of a seed at once
        if everything or turn % _EVERY_COMPACTED == 0:
            problems += asyncio.run(compacted(rng, in_process(rng), history, wanted, tally))
        if everything or turn % _EVERY_AGED == 1:
            problems += asyncio.run(aged(rng, in_process(rng), history, tally))
    return Result(seed, problems, tally)


def _count(tally: Counter[str], history: History) -> None:
    tally["histories"] += 1
    tally["events"] += len(history.events)
    tally["lines that cannot be folded"] += sum(event.envelope is None for event in history.events)
    tally["other orders"] += _ORDERS
