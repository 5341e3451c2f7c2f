"""What a key costs a request: which requests come before its answer, and which after it."""

import pytest

from arco.core.errors import Corrupt, KeyReused, NotFound, Unavailable
from arco.core.scope import Scope
from arco.ledger.claim import Answer, Claim, key_chain, read_key
from arco.ledger.idempotency import ClaimHold, ClaimTerms, Idempotency
from arco.storage.backend import Backend
from arco.storage.roles import Role
from tests.clocks import HandClock
from tests.ledger.keyed_requests import PATH, Create, created_tables, target
from tests.ledger.simulated import Calm, simulate
from tests.sim.world import MINUTE_MS
from tests.storage.interposed import Interposed, Step, nothing
from tests.storage.recorder import Recorder, recorded_store
from tests.stores import Bench

KEY = Scope().prefix + PATH
CLAIM, OUTCOME = f"{KEY}/0000.json", f"{KEY}/0001.json"


def keys_on(backend: Backend, recorder: Recorder, *, before: Step = nothing) -> Idempotency:
    inner = Interposed(backend, before=before)
    return Idempotency(recorded_store(inner, recorder, HandClock(), Role.API))


def of_the_key(recorder: Recorder) -> list[tuple[str, str]]:
    return [(verb, key) for verb, key in recorder.requests if key.startswith(KEY)]


async def test_a_new_key_is_claimed_without_a_look(memory: Backend, bench: Bench) -> None:
    recorder = Recorder()
    keys = keys_on(memory, recorder)
    await keys.once(PATH, "body", Create(target(bench)))
    await keys.close()
    assert of_the_key(recorder) == [("create", CLAIM), ("get", OUTCOME), ("create", OUTCOME)]


async def test_a_used_key_costs_a_create_its_look_and_one_read_of_the_key(
    memory: Backend, bench: Bench
) -> None:
    first = keys_on(memory, Recorder())
    await first.once(PATH, "body", Create(target(bench)))
    await first.close()
    recorder = Recorder()
    second = keys_on(memory, recorder)
    assert (await second.once(PATH, "body", Create(target(bench)))).status == 201
    lost, look, *read = of_the_key(recorder)
    assert (lost, look) == (("create", CLAIM), ("get", CLAIM))
    assert sorted(read) == [("get", f"{KEY}/{n:04d}.json") for n in range(3)]
    assert recorder.round_trips == 3


class Dropped(Create):
    """The object of the request was dropped, so the work could not begin any more."""

    async def terms(self) -> ClaimTerms:
        raise NotFound("there is no such table")


@pytest.mark.parametrize("refused", [True, False])
async def test_a_used_key_has_its_answer_even_if_the_work_could_not_begin_any_more(
    bench: Bench, *, refused: bool
) -> None:
    keys, chain = Idempotency(bench.store()), target(bench)
    with pytest.raises(NotFound):
        await keys.once(PATH, "body", Dropped(chain))
    first = await keys.once(PATH, "body", Create(chain, refuse=refused))
    assert await keys.once(PATH, "body", Dropped(chain)) == first
    with pytest.raises(KeyReused):
        await keys.once(PATH, "other", Dropped(chain))


async def test_a_success_is_answered_before_its_outcome_is_recorded(
    memory: Backend, bench: Bench
) -> None:
    released = bench.runtime.tasks.event()

    async def hold_back(verb: str, key: str) -> None:
        if (verb, key) == ("create", OUTCOME):
            await released.wait()

    recorder = Recorder()
    keys = keys_on(memory, recorder, before=hold_back)
    chain = target(bench)
    first = await keys.once(PATH, "body", Create(chain, "x"))
    assert first.status == 201
    assert ("create", OUTCOME) not in recorder.requests
    replay = await Idempotency(recorded_store(memory, Recorder(), HandClock(), Role.API)).once(
        PATH, "body", Create(chain, "y")
    )
    assert replay == first, "what has landed is its own evidence"
    assert await created_tables(chain) == ["x"]
    released.set()
    await keys.close()
    assert recorder.requests.count(("create", OUTCOME)) == 1
    await keys.close()


async def test_a_refusal_is_answered_after_its_outcome_was_recorded(
    memory: Backend, bench: Bench
) -> None:
    recorder = Recorder()
    keys = keys_on(memory, recorder)
    assert (await keys.once(PATH, "body", Create(target(bench), refuse=True))).status == 409
    assert recorder.requests[-1] == ("create", OUTCOME)


async def test_an_unexpected_error_while_recording_an_outcome_is_raised_at_close(
    memory: Backend, bench: Bench
) -> None:
    async def fail(verb: str, key: str) -> None:
        if (verb, key) == ("create", OUTCOME):
            raise ZeroDivisionError

    keys = keys_on(memory, Recorder(), before=fail)
    assert (await keys.once(PATH, "body", Create(target(bench)))).status == 201
    with pytest.raises(ZeroDivisionError):
        await keys.close()


def test_an_outcome_is_not_recorded_after_the_longest_request() -> None:
    """Its key may have been collected, and the outcome would have no entry below it."""

    async def scenario(world: Calm) -> None:
        chain = target(world)

        class Slow(Create):
            async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
                done = await super().perform(claim, hold)
                await world.clock.sleep(11 * MINUTE_MS)
                return done

        keys = Idempotency(world.store())
        assert (await keys.once(PATH, "body", Slow(chain))).status == 201
        await keys.close()
        assert len(await read_key(key_chain(world.store(), PATH))) == 1

    simulate(scenario)


async def test_a_leftover_of_an_earlier_life_is_no_answer(bench: Bench) -> None:
    """A late outcome was created after its key was collected: no work is done, no answer is invented."""
    keys, chain = Idempotency(bench.store()), target(bench)
    await keys.once(PATH, "body", Create(chain, "x"))
    await keys.close()
    await bench.store(Role.JANITOR).delete(f"{PATH}/0000.json")
    with pytest.raises(Corrupt):
        await Idempotency(bench.store()).once(PATH, "body", Create(chain, "y"))
    assert await created_tables(chain) == ["x"]


async def test_racers_for_a_new_key_do_the_work_once(bench: Bench) -> None:
    chain = target(bench)
    racers = [Idempotency(bench.store()) for _ in range(6)]

    async def race(number: int, keys: Idempotency) -> int:
        try:
            return (await keys.once(PATH, "body", Create(target(bench), f"t{number}"))).status
        except Unavailable:
            return 503

    statuses = await bench.runtime.tasks.gather(*(race(n, k) for n, k in enumerate(racers)))
    assert 201 in statuses
    assert set(statuses) <= {201, 503}
    assert len(await created_tables(chain)) == 1
    for keys in racers:
        await keys.close()
