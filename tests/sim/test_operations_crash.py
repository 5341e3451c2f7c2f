"""Wherever in its work a process of Tier 2 crashes or falls asleep, every event is published once."""

import pytest

from arco.ledger.stream import slot_chain
from arco.storage.roles import Role

from .crash_points import Bomb, Point
from .faults import NONE
from .mutants import Mutant
from .objects import SimObjects
from .operations_crash import DOMAIN, Site, Trial, failures, points_of
from .operations_history import History
from .operations_mutants import DEAF, POINT_MUTANTS
from .operations_notes import OperationsNotes
from .process import Incarnation, Process
from .world import HOUR_MS, World


# Every so many-th point: all of them, and other sleeps, are explored by `make sim`.
@pytest.mark.parametrize(
    ("work", "halt", "nth"),
    [
        ("append", "crash", 8),
        ("append", "sleep", 8),
        ("cycle", "crash", 6),
        ("cycle", "sleep", 8),
        ("merge", "crash", 20),
        ("merge", "sleep", 30),
        ("rebuild", "crash", 50),
        ("collection", "crash", 50),
    ],
)
def test_a_halt_at_a_storage_call_leaves_nothing_wrong(work: str, halt: str, nth: int) -> None:
    points = points_of(work)
    assert len(points) >= 10
    assert list(failures(work, points[::nth], halt)) == []


def test_a_point_that_is_never_reached_is_noticed() -> None:
    wrong = Trial("cycle", Bomb([Point("worker", 10_000, after=False)])).run()
    assert wrong == ["no process reached worker before call 10000"]


@pytest.mark.sim
@pytest.mark.parametrize("mutant", POINT_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_rule_that_is_taken_out_is_missed_by_some_sleeper(mutant: Mutant) -> None:
    work, halt = POINT_MUTANTS[mutant]
    points = [point for point in points_of(work) if point.after]
    with mutant.applied():
        caught = next(failures(work, points, halt), None)
    assert caught is not None, f"{mutant.rule} can be taken out unnoticed"


def wakes_up_alone() -> bool:
    """A compactor sleeps; another folds and goes. Is what comes then published by the sleeper?"""
    world = World(0)
    site = Site(SimObjects(world, NONE), OperationsNotes())
    published = []

    async def drive(incarnation: Incarnation) -> None:
        sleeper = site.compactor(site.store(incarnation, Role.COMPACTOR))
        await site.append(incarnation, "first")
        await sleeper.cycle(everything=True)
        for name in ("second", "third", "fourth"):
            await site.append(incarnation, name)
            await site.fold(incarnation)
            await incarnation.runtime.clock.sleep(3 * HOUR_MS)
        await site.collect(incarnation)
        assert await slot_chain(site.store(incarnation, Role.JANITOR), DOMAIN).floor() > 1
        await site.append(incarnation, "last")
        published.append(await sleeper.cycle(everything=True))

    Process(world, "driver", drive).start()
    try:
        world.run()
        assert world.failures == []
        assert len(published) == 1
        return published[0] is not None and History.of(site.objects, DOMAIN).is_caught_up()
    finally:
        world.close()


def test_a_compactor_that_slept_while_all_it_waits_for_was_collected_goes_on() -> None:
    """It looked for slots and segments that another had folded and the janitor had deleted, for ever."""
    assert wakes_up_alone()
    with DEAF.applied():
        assert not wakes_up_alone()
