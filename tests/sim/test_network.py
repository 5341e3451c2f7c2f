"""The simulated store does to requests what it says, and remembers what it applied."""

from collections.abc import Awaitable, Callable

import pytest

from arco.core.errors import AlreadyExists, ArcoError, NotFound, Unavailable
from arco.core.runtime import Runtime

from .chaos import Chaos, Storm
from .faults import HARSH, LATEST_MS, NONE, Faults, drawn
from .objects import SimObjects
from .process import Ambush, Incarnation, Process
from .store import SimBackend
from .world import HOUR_MS, MINUTE_MS, World

Body = Callable[[SimBackend, Runtime], Awaitable[None]]


def play(faults: Faults, body: Body, *, crash_ms: float | None = None) -> SimObjects:
    """One process with one store; its errors are the test's."""
    world = World(3)
    objects = SimObjects(world, faults)

    async def main(incarnation: Incarnation) -> None:
        await body(SimBackend(objects, incarnation), incarnation.runtime)

    process = Process(world, "p", main)
    process.start()
    if crash_ms is not None:
        world.after(crash_ms, process.crash)
    world.run()
    world.close()
    assert world.failures == []
    return objects


def outcome_of_create(faults: Faults) -> tuple[str, SimObjects]:
    outcomes: list[str] = []

    async def body(backend: SimBackend, runtime: Runtime) -> None:
        try:
            await runtime.tasks.deadline(30_000, backend.create("k", b"1"))
            outcomes.append("created")
        except ArcoError as problem:
            outcomes.append(problem.code)
        except TimeoutError:
            outcomes.append("timeout")

    objects = play(faults, body)
    return outcomes[0], objects


@pytest.mark.parametrize(
    ("faults", "outcome", "applied"),
    [
        (NONE, "created", True),
        (Faults(lost=1), "timeout", False),
        (Faults(refused=1), "unavailable", False),
        (Faults(unanswered=1), "timeout", True),
        (Faults(misreported=1), "unavailable", True),
        (Faults(phantom=1), "already_exists", False),
        (Faults(doubled=1), "created", True),
    ],
)
def test_each_fate_of_a_create(faults: Faults, outcome: str, applied: bool) -> None:
    answer, objects = outcome_of_create(faults)
    assert answer == outcome
    assert objects.keys() == (["k"] if applied else [])
    assert len(objects.log) == int(applied)


def test_a_late_create_lands_after_its_sender_has_crashed() -> None:
    async def body(backend: SimBackend, runtime: Runtime) -> None:
        await backend.create("k", b"1")
        raise AssertionError("a dead process does not go on")

    objects = play(Faults(late=1), body, crash_ms=1)
    [landed] = objects.log
    assert 1_000 <= landed.at_ms <= LATEST_MS
    assert (landed.process, landed.verb, landed.key, landed.body) == ("p.0", "create", "k", b"1")


def test_a_doubled_hint_overwrites_a_newer_one() -> None:
    world = World(3)
    objects = SimObjects(world, Faults(doubled=1))

    async def main(incarnation: Incarnation) -> None:
        backend = SimBackend(objects, incarnation)
        await backend.put("hint", b"old")
        objects.faults = NONE
        await backend.put("hint", b"new")

    Process(world, "p", main).start()
    world.run()
    world.close()
    assert [change.body for change in objects.log] == [b"old", b"new", b"old"]
    assert objects.get("hint") == b"old"


def test_a_doubled_create_comes_back_only_if_the_object_was_deleted_meanwhile() -> None:
    world = World(3)
    objects = SimObjects(world, Faults(doubled=1))

    async def main(incarnation: Incarnation) -> None:
        backend = SimBackend(objects, incarnation)
        await backend.create("kept", b"1")
        await backend.create("deleted", b"1")
        objects.faults = NONE
        await backend.delete("deleted")

    Process(world, "p", main).start()
    world.run()
    world.close()
    verbs = [(change.verb, change.key) for change in objects.log]
    assert verbs.count(("create", "kept")) == 1
    assert verbs.count(("create", "deleted")) == 2


def test_reads_see_what_was_applied() -> None:
    async def body(backend: SimBackend, runtime: Runtime) -> None:
        await backend.create("a/1", b"12345")
        await backend.create("a/2", b"x")
        await backend.create("b/1", b"y")
        with pytest.raises(AlreadyExists):
            await backend.create("a/1", b"other")
        assert await backend.get("a/1") == b"12345"
        assert await backend.get_range("a/1", 3, 10) == b"45"
        assert (await backend.head("a/1")).size_bytes == 5
        assert [meta.key async for meta in backend.list("a/")] == ["a/1", "a/2"]
        assert [meta.key async for meta in backend.list("a/", "a/1")] == ["a/2"]
        await backend.delete("a/1")
        await backend.delete("a/1")
        with pytest.raises(NotFound):
            await backend.head("a/1")

    play(NONE, body)


def test_a_list_that_fails_says_so_and_never_hangs() -> None:
    async def body(backend: SimBackend, runtime: Runtime) -> None:
        with pytest.raises(Unavailable):
            assert [meta async for meta in backend.list("")] == []

    play(Faults(unanswered=1), body)
    play(Faults(lost=1), body)


def test_the_weather_differs_from_seed_to_seed_and_is_sometimes_fine() -> None:
    weathers = [drawn(World(seed).stream("weather")) for seed in range(100)]
    assert NONE in weathers
    assert len(set(weathers)) > 50
    assert max(weather.lost for weather in weathers) > HARSH.lost


def test_an_ambush_can_wait_for_a_create_to_be_under_way() -> None:
    world = World(3)
    objects = SimObjects(world, NONE)

    async def main(incarnation: Incarnation) -> None:
        backend = SimBackend(objects, incarnation)
        for number in range(3):
            await incarnation.runtime.clock.sleep(100)
            await backend.create(f"k{number}", b"1")

    process = Process(world, "p", main)
    process.start()
    assert process.incarnation is not None
    process.incarnation.ambush(Ambush(2, process.crash, for_creates=True))
    world.run()
    world.close()
    assert objects.keys() == ["k0", "k1"]


def test_chaos_strikes_and_leaves_everything_alive_in_fair_weather() -> None:
    world = World(3)
    objects = SimObjects(world, HARSH)
    beats: dict[str, float] = {}

    async def main(incarnation: Incarnation) -> None:
        while True:
            await incarnation.runtime.clock.sleep(1_000)
            beats[incarnation.name.partition(".")[0]] = world.now_ms

    processes = [Process(world, f"p{n}", main) for n in range(3)]
    for process in processes:
        process.start()
    storm = Storm(every_ms=2 * MINUTE_MS)
    Chaos(world, objects, processes, until_ms=4 * HOUR_MS, storm=storm).start()
    world.end_ms = 4 * HOUR_MS + 2_000
    world.run()
    world.close()
    assert objects.faults == NONE
    assert all(at_ms > 4 * HOUR_MS for at_ms in beats.values())
    assert len(beats) == 3
    assert world.tally["crashes"] == world.tally["restarts"] > 0
    assert world.tally["suspends"] > 0
