"""Clearings without a recorded end: what the next read of the state makes of them."""

from collections.abc import Sequence

import pytest

from arco.catalog.publication import NumberedPublication
from arco.core.errors import AttemptFenced, NotFound
from arco.core.ids import new_ulid
from arco.events.registry import DOMAINS
from arco.events.task import TaskStarted
from arco.flow.coordinator.clearing import TASK_NAME, Clearing, ClearingStateReader
from arco.flow.coordinator.event_writer import LedgerEventWriter
from arco.flow.coordinator.events import run_event
from arco.ledger.writer import DomainWriters
from arco.storage.chain_gc import DEFAULT_RETENTION_MS
from arco.storage.roles import Role
from tests.flow.plan.test_state_reader import ReaderSetup
from tests.query.workspace import workspace

DAY_MS = 24 * 3_600_000


class OneTable:
    """The publications on a table, or the error of reading them."""

    def __init__(self, answer: Sequence[NumberedPublication] | Exception) -> None:
        self.answer = answer

    async def publications(self, table_id: str, since: int) -> Sequence[NumberedPublication]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return [each for each in self.answer if each.number > since]


class ReportedErrors:
    """The errors that no caller gets."""

    def __init__(self) -> None:
        self.reported: list[Exception] = []

    def record(self, _what: str, problem: Exception, /, **_whose: str) -> None:
        self.reported.append(problem)


@pytest.mark.parametrize(
    ("answer", "age_ms", "status", "reported"),
    [
        ([], 0, "RUNNING", False),  # it may be about to commit
        ([], DEFAULT_RETENTION_MS // 2, "RUNNING", False),
        ([], DEFAULT_RETENTION_MS - DAY_MS, "FAILED", False),  # its commit would be refused
        (NotFound("there is no table"), 0, "FAILED", False),
        (AttemptFenced("the versions were collected"), 0, "RUNNING", True),
    ],
)
async def test_a_clearing_without_a_commit_ends_once_it_cannot_commit(
    answer: Sequence[NumberedPublication] | Exception, age_ms: int, status: str, *, reported: bool
) -> None:
    async with workspace() as space:
        setup = ReaderSetup(space)
        await space.schema("silver")
        table_id = await setup.table("silver", "orders")
        await setup.append_lines(setup.published(table_id, "ds=1", "a"))
        events = LedgerEventWriter(DomainWriters(space.store(Role.API), DOMAINS))
        errors = ReportedErrors()
        reader = ClearingStateReader(
            setup.reader,
            setup.engine,
            OneTable(answer),
            events,
            runtime=space.runtime,
            on_error=errors.record,
        )
        clearing = Clearing(new_ulid(space.runtime), table_id, 3)
        await events.append([clearing.begun(space.runtime.clock.now_ms() - age_ms)])
        state = await reader.state(["default.silver.orders"])
        tasks = await setup.engine.query("SELECT status FROM system.tasks", freshness="fresh")
        await setup.engine.close()
    assert state.tables["default.silver.orders"].materials == ("a",)
    assert tasks.to_pylist() == [{"status": status}]
    assert bool(errors.reported) is reported


async def test_a_clearing_of_a_whole_table_is_found_by_its_commit() -> None:
    async with workspace() as space:
        setup = ReaderSetup(space)
        await space.schema("silver")
        table_id = await setup.table("silver", "orders")
        await setup.append_lines(setup.published(table_id, "", "a"))
        clearing = Clearing(new_ulid(space.runtime), table_id, 3)
        other = Clearing(new_ulid(space.runtime), table_id, 3)
        commits = [
            NumberedPublication(4 + number, each.attempt(("",), 0).publication())
            for number, each in enumerate((other, clearing))
        ]
        events = LedgerEventWriter(DomainWriters(space.store(Role.API), DOMAINS))
        reader = ClearingStateReader(
            setup.reader,
            setup.engine,
            OneTable(commits),
            events,
            runtime=space.runtime,
            on_error=ReportedErrors().record,
        )
        await events.append([clearing.begun(space.runtime.clock.now_ms())])
        state = await reader.state(["default.silver.orders"])
        await setup.engine.close()
    table = state.tables["default.silver.orders"]
    assert (table.keys, table.materials, table.statuses) == (("",), (None,), ("PENDING",))


@pytest.mark.parametrize("task_id", ["load", "clear/x", f"clear/{10**200}"])
async def test_a_task_of_another_program_under_the_same_name_is_no_clearing(task_id: str) -> None:
    async with workspace() as space:
        setup = ReaderSetup(space)
        await space.schema("silver")
        table_id = await setup.table("silver", "orders")
        events = LedgerEventWriter(DomainWriters(space.store(Role.API), DOMAINS))
        reader = ClearingStateReader(
            setup.reader,
            setup.engine,
            OneTable(NotFound("there is no table")),
            events,
            runtime=space.runtime,
            on_error=ReportedErrors().record,
        )
        started = TaskStarted(
            execution_id="e", task_id=task_id, task_name=TASK_NAME, table_id=table_id
        )
        await events.append([run_event("task_started", "begun", "e", started)])
        await reader.state(["default.silver.orders"])
        tasks = await setup.engine.query("SELECT status FROM system.tasks", freshness="fresh")
        await setup.engine.close()
    assert tasks.to_pylist() == [{"status": "RUNNING"}]
