"""Chains on a store in memory, grown to size: what the tests of chains begin with."""

from collections.abc import Awaitable, Callable

from arco.core.json import encode
from arco.storage.backend import Backend
from arco.storage.chain import Chain
from arco.storage.hint import Hint
from arco.storage.roles import Role
from tests.clocks import HandClock
from tests.storage.recorder import Recorder, recorded_store

PATH = "locks/d"
FULL = f"tenant=default/workspace=default/{PATH}"


def chain_on(
    backend: Backend, recorder: Recorder | None = None, clock: HandClock | None = None
) -> Chain:
    store = recorded_store(backend, recorder or Recorder(), clock or HandClock(), Role.API)
    return Chain(store, PATH)


async def grown(backend: Backend, numbers: int, *, hint: int | None = None) -> None:
    """A chain of so many numbers, with a hint that names one of them or none."""
    store = recorded_store(backend, Recorder(), HandClock(), Role.API)
    chain = Chain(store, PATH, hinted=False)
    head = await chain.head()
    for n in range(numbers):
        head = await chain.append(head, n)
    if hint is not None:
        await put_hint(backend, hint)


async def put_hint(backend: Backend, number: int) -> None:
    hint = Hint(format=1, number=number, floor_index=-1, floor=0)
    await backend.put(f"{FULL}/head.json", encode(hint))


def number_key(number: int) -> str:
    return f"{FULL}/{number:020d}.json"


def janitor_on(backend: Backend) -> Chain:
    return Chain(recorded_store(backend, Recorder(), HandClock(), Role.JANITOR), PATH)


async def collect_below(backend: Backend, floor: int) -> None:
    """As a janitor does: the floor first, then the numbers."""
    await janitor_on(backend).raise_floor(floor)
    for number in range(floor):
        await backend.delete(number_key(number))


def once_before(
    key: str, action: Callable[[], Awaitable[None]], verb: str = "get"
) -> Callable[[str, str], Awaitable[None]]:
    """A step that acts right before the first such request for a key."""
    actions = [action]

    async def step(request_verb: str, request_key: str) -> None:
        if (request_verb, request_key) == (verb, key) and actions:
            await actions.pop()()

    return step
