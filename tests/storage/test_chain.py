"""Numbered chains: appends and their entries (law 2, P5, P9)."""

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import (
    ArcoError,
    Conflict,
    Corrupt,
    Denied,
    NotFound,
    Unavailable,
    Unknown,
)
from arco.storage.backend import Backend
from arco.storage.chain import Head, last_present
from arco.storage.entry import checksummed
from tests.clocks import HandClock
from tests.storage.chains import FULL, chain_on, grown, number_key


async def test_of_two_that_have_read_the_same_head_one_appends(memory: Backend) -> None:
    one, two = chain_on(memory), chain_on(memory)
    head, same = await one.head(), await two.head()
    await one.append(head, "one")
    with pytest.raises(Conflict):
        await two.append(same, "two")
    assert (await two.read(0)).body(str) == "one"


async def test_a_tombstone_is_a_number_like_any_other_and_may_be_followed(memory: Backend) -> None:
    chain = chain_on(memory)
    head = await chain.append(await chain.head(), "born")
    head = await chain.append(head, None, tombstone=True)
    assert head.entry is not None
    assert head.entry.record.tombstone
    head = await chain.append(head, "again")
    entries = await chain_on(memory).history(0, 2)
    assert [entry.record.tombstone for entry in entries] == [False, True, False]
    assert entries[2].record.parent_sha256 == entries[1].sha256()


async def test_created_at_grows_though_the_clock_jumps_back(memory: Backend) -> None:
    clock = HandClock()
    chain = chain_on(memory, clock=clock)
    head = await chain.head()
    for jump_ms in (0, -3_600_000, 5, -10, 7_200_000, -86_400_000):
        clock.jump_ms(jump_ms)
        head = await chain.append(head, jump_ms)
    created = [entry.created_ms for entry in await chain.history(0, 5)]
    assert created == sorted(set(created))
    assert created[1] == created[0] + 1
    assert max(created) - min(created) < 7_200_000


async def test_history_is_what_was_appended_in_order(memory: Backend) -> None:
    await grown(memory, 40)
    chain = chain_on(memory)
    assert [entry.body(int) for entry in await chain.history(0, 39)] == list(range(40))
    assert [entry.number for entry in await chain.history(15, 18)] == [15, 16, 17, 18]
    assert await chain.history(5, 4) == []


@pytest.mark.parametrize("number", [2, 5])
async def test_a_number_that_was_changed_in_place_is_noticed_by_its_readers(
    memory: Backend, number: int
) -> None:
    """The head too, whose hash no child names yet."""
    await grown(memory, 6)
    raw = await memory.get(number_key(number))
    await memory.put(number_key(number), raw.replace(b'"body":%d' % number, b'"body":7'))
    chain = chain_on(memory)
    for read in (chain.read(number), chain.history(number, number), chain.history(0, 5)):
        with pytest.raises(Corrupt, match=f"number {number} .*checksum"):
            await read
    if number == 5:
        with pytest.raises(Corrupt, match=r"number 5 .*checksum"):
            await chain.head()


async def test_history_notices_a_number_that_was_rewritten_with_a_checksum(
    memory: Backend,
) -> None:
    await grown(memory, 6)
    chain = chain_on(memory)
    raw = await memory.get(number_key(2))
    content = raw.replace(b'"body":2', b'"body":7').rpartition(b',"checksum":')[0]
    await memory.put(number_key(2), checksummed(content + b"}"))
    assert (await chain.read(2)).body(int) == 7
    with pytest.raises(Corrupt, match="number 3"):
        await chain.history(0, 5)
    assert len(await chain.history(3, 5)) == 3


async def test_a_number_above_the_head_is_not_found(memory: Backend) -> None:
    await grown(memory, 3)
    chain = chain_on(memory)
    for number in (3, 4, 10**19):
        with pytest.raises(NotFound):
            await chain.read(number)
    with pytest.raises(NotFound):
        await chain.history(1, 3)


async def test_a_number_that_is_missing_below_another_is_corrupt(memory: Backend) -> None:
    await grown(memory, 6)
    await memory.delete(f"{FULL}/{3:020d}.json")
    with pytest.raises(Corrupt):
        await chain_on(memory).history(0, 5)


async def test_extend_rebuilds_on_the_new_head_after_each_conflict(memory: Backend) -> None:
    rivals = [5, 3, 1]
    built_on: list[int] = []

    async def build(head: Head) -> str:
        built_on.append(head.number)
        if rivals:
            await grown(memory, rivals.pop())
        return f"after {head.number}"

    clock = HandClock()
    head = await chain_on(memory, clock=clock).extend(build)
    assert built_on == [-1, 0, 3, 8]
    assert head.entry is not None
    assert (head.number, head.entry.body(str)) == (9, "after 8")
    assert len(clock.slept_ms) == 3  # it makes way after each loss


async def test_extend_under_contention_loses_and_doubles_nothing(memory: Backend) -> None:
    chains = [chain_on(memory) for _ in range(12)]

    async def write(writer: int) -> None:
        for n in range(10):

            async def build(_: Head, n: int = n) -> list[int]:
                return [writer, n]

            await chains[writer].extend(build)

    await chains[0].store.runtime.tasks.gather(*(write(writer) for writer in range(12)))
    bodies = [entry.body(list[int]) for entry in await chain_on(memory).history(0, 119)]
    assert sorted(bodies) == [[writer, n] for writer in range(12) for n in range(10)]
    for writer in range(12):
        assert [n for who, n in bodies if who == writer] == list(range(10))


@pytest.mark.parametrize("problem", [Unknown("lost"), Unavailable("503"), Denied("403")])
async def test_extend_retries_after_a_conflict_and_after_no_other_error(
    memory: Backend, problem: ArcoError
) -> None:
    built: list[int] = []

    async def build(head: Head) -> int:
        built.append(head.number)
        raise problem

    with pytest.raises(type(problem)):
        await chain_on(memory).extend(build)
    assert built == [-1]


# Galloping


class Run:
    """Numbers 0 to `last_number` exist, and every probe is counted."""

    def __init__(self, last_number: int) -> None:
        self.last_number = last_number
        self.probes: list[int] = []

    async def probe(self, number: int) -> str | None:
        self.probes.append(number)
        return str(number) if number <= self.last_number else None


async def gallop(run: Run, base: int) -> tuple[int, str | None]:
    best = str(base) if base >= 0 else None
    return await last_present(run.probe, base, best)


def drive(run: Run, base: int) -> tuple[int, str | None]:
    """Without an event loop: nothing in a gallop waits for anything but its probes."""
    try:
        gallop(run, base).send(None)
    except StopIteration as ended:
        result: tuple[int, str | None] = ended.value
        return result
    raise AssertionError


@given(st.integers(-1, 5_000), st.integers(0, 5_000))
def test_the_last_number_is_found_from_any_number_below(base: int, gap: int) -> None:
    run = Run(base + gap)
    number, name = drive(run, base)
    assert number == base + gap
    assert name == (str(number) if number >= 0 else None)


@given(st.integers(-1, 10**15), st.integers(0, 10**15))
def test_a_gallop_takes_twice_the_logarithm_of_the_gap(base: int, gap: int) -> None:
    run = Run(base + gap)
    drive(run, base)
    assert len(run.probes) <= (2 * log2(gap) + 2 if gap else 1)
    assert min(run.probes) > base


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_a_number_that_was_probed_is_not_requested_twice(base: int, gap: int) -> None:
    run = Run(base + gap)
    pending = last_present(run.probe, base, str(base + 1), best_offset=1, step=2)
    try:
        pending.send(None)
    except StopIteration as ended:
        assert ended.value == (base + gap, str(base + gap))
    assert min(run.probes) > base + 1
    assert len(run.probes) == len(set(run.probes))


def test_an_empty_run_ends_below_its_first_number() -> None:
    assert drive(Run(-1), -1) == (-1, None)
