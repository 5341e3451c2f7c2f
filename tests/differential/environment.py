"""Layouts: the lines of a history as they may come to lie in the ledger."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from arco.compactor.engine import CompactionEngine, SegmentRef
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.core.tasks import AsyncioTasks
from arco.storage.backend import Backend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.clocks import HandClock, hand_runtime
from tests.compactor.in_process_engine import InProcessEngine
from tests.differential.history import History
from tests.differential.vocabulary import RECEIVED_BY
from tests.stores import HASTY, open_bench

Batches = list[list[bytes]]


def hand_clock() -> HandClock:
    """All streams are opened when everything has happened: a line without a time is of then."""
    return HandClock(round(RECEIVED_BY.timestamp() * 1000))


def mixed(rng: Random, lines: list[bytes]) -> list[bytes]:
    """In another order, and some of them twice or more."""
    shuffled = [*lines, *rng.choices(lines, k=rng.randrange(len(lines)))]
    rng.shuffle(shuffled)
    return shuffled


def cut(rng: Random, lines: list[bytes], most: int = 9) -> Batches:
    """In pieces of any size."""
    pieces: Batches = []
    at = 0
    while at < len(lines):
        size = rng.choice((1, rng.randint(1, most), len(lines)))
        pieces.append(lines[at : at + size])
        at += size
    return pieces


def in_streams(rng: Random, runtime: Runtime, pieces: Batches) -> dict[SegmentRef, list[bytes]]:
    """Each piece as a segment of one of several streams."""
    streams = [new_ulid(runtime) for _ in range(rng.randint(1, 3))]
    lengths = dict.fromkeys(streams, 0)
    segments = {}
    for piece in pieces:
        stream = rng.choice(streams)
        segments[SegmentRef(stream, lengths[stream])] = piece
        lengths[stream] += 1
    return segments


def straight(history: History) -> dict[SegmentRef, list[bytes]]:
    """All lines as they are, in one segment."""
    return in_streams(Random(0), hand_runtime(hand_clock()), [history.lines])


def crooked(rng: Random, history: History) -> dict[SegmentRef, list[bytes]]:
    """The lines in any order and number, in any segments."""
    runtime = hand_runtime(hand_clock(), rng.randrange(10**9))
    return in_streams(rng, runtime, cut(rng, mixed(rng, history.lines)))


_TASKS = AsyncioTasks()  # one for all: each has threads of its own


@dataclass(frozen=True)
class Site:
    """Where a history is compacted."""

    clock: HandClock
    runtime: Runtime
    backend: Backend
    engine: Callable[[Store], CompactionEngine]

    def store(self, role: Role) -> Store:
        return Store(self.backend, self.runtime, scope=Scope(), role=role, retry=HASTY)


def new_site(rng: Random, url: str, engine: Callable[[Store], CompactionEngine]) -> Site:
    """An empty one."""
    clock = hand_clock()
    runtime = Runtime(clock, Random(rng.randrange(10**9)), _TASKS)
    return Site(clock, runtime, open_bench(url, runtime).backend, engine)


def in_process(rng: Random) -> Site:
    """In this process, with some shards or none."""
    shards = rng.randint(1, 3)
    return new_site(rng, "memory://", lambda store: InProcessEngine(store, shards=shards))
