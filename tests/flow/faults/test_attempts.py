"""Two workers with one task, and partitions that are published at once: without Spark, within a second."""

import asyncio
import json

import pytest

from arco.core.errors import AttemptFenced
from arco.flow.coordinator.messages import (
    LEASE_MS,
    AttemptOutcome,
    AttemptReport,
    LeasedTask,
    LeaseRequest,
    OutputResult,
    RunStatus,
    TaskStatus,
)
from arco.flow.plan.plan import Plan, RetryPolicy
from arco.flow.publish.pointer import Files
from arco.flow.publish.wire import FilesStaged, StagedFile
from tests.flow.coordinator.plans import PROJECT, asset, plan, run_request, task
from tests.flow.faults.workspace import Workspace

TABLE = "default.s.t"


async def leased(workspace: Workspace, worker: str, slots: int = 1) -> tuple[LeasedTask, ...]:
    for _ in range(10):
        offer = LeaseRequest(worker=worker, slots=slots, project=PROJECT, wait_ms=10_000)
        tasks = (await workspace.coordinator.lease(offer)).tasks
        if tasks:
            return tasks
    pytest.fail("no task came")


async def staged(workspace: Workspace, given: LeasedTask, mode: str = "append") -> FilesStaged:
    """An unpublished row that names its attempt."""
    table_id = await workspace.make(TABLE)
    path, body = f"data/{given.attempt_id}/rows.json", json.dumps([given.attempt_id]).encode()
    await workspace.write(table_id, path, body)
    files: Files = {given.partition: (StagedFile(path=path, rows=1, bytes=len(body)),)}
    return FilesStaged(table_id=table_id, attempt=given.outputs[0].attempt, mode=mode, files=files)


async def published(workspace: Workspace, given: LeasedTask, files: FilesStaged) -> AttemptOutcome:
    done = await workspace.tables.publish(files)
    made = OutputResult(
        table=TABLE, table_id=files.table_id, partition=given.partition, version=done.number, rows=1
    )
    return AttemptOutcome(status=TaskStatus.SUCCESS, code_fingerprint="code", outputs=(made,))


async def complete(
    workspace: Workspace, given: LeasedTask, worker: str, outcome: AttemptOutcome
) -> None:
    now_ms = workspace.runtime.clock.now_ms()
    await workspace.coordinator.complete(
        AttemptReport(
            attempt_id=given.attempt_id,
            worker=worker,
            started_at_ms=now_ms,
            completed_at_ms=now_ms,
            outcome=outcome,
        )
    )


async def rows(workspace: Workspace) -> dict[str, list[str]]:
    """Which attempts have made the rows of each partition."""
    now = await workspace.tables.files(workspace.ids[TABLE])
    return {
        key: [
            row
            for each in files
            for row in json.loads(await workspace.read(now.table_id, each.path))
        ]
        for key, files in now.files.items()
    }


def _plan(*partitions: str) -> Plan:
    tasks = [task(f"t@{each}", maker=TABLE, partition=each) for each in partitions]
    return plan(*tasks, makers=[asset(TABLE, mode="append", retry=RetryPolicy(times=1))])


async def test_an_attempt_that_stood_still_cannot_publish_after_another_has() -> None:
    workspace = await Workspace.open(1)
    await workspace.make(TABLE)
    view = await workspace.coordinator.submit(run_request(_plan("p=a")))
    [still] = await leased(workspace, "still")
    late = await staged(workspace, still)
    await workspace.runtime.clock.sleep(LEASE_MS + 2_000)
    [second] = await leased(workspace, "other")
    await complete(
        workspace,
        second,
        "other",
        await published(workspace, second, await staged(workspace, second)),
    )
    with pytest.raises(AttemptFenced):
        await workspace.tables.publish(late)
    assert await rows(workspace) == {"p=a": [second.attempt_id]}
    assert (await workspace.over(view.run_id)).status is RunStatus.SUCCESS
    assert workspace.coordinator.at_work == 0
    await workspace.close()


async def test_an_attempt_that_stood_still_cannot_publish_before_the_other_has() -> None:
    workspace = await Workspace.open(2)
    await workspace.make(TABLE)
    await workspace.coordinator.submit(run_request(_plan("p=a")))
    [still] = await leased(workspace, "still")
    late = await staged(workspace, still)
    await workspace.runtime.clock.sleep(LEASE_MS + 2_000)
    [second] = await leased(workspace, "other")
    with pytest.raises(AttemptFenced):
        await workspace.tables.publish(late)
    await complete(
        workspace,
        second,
        "other",
        await published(workspace, second, await staged(workspace, second)),
    )
    assert await rows(workspace) == {"p=a": [second.attempt_id]}
    await workspace.close()


async def test_a_partition_published_before_the_lease_ended_does_not_run_again() -> None:
    workspace = await Workspace.open(3)
    await workspace.make(TABLE)
    view = await workspace.coordinator.submit(run_request(_plan("p=a")))
    [first] = await leased(workspace, "still")
    await published(workspace, first, await staged(workspace, first))
    await workspace.runtime.clock.sleep(LEASE_MS + 2_000)
    offer = LeaseRequest(worker="other", slots=1, project=PROJECT)
    assert (await workspace.coordinator.lease(offer)).tasks == ()
    assert (await workspace.over(view.run_id)).status is RunStatus.SUCCESS
    assert await rows(workspace) == {"p=a": [first.attempt_id]}
    await workspace.close()


async def test_two_workers_that_were_given_one_attempt_make_its_rows_once() -> None:
    workspace = await Workspace.open(4)
    await workspace.make(TABLE)
    await workspace.coordinator.submit(run_request(_plan("p=a")))
    [given] = await leased(workspace, "one")
    files = await staged(workspace, given)
    numbers = {
        each.number for each in await asyncio.gather(*map(workspace.tables.publish, [files, files]))
    }
    assert len(numbers) == 1
    assert await rows(workspace) == {"p=a": [given.attempt_id]}
    await workspace.close()


async def test_partitions_of_one_table_that_are_published_at_once_all_land() -> None:
    workspace = await Workspace.open(5)
    await workspace.make(TABLE)
    keys = [f"p={each}" for each in "abcdefgh"]
    view = await workspace.coordinator.submit(run_request(_plan(*keys)))
    given = await leased(workspace, "one", slots=len(keys))
    assert len(given) == len(keys)
    files = [await staged(workspace, each) for each in given]
    work = [published(workspace, *each) for each in zip(given, files, strict=True)]
    for each, outcome in zip(given, await asyncio.gather(*work), strict=True):
        await complete(workspace, each, "one", outcome)
    assert await rows(workspace) == {each.partition: [each.attempt_id] for each in given}
    assert (await workspace.over(view.run_id)).status is RunStatus.SUCCESS
    await workspace.close()
