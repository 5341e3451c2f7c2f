"""The lease: processes take turns, a crash costs its life and no more, and alone it costs nothing (P28)."""

import asyncio
from functools import partial
from itertools import pairwise

import pytest

from arco.catalog.epoch import Epoch, Epochs, LeaseWaiter, Renewal
from arco.catalog.lease import IDLE_MS, LIFE_MS, TURN_MS, Lease
from arco.core import json
from arco.core.errors import Corrupt, Invalid, Unavailable
from arco.core.runtime import Runtime, system_runtime
from arco.core.scope import Scope
from arco.storage.backend import Backend
from arco.storage.chain import Chain
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.catalog.lease_contest import DOMAIN, FULL, Contender, Contest, crash_after, note_key
from tests.sim.faults import NONE, OUTAGE, Faults
from tests.sim.store import SimBackend
from tests.sim.world import HOUR_MS
from tests.storage.interposed import nothing
from tests.stores import Bench

PROMPT_MS = 600  # a look, a create, and the way to the store and back, several times


async def test_tokens_count_up_from_zero_and_a_held_one_stays(bench: Bench) -> None:
    lease = Lease(bench.store(), DOMAIN, holder="a")
    assert await lease.hold() == 0
    assert await lease.hold() == 0
    await lease.close()
    second_lease = Lease(bench.store(), DOMAIN, holder="a")
    assert await second_lease.hold() == 1
    await second_lease.close()


async def test_an_epoch_says_who_took_it_and_for_how_long(bench: Bench) -> None:
    lease = Lease(bench.store(), DOMAIN, holder="api-1", life_ms=4_000)
    await lease.hold()
    await lease.close()
    entry = await Chain(bench.store(), f"locks/{DOMAIN}").read(0)
    epoch = entry.body(Epoch)
    assert epoch.holder.startswith("api-1/")
    assert epoch.life_ms == 4_000
    renewal = await bench.store().get(f"locks/{DOMAIN}/{0:020d}.renewal.json")
    assert renewal == b'{"format":1,"epoch":0,"count":1,"released":true}'


def test_a_clean_close_passes_the_lease_on_at_once() -> None:
    async def first(contender: Contender) -> None:
        await contender.hold()
        await contender.clock.sleep(300)
        await contender.lease.close()

    contest = Contest()
    contest.join("first", first)
    contest.join("second", lambda contender: contender.work(10), at_ms=100)
    contest.run(10)
    assert contest.winners() == ["first", "second"]
    assert contest.when(1) < 300 + PROMPT_MS


def test_a_crash_passes_the_lease_on_after_its_life_and_not_before() -> None:
    contest = Contest()
    crash_after(contest, "first", 2_500)
    contest.join("second", lambda contender: contender.work(10), at_ms=2_600)
    contest.run(20)
    assert contest.tokens() == [0, 1]
    assert 2_600 + LIFE_MS <= contest.when(1) < 2_600 + LIFE_MS + PROMPT_MS


def test_the_life_that_counts_is_the_one_written_in_the_epoch() -> None:
    contest = Contest()
    process = contest.join("first", lambda contender: contender.work(1e9), life_ms=9_000)
    contest.world.after(500, process.crash)
    contest.join("second", lambda contender: contender.work(10), at_ms=600, life_ms=1_000)
    contest.run(30)
    assert 600 + 9_000 <= contest.when(1) < 600 + 9_000 + PROMPT_MS


def test_an_epoch_cannot_ask_for_more_than_a_minute() -> None:
    async def wait(contender: Contender) -> None:
        chain = Chain(contender.store, f"locks/{DOMAIN}")
        await chain.append(await chain.head(), Epoch(holder="greedy", life_ms=10**12))
        assert await contender.hold(70_000) == 1

    contest = Contest()
    contest.join("second", wait)
    contest.run(80)
    assert contest.ended == {"second"}


def test_a_restart_after_a_kill_waits_for_one_life_only() -> None:
    contest = Contest()
    process = contest.join("only", lambda contender: contender.work(1e9))
    contest.world.after(5_000, process.crash)
    contest.world.after(5_100, process.restart)
    contest.run(20)
    assert contest.tokens() == [0, 1]
    assert contest.when(1) < 5_100 + LIFE_MS + PROMPT_MS


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\xff\x00",
        b'{"format":1,"epoch":0',
        b'{"format":1,"epoch":7,"count":1,"released":false}',
        b'{"format":99,"epoch":0,"count":1,"released":false}',
        b"[" * 10_000,
    ],
)
def test_garbage_in_the_renewal_counts_as_expired(garbage: bytes) -> None:
    contest = Contest()
    crash_after(contest, "first", 500)
    contest.world.after(700, lambda: contest.objects.put("other", note_key(0), garbage))
    contest.join("second", lambda contender: contender.work(10), at_ms=1_000)
    contest.run(10)
    assert contest.when(1) < 1_000 + PROMPT_MS


def test_a_body_that_is_no_epoch_is_corrupt() -> None:
    async def meet(contender: Contender) -> None:
        chain = Chain(contender.store, f"locks/{DOMAIN}")
        await chain.append(await chain.head(), "not an epoch")
        with pytest.raises(Corrupt):
            await contender.hold()

    contest = Contest()
    contest.join("only", meet)
    contest.run(10)
    assert contest.ended == {"only"}


def test_a_holder_with_endless_work_yields_after_its_turn_if_another_waits() -> None:
    contest = Contest()
    contest.join("first", lambda contender: contender.work(20_000))
    contest.join("second", lambda contender: contender.work(20_000), at_ms=100)
    contest.run(18)
    assert set(contest.winners()) == {"first", "second"}
    for (held_ms, one, _), (next_ms, other, _) in pairwise(contest.turns):
        assert one != other
        assert TURN_MS <= next_ms - held_ms < TURN_MS + PROMPT_MS
    assert not contest.overlaps


def test_a_holder_with_endless_work_keeps_the_lease_while_no_other_waits() -> None:
    contest = Contest()
    contest.join("only", lambda contender: contender.work(60_000))
    contest.run(50)
    assert contest.tokens() == [0]


@pytest.mark.parametrize("seed", range(5))
def test_eight_contenders_all_get_their_turn(seed: int) -> None:
    contest = Contest(seed)
    for n in range(8):
        contest.join(f"c{n}", lambda contender: contender.work(120_000))
    contest.run(60)
    winners = contest.winners()
    assert len(set(winners)) == 8
    assert len(winners) > 40
    # The process that waited longest is next: none has a second turn before all others had one.
    for name in set(winners):
        turns = [n for n, winner in enumerate(winners) if winner == name]
        assert {later - earlier for earlier, later in pairwise(turns)} == {8}
    assert not contest.overlaps
    assert contest.tokens() == sorted(set(contest.tokens()))


def test_short_work_with_short_rests_does_not_keep_a_waiter_out() -> None:
    async def restless(contender: Contender) -> None:
        while True:
            await contender.hold()
            await contender.clock.sleep(20)
            contender.lease.idle()
            await contender.clock.sleep(IDLE_MS + 60)

    contest = Contest()
    contest.join("restless", restless)
    contest.join("second", lambda contender: contender.work(10), at_ms=5_000)
    contest.run(20)
    [turn] = [at_ms for at_ms, name, _ in contest.turns if name.startswith("second")]
    assert turn < 5_000 + TURN_MS + PROMPT_MS


def test_a_yielding_holder_goes_on_when_those_who_waited_are_gone() -> None:
    contest = Contest()
    contest.join("first", lambda contender: contender.work(10_000))
    waiter = contest.join("second", lambda contender: contender.work(10_000), at_ms=100)
    contest.world.after(600, waiter.crash)
    contest.run(9)
    assert contest.winners() == ["first", "first"]
    assert contest.when(1) < TURN_MS + 500 + PROMPT_MS


def test_an_idle_lease_is_released_unless_work_resumes_in_time() -> None:
    tokens: list[int | None] = []

    async def steps(contender: Contender) -> None:
        await contender.hold()
        contender.lease.idle()
        await contender.clock.sleep(IDLE_MS - 20)
        assert await contender.hold() == 0
        await contender.clock.sleep(5 * IDLE_MS)
        tokens.append(contender.lease.token)
        contender.lease.idle()
        await contender.clock.sleep(2 * IDLE_MS)
        tokens.append(contender.lease.token)
        renewal = await Epochs(contender.store, DOMAIN).renewal(0)
        assert renewal is not None
        assert renewal.released

    contest = Contest()
    contest.join("only", steps)
    contest.run(10)
    assert tokens == [0, None]


def test_a_process_without_rivals_never_waits() -> None:
    waits: list[float] = []

    async def steps(contender: Contender) -> None:
        for rest_ms in (0, 150, 250, 400, 5_000, 2 * HOUR_MS) * 3:
            before = contender.clock.elapsed_ms()
            await contender.hold()
            waits.append(contender.clock.elapsed_ms() - before)
            contender.lease.idle()
            await contender.clock.sleep(rest_ms)

    contest = Contest(faults=Faults(slowest_ms=5.0))
    contest.join("only", steps)
    contest.run(10 * 3_600)
    assert contest.ended == {"only"}
    # Five milliseconds each way: a cold look at the chain is the longest, and there is no pause.
    assert max(waits) <= 70


def test_a_process_that_was_idle_while_epochs_were_collected_takes_the_newest() -> None:
    async def sleeper(contender: Contender) -> None:
        assert await contender.hold() == 0
        contender.lease.idle()
        await contender.clock.sleep(3 * HOUR_MS)
        assert await contender.hold() == 4

    async def janitor(contender: Contender) -> None:
        chain = Chain(contender.store, f"locks/{DOMAIN}")
        for _ in range(3):
            await chain.append(await chain.head(), Epoch(holder="other", life_ms=1))
        far = SimBackend(contender.contest.objects, contender.incarnation)
        store = Store(far, contender.incarnation.runtime, scope=Scope(), role=Role.JANITOR)
        await Chain(store, f"locks/{DOMAIN}").raise_floor(3)
        for n in range(3):
            await store.delete(chain.key(n))

    contest = Contest()
    contest.join("sleeper", sleeper)
    contest.join("janitor", janitor, at_ms=2_000)
    contest.run(4 * 3_600)
    assert contest.ended == {"sleeper", "janitor"}


def test_a_lost_token_is_not_reissued() -> None:
    async def steps(contender: Contender) -> None:
        assert await contender.hold() == 0
        contender.lease.lost()
        assert contender.lease.token is None
        assert await contender.hold() == 1
        assert await contender.hold() == 1

    contest = Contest()
    contest.join("only", steps)
    contest.run(10)
    assert contest.ended == {"only"}


def test_a_process_that_lost_its_token_waits_for_the_new_holder() -> None:
    async def loser(contender: Contender) -> None:
        await contender.hold()
        contender.incarnation.sleep(2 * LIFE_MS)
        await contender.clock.sleep(0)
        contender.lease.lost()
        await contender.hold()

    contest = Contest()
    contest.join("loser", loser)
    contest.join("taker", lambda contender: contender.work(8_000), at_ms=100)
    contest.run(30)
    assert contest.winners()[:3] == ["loser", "taker", "loser"]
    assert not contest.overlaps


def test_a_sleeper_finds_its_lease_gone() -> None:
    async def sleeper(contender: Contender) -> None:
        await contender.hold()
        contender.incarnation.sleep(LIFE_MS)
        await contender.clock.sleep(0)
        assert contender.lease.token is None
        assert await contender.hold() == 1

    contest = Contest()
    contest.join("sleeper", sleeper)
    contest.run(20)
    assert contest.ended == {"sleeper"}


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("hours", [-1, 1])
def test_wall_clocks_that_jump_change_nothing(who: int, hours: int) -> None:
    def tournament(*, jumping: bool) -> list[tuple[float, str, int]]:
        contest = Contest()
        processes = [
            contest.join(name, lambda contender: contender.work(30_000)) for name in ("a", "b")
        ]
        if jumping:
            for at_ms in range(0, 20_000, 700):
                by_ms = hours * HOUR_MS * (1 if at_ms % 1_400 else -1)
                contest.world.after(at_ms, partial(processes[who].jump, by_ms))
        return contest.run(20).turns

    turns = tournament(jumping=True)
    assert len(turns) > 10
    assert [turn[1:] for turn in turns] == [turn[1:] for turn in tournament(jumping=False)]


def test_a_caller_that_waits_too_long_gets_unavailable_with_a_retry_time() -> None:
    async def impatient(contender: Contender) -> None:
        before = contender.clock.elapsed_ms()
        with pytest.raises(Unavailable) as caught:
            await contender.hold(400)
        assert caught.value.retry_after_ms == LIFE_MS
        assert contender.clock.elapsed_ms() - before == pytest.approx(400)

    contest = Contest()
    crash_after(contest, "first", 500)
    contest.join("second", impatient, at_ms=600)
    contest.run(10)
    assert contest.ended == {"second"}
    # And no process goes on taking a lease that no caller waits for.
    assert not [m for m in contest.objects.log if m.key == f"{FULL}/{1:020d}.json"]


def test_short_patience_adds_up_to_a_takeover() -> None:
    async def retry(contender: Contender) -> None:
        for _ in range(10):
            try:
                await contender.hold(500)
            except Unavailable:
                await contender.clock.sleep(100)
            else:
                return

    contest = Contest()
    crash_after(contest, "first", 500)
    contest.join("second", retry, at_ms=600)
    contest.run(10)
    assert contest.winners() == ["first", "second"]
    assert contest.when(1) < 600 + LIFE_MS + PROMPT_MS + 100


def test_a_caller_that_left_while_the_lease_was_taken_does_not_keep_it() -> None:
    async def hasty(contender: Contender) -> None:
        with pytest.raises(Unavailable):
            await contender.hold(12)  # the search is still going on, or the create is under way
        await contender.clock.sleep(2_000)
        assert contender.lease.token is None

    contest = Contest(faults=Faults(slowest_ms=5.0))
    contest.join("first", hasty)
    contest.join("second", lambda contender: contender.work(10), at_ms=1_000)
    contest.run(10)
    assert contest.ended == {"first", "second"}
    assert contest.turns[-1][0] < 1_000 + PROMPT_MS


def test_callers_at_the_same_time_share_one_epoch() -> None:
    async def steps(contender: Contender) -> None:
        tokens = await contender.incarnation.runtime.tasks.gather(
            *(contender.hold() for _ in range(10))
        )
        assert tokens == [0] * 10

    contest = Contest()
    contest.join("only", steps)
    contest.run(5)
    assert contest.ended == {"only"}


def test_an_outage_is_reported_and_survived() -> None:
    async def steps(contender: Contender) -> None:
        await contender.hold()
        contender.contest.objects.faults = OUTAGE
        await contender.clock.sleep(2 * LIFE_MS)
        assert contender.lease.token is None, "renewals that were not heard do not count"
        with pytest.raises(Unavailable):
            await contender.hold(120_000)
        contender.contest.objects.faults = NONE
        assert await contender.hold() >= 1

    contest = Contest()
    contest.join("only", steps)
    contest.run(300)
    assert contest.ended == {"only"}


def test_a_closed_lease_is_not_retaken() -> None:
    async def steps(contender: Contender) -> None:
        await contender.hold()
        await contender.lease.close()
        await contender.lease.close()
        with pytest.raises(Unavailable, match="closed"):
            await contender.hold()

    contest = Contest()
    contest.join("only", steps)
    contest.run(10)
    assert contest.ended == {"only"}


async def test_a_caller_that_is_cancelled_at_the_last_moment_does_not_keep_the_lease(
    memory: Backend, runtime: Runtime
) -> None:
    store = Store(memory, runtime, scope=Scope(), role=Role.API)
    lease = Lease(store, DOMAIN, holder="a")
    caller = asyncio.create_task(lease.hold())
    while lease.token is None:
        await runtime.tasks.turn()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await runtime.clock.sleep(2 * IDLE_MS)
    assert lease.token is None
    await lease.close()


def test_a_process_does_not_wait_for_its_own_unacknowledged_epoch() -> None:
    async def steps(contender: Contender) -> None:
        sent: list[str] = []

        async def drop_the_answer(verb: str, key: str) -> None:
            sent.append(verb)
            if "create" in sent:
                raise Unavailable("no answer")

        contender.after = drop_the_answer
        with pytest.raises(Unavailable):
            await contender.hold(120_000)
        contender.after = nothing
        before = contender.clock.elapsed_ms()
        assert await contender.hold() == 1
        assert contender.clock.elapsed_ms() - before < PROMPT_MS

    contest = Contest()
    contest.join("only", steps)
    contest.run(200)
    assert contest.ended == {"only"}


@pytest.mark.parametrize("life_ms", [0, -1, 60_001])
def test_an_unusable_lease_duration_is_refused(memory: Backend, life_ms: int) -> None:
    store = Store(memory, system_runtime(), scope=Scope(), role=Role.API)
    with pytest.raises(Invalid):
        Lease(store, DOMAIN, holder="a", life_ms=life_ms)


def test_the_notes_have_the_bytes_that_the_formats_page_says() -> None:
    assert json.encode(Epoch(holder="api-1/X", life_ms=3_000)) == (
        b'{"holder":"api-1/X","life_ms":3000}'
    )
    assert json.encode(Renewal(epoch=7, count=2)) == (
        b'{"format":1,"epoch":7,"count":2,"released":false}'
    )
    assert json.encode(LeaseWaiter(epoch=7, waiter="api-2/Y", waited_ms=1200)) == (
        b'{"format":1,"epoch":7,"waiter":"api-2/Y","waited_ms":1200}'
    )
