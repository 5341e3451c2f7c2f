import math
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core.errors import ArcoError, NotFound, Unavailable
from arco.core.scope import Scope
from arco.core.tasks import run
from arco.storage.backend import Backend
from arco.storage.retry import StoreRetryPolicy
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.clocks import HandClock, hand_runtime
from tests.storage.interposed import Interposed


class Failing:
    """A step that lets so much time pass, fails so often, and counts."""

    def __init__(self, clock: HandClock, *, times: float = math.inf, takes_ms: float = 0) -> None:
        self.clock = clock
        self.times = times
        self.takes_ms = takes_ms
        self.requests = 0

    async def step(self, verb: str, key: str) -> None:
        self.requests += 1
        self.clock.pass_ms(self.takes_ms)
        if self.requests <= self.times:
            raise Unavailable("503")


def store_with(
    memory: Backend, failing: Failing, retry: StoreRetryPolicy | None = None, seed: int = 0
) -> Store:
    runtime = hand_runtime(failing.clock, seed)
    backend = Interposed(memory, before=failing.step)
    return Store(backend, runtime, scope=Scope(), role=Role.JANITOR, retry=retry)


async def test_a_read_is_repeated_until_it_succeeds(memory: Backend) -> None:
    await memory.create("tenant=default/workspace=default/a/x", b"1")
    failing = Failing(HandClock(), times=5)
    assert await store_with(memory, failing).get("a/x") == b"1"
    assert failing.requests == 6


@pytest.mark.parametrize("verb", ["get", "get_range", "head", "delete"])
async def test_attempts_are_bounded_in_number(memory: Backend, verb: str) -> None:
    failing = Failing(HandClock())
    store = store_with(memory, failing, StoreRetryPolicy(attempts=7))
    requests: dict[str, Callable[[], Awaitable[object]]] = {
        "get": lambda: store.get("a/x"),
        "get_range": lambda: store.get_range("a/x", 0, 1),
        "head": lambda: store.head("a/x"),
        "delete": lambda: store.delete("a/x"),
    }
    with pytest.raises(Unavailable):
        await requests[verb]()
    assert failing.requests == 7


async def test_attempts_are_bounded_in_time(memory: Backend) -> None:
    clock = HandClock()
    failing = Failing(clock, takes_ms=2_000)
    with pytest.raises(Unavailable):
        await store_with(memory, failing, StoreRetryPolicy(attempts=1_000, budget_ms=10_000)).get(
            "a/x"
        )
    assert failing.requests <= 5
    assert clock.elapsed_ms() <= 10_000 + 2_000 + 4_000  # one more attempt and one pause


async def test_an_answer_is_not_repeated(memory: Backend) -> None:
    clock = HandClock()
    failing = Failing(clock, times=0)
    with pytest.raises(NotFound):
        await store_with(memory, failing).get("a/x")
    assert (failing.requests, clock.slept_ms) == (1, [])


@settings(deadline=None, max_examples=30)
@given(st.integers())
def test_pauses_double_with_jitter_up_to_the_longest(seed: int) -> None:
    clock = HandClock()
    retry = StoreRetryPolicy(attempts=9, first_pause_ms=10, longest_pause_ms=200, budget_ms=1e9)

    async def exhaust() -> None:
        runtime = hand_runtime(clock, seed)
        attempt = 0
        while await retry.wait_before(runtime, attempt, 0):
            attempt += 1
        assert attempt == 9

    run(exhaust())
    due = [10, 20, 40, 80, 160, 200, 200, 200]
    assert len(clock.slept_ms) == len(due)
    for slept, longest in zip(clock.slept_ms, due, strict=True):
        assert longest / 2 <= slept <= longest


def test_the_pauses_of_two_processes_differ_and_those_of_one_seed_do_not() -> None:
    def pauses(seed: int) -> list[float]:
        clock = HandClock()
        runtime = hand_runtime(clock, seed)
        for attempt in range(1, 5):
            assert run(StoreRetryPolicy().wait_before(runtime, attempt, 0))
        return clock.slept_ms

    assert pauses(1) == pauses(1)
    assert pauses(1) != pauses(2)


def test_a_large_object_is_given_more_time() -> None:
    retry = StoreRetryPolicy(attempt_ms=10_000, bytes_per_ms=1_000)
    assert retry.patience_ms(0) == 10_000
    assert retry.patience_ms(64_000_000) == 74_000


async def test_a_request_that_hangs_is_cancelled_and_retried(memory: Backend) -> None:
    hung: list[str] = []
    clock = HandClock()
    runtime = hand_runtime(clock)

    async def hang_once(verb: str, key: str) -> None:
        if not hung:
            hung.append(key)
            await runtime.tasks.event().wait()

    store = Store(
        Interposed(memory, before=hang_once),
        runtime,
        scope=Scope(),
        role=Role.API,
        retry=StoreRetryPolicy(attempt_ms=30),
    )
    await store.create("locks/x", b"1")
    assert await store.get("locks/x") == b"1"
    assert len(hung) == 1


def test_the_default_gives_up_within_a_minute() -> None:
    retry = StoreRetryPolicy()
    worst_ms = retry.budget_ms + 2 * retry.attempt_ms + retry.longest_pause_ms
    assert worst_ms < 60_000
    assert issubclass(Unavailable, ArcoError)
