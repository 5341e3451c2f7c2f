"""The store under a numbered chain, and what its writers remember.

The log is a ghost: what each number was when it was first created. A create on a number that was
collected changes the store and not the log, so a process that takes it for a commit has forked the chain.
"""

from typing import Literal, NamedTuple

ABSENT = 0
PAST = 1  # who wrote number 0, before the run begins
NOWHERE = -1
RETENTION_TICKS = 2
HALF_TICKS = 1

Doing = Literal[
    "rest",
    "start",
    "gallop",
    "climb",
    "floor",
    "put",
    "look",
    "concede",
    "verify",
    "misled",
    "done",
]


class Writer(NamedTuple):
    doing: Doing
    op: int  # the append under way, or the next one
    last_op: int
    low: int = NOWHERE  # the highest number read; at rest, the remembered head
    high: int = NOWHERE  # the lowest number missed
    gap: int = 1
    age: int = 0  # since the probe that missed the number above `low`
    genuine: bool = True  # ghost: nothing from that number on had been created
    may_crash: bool = False


class Chain(NamedTuple):
    store: tuple[int, ...]
    log: tuple[int, ...]
    ages: tuple[int, ...]  # since each number was first created
    floor: int
    writers: tuple[Writer, ...]
    in_flight: frozenset[tuple[int, int]]  # (number, op): timed out, and still under way
    acked: frozenset[int]


def op_of(writer: int, position: int) -> int:
    return 10 * (writer + 1) + position


def owner(op: int) -> int:
    return op // 10


def head(chain: Chain) -> int:
    return max(number for number, op in enumerate(chain.log) if op)


def cold_read(chain: Chain) -> int:
    """Where a reader ends that has no hint, in one go."""
    number = chain.floor
    while chain.store[number]:
        number += 1
    return number - 1


def create(chain: Chain, number: int, op: int) -> Chain:
    if chain.store[number]:
        return chain
    store = _put(chain.store, number, op)
    if chain.log[number]:
        return chain._replace(store=store)
    log, ages = _put(chain.log, number, op), _put(chain.ages, number, 0)
    return chain._replace(store=store, log=log, ages=ages)


def collect(chain: Chain, number: int) -> Chain:
    return chain._replace(store=_put(chain.store, number, ABSENT))


def tick(chain: Chain) -> Chain:
    ages = tuple(
        min(age + 1, RETENTION_TICKS) if op else 0
        for age, op in zip(chain.ages, chain.log, strict=True)
    )
    writers = tuple(
        writer._replace(age=min(writer.age + 1, HALF_TICKS + 1)) if _counts(writer) else writer
        for writer in chain.writers
    )
    return chain._replace(ages=ages, writers=writers)


def _counts(writer: Writer) -> bool:
    if writer.doing in ("start", "gallop"):
        return writer.high != NOWHERE
    return writer.low != NOWHERE or writer.doing != "rest"


def _put(numbers: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return (*numbers[:at], value, *numbers[at + 1 :])
