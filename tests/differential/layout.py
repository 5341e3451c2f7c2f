"""Layouts: the lines of a history as they may come to lie in the ledger."""

from random import Random

from arco.compactor.job import SegmentRef
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from tests.clocks import HandClock, hand_runtime
from tests.differential.history import History
from tests.differential.words import RECEIVED_BY

Batches = list[list[bytes]]


def hand_clock() -> HandClock:
    """All streams are opened when everything has happened: a line without a time is of then."""
    return HandClock(round(RECEIVED_BY.timestamp() * 1000))


def mixed(rng: Random, lines: list[bytes]) -> list[bytes]:
    """In another order, and some of them twice or more."""
    found = [*lines, *rng.choices(lines, k=rng.randrange(len(lines)))]
    rng.shuffle(found)
    return found


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
    found = {}
    for piece in pieces:
        stream = rng.choice(streams)
        found[SegmentRef(stream, lengths[stream])] = piece
        lengths[stream] += 1
    return found


def straight(history: History) -> dict[SegmentRef, list[bytes]]:
    """All lines as they are, in one segment."""
    return in_streams(Random(0), hand_runtime(hand_clock()), [history.lines])


def crooked(rng: Random, history: History) -> dict[SegmentRef, list[bytes]]:
    """The lines in any order and number, in any segments."""
    runtime = hand_runtime(hand_clock(), rng.randrange(10**9))
    return in_streams(rng, runtime, cut(rng, mixed(rng, history.lines)))
