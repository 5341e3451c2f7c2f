"""Lanes: one at a time for each table, in turn, and nobody is forgotten."""

import asyncio

import pytest

from arco.core.lanes import Lanes
from arco.core.tasks import AsyncioTasks


async def _cross(lanes: Lanes, key: str, who: str, log: list[str], gate: asyncio.Event) -> None:
    async with lanes.enter(key):
        log.append(f"+{who}")
        await gate.wait()
        log.append(f"-{who}")


async def test_those_who_want_the_same_go_one_after_the_other_in_turn() -> None:
    lanes, log, gate = Lanes(AsyncioTasks()), list[str](), asyncio.Event()
    work = [asyncio.ensure_future(_cross(lanes, "t", who, log, gate)) for who in "abc"]
    await asyncio.sleep(0)
    assert log == ["+a"]
    gate.set()
    await asyncio.gather(*work)
    assert log == ["+a", "-a", "+b", "-b", "+c", "-c"]


async def test_those_who_want_different_things_do_not_wait() -> None:
    lanes, log, gate = Lanes(AsyncioTasks()), list[str](), asyncio.Event()
    work = [asyncio.ensure_future(_cross(lanes, who, who, log, gate)) for who in "ab"]
    await asyncio.sleep(0)
    assert log == ["+a", "+b"]
    gate.set()
    await asyncio.gather(*work)


async def test_a_lane_is_left_when_its_work_fails() -> None:
    lanes = Lanes(AsyncioTasks())
    with pytest.raises(ValueError, match="wrong"):
        async with lanes.enter("t"):
            raise ValueError("wrong")
    async with asyncio.timeout(1), lanes.enter("t"):
        pass


@pytest.mark.parametrize("gives_up", ["b", "c"])
async def test_who_gives_up_waiting_holds_nobody_up(gives_up: str) -> None:
    lanes, log, gate = Lanes(AsyncioTasks()), list[str](), asyncio.Event()
    work = {who: asyncio.ensure_future(_cross(lanes, "t", who, log, gate)) for who in "abc"}
    await asyncio.sleep(0)
    work[gives_up].cancel()
    gate.set()
    await asyncio.wait_for(asyncio.gather(*work.values(), return_exceptions=True), 1)
    others = [who for who in "abc" if who != gives_up]
    assert log == [f"{sign}{who}" for who in others for sign in "+-"]


async def test_who_gives_up_just_when_its_turn_comes_passes_it_on() -> None:
    lanes, log, gate = Lanes(AsyncioTasks()), list[str](), asyncio.Event()
    first = asyncio.ensure_future(_cross(lanes, "t", "a", log, gate))
    second = asyncio.ensure_future(_cross(lanes, "t", "b", log, gate))
    third = asyncio.ensure_future(_cross(lanes, "t", "c", log, gate))
    await asyncio.sleep(0)
    gate.set()
    await first
    second.cancel()  # it has been given the lane, and has not run yet
    await asyncio.wait_for(asyncio.gather(first, third), 1)
    assert "-c" in log


async def test_a_lane_that_nobody_uses_is_forgotten() -> None:
    lanes = Lanes(AsyncioTasks())
    for key in ("t", "u"):
        async with lanes.enter(key):
            assert set(lanes._waiting) == {key}
    assert lanes._waiting == {}
