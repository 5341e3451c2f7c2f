"""The lease: processes take turns, a crash costs its life and no more, and alone it costs nothing (P28)."""

import asyncio
import contextlib
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest

from arco.catalog.epoch import Epoch, Epochs, Renewal, Waiting
from arco.catalog.lease import IDLE_MS, LIFE_MS, TURN_MS, Lease
from arco.core import json
from arco.core.errors import Corrupt, Invalid, Unavailable
from arco.core.runtime import Runtime, system_runtime
from arco.core.scope import Scope
from arco.storage.backend import Backend
from arco.storage.chain import Chain
from arco.storage.observed import ObservedBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.catalog.contest import DOMAIN, FULL, Contender, Contest
from tests.sim.faults import HARSH, MILD, NONE, OUTAGE, Faults
from tests.sim.store import SimBackend
from tests.sim.world import HOUR_MS
from tests.storage.interposed import nothing
from tests.stores import Bench
from tests.tally import Tally

PROMPT_MS = 600  # a look, a create, and the way to the store and back, several times


def note_key(epoch: int, kind: str = "renewal") -> str:
    return f"{FULL}/{epoch:020d}.{kind}.json"


def crash_after(contest: Contest, name: str, at_ms: float) -> None:
    """A process that takes the lease at once and is killed later."""
    process = contest.join(name, lambda it: it.work(1e9))
    contest.world.after(at_ms, process.crash)


async def test_tokens_count_up_from_zero_and_a_held_one_stays(bench: Bench) -> None:
    lease = Lease(bench.store(), DOMAIN, holder="a")
    assert await lease.hold() == 0
    assert await lease.hold() == 0
    await lease.close()
    again = Lease(bench.store(), DOMAIN, holder="a")
    assert await again.hold() == 1
    await again.close()


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
    async def first(it: Contender) -> None:
        await it.hold()
        await it.clock.sleep(300)
        await it.lease.close()

    contest = Contest()
    contest.join("first", first)
    contest.join("second", lambda it: it.work(10), at_ms=100)
    contest.run(10)
    assert contest.winners() == ["first", "second"]
    assert contest.when(1) < 300 + PROMPT_MS


def test_a_crash_passes_the_lease_on_after_its_life_and_not_before() -> None:
    contest = Contest()
    crash_after(contest, "first", 2_500)
    contest.join("second", lambda it: it.work(10), at_ms=2_600)
    contest.run(20)
    assert contest.tokens() == [0, 1]
    assert 2_600 + LIFE_MS <= contest.when(1) < 2_600 + LIFE_MS + PROMPT_MS


def test_the_life_that_counts_is_the_one_written_in_the_epoch() -> None:
    contest = Contest()
    process = contest.join("first", lambda it: it.work(1e9), life_ms=9_000)
    contest.world.after(500, process.crash)
    contest.join("second", lambda it: it.work(10), at_ms=600, life_ms=1_000)
    contest.run(30)
    assert 600 + 9_000 <= contest.when(1) < 600 + 9_000 + PROMPT_MS


def test_an_epoch_cannot_ask_for_more_than_a_minute() -> None:
    async def wait(it: Contender) -> None:
        chain = Chain(it.store, f"locks/{DOMAIN}")
        await chain.append(await chain.head(), Epoch(holder="greedy", life_ms=10**12))
        assert await it.hold(70_000) == 1

    contest = Contest()
    contest.join("second", wait)
    contest.run(80)
    assert contest.ended == {"second"}


def test_a_restart_after_a_kill_waits_for_one_life_only() -> None:
    contest = Contest()
    process = contest.join("only", lambda it: it.work(1e9))
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
    contest.world.after(700, lambda: contest.objects.put("somebody", note_key(0), garbage))
    contest.join("second", lambda it: it.work(10), at_ms=1_000)
    contest.run(10)
    assert contest.when(1) < 1_000 + PROMPT_MS


def test_a_body_that_is_no_epoch_is_corrupt() -> None:
    async def meet(it: Contender) -> None:
        chain = Chain(it.store, f"locks/{DOMAIN}")
        await chain.append(await chain.head(), "not an epoch")
        with pytest.raises(Corrupt):
            await it.hold()

    contest = Contest()
    contest.join("only", meet)
    contest.run(10)
    assert contest.ended == {"only"}


def test_a_holder_with_endless_work_yields_after_its_turn_if_somebody_waits() -> None:
    contest = Contest()
    contest.join("first", lambda it: it.work(20_000))
    contest.join("second", lambda it: it.work(20_000), at_ms=100)
    contest.run(18)
    assert set(contest.winners()) == {"first", "second"}
    for (held_ms, one, _), (next_ms, other, _) in pairwise(contest.turns):
        assert one != other
        assert TURN_MS <= next_ms - held_ms < TURN_MS + PROMPT_MS
    assert not contest.overlaps


def test_a_holder_with_endless_work_keeps_the_lease_while_nobody_waits() -> None:
    contest = Contest()
    contest.join("only", lambda it: it.work(60_000))
    contest.run(50)
    assert contest.tokens() == [0]


@pytest.mark.parametrize("seed", range(5))
def test_eight_contenders_all_get_their_turn(seed: int) -> None:
    contest = Contest(seed)
    for n in range(8):
        contest.join(f"c{n}", lambda it: it.work(120_000))
    contest.run(60)
    winners = contest.winners()
    assert len(set(winners)) == 8
    assert len(winners) > 40
    # The one who waited longest is next: nobody has a second turn before all others had one.
    for name in set(winners):
        turns = [n for n, winner in enumerate(winners) if winner == name]
        assert {later - earlier for earlier, later in pairwise(turns)} == {8}
    assert not contest.overlaps
    assert contest.tokens() == sorted(set(contest.tokens()))


def test_short_work_with_short_rests_does_not_keep_a_waiter_out() -> None:
    async def restless(it: Contender) -> None:
        while True:
            await it.hold()
            await it.clock.sleep(20)
            it.lease.idle()
            await it.clock.sleep(IDLE_MS + 60)

    contest = Contest()
    contest.join("restless", restless)
    contest.join("second", lambda it: it.work(10), at_ms=5_000)
    contest.run(20)
    [turn] = [at_ms for at_ms, name, _ in contest.turns if name.startswith("second")]
    assert turn < 5_000 + TURN_MS + PROMPT_MS


def test_a_yielding_holder_goes_on_when_those_who_waited_are_gone() -> None:
    contest = Contest()
    contest.join("first", lambda it: it.work(10_000))
    waiter = contest.join("second", lambda it: it.work(10_000), at_ms=100)
    contest.world.after(600, waiter.crash)
    contest.run(9)
    assert contest.winners() == ["first", "first"]
    assert contest.when(1) < TURN_MS + 500 + PROMPT_MS


def test_idling_lets_go_and_working_again_in_time_does_not() -> None:
    seen: list[int | None] = []

    async def story(it: Contender) -> None:
        await it.hold()
        it.lease.idle()
        await it.clock.sleep(IDLE_MS - 20)
        assert await it.hold() == 0
        await it.clock.sleep(5 * IDLE_MS)
        seen.append(it.lease.token)
        it.lease.idle()
        await it.clock.sleep(2 * IDLE_MS)
        seen.append(it.lease.token)
        renewal = await Epochs(it.store, DOMAIN).renewal(0)
        assert renewal is not None
        assert renewal.released

    contest = Contest()
    contest.join("only", story)
    contest.run(10)
    assert seen == [0, None]


def test_who_is_alone_never_waits() -> None:
    waits: list[float] = []

    async def story(it: Contender) -> None:
        for rest_ms in (0, 150, 250, 400, 5_000, 2 * HOUR_MS) * 3:
            before = it.clock.elapsed_ms()
            await it.hold()
            waits.append(it.clock.elapsed_ms() - before)
            it.lease.idle()
            await it.clock.sleep(rest_ms)

    contest = Contest(faults=Faults(slowest_ms=5.0))
    contest.join("only", story)
    contest.run(10 * 3_600)
    assert contest.ended == {"only"}
    # Five milliseconds each way: a cold look at the chain is the longest, and there is no pause.
    assert max(waits) <= 70


def test_who_rested_while_epochs_were_collected_takes_the_newest() -> None:
    async def sleeper(it: Contender) -> None:
        assert await it.hold() == 0
        it.lease.idle()
        await it.clock.sleep(3 * HOUR_MS)
        assert await it.hold() == 4

    async def janitor(it: Contender) -> None:
        chain = Chain(it.store, f"locks/{DOMAIN}")
        for _ in range(3):
            await chain.append(await chain.head(), Epoch(holder="other", life_ms=1))
        far = SimBackend(it.contest.objects, it.life)
        store = Store(far, it.life.runtime, scope=Scope(), role=Role.JANITOR)
        await Chain(store, f"locks/{DOMAIN}").raise_floor(3)
        for n in range(3):
            await store.delete(chain.key(n))

    contest = Contest()
    contest.join("sleeper", sleeper)
    contest.join("janitor", janitor, at_ms=2_000)
    contest.run(4 * 3_600)
    assert contest.ended == {"sleeper", "janitor"}


def test_a_lost_token_is_not_given_out_again() -> None:
    async def story(it: Contender) -> None:
        assert await it.hold() == 0
        it.lease.lost()
        assert it.lease.token is None
        assert await it.hold() == 1
        assert await it.hold() == 1

    contest = Contest()
    contest.join("only", story)
    contest.run(10)
    assert contest.ended == {"only"}


def test_who_lost_its_token_waits_for_the_one_who_has_a_newer_one() -> None:
    async def loser(it: Contender) -> None:
        await it.hold()
        it.life.sleep(2 * LIFE_MS)
        await it.clock.sleep(0)
        it.lease.lost()
        await it.hold()

    contest = Contest()
    contest.join("loser", loser)
    contest.join("taker", lambda it: it.work(8_000), at_ms=100)
    contest.run(30)
    assert contest.winners()[:3] == ["loser", "taker", "loser"]
    assert not contest.overlaps


def test_a_sleeper_finds_its_lease_gone() -> None:
    async def sleeper(it: Contender) -> None:
        await it.hold()
        it.life.sleep(LIFE_MS)
        await it.clock.sleep(0)
        assert it.lease.token is None
        assert await it.hold() == 1

    contest = Contest()
    contest.join("sleeper", sleeper)
    contest.run(20)
    assert contest.ended == {"sleeper"}


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("hours", [-1, 1])
def test_wall_clocks_that_jump_change_nothing(who: int, hours: int) -> None:
    def tournament(*, jumping: bool) -> list[tuple[float, str, int]]:
        contest = Contest()
        processes = [contest.join(name, lambda it: it.work(30_000)) for name in ("a", "b")]
        if jumping:
            for at_ms in range(0, 20_000, 700):
                by_ms = hours * HOUR_MS * (1 if at_ms % 1_400 else -1)
                contest.world.after(at_ms, partial(processes[who].jump, by_ms))
        return contest.run(20).turns

    turns = tournament(jumping=True)
    assert len(turns) > 10
    assert [turn[1:] for turn in turns] == [turn[1:] for turn in tournament(jumping=False)]


def test_patience_has_an_end_and_says_when_to_come_back() -> None:
    async def impatient(it: Contender) -> None:
        before = it.clock.elapsed_ms()
        with pytest.raises(Unavailable) as caught:
            await it.hold(400)
        assert caught.value.retry_after_ms == LIFE_MS
        assert it.clock.elapsed_ms() - before == pytest.approx(400)

    contest = Contest()
    crash_after(contest, "first", 500)
    contest.join("second", impatient, at_ms=600)
    contest.run(10)
    assert contest.ended == {"second"}
    # And nobody goes on taking a lease that is not wanted any more.
    assert not [m for m in contest.objects.log if m.key == f"{FULL}/{1:020d}.json"]


def test_short_patience_adds_up_to_a_takeover() -> None:
    async def retry(it: Contender) -> None:
        for _ in range(10):
            try:
                await it.hold(500)
            except Unavailable:
                await it.clock.sleep(100)
            else:
                return

    contest = Contest()
    crash_after(contest, "first", 500)
    contest.join("second", retry, at_ms=600)
    contest.run(10)
    assert contest.winners() == ["first", "second"]
    assert contest.when(1) < 600 + LIFE_MS + PROMPT_MS + 100


def test_a_caller_that_left_while_the_lease_was_taken_does_not_keep_it() -> None:
    async def hasty(it: Contender) -> None:
        with pytest.raises(Unavailable):
            await it.hold(12)  # the search is still going on, or the create is under way
        await it.clock.sleep(2_000)
        assert it.lease.token is None

    contest = Contest(faults=Faults(slowest_ms=5.0))
    contest.join("first", hasty)
    contest.join("second", lambda it: it.work(10), at_ms=1_000)
    contest.run(10)
    assert contest.ended == {"first", "second"}
    assert contest.turns[-1][0] < 1_000 + PROMPT_MS


def test_callers_at_the_same_time_share_one_epoch() -> None:
    async def story(it: Contender) -> None:
        tokens = await it.life.runtime.tasks.gather(*(it.hold() for _ in range(10)))
        assert tokens == [0] * 10

    contest = Contest()
    contest.join("only", story)
    contest.run(5)
    assert contest.ended == {"only"}


def test_an_outage_is_reported_and_survived() -> None:
    async def story(it: Contender) -> None:
        await it.hold()
        it.contest.objects.faults = OUTAGE
        await it.clock.sleep(2 * LIFE_MS)
        assert it.lease.token is None, "renewals that were not heard do not count"
        with pytest.raises(Unavailable):
            await it.hold(120_000)
        it.contest.objects.faults = NONE
        assert await it.hold() >= 1

    contest = Contest()
    contest.join("only", story)
    contest.run(300)
    assert contest.ended == {"only"}


def test_a_closed_lease_is_not_taken_again() -> None:
    async def story(it: Contender) -> None:
        await it.hold()
        await it.lease.close()
        await it.lease.close()
        with pytest.raises(Unavailable, match="closed"):
            await it.hold()

    contest = Contest()
    contest.join("only", story)
    contest.run(10)
    assert contest.ended == {"only"}


@pytest.mark.parametrize("seed", range(40))
def test_no_two_leases_are_fresh_at_once_whatever_the_weather(seed: int) -> None:
    weather = MILD if seed % 2 else replace(HARSH.scaled(0.5), slowest_ms=1_500.0)
    contest = Contest(seed, weather)

    async def story(it: Contender) -> None:
        while True:
            try:
                await it.hold()
            except Unavailable:
                continue
            await it.clock.sleep(it.life.runtime.rng.random() * 100)
            if it.life.runtime.rng.random() < 0.1:
                it.lease.idle()
                await it.clock.sleep(it.life.runtime.rng.random() * 1_000)

    rng = contest.world.stream("chaos")
    processes = [contest.join(f"c{n}", story) for n in range(4)]
    for at_ms in range(1_000, 120_000, 1_500):
        victim = rng.choice(processes)
        length_ms = 10_000 * rng.random() ** 2
        strike = rng.choice(("suspend", "crash", "jump"))
        if strike == "crash":
            contest.world.after(at_ms, victim.crash)
            contest.world.after(at_ms + length_ms, victim.restart)
        elif strike == "suspend":
            contest.world.after(at_ms, partial(victim.suspend, length_ms))
        else:
            by_ms = rng.uniform(-1, 1) * HOUR_MS
            contest.world.after(at_ms, partial(victim.jump, by_ms))
    contest.run(120)
    assert not contest.overlaps
    assert len(contest.turns) > 5
    assert contest.tokens() == sorted(contest.tokens())


@pytest.mark.parametrize("seed", range(60))
def test_no_two_leases_are_fresh_at_once_on_lines_as_slow_as_the_lease(seed: int) -> None:
    async def story(it: Contender) -> None:
        rng = it.life.runtime.rng

        async def on_the_way(verb: str, key: str) -> None:
            if rng.random() < 0.3:
                await it.clock.sleep(rng.random() * 900)

        async def to_the_store(verb: str, key: str) -> None:
            await on_the_way(verb, key)
            if verb == "put" and rng.random() < 0.5:
                raise Unavailable("the line is down")

        it.before, it.after = to_the_store, on_the_way
        while True:
            with contextlib.suppress(Unavailable):
                await it.work(1e9)

    contest = Contest(seed, Faults(slowest_ms=5.0))
    for n in range(4):
        contest.join(f"c{n}", story)
    contest.run(120)
    assert not contest.overlaps
    assert len(set(contest.winners())) > 1
    assert contest.tokens() == sorted(set(contest.tokens()))


class Script:
    """What becomes of a holder's renewals, one by one; it never hears that somebody waits."""

    def __init__(self, it: Contender, *fates: tuple[float, bool, float]) -> None:
        self._it = it
        self._fates = list(fates)
        it.before, it.after = self.before, self.after

    async def before(self, verb: str, key: str) -> None:
        if "waiting" in key:
            raise Unavailable("the line is down")
        if verb == "put" and key.endswith(".renewal.json"):
            late_ms, arrives, _ = self._fates[0] if self._fates else (0, False, 0)
            await self._it.clock.sleep(late_ms)
            if not arrives:
                self._fates[:1] = []
                raise Unavailable("the line is down")

    async def after(self, verb: str, key: str) -> None:
        if verb == "put" and key.endswith(".renewal.json") and self._fates:
            await self._it.clock.sleep(self._fates.pop(0)[2])


def scripted(seed: int, *fates: tuple[float, bool, float]) -> Contest:
    """A holder with one long work whose renewals, from 1 s on, fare like this: late, heard, answered."""

    async def holder(it: Contender) -> None:
        Script(it, *fates)
        await it.hold()
        await it.clock.sleep(10_000)

    contest = Contest(seed, Faults(slowest_ms=5.0))
    contest.join("holder", holder)
    return contest


@pytest.mark.parametrize("seed", range(10))
def test_a_renewal_counts_from_before_it_was_sent(seed: int) -> None:
    contest = scripted(seed, (0, True, 900))
    contest.join("waiter", lambda it: it.work(3_000), at_ms=1_100)
    contest.run(7)
    assert contest.winners()[:2] == ["holder", "waiter"]
    assert not contest.overlaps


@pytest.mark.parametrize("seed", range(10))
def test_a_renewal_that_was_heard_too_late_does_not_count(seed: int) -> None:
    contest = scripted(seed, (0, True, 0), (500, False, 0), (900, True, 0))
    contest.join("waiter", lambda it: it.work(6_000), at_ms=1_100)
    contest.run(9)
    assert contest.winners()[0] == "holder"
    assert not contest.overlaps


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("is_late", ["the first look", "the last look"])
def test_a_look_says_nothing_about_the_time_it_was_on_its_way(seed: int, is_late: str) -> None:
    async def waiter(it: Contender) -> None:
        async def slow_there(verb: str, key: str) -> None:
            is_look = key == note_key(0) and it.contest.world.now_ms < 1_000
            if is_look and is_late == "the first look":
                await it.clock.sleep(1_100 - it.contest.world.now_ms)

        async def slow_back(verb: str, key: str) -> None:
            is_look = key == note_key(0) and it.contest.world.now_ms > 3_300
            if is_look and is_late == "the last look":
                await it.clock.sleep(900)

        it.before, it.after = slow_there, slow_back
        await it.work(1_000)

    contest = scripted(seed, (0, True, 0), (0, False, 0), (800, True, 0))
    contest.join("waiter", waiter, at_ms=100)
    contest.run(5)
    assert contest.winners()[0] == "holder"
    assert not contest.overlaps


async def test_a_caller_that_is_cancelled_at_the_last_moment_does_not_keep_the_lease(
    memory: Backend, runtime: Runtime
) -> None:
    lease = Lease(spied(memory, runtime)[1], DOMAIN, holder="a")
    caller = asyncio.create_task(lease.hold())
    while lease.token is None:
        await runtime.tasks.turn()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await runtime.clock.sleep(2 * IDLE_MS)
    assert lease.token is None
    await lease.close()


def test_an_epoch_of_ours_that_we_had_given_up_for_lost_does_not_make_us_wait() -> None:
    async def story(it: Contender) -> None:
        sent: list[str] = []

        async def drop_the_answer(verb: str, key: str) -> None:
            sent.append(verb)
            if "create" in sent:
                raise Unavailable("no answer")

        it.after = drop_the_answer
        with pytest.raises(Unavailable):
            await it.hold(120_000)
        it.after = nothing
        before = it.clock.elapsed_ms()
        assert await it.hold() == 1
        assert it.clock.elapsed_ms() - before < PROMPT_MS

    contest = Contest()
    contest.join("only", story)
    contest.run(200)
    assert contest.ended == {"only"}


def spied(backend: Backend, runtime: Runtime) -> tuple[Tally, Store]:
    tally = Tally()
    observed = ObservedBackend(backend, tally, runtime.clock)
    return tally, Store(observed, runtime, scope=Scope(), role=Role.API)


async def test_a_held_lease_costs_no_request_at_all(memory: Backend, runtime: Runtime) -> None:
    tally, store = spied(memory, runtime)
    lease = Lease(store, DOMAIN, holder="a", life_ms=60_000)
    await lease.hold()
    await runtime.clock.sleep(50)  # the chain leaves its head hint
    tally.clear()
    for _ in range(1_000):
        assert await lease.hold() == 0
        lease.idle()
    assert tally.seen == []
    await lease.close()


async def test_after_a_rest_the_lease_costs_one_create(memory: Backend, runtime: Runtime) -> None:
    tally, store = spied(memory, runtime)
    lease = Lease(store, DOMAIN, holder="a")
    await lease.hold()
    lease.idle()
    await runtime.clock.sleep(2 * IDLE_MS)
    assert lease.token is None
    tally.clear()
    assert await lease.hold() == 1
    asked = [(verb, key.rpartition("/")[2]) for verb, key, _ in tally.seen]
    assert [each for each in asked if each[1] != "head.json"] == [("create", f"{1:020d}.json")]
    await lease.close()


async def test_giving_way_unasked_costs_one_read_and_one_write(
    memory: Backend, runtime: Runtime
) -> None:
    tally, store = spied(memory, runtime)
    lease = Lease(store, DOMAIN, holder="a", life_ms=60_000)
    await lease.hold()
    await runtime.clock.sleep(50)
    tally.clear()
    lease.idle()
    await runtime.clock.sleep(2 * IDLE_MS)
    asked = [(verb, key.partition(".")[2]) for verb, key, _ in tally.seen]
    assert asked == [("get", "waiting.renewal.json"), ("put", "renewal.json")]
    await lease.close()


async def test_a_cold_start_after_a_release_costs_the_head_one_read_and_a_create(
    memory: Backend, runtime: Runtime
) -> None:
    first = Lease(spied(memory, runtime)[1], DOMAIN, holder="a")
    await first.hold()
    await first.close()
    tally, store = spied(memory, runtime)
    await Chain(store, f"locks/{DOMAIN}").head()
    head_costs = len(tally.seen)
    tally.clear()
    second = Lease(store, DOMAIN, holder="b")
    assert await second.hold() == 1
    # The release, and whether somebody has waited longer for it.
    assert len([key for _, key, _ in tally.seen if "head.json" not in key]) == head_costs - 1 + 3
    await second.close()


def test_waiting_costs_one_request_a_look_and_at_most_ten_a_second() -> None:
    contest = Contest()
    crash_after(contest, "first", 500)
    contest.join("second", lambda it: it.work(10), at_ms=1_000)
    counts: list[int] = []
    for at_ms in (2_000, 3_000):
        contest.world.after(at_ms, lambda: counts.append(contest.world.tally["requests"]))
    contest.run(10)
    assert 4 <= counts[1] - counts[0] <= 10


@pytest.mark.parametrize("life_ms", [0, -1, 60_001])
def test_a_life_that_nobody_could_wait_for_is_refused(memory: Backend, life_ms: int) -> None:
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
    assert json.encode(Waiting(epoch=7, waiter="api-2/Y", waited_ms=1200)) == (
        b'{"format":1,"epoch":7,"waiter":"api-2/Y","waited_ms":1200}'
    )
