"""Runs read back from the event tables."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from arco.catalog.reader import SnapshotReader
from arco.flow.coordinator.messages import RunStatus, TaskStatus
from arco.flow.coordinator.run_reader import SqlRunReader
from arco.flow.plan import event_query
from arco.ledger.writer import LedgerWriter
from arco.query.engine import SqlEngine
from arco.storage.roles import Role
from tests.flow.plan.event_lines import NOON, event_line
from tests.query.workspace import workspace

NOON_MS = int(NOON.timestamp() * 1000)


Event = tuple[str, dict[str, object]]


@asynccontextmanager
async def _open_reader(*events: Event) -> AsyncIterator[SqlRunReader]:
    async with workspace() as space:
        store = space.store(Role.API)
        lines = [
            event_line(space.runtime, name, second=second, **payload)
            for second, (name, payload) in enumerate(events)
        ]
        await LedgerWriter(store, "executions").append_lines(lines)
        engine = SqlEngine(SnapshotReader(store))
        try:
            yield SqlRunReader(engine)
        finally:
            await engine.close()


def _run(run_id: str, *tasks: str) -> tuple[Event, ...]:
    planned = [{"task_id": each} for each in tasks]
    return (
        ("execution_planned", {"execution_id": run_id, "plan_id": "p", "tasks": planned}),
        ("execution_started", {"execution_id": run_id, "pipeline_id": "shop"}),
    )


async def test_unfinished_runs_are_read_with_their_tasks() -> None:
    done = {"task_id": "a", "execution_id": "r1", "attempt": 2, "status": "SUCCESS"}
    async with _open_reader(
        *_run("r1", "a", "b"),
        *_run("r2", "a"),
        *_run("r3", "a"),
        ("task_completed", {**done, "rows_written": 7}),
        ("execution_completed", {"execution_id": "r2", "status": "FAILED"}),
        ("cancel_requested", {"execution_id": "r3"}),
    ) as reader:
        first, second = await reader.unfinished()
    assert (first.run_id, first.status, first.is_over) == ("r1", RunStatus.RUNNING, False)
    assert [(task.key, task.status, task.attempt) for task in first.tasks] == [
        ("a", TaskStatus.SUCCESS, 2),
        ("b", TaskStatus.PENDING, 0),
    ]
    assert (first.tasks[0].rows_written, first.tasks[0].completed_at_ms) == (7, NOON_MS + 6_000)
    assert (second.run_id, second.status, second.is_over) == ("r3", RunStatus.CANCELLED, False)


async def test_a_retried_task_is_read_with_its_failed_attempts() -> None:
    failed = {"task_id": "a", "execution_id": "r1", "status": "FAILED"}
    third_attempt = {"task_id": "a", "execution_id": "r1", "attempt": 3}
    async with _open_reader(
        *_run("r1", "a", "b"),
        ("task_completed", {**failed, "attempt": 1, "metrics": {"failed_attempts": 1}}),
        ("task_completed", {**failed, "attempt": 2, "metrics": {"failed_attempts": 2, "x": "y"}}),
        ("task_retry_scheduled", third_attempt),
        ("task_lost", third_attempt),
        ("task_completed", {**failed, "task_id": "b", "metrics": {"failed_attempts": "many"}}),
    ) as reader:
        [run] = await reader.unfinished()
    assert [(task.key, task.failures) for task in run.tasks] == [("a", 2), ("b", 0)]


async def test_an_ended_run_is_read_by_its_id() -> None:
    over: Event = ("execution_completed", {"execution_id": "r1", "status": "CANCELLED"})
    async with _open_reader(*_run("r1", "a"), over) as reader:
        run, missing_run = await reader.run("r1"), await reader.run("it's nobody")
    assert run is not None
    assert (run.is_over, run.completed_at_ms) == (True, NOON_MS + 2_000)
    assert missing_run is None


async def test_more_tasks_than_one_answer_holds_are_all_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_query, "MAX_ROWS", 4)
    tasks = [f"t{number:02d}" for number in range(9)]
    async with _open_reader(*_run("r1", *tasks), *_run("r2", *tasks[:4])) as reader:
        runs = await reader.unfinished()
    assert [[task.key for task in run.tasks] for run in runs] == [tasks, tasks[:4]]


async def test_more_runs_than_one_answer_holds_are_all_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_query, "MAX_ROWS", 2)
    names = [f"r{number}" for number in range(5)]
    async with _open_reader(*(event for name in names for event in _run(name, "a"))) as reader:
        runs = await reader.unfinished()
    assert [run.run_id for run in runs] == names
    assert all(len(run.tasks) == 1 for run in runs)


def _check(name: str, task: str, second: int, **fields: object) -> Event:
    kind = "quality_check_failed" if "message" in fields else "quality_check_passed"
    of = {"table_id": f"tbl-{task}", "check_name": name, "check_type": "NULL_CHECK"}
    at = (NOON + timedelta(seconds=second)).isoformat()
    return kind, {**of, "execution_id": "r1", "task_id": task, "checked_at": at, **fields}


def _done(task: str, status: str, second: int) -> Event:
    at = (NOON + timedelta(seconds=second)).isoformat()
    of = {"task_id": task, "execution_id": "r1", "attempt": 1, "output_tables": [f"tbl-{task}"]}
    return "task_completed", {**of, "status": status, "completed_at": at}


async def test_a_run_is_read_with_its_check_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_query, "MAX_ROWS", 2)
    async with _open_reader(
        *_run("r1", "a", "b", "c"),
        _check("early", "a", 5, message="of an attempt before"),
        _check("ids", "a", 9),
        _check("few", "a", 9, severity="warn", status="WARNING", message="3 rows"),
        _check("ids", "b", 8, severity="error", expected_value="0", message="2 are null"),
        ("quality_check_passed", {**_check("ids", "a", 9)[1], "execution_id": "r2"}),
        _done("a", "SUCCESS", 9),
        _done("b", "BLOCKED", 8),
    ) as reader:
        run = await reader.run("r1")
    assert run is not None
    checks_by_task = {
        task.key: sorted(
            (each.name, each.passed, each.severity, each.message) for each in task.checks
        )
        for task in run.tasks
    }
    assert checks_by_task == {
        "a": [("few", False, "warn", "3 rows"), ("ids", True, "error", None)],
        "b": [("ids", False, "error", "2 are null")],
        "c": [],
    }
    assert run.tasks[1].checks[0].expected == "0"
