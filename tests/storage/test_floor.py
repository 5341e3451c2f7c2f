"""Floors (P6): collected numbers never come back as an empty chain, and a lost one never as a short."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core.errors import Corrupt, Denied, NotFound
from arco.core.tasks import run
from arco.storage.backend import Backend
from tests.clocks import HandClock, hand_runtime
from tests.storage.chains import (
    FULL,
    chain_on,
    collect_below,
    grown,
    janitor_on,
    number_key,
    once_before,
)
from tests.storage.interposed import Interposed
from tests.stores import open_bench


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(1, 40))
def test_the_head_is_found_from_any_hint_over_any_floors(data: st.DataObject, numbers: int) -> None:
    floors = data.draw(st.lists(st.integers(0, numbers - 1), max_size=3).map(sorted))
    hint = data.draw(st.none() | st.integers(0, numbers - 1))

    async def search() -> int:
        backend = open_bench("memory://", hand_runtime(HandClock())).backend
        await grown(backend, numbers, hint=hint)
        for floor in floors:
            await collect_below(backend, floor)
        return (await chain_on(backend).head()).number

    assert run(search()) == numbers - 1


async def test_a_lost_hint_above_collected_numbers_is_no_empty_chain(memory: Backend) -> None:
    await grown(memory, 10)
    await collect_below(memory, 5)
    head = await chain_on(memory).head()
    assert head.number == 9


async def test_a_floor_raised_between_the_hint_and_the_miss_is_found(memory: Backend) -> None:
    await grown(memory, 10, hint=2)
    step = once_before(number_key(2), lambda: collect_below(memory, 6))
    assert (await chain_on(Interposed(memory, before=step)).head()).number == 9


@pytest.mark.parametrize("probe", [4, 8, 16, 12])
async def test_a_floor_raised_while_the_search_gallops_is_found(
    memory: Backend, probe: int
) -> None:
    await grown(memory, 21, hint=0)
    step = once_before(number_key(probe), lambda: collect_below(memory, 20))
    assert (await chain_on(Interposed(memory, before=step)).head()).number == 20


async def test_floors_raised_repeatedly_only_make_the_search_longer(memory: Backend) -> None:
    await grown(memory, 41, hint=0)
    floors = iter(range(5, 41, 5))

    async def run_ahead(verb: str, key: str) -> None:
        if verb == "get" and "/floor/" not in key and (floor := next(floors, None)):
            await collect_below(memory, floor)

    assert (await chain_on(Interposed(memory, before=run_ahead)).head()).number == 40


async def test_a_number_that_is_missing_and_not_below_the_floor_is_corrupt(memory: Backend) -> None:
    await grown(memory, 10, hint=7)
    await collect_below(memory, 4)
    await memory.delete(number_key(7))
    with pytest.raises(Corrupt, match="number 7"):
        await chain_on(memory).head()


async def test_a_floor_whose_own_number_is_missing_is_corrupt(memory: Backend) -> None:
    await grown(memory, 10)
    await collect_below(memory, 4)
    await memory.delete(number_key(4))
    with pytest.raises(Corrupt, match="number 4"):
        await chain_on(memory).head()


async def test_a_first_number_that_is_missing_below_a_second_is_corrupt(memory: Backend) -> None:
    await grown(memory, 2)
    await memory.delete(number_key(0))
    with pytest.raises(Corrupt, match="number 0"):
        await chain_on(memory).head()


async def test_two_numbers_made_between_two_probes_are_no_hole(memory: Backend) -> None:
    step = once_before(number_key(1), lambda: grown(memory, 2))
    assert (await chain_on(Interposed(memory, before=step)).head()).number == 1


@pytest.mark.parametrize("body", [b"garbage", b'{"floor": 3}'])
async def test_garbage_in_a_floor_is_corrupt(memory: Backend, body: bytes) -> None:
    await grown(memory, 5)
    await memory.create(f"{FULL}/floor/{0:020d}.json", body)
    with pytest.raises(Corrupt):
        await chain_on(memory).head()


async def test_a_floor_stands_on_a_number_that_is_there_and_never_sinks(memory: Backend) -> None:
    await grown(memory, 5)
    janitor = janitor_on(memory)
    with pytest.raises(NotFound):
        await janitor.raise_floor(5)
    await janitor.raise_floor(3)
    await janitor.raise_floor(3)
    with pytest.raises(NotFound):
        await janitor.raise_floor(2)
    assert await chain_on(memory).floor() == 3


async def test_only_the_janitor_raises_a_floor(memory: Backend) -> None:
    await grown(memory, 5)
    with pytest.raises(Denied):
        await chain_on(memory).raise_floor(3)


@pytest.mark.parametrize("verb", ["get", "create"])
async def test_of_two_janitors_the_higher_floor_stands(memory: Backend, verb: str) -> None:
    await grown(memory, 10)
    key = f"{FULL}/floor/{0:020d}.json"
    step = once_before(key, lambda: janitor_on(memory).raise_floor(7), verb)
    with suppress(NotFound):  # it may find that what it stands on was collected meanwhile
        await janitor_on(Interposed(memory, before=step)).raise_floor(4)
    assert await chain_on(memory).floor() == 7


async def test_a_leftover_below_the_floor_says_nothing(memory: Backend) -> None:
    await grown(memory, 10)
    await janitor_on(memory).raise_floor(4)  # and nothing was deleted yet
    with pytest.raises(NotFound):
        await chain_on(memory).read(3)
    with pytest.raises(NotFound):
        await chain_on(memory).history(2, 6)
    assert (await chain_on(memory).read(4)).number == 4
