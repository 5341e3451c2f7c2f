"""No two leases are fresh at once: holders and waiters count their times from the safe side (P28)."""

import contextlib
from dataclasses import replace
from functools import partial

import pytest

from arco.core.errors import Unavailable
from tests.catalog.lease_contest import Contender, Contest, note_key
from tests.sim.faults import HARSH, MILD, Faults
from tests.sim.world import HOUR_MS


@pytest.mark.parametrize("seed", range(40))
def test_no_two_leases_are_fresh_at_once_under_any_faults(seed: int) -> None:
    weather = MILD if seed % 2 else replace(HARSH.scaled(0.5), slowest_ms=1_500.0)
    contest = Contest(seed, weather)

    async def steps(contender: Contender) -> None:
        while True:
            try:
                await contender.hold()
            except Unavailable:
                continue
            await contender.clock.sleep(contender.incarnation.runtime.rng.random() * 100)
            if contender.incarnation.runtime.rng.random() < 0.1:
                contender.lease.idle()
                await contender.clock.sleep(contender.incarnation.runtime.rng.random() * 1_000)

    rng = contest.world.stream("chaos")
    processes = [contest.join(f"c{n}", steps) for n in range(4)]
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
def test_no_two_leases_are_fresh_at_once_when_requests_take_as_long_as_the_lease(seed: int) -> None:
    async def steps(contender: Contender) -> None:
        rng = contender.incarnation.runtime.rng

        async def on_the_way(verb: str, key: str) -> None:
            if rng.random() < 0.3:
                await contender.clock.sleep(rng.random() * 900)

        async def to_the_store(verb: str, key: str) -> None:
            await on_the_way(verb, key)
            if verb == "put" and rng.random() < 0.5:
                raise Unavailable("the line is down")

        contender.before, contender.after = to_the_store, on_the_way
        while True:
            with contextlib.suppress(Unavailable):
                await contender.work(1e9)

    contest = Contest(seed, Faults(slowest_ms=5.0))
    for n in range(4):
        contest.join(f"c{n}", steps)
    contest.run(120)
    assert not contest.overlaps
    assert len(set(contest.winners())) > 1
    assert contest.tokens() == sorted(set(contest.tokens()))


class Script:
    """What happens to a holder's renewals, one by one; it never learns that another process waits."""

    def __init__(self, contender: Contender, *fates: tuple[float, bool, float]) -> None:
        self._contender = contender
        self._fates = list(fates)
        contender.before, contender.after = self.before, self.after

    async def before(self, verb: str, key: str) -> None:
        if "waiting" in key:
            raise Unavailable("the line is down")
        if verb == "put" and key.endswith(".renewal.json"):
            late_ms, arrives, _ = self._fates[0] if self._fates else (0, False, 0)
            await self._contender.clock.sleep(late_ms)
            if not arrives:
                self._fates[:1] = []
                raise Unavailable("the line is down")

    async def after(self, verb: str, key: str) -> None:
        if verb == "put" and key.endswith(".renewal.json") and self._fates:
            await self._contender.clock.sleep(self._fates.pop(0)[2])


def scripted(seed: int, *fates: tuple[float, bool, float]) -> Contest:
    """A holder with one long work whose renewals, from 1 s on, fare like this: late, heard, answered."""

    async def holder(contender: Contender) -> None:
        Script(contender, *fates)
        await contender.hold()
        await contender.clock.sleep(10_000)

    contest = Contest(seed, Faults(slowest_ms=5.0))
    contest.join("holder", holder)
    return contest


@pytest.mark.parametrize("seed", range(10))
def test_a_renewal_counts_from_before_it_was_sent(seed: int) -> None:
    contest = scripted(seed, (0, True, 900))
    contest.join("waiter", lambda contender: contender.work(3_000), at_ms=1_100)
    contest.run(7)
    assert contest.winners()[:2] == ["holder", "waiter"]
    assert not contest.overlaps


@pytest.mark.parametrize("seed", range(10))
def test_a_renewal_whose_answer_came_too_late_does_not_count(seed: int) -> None:
    contest = scripted(seed, (0, True, 0), (500, False, 0), (900, True, 0))
    contest.join("waiter", lambda contender: contender.work(6_000), at_ms=1_100)
    contest.run(9)
    assert contest.winners()[0] == "holder"
    assert not contest.overlaps


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("is_late", ["the first look", "the last look"])
def test_a_waiter_does_not_count_the_time_that_its_read_took(seed: int, is_late: str) -> None:
    async def waiter(contender: Contender) -> None:
        async def slow_there(verb: str, key: str) -> None:
            is_look = key == note_key(0) and contender.contest.world.now_ms < 1_000
            if is_look and is_late == "the first look":
                await contender.clock.sleep(1_100 - contender.contest.world.now_ms)

        async def slow_back(verb: str, key: str) -> None:
            is_look = key == note_key(0) and contender.contest.world.now_ms > 3_300
            if is_look and is_late == "the last look":
                await contender.clock.sleep(900)

        contender.before, contender.after = slow_there, slow_back
        await contender.work(1_000)

    contest = scripted(seed, (0, True, 0), (0, False, 0), (800, True, 0))
    contest.join("waiter", waiter, at_ms=100)
    contest.run(5)
    assert contest.winners()[0] == "holder"
    assert not contest.overlaps
