"""Collection of chains: what is deleted and kept, and what a crash leaves to the next run (P6, P9)."""

import pytest

from arco.core.errors import Invalid, NotFound, Unavailable, Unknown
from arco.storage.backend import Backend
from arco.storage.chain import SHORTEST_RETENTION_MS, Chain, Head
from arco.storage.chain_gc import ChainGcResult, collect
from arco.storage.roles import Role
from tests.clocks import HandClock
from tests.storage.chains import FULL, PATH
from tests.storage.dated_backend import Dated
from tests.storage.interposed import Interposed
from tests.storage.recorder import Recorder, recorded_store

RETENTION_MS = SHORTEST_RETENTION_MS
HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> HandClock:
    """The clock of the store."""
    return HandClock()


@pytest.fixture
def store(memory: Backend, clock: HandClock) -> Backend:
    return Dated(memory, clock)


def chain_as(role: Role, backend: Backend, clock: HandClock) -> Chain:
    return Chain(recorded_store(backend, Recorder(), clock, role), PATH, hinted=False)


async def grow_hourly(backend: Backend, clock: HandClock, numbers: int) -> None:
    """Number n is created in hour n; the last one just now."""
    chain = chain_as(Role.API, backend, clock)
    head = await chain.head()
    for n in range(numbers):
        if n:
            clock.pass_ms(HOUR_MS)
        head = await chain.append(head, n)


async def janitor_collects(
    backend: Backend, clock: HandClock, *, ceiling: int | None = None
) -> ChainGcResult:
    chain = chain_as(Role.JANITOR, backend, clock)
    return await collect(chain, retention_ms=RETENTION_MS, ceiling=ceiling)


async def numbers_in(backend: Backend) -> list[int]:
    names = [meta.key.removeprefix(f"{FULL}/") async for meta in backend.list(f"{FULL}/")]
    return [int(name[:20]) for name in names if "/" not in name and name[:20].isdigit()]


async def test_a_number_goes_when_its_successor_has_existed_for_the_retention(
    store: Backend, clock: HandClock
) -> None:
    await grow_hourly(store, clock, 10)
    # It is hour 9: numbers 0 to 7 have existed for 2 hours, so 7 stays and what is below it goes.
    assert await janitor_collects(store, clock) == ChainGcResult(floor=7, deleted=7)
    assert await numbers_in(store) == [7, 8, 9]


async def test_a_young_chain_keeps_everything(store: Backend, clock: HandClock) -> None:
    await grow_hourly(store, clock, 2)
    assert await janitor_collects(store, clock) == ChainGcResult(floor=0, deleted=0)
    assert await numbers_in(store) == [0, 1]


async def test_the_head_stays_however_old_it_is(store: Backend, clock: HandClock) -> None:
    await grow_hourly(store, clock, 5)
    clock.pass_ms(1_000 * HOUR_MS)
    assert await janitor_collects(store, clock) == ChainGcResult(floor=4, deleted=4)
    assert (await chain_as(Role.API, store, clock).head()).number == 4


async def test_an_empty_chain_is_left_alone(store: Backend, clock: HandClock) -> None:
    assert await janitor_collects(store, clock) == ChainGcResult(floor=0, deleted=0)
    assert (await chain_as(Role.API, store, clock).head()).number == -1


@pytest.mark.parametrize(("ceiling", "floor"), [(0, 0), (3, 3), (8, 8), (9, 9), (50, 9)])
async def test_numbers_from_the_ceiling_up_stay_however_old(
    store: Backend, clock: HandClock, ceiling: int, floor: int
) -> None:
    await grow_hourly(store, clock, 10)
    clock.pass_ms(1_000 * HOUR_MS)
    assert await janitor_collects(store, clock, ceiling=ceiling) == ChainGcResult(floor, floor)
    assert await numbers_in(store) == list(range(floor, 10))


async def test_a_janitor_whose_own_clock_is_ahead_collects_nothing_early(
    store: Backend, clock: HandClock
) -> None:
    await grow_hourly(store, clock, 10)
    ahead = HandClock(clock.now_ms() + 10_000 * HOUR_MS)
    assert (await janitor_collects(store, ahead)).floor == 7


async def test_a_collection_twice_is_the_same_as_once(store: Backend, clock: HandClock) -> None:
    await grow_hourly(store, clock, 10)
    await janitor_collects(store, clock)
    before = {meta.key async for meta in store.list("")}
    assert await janitor_collects(store, clock) == ChainGcResult(floor=7, deleted=0)
    assert {meta.key async for meta in store.list("")} == before


@pytest.mark.parametrize("survived", [0, 1, 5])
async def test_what_a_crash_after_the_floor_has_left_goes_the_next_time(
    store: Backend, clock: HandClock, survived: int
) -> None:
    await grow_hourly(store, clock, 10)
    deleted: list[str] = []

    async def crash(verb: str, key: str) -> None:
        if verb == "delete" and "/locks/" in key:
            if len(deleted) == survived:
                raise Unavailable("the power is gone")
            deleted.append(key)

    with pytest.raises(Unavailable):
        await janitor_collects(Interposed(store, before=crash), clock)
    assert (await chain_as(Role.API, store, clock).head()).number == 9
    assert await janitor_collects(store, clock) == ChainGcResult(floor=7, deleted=7 - survived)
    assert await numbers_in(store) == [7, 8, 9]


async def test_a_crash_before_the_floor_has_changed_nothing(
    store: Backend, clock: HandClock
) -> None:
    await grow_hourly(store, clock, 10)

    async def crash(verb: str, key: str) -> None:
        if verb == "create" and "/floor/" in key:
            raise Unavailable("the power is gone")

    with pytest.raises(Unknown):
        await janitor_collects(Interposed(store, before=crash), clock)
    assert await numbers_in(store) == list(range(10))
    assert await chain_as(Role.API, store, clock).floor() == 0


async def test_the_floor_is_raised_before_anything_goes(store: Backend, clock: HandClock) -> None:
    await grow_hourly(store, clock, 10)
    order: list[str] = []

    async def note(verb: str, key: str) -> None:
        if verb in ("create", "delete") and "/locks/" in key:
            order.append(f"{verb} {'floor' if '/floor/' in key else 'number'}")

    await janitor_collects(Interposed(store, after=note), clock)
    assert order == ["create floor", *["delete number"] * 7]


async def test_only_numbers_go(store: Backend, clock: HandClock) -> None:
    await grow_hourly(store, clock, 10)
    foreign = ["head.json", "x.json", "0.json.bak", "0", "00000000000000000001.renewal.json"]
    for name in foreign:
        await store.create(f"{FULL}/{name}", b"{}")
    await janitor_collects(store, clock)
    remaining = [meta.key.removeprefix(f"{FULL}/") async for meta in store.list(f"{FULL}/")]
    assert set(foreign) <= set(remaining)
    assert f"floor/{0:020d}.json" in remaining


async def test_writers_go_on_over_a_collection(store: Backend, clock: HandClock) -> None:
    writer = chain_as(Role.API, store, clock)

    async def build(head: Head) -> int:
        return head.number + 1

    for n in range(30):
        clock.pass_ms(HOUR_MS)
        await writer.extend(build)
        await janitor_collects(store, clock)
        assert (await chain_as(Role.API, store, clock).head()).number == n
    assert await numbers_in(store) == [27, 28, 29]
    with pytest.raises(NotFound):
        await writer.read(26)


async def test_a_retention_shorter_than_any_request_may_take_is_refused(
    store: Backend, clock: HandClock
) -> None:
    with pytest.raises(Invalid):
        await collect(chain_as(Role.JANITOR, store, clock), retention_ms=RETENTION_MS - 1)
