"""The audit of events itself: it finds what it is there to find."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from arco.compactor.event_compactor import EventCompactor
from arco.core.runtime import Runtime
from arco.storage.roles import Role
from tests.compactor.in_process_engine import InProcessEngine
from tests.processes.events_audit import (
    audit_folds,
    folds_of,
    judge,
    judge_folds,
    lines_of,
    read_rows,
)
from tests.processes.kill_run import all_in_one
from tests.processes.numbered_events import expected_row
from tests.processes.sender import SendReport, send, stop_senders
from tests.processes.server import running
from tests.processes.spark_killer import EventDeployment
from tests.stores import open_bench


@pytest.mark.interop  # as the kill tests that rely on it
async def test_the_audit_finds_each_kind_of_lie(tmp_path: Path, runtime: Runtime) -> None:
    url = str(tmp_path / "store")
    deployment = all_in_one(url, tmp_path, runtime, spark=False)
    report = await _send(deployment)
    store = open_bench(url, runtime).store(Role.COMPACTOR)
    await EventCompactor(store, InProcessEngine(store)).once()

    first, *_ = sorted(report.done)
    rows = [row for part in range(3) for row in read_rows(deployment, first + 80_000_000 * part)]
    assert judge(report, rows) == []
    assert len({number // 80_000_000 for number, _ in rows}) == 3  # of all three senders
    assert rows[0][1] == expected_row(rows[0][0])
    assert judge(report, rows[1:])[0].startswith("1 lost")
    assert judge(report, [*rows, rows[0]])[0].startswith("1 doubled")
    assert judge(report, [*rows, (7, expected_row(7))])[0].startswith("1 never sent")
    assert judge(report, [(rows[0][0], "PASSED 0"), *rows[1:]])[0].startswith("1 told otherwise")
    # What was not acknowledged may be there or not.
    unsure = replace(report, done=report.done - {rows[0][0]}, unknown=report.unknown | {rows[0][0]})
    assert judge(unsure, rows) == judge(unsure, rows[1:]) == []

    assert (await audit_folds(deployment.store)).wrong == []
    folds = [each async for each in folds_of(deployment.store, "executions")]
    lines = {place: count async for place, count in lines_of(deployment.store, "executions")}
    assert judge_folds(folds, lines) == []
    assert "was not folded" in judge_folds(folds, lines | {("another", 0): 3})[0]
    assert "was folded 2 times" in judge_folds([*folds, folds[0]], lines)[0]
    place = next(iter(lines))
    assert "lines are there" in judge_folds(folds, lines | {place: lines[place] + 1})[0]


async def _send(deployment: EventDeployment) -> SendReport:
    async with running(*deployment.servers):
        senders = send([api.port for api in deployment.apis], pause_s=0.1, seed=1)
        await asyncio.sleep(2)
        return await asyncio.to_thread(stop_senders, senders)
