"""The state of tables for planning, read from recorded events."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from arco.catalog.model import TableRow
from arco.catalog.reader import SnapshotReader
from arco.compactor.domain_compactor import DomainCompactor
from arco.core import json
from arco.core.errors import BacklogTooLarge
from arco.flow.plan import event_query, recorded_state
from arco.flow.plan.event_query import BacklogWait
from arco.flow.plan.keys import task_key
from arco.flow.plan.state_reader import SqlStateReader
from arco.flow.plan.table_state import ColumnChange, LastAttempt, UnprovenFile
from arco.ledger.writer import LedgerWriter
from arco.query.engine import SqlEngine
from arco.query.limits import QueryLimits
from arco.storage.roles import Role
from tests.compactor.in_process_engine import InProcessEngine
from tests.flow.plan.event_lines import NOON, event_line
from tests.query.workspace import Workspace, workspace

NOON_MS = int(NOON.timestamp() * 1000)


class Formats:
    """What formats say of the tables that are named here; others have no version."""

    def __init__(self) -> None:
        self.table_versions: dict[str, tuple[str | None, dict[str, str]]] = {}
        self.asked: list[str] = []
        self.files: tuple[UnprovenFile, ...] = ()

    async def versions(self, table_id: str, format: str) -> tuple[str | None, dict[str, str]]:  # noqa: A002
        assert format == "PARQUET"
        self.asked.append(table_id)
        return self.table_versions.get(table_id, (None, {}))

    async def unproven_files(self, table_id: str, format: str) -> tuple[UnprovenFile, ...]:  # noqa: A002
        return self.files


class ReaderSetup:
    """A workspace and a reader of its state."""

    def __init__(self, space: Workspace, limits: QueryLimits | None = None) -> None:
        self.space = space
        self.formats = Formats()
        store = space.store(Role.API)
        self.engine = SqlEngine(SnapshotReader(store), limits=limits)
        self.writer = LedgerWriter(store, "executions")
        events = SnapshotReader(store, "executions")
        self.reader = SqlStateReader(self.engine, SnapshotReader(store), events, self.formats)

    async def table(self, schema: str, name: str) -> str:
        table_row = (await self.space.table(schema, name, id="bigint")).object.row
        assert isinstance(table_row, TableRow)
        return table_row.table_id

    async def append_lines(self, *lines: bytes) -> None:
        await self.writer.append_lines([*lines])

    def line(self, name: str, *, second: int = 0, **payload: object) -> bytes:
        return event_line(self.space.runtime, name, second=second, **payload)

    def published(self, table_id: str, key: str, material: str) -> bytes:
        return self.line(
            "partition_completed",
            second=3,
            table_id=table_id,
            partition_key=key,
            materialization_id=material,
            input_fingerprint=f"in of {material}",
            code_fingerprint=f"code of {material}",
            version=1,
        )


async def test_a_table_has_the_partitions_that_were_just_recorded() -> None:
    async with workspace() as space:
        setup = ReaderSetup(space)
        await space.schema("silver")
        table_id = await setup.table("silver", "orders")
        await setup.append_lines(
            setup.published(table_id, "ds=2026-01-02", "b"),
            setup.published(table_id, "ds=2026-01-01", "a"),
            setup.line(
                "partition_failed", second=9, table_id=table_id, partition_key="ds=2026-01-02"
            ),
            setup.line(
                "partition_failed", second=9, table_id=table_id, partition_key="ds=2026-01-03"
            ),
        )
        state = await setup.reader.state(["default.silver.orders"])
        await setup.engine.close()
    table = state.tables["default.silver.orders"]
    assert (table.table_id, table.format) == (table_id, "PARQUET")
    assert table.keys == ("ds=2026-01-01", "ds=2026-01-02", "ds=2026-01-03")
    assert table.statuses == ("COMPLETE", "FAILED", "FAILED")
    assert table.materials == ("a", "b", None)
    assert table.input_fingerprints == ("in of a", "in of b", None)
    assert table.code_fingerprints == ("code of a", "code of b", None)
    assert table.made_at_ms == (NOON_MS + 3_000, NOON_MS + 3_000, None)
    assert setup.formats.asked == []


async def test_a_partition_that_was_cleared_is_as_if_it_had_never_been_made() -> None:
    async with workspace() as space:
        setup = ReaderSetup(space)
        await space.schema("silver")
        table_id = await setup.table("silver", "orders")
        named = {"table_id": table_id, "partition_key": "ds=2026-01-01"}
        await setup.append_lines(
            setup.published(table_id, "ds=2026-01-01", "a"),
            setup.line("partition_failed", second=5, **named),
            setup.line("partition_cleared", second=6, version=2, **named),
        )
        table = (await setup.reader.state(["default.silver.orders"])).tables[
            "default.silver.orders"
        ]
        await setup.engine.close()
    assert (table.keys, table.statuses, table.materials) == (
        ("ds=2026-01-01",),
        ("PENDING",),
        (None,),
    )
    assert (table.code_fingerprints, table.made_at_ms) == ((None,), (None,))


async def test_the_column_changes_of_the_last_attempt_are_read() -> None:
    async with workspace() as space:
        setup = ReaderSetup(space)
        await space.schema("silver")
        table_id = await setup.table("silver", "orders")
        change = {
            "table": "default.silver.orders",
            "column": "id",
            "before": "int",
            "after": "string",
        }

        def ended(run: str, second: int, day: str, changes: list[object], table: str) -> bytes:
            metrics = {"code_fingerprint": f"code of {run}"}
            if changes:
                metrics["column_changes"] = json.encode(changes).decode()
            return setup.line(
                "task_completed",
                second=second,
                execution_id=run,
                task_id=f"silver.orders@ds={day}",
                table_id=table,
                partition_key=f"ds={day}",
                status="FAILED",
                completed_at=(NOON + timedelta(seconds=second)).isoformat(),
                metrics=metrics,
            )

        async def last() -> LastAttempt | None:
            state = await setup.reader.state(["default.silver.orders"])
            return state.tables["default.silver.orders"].last_attempt

        await setup.append_lines(
            ended("run-1", 1, "2026-01-01", [], table_id),
            ended("run-2", 2, "2026-01-02", [change], table_id),
        )
        assert await last() == LastAttempt(
            task="silver.orders@ds=2026-01-02",
            run_id="run-2",
            status="FAILED",
            ended_at_ms=NOON_MS + 2_000,
            code_fingerprint="code of run-2",
            changes=(msgspec.convert(change, ColumnChange),),
        )
        await setup.append_lines(
            ended("run-3", 3, "2026-01-01", [change], "of a table that was dropped")
        )
        assert await last() is None
        await setup.append_lines(ended("run-4", 4, "2026-01-01", [], table_id))
        assert await last() is None
        await setup.engine.close()


async def test_a_table_without_partitions_has_the_one_with_the_empty_key() -> None:
    async with workspace() as space:
        setup = ReaderSetup(space)
        await space.schema("silver")
        table_id = await setup.table("silver", "regions")
        await setup.append_lines(setup.published(table_id, "", "a"))
        state = await setup.reader.state(["default.silver.regions"])
        await setup.engine.close()
    assert state.tables["default.silver.regions"].keys == ("",)


async def test_the_format_identifies_the_data_of_a_source_table() -> None:
    async with workspace() as space:
        setup = ReaderSetup(space)
        await space.schema("raw")
        cut, unpartitioned = await setup.table("raw", "cut"), await setup.table("raw", "whole")
        setup.formats.table_versions = {
            cut: (None, {"ds=2": "two", "ds=1": "one"}),
            unpartitioned: ("7", {}),
        }
        await setup.append_lines(
            setup.line("table_profiled", table_id=unpartitioned, row_count=1, last_modified_at=NOON)
        )
        state = await setup.reader.state(["default.raw.cut", "default.raw.whole"])
        await setup.engine.close()
    table = state.tables["default.raw.cut"]
    assert (table.keys, table.materials) == (("ds=1", "ds=2"), ("one", "two"))
    assert (table.version, table.statuses) == (None, ("COMPLETE", "COMPLETE"))
    table = state.tables["default.raw.whole"]
    assert (table.version, table.keys, table.changed_at_ms) == ("7", (), NOON_MS)


def commit(
    setup: ReaderSetup, table_id: str, number: int, source: str, changed: list[str]
) -> bytes:
    return setup.line(
        "iceberg_committed",
        table_id=table_id,
        pointer_number=number,
        operation="commit",
        actor="user:ann",
        engine=f"engine {number}",
        update_source=source,
        metadata_location=f"m{number}",
        snapshot_id=str(number),
        changed=changed,
        committed_at=NOON + timedelta(seconds=number),
    )


async def test_files_that_no_pipeline_added_are_named_where_they_are_asked_for() -> None:
    async with workspace() as space:
        setup = ReaderSetup(space)
        await space.schema("silver")
        table_id = await setup.table("silver", "orders")
        name, moved = "default.silver.orders", ["add-snapshot", "set-snapshot-ref"]
        setup.formats.files = tuple(
            UnprovenFile(f"ds={day}", f"file-{day}-{snapshot}", snapshot)
            for day, snapshot in ((1, "1"), (1, "2"), (2, "2"), (2, "9"))
        )
        await setup.append_lines(
            setup.published(table_id, "ds=1", "a"), commit(setup, table_id, 2, "flow", moved)
        )
        alone = await setup.reader.state([name], [name])
        await setup.append_lines(commit(setup, table_id, 1, "iceberg_rest", moved))
        unasked = await setup.reader.state([name])
        asked = await setup.reader.state([name], [name])
        await setup.engine.close()
    assert alone.tables[name].foreign_files == {}  # no other program has written to it
    assert unasked.tables[name].foreign_files == {}
    assert asked.tables[name].foreign_files == {"ds=1": ("file-1-1",), "ds=2": ("file-2-9",)}


async def test_the_last_write_by_another_program_is_read() -> None:
    async with workspace() as space:
        setup = ReaderSetup(space)
        await space.schema("silver")
        table_id = await setup.table("silver", "orders")
        await setup.append_lines(
            setup.published(table_id, "ds=1", "a"),
            commit(setup, table_id, 1, "iceberg_rest", ["add-snapshot", "set-snapshot-ref"]),
            commit(setup, table_id, 2, "flow", ["add-snapshot", "set-snapshot-ref"]),
            commit(setup, table_id, 3, "iceberg_rest", ["add-snapshot"]),  # staged
            commit(setup, table_id, 4, "native", ["add-schema"]),
        )
        state = await setup.reader.state(["default.silver.orders"])
        await setup.engine.close()
    table = state.tables["default.silver.orders"]
    assert (table.others, table.others_at_ms) == ("engine 1", NOON_MS + 1_000)
    assert table.changed_at_ms == NOON_MS + 4_000


async def test_a_missing_table_has_the_failures_of_its_tasks() -> None:
    def task(setup: ReaderSetup, key: str, run: str, status: str, second: int) -> bytes:
        return setup.line(
            "task_completed", second=second, task_id=key, execution_id=run, attempt=1, status=status
        )

    async with workspace() as space:
        setup = ReaderSetup(space)
        await setup.append_lines(
            task(setup, "silver.orders@ds=1", "r1", "FAILED", 1),
            task(setup, "silver.orders@ds=2", "r1", "FAILED", 1),
            task(setup, "silver.orders@ds=2", "r2", "SKIPPED", 2),
            task(setup, "silver.orders@ds=3", "r1", "BLOCKED", 1),
            task(setup, "silver.orders_old@ds=9", "r1", "FAILED", 1),
        )
        state = await setup.reader.state(["default.silver.orders", "default.silver.gone"])
        await setup.engine.close()
    table = state.tables["default.silver.orders"]
    assert (table.table_id, table.keys) == (None, ("ds=1", "ds=3"))
    assert (table.statuses, table.materials) == (("FAILED", "FAILED"), (None, None))
    assert state.tables["default.silver.gone"].keys == ()


async def test_a_table_that_was_created_after_a_task_started_has_its_failure() -> None:
    """A first run that fails found no table, though its own attempt created it."""

    def task(
        setup: ReaderSetup, key: str, run: str, status: str, second: int, **more: str
    ) -> bytes:
        fields = {"task_id": key, "execution_id": run, "attempt": 1, "status": status, **more}
        return setup.line("task_completed", second=second, **fields)

    async with workspace() as space:
        setup = ReaderSetup(space)
        await space.schema("silver")
        half, empty, other = [
            await setup.table("silver", name) for name in ("half", "empty", "raw")
        ]
        setup.formats.table_versions = {other: ("7", {})}
        await setup.append_lines(
            task(setup, "silver.half@ds=1", "r1", "FAILED", 1),
            task(setup, "silver.half@ds=2", "r1", "FAILED", 1),
            task(setup, "silver.half@ds=3", "r1", "FAILED", 1),
            task(setup, "silver.half@ds=3", "r2", "SUCCESS", 2, table_id="of-a-table-that-is-gone"),
            task(setup, "silver.empty", "r1", "FAILED", 1),
            task(setup, "silver.raw", "r1", "FAILED", 1),
            setup.published(half, "ds=2", "b"),
        )
        names = ["default.silver.half", "default.silver.empty", "default.silver.raw"]
        tables = (await setup.reader.state(names)).tables
        await setup.engine.close()
    assert tables[names[0]].keys == ("ds=2", "ds=1")
    assert tables[names[0]].statuses == ("COMPLETE", "FAILED")
    assert tables[names[0]].materials == ("b", None)
    assert (tables[names[1]].table_id, tables[names[1]].statuses) == (empty, ("FAILED",))
    assert (tables[names[2]].version, tables[names[2]].keys) == ("7", ())  # it has data of others


async def test_a_task_may_have_any_name() -> None:
    names = ["ops.board", "at@50%"]
    async with workspace() as space:
        setup = ReaderSetup(space)
        await setup.append_lines(
            *(
                setup.line(
                    "task_completed",
                    execution_id="r1",
                    task_id=task_key(name, "ds=1"),
                    status="FAILED",
                    attempt=2,
                )
                for name in names
            )
        )
        tables = (await setup.reader.state(names)).tables
        await setup.engine.close()
    assert [tables[name].statuses for name in names] == [("FAILED",)] * 2


async def test_values_of_dynamic_dimensions_are_those_that_were_not_removed() -> None:
    async with workspace() as space:
        setup = ReaderSetup(space)
        await setup.append_lines(
            setup.line("partition_value_added", dimension="customer", value="zeta"),
            setup.line("partition_value_added", dimension="customer", value="acme"),
            setup.line("partition_value_added", dimension="region", value="eu"),
            setup.line("partition_value_removed", second=5, dimension="customer", value="zeta"),
        )
        state = await setup.reader.state([])
        await setup.engine.close()
    assert state.dynamic == {"customer": ("acme",), "region": ("eu",)}
    assert state.number == -1


async def test_more_partitions_than_one_answer_holds_are_all_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorded_state, "MAX_PARTITION_ROWS", 7)
    async with workspace() as space:
        setup = ReaderSetup(space)
        await space.schema("s")
        ids = {}
        for name, count in (("few", 3), ("many", 20), ("exact", 7)):
            ids[name] = await setup.table("s", name)
            keys = [f"n={number:03d}" for number in range(count)]
            await setup.append_lines(
                *(setup.published(ids[name], key, f"{name} {key}") for key in keys)
            )
        state = await setup.reader.state([f"default.s.{name}" for name in ids])
        await setup.engine.close()
    many = state.tables["default.s.many"]
    assert many.keys == tuple(f"n={number:03d}" for number in range(20))
    assert many.materials == tuple(f"many {key}" for key in many.keys)
    assert len(state.tables["default.s.few"].keys) == 3
    assert len(state.tables["default.s.exact"].keys) == 7


async def test_a_task_without_tables_has_its_last_success() -> None:
    async with workspace() as space:
        setup = ReaderSetup(space)

        def ended(run: str, second: int, status: str, **metrics: str) -> bytes:
            return setup.line(
                "task_completed",
                second=second,
                execution_id=run,
                task_id="report@ds=2026-01-01",
                status=status,
                attempt=1,
                metrics=metrics,
            )

        await setup.append_lines(
            ended("run-1", 1, "SUCCESS", code_fingerprint="c1", input_fingerprint="i1"),
            ended("run-2", 2, "FAILED"),
        )
        tables = (await setup.reader.state(["report", "never_run"])).tables
        await setup.engine.close()
    assert tables["never_run"].keys == ()
    report = tables["report"]
    assert report.keys == ("ds=2026-01-01",)
    assert report.statuses == ("FAILED",)
    assert report.materials == ("run-1/report@ds=2026-01-01",)
    assert (report.code_fingerprints, report.input_fingerprints) == (("c1",), ("i1",))
    assert report.made_at_ms == (NOON_MS + 1_000,)


async def test_a_task_that_ran_more_often_than_one_answer_holds_has_its_last_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_query, "MAX_ROWS", 7)
    days = [f"ds=2026-01-{day:02d}" for day in range(1, 11)]
    async with workspace() as space:
        setup = ReaderSetup(space, QueryLimits(rows=8))
        await setup.append_lines(
            *(
                setup.line(
                    "task_completed",
                    second=number,
                    execution_id=f"run-{number}",
                    task_id=f"report@{day}",
                    status=status,
                    attempt=1,
                )
                for number, status in enumerate(("SUCCESS", "FAILED", "SUCCESS", "SKIPPED"))
                for day in days
            )
        )
        report = (await setup.reader.state(["report"])).tables["report"]
        await setup.engine.close()
    assert report.keys == tuple(days)
    assert set(report.statuses) == {"COMPLETE"}
    assert report.materials == tuple(f"run-2/report@{day}" for day in days)


async def test_more_values_of_dynamic_dimensions_than_one_answer_holds_are_all_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_query, "MAX_ROWS", 7)
    values = [f"c'{number:02d}" for number in range(20)]
    async with workspace() as space:
        setup = ReaderSetup(space, QueryLimits(rows=8))
        await setup.append_lines(
            *(
                setup.line("partition_value_added", dimension=dimension, value=value)
                for dimension in ("customer", "region")
                for value in values
            )
        )
        state = await setup.reader.state([])
        await setup.engine.close()
    assert state.dynamic == {"customer": tuple(values), "region": tuple(values)}


async def test_of_a_table_that_often_could_not_be_made_the_last_try_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_query, "MAX_ROWS", 7)
    keys = [f"ds={number}" for number in range(10, 20)]
    async with workspace() as space:
        setup = ReaderSetup(space, QueryLimits(rows=8))

        def ended(key: str, number: int, status: str) -> bytes:
            return setup.line(
                "task_completed",
                second=number,
                execution_id=f"run-{number}",
                task_id=f"silver.orders@{key}",
                status=status,
                attempt=1,
            )

        def planned(key: str) -> bytes:
            task = {"task_id": f"silver.orders@{key}", "task_name": "t", "partition_key": key}
            return setup.line(
                "execution_planned", second=9, execution_id="run-9", plan_id="p", tasks=[task]
            )

        await setup.append_lines(
            *(ended(key, 1, "FAILED") for key in keys),
            *(ended(key, 2, "SKIPPED") for key in keys[:4]),
            *(ended(key, 3, "FAILED") for key in keys[:2]),
            planned(keys[9]),
        )
        state = await setup.reader.state(["default.silver.orders"])
        await setup.engine.close()
    assert state.tables["default.silver.orders"].keys == (*keys[:2], *keys[4:9])


async def test_a_backlog_that_is_too_large_is_waited_for_until_it_is_compacted() -> None:
    async with workspace() as space:
        setup = ReaderSetup(space, QueryLimits(fresh_events=3))
        await space.schema("silver")
        table_id = await setup.table("silver", "orders")
        for at in range(5):
            await setup.append_lines(setup.published(table_id, f"ds=2026-01-0{at + 1}", f"m{at}"))
        engine = BacklogWait(setup.engine, space.runtime.clock)
        events = SnapshotReader(space.store(Role.API), "executions")
        reader = SqlStateReader(
            engine, SnapshotReader(space.store(Role.API)), events, setup.formats
        )
        asked = asyncio.ensure_future(reader.state(["default.silver.orders"]))
        await asyncio.sleep(0.5)
        assert not asked.done()
        store = space.store(Role.COMPACTOR)
        await DomainCompactor(store, "executions", InProcessEngine(store)).cycle(everything=True)
        state = await asyncio.wait_for(asked, 20)
        assert len(state.tables["default.silver.orders"].keys) == 5
        await setup.engine.close()


async def test_a_backlog_that_stays_is_reported_with_what_to_do() -> None:
    async with workspace() as space:
        setup = ReaderSetup(space, QueryLimits(fresh_events=3))
        for at in range(5):
            await setup.append_lines(setup.published("tbl-1", f"ds=2026-01-0{at + 1}", f"m{at}"))
        engine = BacklogWait(setup.engine, space.runtime.clock, patience_ms=1_500)
        with pytest.raises(BacklogTooLarge, match="events of executions wait") as event_line:
            await engine.query("SELECT count(*) FROM system.partitions", freshness="fresh")
        assert "arco compactor --once" in " ".join(event_line.value.__notes__)
        await setup.engine.close()
