"""The chain of a key: which of its entries belong to one life of the key."""

import pytest

from arco.core.errors import Corrupt
from arco.core.scope import Scope
from arco.ledger.claim import key_chain, key_path, read_key
from arco.storage.backend import Backend
from arco.storage.chain import Chain, Head
from arco.storage.entry import Entry, make_entry
from arco.storage.roles import Role
from tests.clocks import HandClock
from tests.storage.chains import once_before
from tests.storage.interposed import Interposed
from tests.storage.recorder import Recorder, recorded_store

PATH = key_path(Scope(), principal="user:a", api="native", operation="create", key="k1")


def chain_on(backend: Backend, recorder: Recorder | None = None) -> Chain:
    return key_chain(recorded_store(backend, recorder or Recorder(), HandClock(), Role.API), PATH)


def full_key(number: int) -> str:
    return f"{Scope().prefix}{PATH}/{number:04d}.json"


async def grown(backend: Backend, numbers: int, body: str = "first life") -> list[Entry]:
    chain, head, entries = chain_on(backend), Head(None, 0), list[Entry]()
    for _ in range(numbers):
        head = await chain.append(head, body)
        assert head.entry is not None
        entries.append(head.entry)
    return entries


@pytest.mark.parametrize(
    ("numbers", "requests", "round_trips"),
    [(0, 3, 1), (1, 3, 1), (2, 3, 1), (3, 6, 2), (5, 6, 2), (9, 12, 4)],
)
async def test_all_numbers_are_read_in_few_round_trips(
    memory: Backend, numbers: int, requests: int, round_trips: int
) -> None:
    entries, recorder = await grown(memory, numbers), Recorder()
    assert await read_key(chain_on(memory, recorder)) == entries
    assert (len(recorder.requests), recorder.round_trips) == (requests, round_trips)


@pytest.mark.parametrize("leftover", [1, 2])
async def test_a_late_create_above_another_life_of_the_key_is_corrupt(
    memory: Backend, leftover: int
) -> None:
    """Its key was collected and reused: an outcome of the old request is no answer to the new one."""
    late_entry = (await grown(memory, leftover + 1))[leftover]
    for number in range(leftover + 1):
        await memory.delete(full_key(number))
    await memory.create(full_key(leftover), late_entry.raw)
    await grown(memory, leftover, "second life")
    with pytest.raises(Corrupt, match="do not follow each other"):
        await read_key(chain_on(memory))


async def test_a_number_that_is_missing_below_another_is_corrupt(memory: Backend) -> None:
    await grown(memory, 2)
    await memory.delete(full_key(0))
    with pytest.raises(Corrupt, match="do not follow each other"):
        await read_key(chain_on(memory))


async def test_a_key_that_is_collected_while_it_is_read_is_empty(memory: Backend) -> None:
    await grown(memory, 2)

    collected = chain_on(memory).store.runtime.tasks.event()
    looks_at_0: list[str] = []

    async def before(verb: str, key: str) -> None:
        if key == full_key(0):
            looks_at_0.append(verb)
            await collected.wait()

    async def after(verb: str, key: str) -> None:
        """Number 1 was seen, number 0 not yet."""
        if key == full_key(1) and not collected.is_set():
            for number in (1, 0):
                await memory.delete(full_key(number))
            collected.set()

    assert await read_key(chain_on(Interposed(memory, before=before, after=after))) == []
    assert len(looks_at_0) == 2, "it had to look again"


async def test_numbers_made_while_they_are_read_are_no_hole(memory: Backend) -> None:
    entries: list[Entry] = []

    async def grow() -> None:
        entries.extend(await grown(memory, 2))

    step = once_before(full_key(1), grow)
    read_entries = await read_key(chain_on(Interposed(memory, before=step)))
    assert read_entries == entries[: len(read_entries)]


async def test_a_number_with_another_parent_is_no_part_of_the_key(memory: Backend) -> None:
    [first] = await grown(memory, 1)
    runtime = chain_on(memory).store.runtime
    other = make_entry(runtime, make_entry(runtime, None, "another"), "child")
    assert other.record.parent_sha256 != first.sha256()
    await memory.create(full_key(1), other.raw)
    with pytest.raises(Corrupt):
        await read_key(chain_on(memory))
