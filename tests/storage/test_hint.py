"""Hints: garbage in one costs time and never truth, and no name is written twice in a second (law 2)."""

import asyncio

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arco.core.errors import Corrupt, Denied, Unavailable
from arco.core.json import decode, encode
from arco.core.tasks import run
from arco.storage.backend import Backend
from arco.storage.chain import Chain, Head
from arco.storage.hint import Hint
from arco.storage.roles import Role
from tests.clocks import HandClock, hand_runtime
from tests.storage.chains import FULL, PATH, grown, put_hint
from tests.storage.interposed import Interposed
from tests.storage.recorder import Recorder, recorded_store
from tests.stores import open_bench

KEY = f"{FULL}/head.json"
HEAD = 9


def chain_on(backend: Backend, clock: HandClock, recorder: Recorder | None = None) -> Chain:
    return Chain(recorded_store(backend, recorder or Recorder(), clock, Role.API), PATH)


@pytest.fixture(scope="module")
def ten() -> Backend:
    backend = open_bench("memory://", hand_runtime(HandClock())).backend
    run(grown(backend, HEAD + 1))
    return backend


def head_with_hint(backend: Backend, hint: bytes) -> int:
    async def search() -> int:
        await backend.put(KEY, hint)
        return (await chain_on(backend, HandClock()).head()).number

    return run(search())


COMPLETE = {"format": 1, "number": 3, "floor_index": -1, "floor": 0}


@settings(deadline=None)
@given(st.binary(max_size=80))
@example(b"")
@example(b"\x00" * 70)
@example(b"[" * 100_000)
@example(b'{"format": 1, "number": 3')
@example(encode({**COMPLETE, "number": -1}))
@example(encode({**COMPLETE, "number": "3"}))
@example(encode({**COMPLETE, "number": None}))
@example(encode({**COMPLETE, "format": 2, "number": 8_000}))
@example(encode({**COMPLETE, "floor_index": -2}))
@example(encode({**COMPLETE, "floor": -1}))
@example(encode({"number": 3}))
def test_garbage_in_a_hint_counts_as_absent(ten: Backend, garbage: bytes) -> None:
    assert head_with_hint(ten, garbage) == HEAD


numbers = st.integers(-3, 30) | st.integers() | st.just(10**19) | st.just(10**400)


@settings(deadline=None)
@given(number=numbers, floor_index=numbers, floor=numbers)
@example(number=10**400, floor_index=-1, floor=0)
@example(number=3, floor_index=10**400, floor=0)
@example(number=3, floor_index=-1, floor=10**400)
def test_a_wrong_hint_is_detected_or_does_no_harm(
    ten: Backend, number: int, floor_index: int, floor: int
) -> None:
    body = f'{{"format":1,"number":{number},"floor_index":{floor_index},"floor":{floor}}}'
    try:
        assert head_with_hint(ten, body.encode()) == HEAD
    except Corrupt:
        assert number > HEAD or floor > HEAD or floor_index >= 0


@pytest.mark.parametrize("number", [10, 11, 1_000_000])
async def test_a_hint_above_the_head_is_corrupt(memory: Backend, number: int) -> None:
    # It is written only after the number it names is durable: so that number was lost.
    await grown(memory, 10)
    await put_hint(memory, number)
    with pytest.raises(Corrupt, match=f"number {number}"):
        await chain_on(memory, HandClock()).head()


async def test_a_hint_on_a_chain_that_is_gone_is_corrupt_and_not_an_empty_chain(
    memory: Backend,
) -> None:
    await put_hint(memory, 0)
    with pytest.raises(Corrupt):
        await chain_on(memory, HandClock()).head()


async def written(recorder: Recorder) -> int:
    return recorder.verbs().count("put")


async def test_hints_are_written_at_most_once_a_second(memory: Backend) -> None:
    clock, recorder = HandClock(), Recorder()
    chain = chain_on(memory, clock, recorder)
    head = await chain.head()
    for n in range(100):
        head = await chain.append(head, n)
        await asyncio.sleep(0.005)  # the hint is written beside the caller, in real time
        clock.pass_ms(50)
    assert 4 <= await written(recorder) <= 6  # in 5 seconds


async def test_a_head_that_moves_slowly_gets_a_hint_every_five_seconds(memory: Backend) -> None:
    clock, recorder = HandClock(), Recorder()
    chain = chain_on(memory, clock, recorder)
    head = await chain.head()
    recorder.clear()
    for n in range(30):
        head = await chain.append(head, n)
        await asyncio.sleep(0.01)  # the hint is written beside the caller, in real time
        clock.pass_ms(1_000)
    assert 6 <= await written(recorder) <= 7
    assert "get" not in recorder.verbs()  # the floor is known from the search


async def test_a_chain_of_one_number_gets_no_hint_and_is_read_in_three_round_trips(
    memory: Backend,
) -> None:
    recorder = Recorder()
    chain = chain_on(memory, HandClock(), recorder)
    await chain.append(Head(None, 0), "first")
    await chain.close()
    assert recorder.verbs() == ["create"]
    recorder.clear()
    assert (await chain_on(memory, HandClock(), recorder).head()).number == 0
    assert recorder.round_trips == 3


async def test_a_hint_looks_for_a_newer_floor_every_ten_minutes(memory: Backend) -> None:
    clock = HandClock()
    await grown(memory, 10)
    chain = chain_on(memory, clock)
    head = await chain.head()
    janitor = Chain(recorded_store(memory, Recorder(), HandClock(), Role.JANITOR), PATH)
    await janitor.raise_floor(3)
    head = await chain.append(head, "x")
    await chain.close()
    assert decode(await memory.get(KEY), Hint).floor == 0
    clock.pass_ms(10 * 60_000)
    await chain.append(head, "y")
    await chain.close()
    assert decode(await memory.get(KEY), Hint).floor == 3


async def test_a_clean_close_leaves_a_fresh_hint_and_waits_its_second(memory: Backend) -> None:
    clock, recorder = HandClock(), Recorder()
    chain = chain_on(memory, clock, recorder)
    head = await chain.head()
    for n in range(10):
        head = await chain.append(head, n)
    await chain.close()
    assert decode(await memory.get(KEY), Hint).number == 9
    assert await written(recorder) == 2
    assert clock.elapsed_ms() == 1_000
    before = len(recorder.requests)
    await chain.close()
    assert len(recorder.requests) == before  # nothing has moved since


async def test_a_hint_names_the_newest_floor(memory: Backend) -> None:
    await grown(memory, 10)
    janitor = Chain(recorded_store(memory, Recorder(), HandClock(), Role.JANITOR), PATH)
    await janitor.raise_floor(3)
    await janitor.raise_floor(6)
    chain = chain_on(memory, HandClock())
    await chain.append(await chain.head(), "x")
    await chain.close()
    assert decode(await memory.get(KEY), Hint) == Hint(format=1, number=10, floor_index=1, floor=6)


@pytest.mark.parametrize("refusal", [Unavailable("503"), Denied("403")])
async def test_a_store_that_takes_no_hints_fails_neither_append_nor_close(
    memory: Backend, refusal: Exception
) -> None:
    async def refuse(verb: str, key: str) -> None:
        if verb == "put":
            raise refusal

    chain = chain_on(Interposed(memory, before=refuse), HandClock())
    head = await chain.append(await chain.head(), "a")
    head = await chain.append(head, "b")
    await chain.close()
    assert (await chain_on(memory, HandClock()).head()).number == head.number == 1


async def test_a_hint_that_could_not_be_written_is_written_at_the_close(memory: Backend) -> None:
    failures = [Unavailable("503")]

    async def refuse_once(verb: str, key: str) -> None:
        if verb == "put" and failures:
            raise failures.pop()

    chain = chain_on(Interposed(memory, before=refuse_once), HandClock())
    head = await chain.append(await chain.head(), "a")
    await chain.append(head, "b")
    await chain.close()
    assert decode(await memory.get(KEY), Hint).number == 1


async def test_a_slow_hint_does_not_hold_up_the_append(memory: Backend) -> None:
    clock = HandClock()
    gate = chain_on(memory, clock).store.runtime.tasks.event()

    async def wait(verb: str, key: str) -> None:
        if verb == "put":
            await gate.wait()

    chain = chain_on(Interposed(memory, before=wait), clock)
    head = await chain.head()
    for n in range(5):
        head = await chain.append(head, n)
        clock.pass_ms(2_000)
    gate.set()
    await chain.close()
    assert decode(await memory.get(KEY), Hint).number == 4
