"""Two workers with one task, and partitions that are published at once: without Spark, within a second."""

import asyncio
import json

import pytest

from arco.core.errors import AttemptFenced
from arco.flow.plan.plan import Plan, RetryPolicy
from arco.flow.publish.pointer import Files
from arco.flow.publish.wire import FilesStaged, StagedFile
from arco.flow.run.wire import (
    LEASE_MS,
    Completed,
    LeasedTask,
    Offer,
    Outcome,
    OutputDone,
    RunStatus,
    TaskStatus,
)
from tests.flow.faults.hut import Hut
from tests.flow.run.plans import PROJECT, asset, plan, task, wish

TABLE = "default.s.t"


async def leased(hut: Hut, worker: str, slots: int = 1) -> tuple[LeasedTask, ...]:
    for _ in range(10):
        offer = Offer(worker=worker, slots=slots, project=PROJECT, wait_ms=10_000)
        found = (await hut.book.lease(offer)).tasks
        if found:
            return found
    pytest.fail("no task came")


async def staged(hut: Hut, given: LeasedTask, mode: str = "append") -> FilesStaged:
    """A row that says which attempt has made it, where nobody sees it yet."""
    table_id = await hut.make(TABLE)
    path, body = f"data/{given.attempt_id}/rows.json", json.dumps([given.attempt_id]).encode()
    await hut.write(table_id, path, body)
    files: Files = {given.partition: (StagedFile(path=path, rows=1, bytes=len(body)),)}
    return FilesStaged(table_id=table_id, attempt=given.outputs[0].attempt, mode=mode, files=files)


async def published(hut: Hut, given: LeasedTask, said: FilesStaged) -> Outcome:
    done = await hut.tables.publish(said)
    made = OutputDone(
        table=TABLE,
        table_id=said.table_id,
        partition=given.partition,
        version=done.number,
        rows=1,
    )
    return Outcome(status=TaskStatus.SUCCESS, code_fingerprint="code", outputs=(made,))


async def complete(hut: Hut, given: LeasedTask, worker: str, outcome: Outcome) -> None:
    now_ms = hut.runtime.clock.now_ms()
    await hut.book.complete(
        Completed(
            attempt_id=given.attempt_id,
            worker=worker,
            started_at_ms=now_ms,
            completed_at_ms=now_ms,
            outcome=outcome,
        )
    )


async def rows(hut: Hut) -> dict[str, list[str]]:
    """Which attempts have made the rows of each partition."""
    now = await hut.tables.files(hut.ids[TABLE])
    return {
        key: [row for each in files for row in json.loads(await hut.read(now.table_id, each.path))]
        for key, files in now.files.items()
    }


def _plan(*partitions: str) -> Plan:
    tasks = [task(f"t@{each}", maker=TABLE, partition=each) for each in partitions]
    return plan(*tasks, makers=[asset(TABLE, mode="append", retry=RetryPolicy(times=1))])


async def test_an_attempt_that_stood_still_cannot_publish_after_another_has() -> None:
    hut = await Hut.open(1)
    await hut.make(TABLE)
    view = await hut.book.submit(wish(_plan("p=a")))
    [still] = await leased(hut, "still")
    late = await staged(hut, still)
    await hut.runtime.clock.sleep(LEASE_MS + 2_000)
    [second] = await leased(hut, "other")
    await complete(hut, second, "other", await published(hut, second, await staged(hut, second)))
    with pytest.raises(AttemptFenced):
        await hut.tables.publish(late)
    assert await rows(hut) == {"p=a": [second.attempt_id]}
    assert (await hut.over(view.run_id)).status is RunStatus.SUCCESS
    assert hut.book.at_work == 0
    await hut.close()


async def test_an_attempt_that_stood_still_cannot_publish_before_the_other_has() -> None:
    hut = await Hut.open(2)
    await hut.make(TABLE)
    await hut.book.submit(wish(_plan("p=a")))
    [still] = await leased(hut, "still")
    late = await staged(hut, still)
    await hut.runtime.clock.sleep(LEASE_MS + 2_000)
    [second] = await leased(hut, "other")
    with pytest.raises(AttemptFenced):
        await hut.tables.publish(late)
    await complete(hut, second, "other", await published(hut, second, await staged(hut, second)))
    assert await rows(hut) == {"p=a": [second.attempt_id]}
    await hut.close()


async def test_what_was_published_before_the_lease_ended_is_not_made_again() -> None:
    hut = await Hut.open(3)
    await hut.make(TABLE)
    view = await hut.book.submit(wish(_plan("p=a")))
    [first] = await leased(hut, "still")
    await published(hut, first, await staged(hut, first))
    await hut.runtime.clock.sleep(LEASE_MS + 2_000)
    offer = Offer(worker="other", slots=1, project=PROJECT)
    assert (await hut.book.lease(offer)).tasks == ()
    assert (await hut.over(view.run_id)).status is RunStatus.SUCCESS
    assert await rows(hut) == {"p=a": [first.attempt_id]}
    await hut.close()


async def test_two_workers_that_were_given_one_attempt_make_its_rows_once() -> None:
    hut = await Hut.open(4)
    await hut.make(TABLE)
    await hut.book.submit(wish(_plan("p=a")))
    [given] = await leased(hut, "one")
    said = await staged(hut, given)
    numbers = {each.number for each in await asyncio.gather(*map(hut.tables.publish, [said, said]))}
    assert len(numbers) == 1
    assert await rows(hut) == {"p=a": [given.attempt_id]}
    await hut.close()


async def test_partitions_of_one_table_that_are_published_at_once_all_land() -> None:
    hut = await Hut.open(5)
    await hut.make(TABLE)
    keys = [f"p={each}" for each in "abcdefgh"]
    view = await hut.book.submit(wish(_plan(*keys)))
    given = await leased(hut, "one", slots=len(keys))
    assert len(given) == len(keys)
    said = [await staged(hut, each) for each in given]
    work = [published(hut, *each) for each in zip(given, said, strict=True)]
    for each, outcome in zip(given, await asyncio.gather(*work), strict=True):
        await complete(hut, each, "one", outcome)
    assert await rows(hut) == {each.partition: [each.attempt_id] for each in given}
    assert (await hut.over(view.run_id)).status is RunStatus.SUCCESS
    await hut.close()
