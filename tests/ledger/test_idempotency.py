"""Idempotency keys (figure 30): replays, other bodies, crashes, other tenants, takeovers, expiry."""

import msgspec
import pytest

from arco.core.clock import SystemClock
from arco.core.errors import (
    Denied,
    Invalid,
    KeyReused,
    TakenOver,
    Unavailable,
    Unknown,
)
from arco.core.scope import Scope
from arco.ledger.claim import Answer, Claim, find_evidence, key_chain, key_path, read_key
from arco.ledger.gc import collect_keys
from arco.ledger.idempotency import Idempotency
from arco.storage.backend import Backend, ObservedBackend
from arco.storage.chain import Chain
from arco.storage.roles import Role
from tests.ledger.keyed_requests import PATH, Create, Step, created_tables, request_ids, target
from tests.ledger.simulated import Calm, simulate
from tests.request_counter import Tally
from tests.sim.world import HOUR_MS, SECOND_MS
from tests.stores import Bench


class Locked(ObservedBackend):
    """A store whose token expires just before the outcome is written."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner, Tally(), SystemClock())
        self.refused = 0

    async def create(self, key: str, body: bytes) -> None:
        if key.endswith("/0001.json"):
            self.refused += 1
            raise Denied("the token has expired")
        await super().create(key, body)


async def test_a_replay_gets_the_stored_answer_and_changes_nothing(bench: Bench) -> None:
    keys, chain = Idempotency(bench.store()), target(bench)
    first = await keys.once(PATH, "body", Create(chain, "x"))
    replayed = await Idempotency(bench.store()).once(PATH, "body", Create(chain, "y"))
    assert first == replayed == Answer(status=201, body=msgspec.Raw(b'{"table":"x"}'))
    assert await created_tables(chain) == ["x"]


async def test_the_same_key_with_another_body_is_refused(bench: Bench) -> None:
    keys, chain = Idempotency(bench.store()), target(bench)
    await keys.once(PATH, "body", Create(chain))
    with pytest.raises(KeyReused):
        await keys.once(PATH, "other body", Create(chain))
    assert await created_tables(chain) == ["table"]


async def test_a_deterministic_refusal_is_remembered(bench: Bench) -> None:
    keys, chain = Idempotency(bench.store()), target(bench)
    assert (await keys.once(PATH, "body", Create(chain, refuse=True))).status == 409
    assert (await keys.once(PATH, "body", Create(chain))).status == 409
    assert await created_tables(chain) == []


@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 503, 100, 302])
def test_only_verdicts_can_be_answers(status: int) -> None:
    with pytest.raises(Invalid):
        Answer(status=status)


@pytest.mark.parametrize("body", [b"", b"{", b"1 2", b"\xff{"])
def test_an_answer_that_is_no_json_is_refused_before_it_spoils_its_key(body: bytes) -> None:
    with pytest.raises(Invalid):
        Answer(status=204, body=msgspec.Raw(body))


async def test_a_landed_request_is_a_success_even_if_its_outcome_cannot_be_kept(
    bench: Bench,
) -> None:
    locked = Locked(bench.backend)
    store = Bench(locked, bench.runtime, is_flat=bench.is_flat).store()
    keys = Idempotency(store)
    assert (await keys.once(PATH, "body", Create(target(bench)))).status == 201
    await keys.close()
    assert locked.refused == 1
    assert await created_tables(target(bench)) == ["table"]


async def test_collected_evidence_is_unknown_and_never_not_found(bench: Bench) -> None:
    chain = target(bench)
    for n in range(4):
        await chain.append(await chain.head(), Step(str(n), "x"))
    await Chain(bench.store(Role.JANITOR), chain.path).raise_floor(3)
    claim = Claim(request_sha256="s", request_id="r", ids={}, base=1, life_ms=1)
    with pytest.raises(Unknown):
        await find_evidence(target(bench), claim, request_ids)


async def test_a_key_of_another_caller_never_matches(bench: Bench) -> None:
    same = {"principal": "user:a", "api": "native", "operation": "create", "key": "k1"}
    paths = {
        key_path(Scope(), **same),
        key_path(Scope(tenant="other"), **same),
        key_path(Scope(workspace="other"), **same),
        *(key_path(Scope(), **{**same, part: "other"}) for part in same),
    }
    assert len(paths) == 7
    chain = target(bench)
    for path in sorted(paths):
        await Idempotency(bench.store()).once(path, "body", Create(chain, path[-6:]))
    assert len(await created_tables(chain)) == 7


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "\0", "\x7f"])
def test_a_key_that_cannot_be_one_is_refused(key: str) -> None:
    with pytest.raises(Invalid):
        key_path(Scope(), principal="p", api="a", operation="o", key=key)


@pytest.mark.parametrize("landed", [True, False])
def test_the_work_of_a_crashed_holder_is_recognised_or_taken_over(*, landed: bool) -> None:
    async def scenario(world: Calm) -> None:
        chain = target(world)
        crash = Create(chain, "x", dies_after_create=landed, dies_before_create=not landed)
        with pytest.raises(KeyboardInterrupt):
            await Idempotency(world.store()).once(PATH, "body", crash)
        keys = Idempotency(world.store())
        if not landed:
            with pytest.raises(Unavailable) as busy:
                await keys.once(PATH, "body", Create(chain, "y"))
            assert busy.value.retry_after_ms is not None
            await world.clock.sleep(busy.value.retry_after_ms)
        result = await keys.once(PATH, "body", Create(chain, "y"))
        assert bytes(result.body) == b'{"table":"x"}', "the ids of the first claim stand"
        assert await created_tables(chain) == ["x"]

    simulate(scenario)


class CreateUnderNewId(Create):
    """Work that starts over under another id when it is taken over."""

    def renew(self, claim: Claim) -> dict[str, str]:
        return {"table": self.table, "before": claim.ids["table"]}


def test_work_that_must_not_go_on_under_the_old_ids_is_taken_over_with_new_ones() -> None:
    async def scenario(world: Calm) -> None:
        chain, claims = target(world), key_chain(world.store(), PATH)
        for made_by in ("x", "y"):
            crash = CreateUnderNewId(chain, made_by, dies_before_create=True)
            with pytest.raises(KeyboardInterrupt):
                await Idempotency(world.store()).once(PATH, "body", crash)
            await world.clock.sleep(60 * SECOND_MS)
        result = await Idempotency(world.store()).once(PATH, "body", CreateUnderNewId(chain, "z"))
        assert bytes(result.body) == b'{"table":"z","before":"y"}'
        assert await created_tables(chain) == ["z"]
        written = [entry.body(Claim) for entry in (await read_key(claims))[:3]]
        assert [claim.ids["table"] for claim in written] == ["x", "y", "z"]
        first = written[0]
        for claim in written:
            assert (claim.request_id, claim.base) == (first.request_id, first.base)
            assert (claim.request_sha256, claim.life_ms) == (first.request_sha256, first.life_ms)

    simulate(scenario)


def test_patience_doubles_with_each_takeover_up_to_half_a_minute() -> None:
    async def scenario(world: Calm) -> None:
        chain, waited = target(world), []
        for _ in range(7):
            with pytest.raises(KeyboardInterrupt):
                await Idempotency(world.store()).once(
                    PATH, "body", Create(chain, dies_before_create=True)
                )
            with pytest.raises(Unavailable) as busy:
                await Idempotency(world.store()).once(PATH, "body", Create(chain))
            assert busy.value.retry_after_ms is not None
            waited.append(busy.value.retry_after_ms)
            await world.clock.sleep(busy.value.retry_after_ms)
        assert [round(ms / 1000) for ms in waited] == [2, 4, 8, 16, 32, 32, 32]

    simulate(scenario)


def test_a_holder_that_was_taken_over_stops_before_it_creates() -> None:
    async def scenario(world: Calm) -> None:
        chain = target(world)
        slow = Create(chain, "x", dies_before_create=True)
        with pytest.raises(KeyboardInterrupt):
            await Idempotency(world.store()).once(PATH, "body", slow)
        await world.clock.sleep(3 * SECOND_MS)
        await Idempotency(world.store()).once(PATH, "body", Create(chain))
        with pytest.raises(TakenOver):
            await slow.before_create[0].check()

    simulate(scenario)


def test_a_claim_from_a_clock_that_is_ahead_is_taken_over_all_the_same() -> None:
    async def scenario(world: Calm) -> None:
        chain = target(world)
        world.wall.jump(50 * 60 * SECOND_MS)
        with pytest.raises(KeyboardInterrupt):
            await Idempotency(world.store()).once(
                PATH, "body", Create(chain, "x", dies_before_create=True)
            )
        world.wall.jump(-50 * 60 * SECOND_MS)
        keys = Idempotency(world.store())
        with pytest.raises(Unavailable):
            await keys.once(PATH, "body", Create(chain))
        await world.clock.sleep(2 * SECOND_MS)
        assert (await keys.once(PATH, "body", Create(chain))).status == 201

    simulate(scenario)


def test_an_expired_claim_is_refused_and_a_collected_key_is_new() -> None:
    async def scenario(world: Calm) -> None:
        chain, keys = target(world), Idempotency(world.store())
        with pytest.raises(KeyboardInterrupt):
            await keys.once(PATH, "body", Create(chain, "x", dies_before_create=True))
        janitor = world.store(Role.JANITOR)
        await world.clock.sleep(24 * HOUR_MS + SECOND_MS)
        assert await collect_keys(janitor) == 0
        with pytest.raises(Invalid, match="expired"):
            await keys.once(PATH, "body", Create(chain, "y"))
        await world.clock.sleep(HOUR_MS)
        assert await collect_keys(janitor) == 1
        assert [meta.key async for meta in janitor.list("_catalog/")] == []
        result = await Idempotency(world.store()).once(PATH, "new body", Create(chain, "z"))
        assert bytes(result.body) == b'{"table":"z"}'

    simulate(scenario)


def test_a_key_is_collected_from_the_top_down() -> None:
    async def scenario(world: Calm) -> None:
        chain, keys = target(world), Idempotency(world.store())
        await keys.once(PATH, "body", Create(chain))
        await keys.close()
        await world.clock.sleep(26 * HOUR_MS)
        await collect_keys(world.store(Role.JANITOR))
        deleted = [m.key[-9:] for m in world.objects.log if m.verb == "delete" and PATH in m.key]
        assert deleted == ["0001.json", "0000.json"]
        assert (await key_chain(world.store(), PATH).head()).entry is None

    simulate(scenario)
