"""A task is taken over while its first attempt stands still, or dies: one of them publishes."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from arco.catalog.publication import NumberedPublication
from arco.core.errors import AttemptFenced
from tests.flow.publish.harness import Bench, Process, id_of, with_table
from tests.iceberg.iceberg_setup import StoreConnection

Step = Callable[[], Awaitable[object]]

MOST = 40  # requests of one publication, at most


def _at(connection: StoreConnection, number: int, step: Step, *, after: bool) -> None:
    """Do something when so many requests of a process have come by."""
    count = 0

    async def counted() -> None:
        nonlocal count
        count += 1
        if count == number:
            await step()

    (connection.after if after else connection.before)("", "", counted, times=10_000)


async def _take_over(bench: Bench, since: int) -> bool:
    """What the book does before it gives the task away, then what the second attempt does."""
    tables = bench.process().tables
    fenced = await tables.fence(bench.table_id, bench.attempt("two", since), since=since)
    if isinstance(fenced, NumberedPublication):
        assert fenced.publication.attempt_id == id_of("one")
        return False
    await bench.publish(bench.attempt("two", fenced), mode="append")
    return True


async def _check(bench: Bench, by: str) -> None:
    now = await bench.now()
    assert now.materials["ds=1"] == id_of(by)
    published = [
        each.publication.attempt_id
        for each in await bench.pointers()
        if not each.publication.is_fence and "ds=1" in each.publication.partitions
    ]
    assert published == [id_of(by)], "once, and by one of them"
    assert len(now.files["ds=1"]) == 1


async def _began() -> tuple[Bench, Process, int]:
    """A table with a version of another partition, and a process that knows nothing yet."""
    bench = await with_table()
    await bench.publish(bench.attempt("zero", task="x", partitions=("ds=0",)), mode="append")
    return bench, bench.process(), 0


@pytest.mark.parametrize("after", [False, True])
async def test_an_attempt_that_stood_still_at_any_request_publishes_or_is_refused(
    *, after: bool
) -> None:
    ends = set()
    for number in range(1, MOST):
        bench, process, since = await _began()
        staged = await bench.stage(bench.attempt("one", since), mode="append")
        took: list[bool] = []

        async def take_over(bench: Bench = bench, took: list[bool] = took, at: int = since) -> None:
            took.append(await _take_over(bench, at))

        _at(process.connection, number, take_over, after=after)
        try:
            await process.tables.publish(staged)
            by = "one"
        except AttemptFenced:
            by = "two"
        if not took:
            break
        assert took == [by == "two"]
        await _check(bench, by)
        ends.add(by)
    else:
        raise AssertionError("a publication takes more requests than thought")
    # Until its create has reached the store, the first has nothing to show.
    assert ends == ({"one", "two"} if after else {"two"})


@pytest.mark.parametrize("after", [False, True])
async def test_an_attempt_that_died_at_any_request_and_comes_back_publishes_nothing_twice(
    *, after: bool
) -> None:
    ends = set()
    for number in range(1, MOST):
        bench, process, since = await _began()
        staged = await bench.stage(bench.attempt("one", since), mode="append")
        died = asyncio.Event()

        async def die(died: asyncio.Event = died) -> None:
            died.set()
            await asyncio.Event().wait()

        _at(process.connection, number, die, after=after)
        work = asyncio.ensure_future(process.tables.publish(staged))
        death = asyncio.ensure_future(died.wait())
        await asyncio.wait({work, death}, return_when=asyncio.FIRST_COMPLETED)
        death.cancel()
        if not died.is_set():
            break
        work.cancel()
        by = "two" if await _take_over(bench, since) else "one"
        if by == "one":
            await bench.process().tables.publish(staged)
        else:
            with pytest.raises(AttemptFenced):
                await bench.process().tables.publish(staged)
        await _check(bench, by)
        ends.add(by)
    else:
        raise AssertionError("a publication takes more requests than thought")
    assert "two" in ends
    assert "one" in ends or not after
