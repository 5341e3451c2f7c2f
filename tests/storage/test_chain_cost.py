"""The requests that a search for the head of a chain costs, counted by a recorder (law 6)."""

from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core.tasks import run
from arco.storage.backend import Backend
from arco.storage.chain import Head
from tests.clocks import HandClock, hand_runtime
from tests.storage.chains import FULL, chain_on, grown, put_hint
from tests.storage.recorder import Recorder
from tests.stores import open_bench

LONG = 1_200


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


async def test_a_remembered_head_costs_one_request(memory: Backend, recorder: Recorder) -> None:
    await grown(memory, 5, hint=4)
    chain = chain_on(memory, recorder)
    assert (await chain.head()).number == 4
    recorder.clear()
    assert (await chain.head()).number == 4
    assert recorder.requests == [("get", f"{FULL}/{5:020d}.json")]


async def test_what_one_has_appended_oneself_is_remembered(
    memory: Backend, recorder: Recorder
) -> None:
    chain = chain_on(memory, recorder)
    head = await chain.append(await chain.head(), "a")
    recorder.clear()
    head = await chain.append(head, "b")
    numbers = [each for each in recorder.requests if each[1].startswith(f"{FULL}/0")]
    assert numbers == [("create", f"{FULL}/{1:020d}.json")]  # a hint may be under way beside it
    await chain.close()
    recorder.clear()
    assert (await chain.head()).number == head.number == 1
    assert len(recorder.requests) == 1


async def test_a_cold_head_with_a_fresh_hint_costs_4_requests_in_3_round_trips(
    memory: Backend, recorder: Recorder
) -> None:
    await grown(memory, 100, hint=99)
    assert (await chain_on(memory, recorder).head()).number == 99
    first_key, *both, last_key = recorder.keys()
    assert (first_key, last_key) == ("head.json", f"{0:020d}.json")
    assert sorted(both) == [f"{99:020d}.json", f"{100:020d}.json"]
    assert recorder.round_trips == 3


@pytest.fixture(scope="module")
def long() -> Backend:
    """A chain of many numbers, made once."""
    backend = open_bench("memory://", hand_runtime(HandClock())).backend
    run(grown(backend, LONG))
    return backend


@settings(deadline=None)
@given(hinted=st.integers(0, LONG - 1))
def test_a_stale_hint_costs_at_most_twice_the_logarithm_of_the_gap_and_5(
    long: Backend, hinted: int
) -> None:
    recorder = Recorder()

    async def search() -> int:
        await put_hint(long, hinted)
        return (await chain_on(long, recorder).head()).number

    assert run(search()) == LONG - 1
    gap = LONG - 1 - hinted
    assert len(recorder.requests) <= (2 * log2(gap) + 5 if gap else 4)
    assert set(recorder.verbs()) == {"get"}


@pytest.mark.parametrize("numbers", [0, 1, 2, 3, 50])
async def test_without_a_hint_the_head_is_searched_by_galloping(
    memory: Backend, recorder: Recorder, numbers: int
) -> None:
    await grown(memory, numbers)
    assert (await chain_on(memory, recorder).head()).number == numbers - 1
    assert len(recorder.requests) <= 2 * log2(max(numbers, 1)) + 6


@pytest.mark.parametrize("others", [1, 2, 7, 40])
async def test_a_remembered_head_is_caught_up_from_where_it_was(
    memory: Backend, recorder: Recorder, others: int
) -> None:
    await grown(memory, 5)
    chain = chain_on(memory, recorder)
    await chain.head()
    await grown(memory, others)
    recorder.clear()
    assert (await chain.head()).number == 4 + others
    assert len(recorder.requests) <= 2 * log2(others) + 2


async def test_nothing_on_a_chain_ever_lists(memory: Backend, recorder: Recorder) -> None:
    chain = chain_on(memory, recorder)
    for n in range(40):
        await chain.append(await chain.head(), n)

    async def build(head: Head) -> int:
        return head.number + 1

    await chain.extend(build)
    await chain_on(memory, recorder).head()
    await chain.read(7)
    await chain.history(0, 40)
    await chain.floor()
    await chain.close()
    assert "list" not in recorder.verbs()
    assert set(recorder.verbs()) == {"get", "create", "put"}
