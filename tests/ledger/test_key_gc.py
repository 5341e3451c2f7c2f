"""The life of a key is stored in its first claim: every process uses that one (P14)."""

import pytest

from arco.core.errors import Invalid
from arco.ledger.claim import MAX_REQUEST_MS, Claim, key_chain, read_key
from arco.ledger.gc import collect_keys
from arco.ledger.idempotency import MIN_LIFE_MS, Idempotency
from arco.storage.roles import Role
from tests.ledger.keyed_requests import PATH, Create, created_tables, target
from tests.ledger.simulated import Calm, simulate
from tests.sim.world import HOUR_MS, SECOND_MS

LIFE_MS = round(40 * HOUR_MS)


async def crashed(world: Calm, life_ms: int) -> None:
    """A holder that died before its work, under a key of some life."""
    keys = Idempotency(world.store(), life_ms=life_ms)
    with pytest.raises(KeyboardInterrupt):
        await keys.once(PATH, "body", Create(target(world), "x", dies_before_create=True))


def test_a_key_goes_when_its_own_life_and_the_longest_request_are_over() -> None:
    async def scenario(world: Calm) -> None:
        keys = Idempotency(world.store(), life_ms=LIFE_MS)
        await keys.once(PATH, "body", Create(target(world)))
        await keys.close()
        janitor = world.store(Role.JANITOR)
        await world.clock.sleep(LIFE_MS + MAX_REQUEST_MS - 5 * SECOND_MS)
        assert await collect_keys(janitor) == 0
        second = Idempotency(world.store(), life_ms=MIN_LIFE_MS)
        assert (await second.once(PATH, "body", Create(target(world)))).status == 201
        assert await created_tables(target(world)) == ["table"]
        await world.clock.sleep(10 * SECOND_MS)
        assert await collect_keys(janitor) == 1
        assert await read_key(key_chain(world.store(), PATH)) == []

    simulate(scenario)


@pytest.mark.parametrize("of_the_reader_ms", [MIN_LIFE_MS, 10 * LIFE_MS])
def test_a_claim_is_refused_by_the_life_it_was_given_and_not_by_the_reader_s(
    of_the_reader_ms: int,
) -> None:
    async def scenario(world: Calm) -> None:
        await crashed(world, LIFE_MS)
        reader = Idempotency(world.store(), life_ms=of_the_reader_ms)
        await world.clock.sleep(LIFE_MS - SECOND_MS)
        with pytest.raises(KeyboardInterrupt):  # it takes over
            await reader.once(PATH, "body", Create(target(world), dies_before_create=True))
        await world.clock.sleep(2 * SECOND_MS)
        with pytest.raises(Invalid, match="expired"):
            await reader.once(PATH, "body", Create(target(world)))

    simulate(scenario)


def test_a_takeover_repeats_the_life_of_the_first_claim() -> None:
    async def scenario(world: Calm) -> None:
        await crashed(world, LIFE_MS)
        await world.clock.sleep(3 * SECOND_MS)
        await crashed(world, MIN_LIFE_MS)
        claims = [each.body(Claim) for each in await read_key(key_chain(world.store(), PATH))]
        assert [claim.life_ms for claim in claims] == [LIFE_MS, LIFE_MS]

    simulate(scenario)


@pytest.mark.parametrize("life_ms", [MIN_LIFE_MS - 1, 0, -1])
def test_a_life_shorter_than_the_shortest_is_refused(life_ms: int) -> None:
    async def scenario(world: Calm) -> None:
        with pytest.raises(Invalid, match="at least"):
            Idempotency(world.store(), life_ms=life_ms)

    simulate(scenario)


def test_the_shortest_life_is_a_life() -> None:
    async def scenario(world: Calm) -> None:
        await crashed(world, MIN_LIFE_MS)
        await world.clock.sleep(MIN_LIFE_MS + MAX_REQUEST_MS + SECOND_MS)
        assert await collect_keys(world.store(Role.JANITOR)) == 1

    simulate(scenario)


def test_claims_of_keys_younger_than_the_shortest_life_are_not_read() -> None:
    async def scenario(world: Calm) -> None:
        keys = Idempotency(world.store(), life_ms=LIFE_MS)
        for number in range(5):
            path = f"{PATH[:-1]}{number}"
            await keys.once(path, "body", Create(target(world), refuse=True))
        janitor = world.store(Role.JANITOR)
        spent = []
        for pause_ms in (0, MIN_LIFE_MS, 2 * MAX_REQUEST_MS):
            await world.clock.sleep(pause_ms)
            before = world.requests()
            assert await collect_keys(janitor) == 0
            spent.append(world.requests() - before)
        fixed_requests = 3  # the store's time, in two requests, and the listing
        assert spent == [fixed_requests, fixed_requests, fixed_requests + 5]

    simulate(scenario)


def test_what_came_too_late_for_its_key_s_end_is_collected_in_its_turn() -> None:
    async def scenario(world: Calm) -> None:
        keys = Idempotency(world.store(), life_ms=LIFE_MS)
        await keys.once(PATH, "body", Create(target(world), refuse=True))
        janitor = world.store(Role.JANITOR)
        await janitor.delete(f"{PATH}/0000.json")
        assert await collect_keys(janitor) == 0
        await world.clock.sleep(MIN_LIFE_MS + MAX_REQUEST_MS + SECOND_MS)
        assert await collect_keys(janitor) == 1
        assert [meta.key async for meta in janitor.list("_catalog/idempotency/")] == []

    simulate(scenario)
