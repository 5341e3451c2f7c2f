"""Shared tasks: one piece of work for all who ask while it is in progress."""

import asyncio

import pytest

from arco.core.shared_task import SharedTasks
from arco.core.tasks import AsyncioTasks


class _Work:
    """Counts its starts and waits until it may end."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.starts = 0
        self.may_end = asyncio.Event()
        self._problem = problem

    async def __call__(self) -> int:
        self.starts += 1
        await self.may_end.wait()
        if self._problem is not None:
            raise self._problem
        return self.starts


async def test_callers_with_the_same_key_share_one_task() -> None:
    shared, work = SharedTasks[str, int](AsyncioTasks()), _Work()
    callers = [asyncio.ensure_future(shared.run("a", work)) for _ in range(3)]
    callers.append(asyncio.ensure_future(shared.run("b", work)))
    work.may_end.set()
    await asyncio.gather(*callers)
    assert work.starts == 2  # one for each key


async def test_work_that_has_ended_is_started_again() -> None:
    shared, work = SharedTasks[str, int](AsyncioTasks()), _Work()
    work.may_end.set()
    assert [await shared.run("a", work), await shared.run("a", work)] == [1, 2]


async def test_all_callers_get_the_error_and_the_next_one_tries_again() -> None:
    shared, work = SharedTasks[str, int](AsyncioTasks()), _Work(ValueError("broken"))
    callers = [asyncio.ensure_future(shared.run("a", work)) for _ in range(2)]
    await asyncio.sleep(0)
    work.may_end.set()
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert [str(each) for each in outcomes] == ["broken", "broken"]
    with pytest.raises(ValueError, match="broken"):
        await shared.run("a", work)
    assert work.starts == 2


async def test_a_caller_that_is_cancelled_leaves_the_work_to_the_others() -> None:
    shared, work = SharedTasks[str, int](AsyncioTasks()), _Work()
    first, second = (asyncio.ensure_future(shared.run("a", work)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    work.may_end.set()
    assert await second == 1
