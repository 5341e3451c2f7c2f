"""SQL processes are shared: one caller cannot hold all of them, and the queue is bounded."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from arco.core.errors import Invalid, TooManyQueries
from arco.query.engine import SqlEngine
from arco.query.limits import QueryLimits
from tests.query.workers import sql_processes
from tests.query.workspace import workspace

ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value % 7 = 3"


def _slow(engine: SqlEngine, caller: str, count: int) -> list["asyncio.Future[Any]"]:
    return [asyncio.ensure_future(engine.query(ENDLESS, caller=caller)) for _ in range(count)]


async def _end(asked: Sequence["asyncio.Future[Any]"]) -> None:
    for each in asked:
        each.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


async def test_a_caller_with_many_slow_queries_leaves_half_of_the_processes_to_others() -> None:
    async with workspace(limits=QueryLimits(workers=4)) as space:
        slow = _slow(space.engine, "user:eve", 10)
        await asyncio.sleep(0.5)
        pool = space.engine.pool
        assert (pool.busy, pool.queued) == (2, 8)
        answer = await asyncio.wait_for(space.engine.query("SELECT 1 AS n", caller="user:ann"), 5)
        assert answer.to_pylist() == [{"n": 1}]
        await _end(slow)
        assert (pool.busy, pool.queued) == (0, 0)


async def test_a_process_that_becomes_free_goes_to_the_callers_in_turn() -> None:
    async with workspace(limits=QueryLimits(workers=1)) as space:
        ended: list[str] = []

        async def ask(caller: str) -> None:
            await space.engine.query("SELECT 1", caller=caller)
            ended.append(caller)

        callers = ["eve"] * 4 + ["ann", "bob"]
        await asyncio.gather(*(ask(each) for each in callers))
        assert ended == ["eve", "eve", "ann", "bob", "eve", "eve"]


async def test_a_full_queue_is_refused_at_once_and_others_still_get_a_place() -> None:
    limits = QueryLimits(workers=2, caller_queue=2, queue=3)
    async with workspace(limits=limits) as space:
        slow = [*_slow(space.engine, "eve", 3), *_slow(space.engine, "ann", 1)]
        await asyncio.sleep(0.2)
        with pytest.raises(
            TooManyQueries, match="2 queries of this caller already wait"
        ) as refusal:
            await space.engine.query("SELECT 1", caller="eve")
        assert refusal.value.retry_after_ms is not None
        slow += _slow(space.engine, "ann", 1)
        await asyncio.sleep(0.1)
        with pytest.raises(TooManyQueries, match="3 queries already wait"):
            await space.engine.query("SELECT 1", caller="bob")
        await _end(slow)
        await space.engine.query("SELECT 1", caller="eve")


async def test_a_wait_for_a_process_has_an_end() -> None:
    async with workspace(limits=QueryLimits(workers=2, wait_ms=200, run_ms=1_500)) as space:
        slow = _slow(space.engine, "eve", 1)
        await asyncio.sleep(0.05)
        with pytest.raises(TooManyQueries, match="200 ms"):
            await space.engine.query("SELECT 1", caller="eve")
        with pytest.raises(Invalid):
            await slow[0]


async def test_arco_itself_may_use_all_processes_and_waits_as_others_do() -> None:
    async with workspace(limits=QueryLimits(workers=2)) as space:
        own = [asyncio.ensure_future(space.engine.query(ENDLESS)) for _ in range(3)]
        await asyncio.sleep(0.2)
        assert (space.engine.pool.busy, space.engine.pool.queued) == (2, 1)
        await _end(own)


async def test_a_query_that_is_cancelled_before_it_has_its_process_leaves_none_behind() -> None:
    async with workspace(limits=QueryLimits(workers=2)) as space:
        for pause_s in (0, 0, 0.001, 0.01, 0.1):
            asked = asyncio.ensure_future(space.engine.query("SELECT 1"))
            await asyncio.sleep(pause_s)
            await _end([asked])
            assert (space.engine.pool.busy, space.engine.pool.queued) == (0, 0)
            await _until_only_idle(space.engine)
            await space.engine.query("SELECT 1")  # the next has an idle process


async def _until_only_idle(engine: SqlEngine) -> None:
    async with asyncio.timeout(10):
        while len(sql_processes()) > len(engine.pool._idle):  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.05)
