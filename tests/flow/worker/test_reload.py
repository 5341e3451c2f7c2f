"""A worker offers the code it has loaded, and loads a changed project again when it runs no task."""

import asyncio
from collections.abc import Sequence

import msgspec

from arco.flow.coordinator.messages import AttemptOutcome, CodeVersion, LeasedTask, TaskStatus
from arco.flow.plan.plan import Plan
from arco.flow.worker.worker import Worker
from tests.flow.worker.scripted_executor import (
    PROJECT,
    ScriptedExecutor,
    open_coordinator,
    plan,
    statuses,
    submit_plan,
    until_true,
    usual,
)


class Files:
    """A project whose files a test changes."""

    project = PROJECT

    def __init__(self, names: Sequence[str], code: str) -> None:
        self._names = names
        self.on_disk = code
        self.code = self._loaded(code)
        self.reported: list[str] = []

    def refresh(self, leased: Sequence[LeasedTask] = ()) -> None:
        new = self._loaded(self.on_disk)
        if all(new.get(task.maker) == task.code for task in leased):
            self.code = new

    def report_other_code(self, run_ids: Sequence[str]) -> None:
        self.reported += run_ids

    def _loaded(self, code: str) -> dict[str, CodeVersion]:
        return {name: CodeVersion(code=code) for name in self._names}


def _with_code(made: Plan, code: str) -> Plan:
    makers = tuple(msgspec.structs.replace(each, code_fingerprint=code) for each in made.makers)
    return msgspec.structs.replace(made, makers=makers)


def _scripted(code: str) -> ScriptedExecutor:
    """Code that says which it is."""
    return ScriptedExecutor(
        a=lambda _: AttemptOutcome(status=TaskStatus.SUCCESS, code_fingerprint=code)
    )


async def test_a_waiting_worker_takes_up_a_run_of_edited_code_once_its_files_have_it() -> None:
    planned, runtime = plan("a"), usual()
    files = Files([each.name for each in planned.makers], "old")
    async with open_coordinator("http", runtime) as coordinator:
        stop = runtime.tasks.event()
        worker = Worker(coordinator, _scripted("new"), runtime, name="w", slots=1, code=files)
        working = asyncio.create_task(worker.run(until=stop))
        await asyncio.sleep(0.2)
        files.on_disk = "new"
        run_id = await submit_plan(coordinator, _with_code(planned, "new"))
        view = await coordinator.get_run(run_id)
        while not view.status.is_over:
            view = await coordinator.get_run(run_id, view.number, 5_000)
        view = await coordinator.get_run(run_id)
        stop.set()
        await working
    assert statuses(view) == {"a": "SUCCESS"}
    assert files.reported == []


async def test_a_worker_with_old_files_runs_nothing_and_reports_it() -> None:
    planned, runtime, executor = plan("a"), usual(), _scripted("old")
    files = Files([each.name for each in planned.makers], "old")
    async with open_coordinator("http", runtime) as coordinator:
        stop = runtime.tasks.event()
        run_id = await submit_plan(coordinator, _with_code(planned, "new"))
        worker = Worker(coordinator, executor, runtime, name="w", slots=1, code=files)
        working = asyncio.create_task(worker.run(until=stop))
        await until_true(lambda: bool(files.reported))
        view = await coordinator.get_run(run_id)
        stop.set()
        await working
    assert files.reported == [run_id]
    assert statuses(view) == {"a": "READY"}
    [wait] = view.waits_for_code
    assert (wait.planned.code, wait.workers[0].code) == ("new", CodeVersion(code="old"))
