"""Glimpses: a cold reader gets the likely head while it still searches for the floor."""

import pytest

from arco.core.errors import Corrupt
from arco.core.scope import Scope
from arco.core.tasks import Task
from arco.storage.backend import Backend
from arco.storage.chain import FRESH_MS, Chain
from arco.storage.entry import Entry
from arco.storage.roles import Role
from tests.clocks import HandClock
from tests.storage.chains import FULL, PATH, chain_on, collect_below, grown, number_key, once_before
from tests.storage.interposed import Interposed
from tests.storage.recorder import Recorder, recorded_store

FILE = "snapshots/d/part.parquet"


async def first_load(memory: Backend, recorder: Recorder, *, at_a_glimpse: bool) -> bytes:
    """A cold reader finds the head and loads the file that it names."""
    store = recorded_store(memory, recorder, HandClock(), Role.API)
    loads: list[Task[bytes]] = []

    def load(entry: Entry) -> None:
        loads.append(store.runtime.tasks.spawn(store.get(f"{FILE}.{entry.number}")))

    head = await Chain(store, PATH).head(glimpse=load if at_a_glimpse else None)
    if not at_a_glimpse:
        assert head.entry is not None
        load(head.entry)
    [load_of_head] = loads
    return await load_of_head.wait()


@pytest.mark.parametrize(("at_a_glimpse", "round_trips"), [(False, 4), (True, 3)])
async def test_a_glimpse_saves_a_cold_reader_one_round_trip(
    memory: Backend, *, at_a_glimpse: bool, round_trips: int
) -> None:
    recorder = Recorder()
    await grown(memory, 100, hint=99)
    await memory.create(f"{Scope().prefix}{FILE}.99", b"rows")
    assert await first_load(memory, recorder, at_a_glimpse=at_a_glimpse) == b"rows"
    assert recorder.round_trips == round_trips
    assert len(recorder.requests) == 5


@pytest.mark.parametrize(("numbers", "hint"), [(1, None), (2, 0), (50, None), (50, 17), (50, 49)])
async def test_a_glimpse_of_a_chain_at_rest_is_its_head(
    memory: Backend, numbers: int, hint: int | None
) -> None:
    await grown(memory, numbers, hint=hint)
    glimpses: list[Entry] = []
    head = await chain_on(memory).head(glimpse=glimpses.append)
    assert glimpses == [head.entry]
    assert head.number == numbers - 1


async def test_a_stale_glimpse_is_followed_by_the_head(memory: Backend) -> None:
    """Everything was collected during the search, which only the floor shows."""
    await grown(memory, 10, hint=9)

    async def run_ahead() -> None:
        await grown(memory, 11)
        await collect_below(memory, 15)

    step = once_before(f"{FULL}/floor/{0:020d}.json", run_ahead)
    glimpses: list[Entry] = []
    head = await chain_on(Interposed(memory, before=step)).head(glimpse=glimpses.append)
    assert [entry.number for entry in glimpses] == [9, 20]
    assert head.entry == glimpses[-1]


async def test_there_is_no_glimpse_of_an_empty_chain_nor_of_a_remembered_head(
    memory: Backend,
) -> None:
    glimpses: list[Entry] = []
    assert (await chain_on(memory).head(glimpse=glimpses.append)).entry is None
    await grown(memory, 3)
    chain = chain_on(memory)
    await chain.head()
    assert (await chain.head(glimpse=glimpses.append)).number == 2
    assert glimpses == []


async def test_a_glimpse_does_not_make_a_damaged_chain_sound(memory: Backend) -> None:
    await grown(memory, 10, hint=7)
    await memory.delete(number_key(7))
    with pytest.raises(Corrupt, match="number 7"):
        await chain_on(memory).head(glimpse=lambda _: None)


async def test_a_remembered_head_is_returned_without_a_request_until_it_is_old(
    memory: Backend,
) -> None:
    clock, recorder = HandClock(), Recorder()
    await grown(memory, 4)
    chain = chain_on(memory, recorder, clock)
    assert chain.remembered() is None
    head = await chain.head()
    recorder.clear()
    clock.pass_ms(FRESH_MS - 1)
    assert chain.remembered() == head
    clock.pass_ms(1)
    assert chain.remembered() is None
    assert (recorder.requests, recorder.round_trips) == ([], 0)


async def test_one_s_own_append_is_remembered_and_another_s_is_not_known(memory: Backend) -> None:
    chain, other = chain_on(memory), chain_on(memory)
    mine = await chain.append(await chain.head(), "mine")
    await other.append(await other.head(), "theirs")
    assert chain.remembered() == mine
    assert (await chain.head()).number == 1
    remembered = chain.remembered()
    assert remembered is not None
    assert remembered.number == 1
