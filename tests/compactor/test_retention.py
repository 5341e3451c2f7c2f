"""Retention of rows: old rows leave, late ones too, and a wrong local clock does not decide alone."""

from datetime import datetime, timedelta

from arco.compactor.backlog import has_backlog
from arco.compactor.domain_compactor import DomainCompactor
from arco.compactor.event_compactor import EventCompactor
from arco.compactor.tail_merge import TailPolicy
from arco.core.clock import utc
from arco.core.scope import Scope
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.clocks import HandClock, hand_runtime
from tests.compactor.compaction_setup import DOMAIN, CompactionSetup, open_setup, open_stamped
from tests.compactor.in_process_engine import InProcessEngine
from tests.sim.world import HOUR_MS, MINUTE_MS
from tests.stores import HASTY

DAY = timedelta(days=1)
DAY_MS = 24 * HOUR_MS
SOON = TailPolicy(longest=4, many_rows=1)


def _now(setup: CompactionSetup) -> datetime:
    return utc(setup.clock.now_ms())


async def test_what_is_older_than_the_retention_is_counted_and_not_folded() -> None:
    setup = open_setup()
    writer = setup.writer()
    compactor = setup.compactor(retention={"executions": 30 * DAY, "no_such_table": DAY})
    now = _now(setup)
    await setup.report_started(writer, "young", at=now - 10 * DAY)
    first = await compactor.cycle()
    assert await compactor.cycle() is not None, "the first manifest has no bounds, the next one has"
    await setup.report_started(writer, "old", at=now - 40 * DAY)
    second = await compactor.cycle(everything=True)
    assert first is not None
    assert second is not None
    assert (first.counts.late, second.counts.late, second.files) == (0, 1, 0)
    assert await setup.executions() == ["young"]
    assert set((await setup.head()).retained_from) == {"executions"}


async def test_the_bound_of_retention_moves_on_by_the_hour_and_never_back() -> None:
    setup = open_setup()
    writer = setup.writer()
    compactor = setup.compactor(retention={"executions": DAY})
    await setup.report_started(writer, "first")
    assert await compactor.cycle() is not None
    for minutes in (0, 30, 60, 90, -600):
        if minutes < 0:
            setup.clock.jump_ms(int(minutes * MINUTE_MS))
        else:
            setup.clock.pass_ms(30 * MINUTE_MS if minutes else 0)
        await setup.report_started(writer, f"e{minutes}")
        assert await compactor.cycle(everything=True) is not None
    first, *others = await setup.manifests()
    assert first.retained_from == {}, "only this process knew what time it was"
    bounds = [each.retained_from["executions"] for each in others]
    assert bounds == sorted(bounds)
    assert [(each - bounds[0]) / timedelta(hours=1) for each in bounds] == [0, 0, 1, 1, 1]
    assert bounds[0] == _now(setup) - DAY + timedelta(hours=8.5)


async def test_rows_leave_a_domain_in_which_nothing_happens() -> None:
    stamped = open_stamped()
    setup = stamped.setup
    compactor = setup.compactor(retention={"executions": 5 * DAY})
    await setup.report_started(setup.writer(), "a")
    assert await compactor.cycle() is not None
    published = 1
    for _ in range(7 * 12):
        stamped.pass_ms(2 * HOUR_MS)
        published += await compactor.cycle() is not None
    assert await setup.executions() == []
    assert published == len(await setup.manifests())
    assert published <= 9, "a manifest a day is enough"


async def test_a_clock_that_is_years_ahead_forgets_nothing() -> None:
    stamped = open_stamped()
    setup, keep = stamped.setup, {"executions": 30 * DAY}
    writer = setup.writer()
    ahead = hand_runtime(HandClock(setup.clock.now_ms() + round(1_000 * DAY_MS)))
    store = Store(setup.backend, ahead, scope=Scope(), role=Role.COMPACTOR, retry=HASTY)
    compactor = DomainCompactor(store, DOMAIN, InProcessEngine(store), retention=keep, policy=SOON)
    for n in range(6):
        await setup.report_started(writer, f"e{n}", at=_now(setup) - 20 * DAY)
        while await compactor.cycle(everything=True) is not None:
            assert len(await setup.manifests()) < 40, "it never ends"
        await compactor.merge()
        assert not await has_backlog(store, DOMAIN, keep)
    assert await setup.executions() == [f"e{n}" for n in range(6)]
    assert sum(each.counts.late for each in await setup.commits() if each.counts) == 0
    bound = (await setup.head()).retained_from["executions"]
    assert bound <= _now(setup) - 30 * DAY + timedelta(hours=25)
    for _ in range(12):
        stamped.pass_ms(DAY_MS)
        await setup.report_started(writer, "new")
        await compactor.cycle(everything=True)
    assert await setup.executions() == ["new"], "by the store's clock, the others leave in time"


async def test_after_a_long_pause_the_bound_catches_up_in_two_steps() -> None:
    stamped = open_stamped()
    setup, keep = stamped.setup, {"executions": 5 * DAY}
    await setup.report_started(setup.writer(), "a")
    await EventCompactor(setup.store(), InProcessEngine(setup.store()), retention=keep).once()
    stamped.pass_ms(20 * DAY_MS)
    compactor, published = setup.compactor(retention=keep), 0
    while await has_backlog(setup.store(), DOMAIN, keep):
        assert await compactor.cycle() is not None
        published += 1
    assert published == 2
    assert (await setup.head()).retained_from == {"executions": _now(setup) - 5 * DAY}
