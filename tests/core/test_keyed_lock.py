"""The keyed lock: one task at a time for each key, in the order of asking."""

import asyncio

import pytest

from arco.core.keyed_lock import KeyedLock
from arco.core.tasks import AsyncioTasks


async def _use(lock: KeyedLock, key: str, who: str, log: list[str], gate: asyncio.Event) -> None:
    async with lock.hold(key):
        log.append(f"+{who}")
        await gate.wait()
        log.append(f"-{who}")


async def test_tasks_with_the_same_key_run_one_after_the_other_in_order() -> None:
    lock, log, gate = KeyedLock(AsyncioTasks()), list[str](), asyncio.Event()
    work = [asyncio.ensure_future(_use(lock, "t", who, log, gate)) for who in "abc"]
    await asyncio.sleep(0)
    assert log == ["+a"]
    gate.set()
    await asyncio.gather(*work)
    assert log == ["+a", "-a", "+b", "-b", "+c", "-c"]


async def test_tasks_with_different_keys_do_not_wait() -> None:
    lock, log, gate = KeyedLock(AsyncioTasks()), list[str](), asyncio.Event()
    work = [asyncio.ensure_future(_use(lock, who, who, log, gate)) for who in "ab"]
    await asyncio.sleep(0)
    assert log == ["+a", "+b"]
    gate.set()
    await asyncio.gather(*work)


async def test_a_lock_is_released_when_its_block_fails() -> None:
    lock = KeyedLock(AsyncioTasks())
    with pytest.raises(ValueError, match="wrong"):
        async with lock.hold("t"):
            raise ValueError("wrong")
    async with asyncio.timeout(1), lock.hold("t"):
        pass


@pytest.mark.parametrize("gives_up", ["b", "c"])
async def test_a_cancelled_waiter_does_not_block_the_others(gives_up: str) -> None:
    lock, log, gate = KeyedLock(AsyncioTasks()), list[str](), asyncio.Event()
    work = {who: asyncio.ensure_future(_use(lock, "t", who, log, gate)) for who in "abc"}
    await asyncio.sleep(0)
    work[gives_up].cancel()
    gate.set()
    await asyncio.wait_for(asyncio.gather(*work.values(), return_exceptions=True), 1)
    others = [who for who in "abc" if who != gives_up]
    assert log == [f"{sign}{who}" for who in others for sign in "+-"]


async def test_a_waiter_cancelled_just_when_it_gets_the_lock_passes_it_on() -> None:
    lock, log, gate = KeyedLock(AsyncioTasks()), list[str](), asyncio.Event()
    first = asyncio.ensure_future(_use(lock, "t", "a", log, gate))
    second = asyncio.ensure_future(_use(lock, "t", "b", log, gate))
    third = asyncio.ensure_future(_use(lock, "t", "c", log, gate))
    await asyncio.sleep(0)
    gate.set()
    await first
    second.cancel()  # it has been given the lock, and has not run yet
    await asyncio.wait_for(asyncio.gather(first, third), 1)
    assert "-c" in log


async def test_an_unused_key_takes_no_memory() -> None:
    lock = KeyedLock(AsyncioTasks())
    for key in ("t", "u"):
        async with lock.hold(key):
            assert set(lock._waiting) == {key}
    assert lock._waiting == {}
