from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from arco.catalog.manifest import manifests_of
from arco.catalog.reader import SnapshotReader
from arco.core.errors import Invalid, NotFound
from arco.core.scope import Scope
from arco.fold.tier1 import DOMAIN
from arco.fold.tier2 import (
    COLUMN_STATS,
    EDGE_OBSERVATIONS,
    EXECUTIONS,
    EXECUTIONS_DOMAIN,
    LINEAGE_DOMAIN,
    LINEAGE_EDGES,
    OCCURRED,
    PARTITIONS,
    QUARANTINE,
    SEARCH_DOMAIN,
    TABLE_STATS,
    TASKS,
    TIER2,
)
from arco.ledger.stream import Watermark
from arco.query.engine import SqlEngine
from arco.query.limits import QueryLimits
from arco.query.system_tables import STATE_TABLES, SYSTEM_SCHEMAS
from arco.storage.backend import ObservedBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.query.published import NOON, Publishing, rows_of
from tests.query.workspace import Workspace, workspace
from tests.storage.recorder import Recorder


def _runs(*ids: str, status: str = "RUNNING", order: int = 1) -> tuple[Any, pa.Table]:
    rows = [{"execution_id": each, "status": status} for each in ids]
    return EXECUTIONS, rows_of(EXECUTIONS, *rows, order=order)


def _watched(space: Workspace, recorder: Recorder) -> SqlEngine:
    backend = ObservedBackend(space.backend, recorder, space.runtime.clock)
    store = Store(backend, space.runtime, scope=Scope(), role=Role.READER)
    return SqlEngine(SnapshotReader(store))


async def test_every_table_of_tier_2_is_there_with_its_visible_columns() -> None:
    async with workspace() as space:
        for tables in TIER2.values():
            for name, table in tables.items():
                result = await space.engine.query(f"SELECT * FROM system.{name}")
                assert set(table.visible) <= set(result.column_names)
                assert not [each for each in result.column_names if each.startswith("_")]


async def test_the_tail_is_folded_over_the_base() -> None:
    async with workspace() as space:
        executions = Publishing(space, EXECUTIONS_DOMAIN)
        await executions.base(*_runs("a", "b", "c"))
        await executions.tail(_runs("b", "d", status="SUCCESS", order=2))
        await executions.tail(_runs("d", status="FAILED", order=1))
        rows = await space.ask("SELECT execution_id, status FROM system.executions ORDER BY 1")
        assert [tuple(row.values()) for row in rows] == [
            ("a", "RUNNING"),
            ("b", "SUCCESS"),
            ("c", "RUNNING"),
            ("d", "SUCCESS"),
        ]


async def test_tables_of_both_tiers_join() -> None:
    async with workspace() as space:
        await space.schema("s")
        made = await space.table("s", "orders", id="int")
        table_id = made.object.row.table_id  # type: ignore[union-attr]
        parts = [
            {"table_id": table_id, "partition_id": each, "status": "COMPLETE"} for each in "xyz"
        ]
        await Publishing(space, EXECUTIONS_DOMAIN).tail((PARTITIONS, rows_of(PARTITIONS, *parts)))
        rows = await space.ask(
            "SELECT t.name, count(*) AS n FROM system.tables t JOIN system.partitions p "
            "ON p.table_id = t.table_id GROUP BY t.name"
        )
        assert rows == [{"name": "orders", "n": 3}]


async def test_a_number_is_of_the_one_domain_that_is_asked_and_a_time_of_all() -> None:
    async with workspace() as space:
        await space.schema("s")
        await space.table("s", "early")
        executions = Publishing(space, EXECUTIONS_DOMAIN)
        first = await executions.tail(_runs("a"))
        await executions.tail(_runs("b"))
        await space.table("s", "late")
        runs = "SELECT execution_id FROM system.executions ORDER BY 1"
        assert await space.column(runs, as_of=str(first)) == ["a"]
        assert await space.column(runs) == ["a", "b"]
        both = "SELECT e.execution_id FROM system.executions e JOIN system.tables t ON true"
        with pytest.raises(Invalid, match="time"):
            await space.column(both, as_of=str(first))
        reader = SnapshotReader(space.store(Role.READER), EXECUTIONS_DOMAIN)
        then = (await reader.at_number(first)).created_at
        assert then is not None
        assert await space.column(both, as_of=then.isoformat()) == ["a"]
        with pytest.raises(NotFound):
            await space.column(runs, as_of="77")


async def test_a_domain_that_did_not_exist_at_a_time_was_empty() -> None:
    async with workspace() as space:
        now = (await space.reader().head()).created_at
        assert now is not None
        await Publishing(space, EXECUTIONS_DOMAIN).tail(_runs("a"))
        sql = "SELECT count(*) FROM system.executions"
        assert await space.column(sql) == [1]
        assert await space.column(sql, as_of=now.isoformat()) == [0]


async def test_rows_that_are_no_longer_retained_are_not_there() -> None:
    async with workspace() as space:
        executions = Publishing(space, EXECUTIONS_DOMAIN)
        old = {"execution_id": "old", OCCURRED: NOON - timedelta(days=2)}
        rows = rows_of(EXECUTIONS, old, {"execution_id": "new"})
        await executions.tail((EXECUTIONS, rows))
        sql = "SELECT execution_id FROM system.executions ORDER BY 1"
        assert await space.column(sql) == ["new", "old"]
        number = await executions.tail(retained_from={"executions": NOON - timedelta(days=1)})
        assert await space.column(sql) == ["new"]
        assert await space.column(sql, as_of=str(number - 1)) == ["new", "old"]


async def test_statistics_stand_beside_tables_and_columns() -> None:
    async with workspace() as space:
        await space.schema("s")
        made = await space.table("s", "orders", id="int", note="string")
        await space.table("s", "empty", id="int")
        table_id = made.object.row.table_id  # type: ignore[union-attr]
        column_id = (
            await space.column("SELECT column_id FROM system.columns WHERE name = 'note'")
        )[0]
        stats = {"table_id": table_id, "row_count": 7, "size_bytes": 70, "last_modified_at": NOON}
        column = {"table_id": table_id, "column_id": column_id, "null_count": 2, "max_value": "z"}
        await Publishing(space, EXECUTIONS_DOMAIN).tail(
            (TABLE_STATS, rows_of(TABLE_STATS, stats, {"table_id": "unknown", "row_count": 1})),
            (COLUMN_STATS, rows_of(COLUMN_STATS, column)),
        )
        tables = await space.ask(
            "SELECT name, row_count, size_bytes, file_count, last_modified_at "
            "FROM system.tables ORDER BY name"
        )
        assert [list(row.values()) for row in tables] == [
            ["empty", None, None, None, None],
            ["orders", 7, 70, None, NOON],
        ]
        columns = await space.ask(
            "SELECT c.name, null_count, max_value FROM system.columns c JOIN system.tables t "
            "ON t.table_id = c.table_id WHERE t.name = 'orders' ORDER BY position"
        )
        assert [list(row.values()) for row in columns] == [["id", None, None], ["note", 2, "z"]]


async def test_statistics_are_those_of_the_time_of_the_number_that_is_asked() -> None:
    async with workspace() as space:
        await space.schema("s")
        made = await space.table("s", "t")
        table_id = made.object.row.table_id  # type: ignore[union-attr]
        executions = Publishing(space, EXECUTIONS_DOMAIN)
        first = rows_of(TABLE_STATS, {"table_id": table_id, "row_count": 1}, order=1)
        await executions.tail((TABLE_STATS, first))
        between = await space.table("s", "other")
        second = rows_of(TABLE_STATS, {"table_id": table_id, "row_count": 2}, order=2)
        await executions.tail((TABLE_STATS, second))
        sql = "SELECT row_count FROM system.tables WHERE name = 't'"
        assert await space.column(sql) == [2]
        assert await space.column(sql, as_of=str(between.number)) == [1]
        assert await space.column(sql, as_of=str(made.number)) == [None]


async def test_tables_are_there_where_their_statistics_are_not_kept_any_more() -> None:
    async with workspace() as space:
        await space.schema("s")
        made = await space.table("s", "t")
        executions = Publishing(space, EXECUTIONS_DOMAIN)
        stats = {"table_id": made.object.row.table_id, "row_count": 1}  # type: ignore[union-attr]
        for _ in range(3):
            await executions.tail((TABLE_STATS, rows_of(TABLE_STATS, stats)))
        janitor = manifests_of(space.store(Role.JANITOR), EXECUTIONS_DOMAIN)
        await janitor.raise_floor(2)
        for number in range(2):
            await janitor.store.delete(janitor.key(number))
        sql = "SELECT name, row_count FROM system.tables"
        assert await space.ask(sql) == [{"name": "t", "row_count": 1}]
        then = await space.ask(sql, as_of=str(made.number))
        assert then == [{"name": "t", "row_count": None}]
        moment = (await space.reader().at_number(made.number)).created_at
        assert moment is not None
        with pytest.raises(NotFound):
            await space.ask("SELECT * FROM system.table_stats", as_of=moment.isoformat())


async def test_of_large_tables_only_the_columns_in_use_are_decoded() -> None:
    async with workspace(limits=QueryLimits(wide_rows=2)) as space:
        row = {"execution_id": "a", "status": "RUNNING", "pipeline_id": "p", "run_key": "k"}
        rows = [{**row, "execution_id": each} for each in "abc"]
        executions = Publishing(space, EXECUTIONS_DOMAIN)
        await executions.tail((EXECUTIONS, rows_of(EXECUTIONS, *rows)))
        late = {"execution_id": "b", "status": "SUCCESS"}
        await executions.tail((EXECUTIONS, rows_of(EXECUTIONS, late, order=2)))
        counted = "SELECT status, count(*) AS n FROM system.executions GROUP BY 1 ORDER BY 1"
        assert [list(row.values()) for row in await space.ask(counted)] == [
            ["RUNNING", 2],
            ["SUCCESS", 1],
        ]
        assert await space.column("SELECT run_key FROM system.executions") == ["k"] * 3
        executions_rows = await space.ask("SELECT * FROM system.executions ORDER BY execution_id")
        assert [(each["pipeline_id"], each["status"]) for each in executions_rows] == [
            ("p", "RUNNING"),
            ("p", "SUCCESS"),
            ("p", "RUNNING"),
        ]
        state = STATE_TABLES["executions/executions"]
        assert state.columns_for(["status"]) == (
            "_occurred_at",
            "_status",
            "execution_id",
            "status",
        )


async def test_a_query_that_asks_for_no_statistics_does_not_read_their_domain() -> None:
    async with workspace() as space:
        await space.schema("s")
        await space.table("s", "t", id="int")
        await Publishing(space, EXECUTIONS_DOMAIN).tail(
            (TABLE_STATS, rows_of(TABLE_STATS, {"table_id": "x", "row_count": 1}))
        )
        recorder = Recorder()
        engine = _watched(space, recorder)
        await engine.query("SELECT name, table_id FROM system.tables WHERE kind = 'TABLE'")
        assert [key for _, key in recorder.requests if f"/{EXECUTIONS_DOMAIN}/" in key] == []
        await engine.query("SELECT name FROM system.tables WHERE row_count > 5")
        read = [key for _, key in recorder.requests if f"/{EXECUTIONS_DOMAIN}/" in key]
        assert [key for key in read if "/table_stats/" in key]
        await engine.close()


async def test_the_observations_of_an_edge_are_counted_from_their_rows() -> None:
    async with workspace() as space:
        edges = [{"target_table_id": "t", "edge_id": each} for each in ("e1", "e2")]
        seen = [
            {"target_table_id": "t", "edge_id": "e1", "execution_id": run, "task_id": task}
            for run, task in (("r1", "a"), ("r1", "b"), ("r2", "a"))
        ]
        lineage = Publishing(space, LINEAGE_DOMAIN)
        await lineage.tail(
            (LINEAGE_EDGES, rows_of(LINEAGE_EDGES, *edges)),
            (EDGE_OBSERVATIONS, rows_of(EDGE_OBSERVATIONS, *seen)),
        )
        # The same observation once more changes nothing.
        await lineage.tail((EDGE_OBSERVATIONS, rows_of(EDGE_OBSERVATIONS, seen[0])))
        sql = "SELECT edge_id, observation_count FROM system.lineage_edges ORDER BY edge_id"
        rows = await space.ask(sql)
        assert [list(row.values()) for row in rows] == [["e1", 3], ["e2", 0]]
        assert await space.column("SELECT edge_id FROM system.lineage_edges ORDER BY 1") == [
            "e1",
            "e2",
        ]


async def test_the_quarantines_of_all_domains_are_one_table() -> None:
    async with workspace() as space:
        for domain in (EXECUTIONS_DOMAIN, SEARCH_DOMAIN):
            row = {"stream": f"of {domain}", "segment": 1, "line": 2, "reason": "no name"}
            await Publishing(space, domain).tail((QUARANTINE, rows_of(QUARANTINE, row)))
        rows = await space.ask("SELECT domain, stream FROM system.quarantine ORDER BY domain")
        assert [list(row.values()) for row in rows] == [
            [EXECUTIONS_DOMAIN, f"of {EXECUTIONS_DOMAIN}"],
            [SEARCH_DOMAIN, f"of {SEARCH_DOMAIN}"],
        ]
        one = "SELECT stream FROM system.quarantine WHERE domain = 'search'"
        assert await space.column(one, as_of="0") == [f"of {SEARCH_DOMAIN}"]
        with pytest.raises(Invalid, match="time"):
            await space.column("SELECT stream FROM system.quarantine", as_of="0")


async def test_streams_and_domains_are_what_the_heads_say() -> None:
    async with workspace() as space:
        executions = Publishing(space, EXECUTIONS_DOMAIN)
        await executions.tail(_runs("a"), watermark=Watermark(3, {"s1": 4, "s2": -1}))
        await executions.base(*_runs("b", "c"))
        streams = await space.ask("SELECT * FROM system.streams ORDER BY stream")
        assert [list(row.values()) for row in streams] == [
            [EXECUTIONS_DOMAIN, "s1", 4],
            [EXECUTIONS_DOMAIN, "s2", -1],
        ]
        domains = await space.ask("SELECT * FROM system.domains ORDER BY domain")
        assert [row["domain"] for row in domains] == [DOMAIN, EXECUTIONS_DOMAIN]
        domain_row = domains[1]
        names = ("number", "files", "rows", "tail_files", "frontier", "open_streams")
        assert [domain_row[name] for name in names] == [1, 3, 3, 1, 3, 2]
        manifests = await space.ask(
            "SELECT * FROM system.manifests WHERE domain = 'executions' ORDER BY number"
        )
        assert [row["number"] for row in manifests] == [0, 1]
        assert manifests[-1] == domain_row
        files = await space.ask("SELECT * FROM system.files WHERE domain = 'executions'")
        assert sorted(row["place"] for row in files) == ["base", "base", "tail"]


async def test_a_question_about_one_domain_asks_nothing_of_the_others() -> None:
    async with workspace() as space:
        await Publishing(space, EXECUTIONS_DOMAIN).tail(
            (TASKS, rows_of(TASKS, {"execution_id": "a", "task_id": "t"}))
        )
        recorder = Recorder()
        engine = _watched(space, recorder)
        for sql in (
            "SELECT * FROM system.tasks",
            "SELECT * FROM system.domains WHERE domain = 'executions'",
            "SELECT * FROM system.manifests WHERE domain IN ('executions', 'none')",
        ):
            await engine.query(sql)
        domains = {key.split("/")[3] for _, key in recorder.requests}
        assert domains == {EXECUTIONS_DOMAIN}
        await engine.close()


def test_no_table_of_system_stands_for_two() -> None:
    names = [name for tables in TIER2.values() for name in tables if name != QUARANTINE.name]
    assert len(names) == len(set(names))
    assert "domain" in SYSTEM_SCHEMAS[QUARANTINE.name].names
