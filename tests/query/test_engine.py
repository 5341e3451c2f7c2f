import itertools

import pytest

from arco.catalog.change import SYSTEM
from arco.catalog.ddl import (
    CatalogName,
    DropCatalog,
    DropColumn,
    DropSchema,
    DropTable,
    SchemaName,
    Undrop,
    UpdateTable,
)
from arco.catalog.reader import SnapshotReader
from arco.core.errors import Invalid, NotFound
from arco.core.runtime import system_runtime
from arco.core.scope import Scope
from arco.query.engine import SqlEngine
from arco.query.system_tables import SYSTEM_SCHEMAS
from arco.storage.address import parse_address
from arco.storage.open import open_backend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.query.workspace import ACTOR, table_name, workspace


async def test_an_acknowledged_table_is_in_the_next_query() -> None:
    async with workspace() as space:
        await space.schema("sales")
        made = await space.table("sales", "orders", id="bigint", note="string")
        rows = await space.ask("SELECT * FROM system.tables")
        assert [(row["name"], row["table_id"]) for row in rows] == [
            ("orders", made.object.row.table_id)  # type: ignore[union-attr]
        ]
        assert rows[0]["properties"] == {"made": "here"}
        assert rows[0]["created_by"] == ACTOR
        columns = await space.ask("SELECT name, data_type FROM system.columns ORDER BY position")
        assert columns == [
            {"name": "id", "data_type": "bigint"},
            {"name": "note", "data_type": "string"},
        ]
        await space.table("sales", "lines")
        assert await space.column("SELECT name FROM system.tables ORDER BY 1") == [
            "lines",
            "orders",
        ]


async def test_hidden_columns_are_not_shown() -> None:
    async with workspace() as space:
        for name in SYSTEM_SCHEMAS:
            table = await space.engine.query(f"SELECT * FROM system.{name}")
            assert table.column_names == SYSTEM_SCHEMAS[name].names
            assert not [each for each in table.column_names if each.startswith("_")]


async def test_every_table_of_an_empty_store_is_empty() -> None:
    runtime = system_runtime()
    backend = open_backend(parse_address("memory://"), runtime)
    engine = SqlEngine(SnapshotReader(Store(backend, runtime, scope=Scope(), role=Role.READER)))
    for name in SYSTEM_SCHEMAS:
        assert (await engine.query(f"SELECT * FROM system.{name}")).num_rows == 0
    await engine.close()


async def test_what_lies_in_a_dropped_schema_is_gone_with_all_its_columns() -> None:
    async with workspace() as space:
        await space.schema("a")
        await space.schema("a", "b")
        await space.table("a", "b", "deep", id="int")
        await space.table("a", "shallow", id="int")
        await space.schema("c")
        await space.table("c", "stays", id="int")
        dropped = await space.do(DropSchema(target=SchemaName("default", ("a",)), force=True))
        assert await space.column("SELECT name FROM system.schemas") == ["c"]
        assert await space.column("SELECT name FROM system.tables") == ["stays"]
        assert await space.column("SELECT count(*) FROM system.columns") == [1]
        assert await space.column("SELECT count(*) FROM system.schema_versions") == [1]
        kinds = "SELECT kind, count(*) AS n FROM system.objects GROUP BY kind ORDER BY kind"
        assert await space.ask(kinds) == [
            {"kind": "CATALOG", "n": 1},
            {"kind": "SCHEMA", "n": 1},
            {"kind": "TABLE", "n": 1},
        ]
        top = dropped.object.row.schema_id  # type: ignore[union-attr]
        dropped_rows = await space.ask("SELECT * FROM system.dropped_objects ORDER BY kind, name")
        assert [(row["kind"], row["name"], row["dropped_with"]) for row in dropped_rows] == [
            ("SCHEMA", "a", None),
            ("SCHEMA", "b", top),
            ("TABLE", "deep", top),
            ("TABLE", "shallow", top),
        ]
        assert len({row["dropped_at"] for row in dropped_rows}) == 1
        await space.do(Undrop(id=top))
        names = await space.column("SELECT name FROM system.tables ORDER BY name")
        assert names == ["deep", "shallow", "stays"]
        assert await space.column("SELECT count(*) FROM system.dropped_objects") == [0]


async def test_what_lies_in_a_dropped_catalog_is_gone() -> None:
    async with workspace() as space:
        await space.catalog("other")
        await space.schema("s", catalog="other")
        await space.table("s", "t", catalog="other", id="int")
        await space.do(DropCatalog(target=CatalogName("other"), force=True))
        assert await space.column("SELECT name FROM system.catalogs") == ["default"]
        for name in ("schemas", "tables", "columns", "schema_versions"):
            assert await space.column(f"SELECT count(*) FROM system.{name}") == [0]


async def test_a_table_that_moved_is_there_once() -> None:
    async with workspace() as space:
        for name in ("one", "two", "three"):
            await space.schema(name)
        await space.table("one", "t", id="int")
        await space.do(UpdateTable(target=table_name("one", "t"), schema=("two",)))
        await space.compactor.merge()
        await space.do(UpdateTable(target=table_name("two", "t"), schema=("three",)))
        rows = await space.ask(
            "SELECT s.name FROM system.tables t JOIN system.schemas s ON s.schema_id = t.schema_id"
        )
        assert rows == [{"name": "three"}]


async def test_a_dropped_column_is_gone_but_known() -> None:
    async with workspace() as space:
        await space.schema("s")
        await space.table("s", "t", a="int", b="int")
        await space.do(DropColumn(target=table_name("s", "t"), column="a"))
        assert await space.column("SELECT name FROM system.columns") == ["b"]
        dropped_rows = await space.ask("SELECT kind, name FROM system.dropped_objects")
        assert dropped_rows == [{"kind": "COLUMN", "name": "a"}]
        versions = "SELECT version FROM system.schema_versions ORDER BY version"
        assert await space.column(versions) == [1, 2]


async def test_as_of_a_number_a_commit_and_a_time_gives_the_state_of_then() -> None:
    async with workspace() as space:
        await space.schema("s")
        first = await space.table("s", "first")
        await space.table("s", "second")
        await space.do(DropTable(target=table_name("s", "first")))
        snapshot = await space.reader().at_number(first.number)
        assert snapshot.created_at is not None
        sql = "SELECT name FROM system.tables ORDER BY name"
        assert await space.column(sql) == ["second"]
        for then in (str(first.number), first.commit_ulid, snapshot.created_at.isoformat()):
            assert await space.column(sql, as_of=then) == ["first"]
        assert await space.column(sql, as_of="0") == []
        with pytest.raises(NotFound):
            await space.engine.query(sql, as_of="99999")
        with pytest.raises(Invalid):
            await space.engine.query(sql, as_of="yesterday, or so")


async def test_commits_and_audit_say_who_did_what() -> None:
    async with workspace() as space:
        await space.schema("s")
        made = await space.table("s", "t", id="int")
        audit = await space.ask("SELECT * FROM system.audit ORDER BY number")
        assert [(row["actor"], row["operation"], row["name"]) for row in audit][-1][0] == ACTOR
        assert [row["actor"] for row in audit] == [SYSTEM, ACTOR, ACTOR]
        assert audit[-1]["object_id"] == made.object.row.table_id  # type: ignore[union-attr]
        assert audit[-1]["commit_ulid"] == made.commit_ulid
        commits = await space.ask("SELECT * FROM system.commits ORDER BY number")
        assert [row["number"] for row in commits] == [0, 1, 2]
        assert [row["operations"] for row in commits] == [1, 1, 1]
        assert commits[2]["authors"] == [ACTOR]
        assert commits[2]["parent_sha256"] == commits[1]["sha256"]
        # As of an older number, the chain ends there.
        assert await space.column("SELECT max(number) FROM system.commits", as_of="1") == [1]


async def test_manifests_and_files_are_those_of_the_chain() -> None:
    async with workspace() as space:
        await space.schema("s")
        for at in range(5):
            await space.table("s", f"t{at}", id="int")
        await space.compactor.merge()
        await space.table("s", "last", id="int")
        snapshot = await space.reader().head()
        manifests = await space.ask("SELECT * FROM system.manifests ORDER BY number")
        assert [row["number"] for row in manifests] == list(range(snapshot.number + 1))
        assert manifests[-1]["sha256"] == snapshot.sha256
        for parent, child in itertools.pairwise(manifests):
            assert child["parent_sha256"] == parent["sha256"]
        files = await space.ask("SELECT * FROM system.files")
        assert {row["place"] for row in files} == {"tail", "base"}
        sizes = {row["path"]: row["bytes"] for row in files}
        assert len(sizes) < len(files), "a combined file has a row for each of its tables"
        assert manifests[-1]["files"] == len(sizes)
        assert manifests[-1]["rows"] == sum(row["rows"] for row in files)
        assert manifests[-1]["bytes"] == sum(sizes.values())
        assert manifests[-1]["tail_files"] == 1
        kinds = await space.column("SELECT DISTINCT kind FROM system.commits ORDER BY kind")
        assert kinds == ["ddl", "merge"]


async def test_show_describe_explain_and_values_are_answered() -> None:
    async with workspace() as space:
        shown = await space.ask("SHOW TABLES")
        names = {row["table_name"] for row in shown if row["table_schema"] == "system"}
        assert names == set(SYSTEM_SCHEMAS)
        described = await space.ask("DESCRIBE system.tables")
        assert described[0] == {
            "column_name": "table_id",
            "data_type": "Utf8",
            "is_nullable": "YES",
        }
        plans = await space.ask("EXPLAIN SELECT name FROM system.tables WHERE kind = 'VIEW'")
        assert {row["plan_type"] for row in plans} == {"logical_plan", "physical_plan", "files"}
        assert await space.column("EXPLAIN ANALYZE SELECT * FROM system.catalogs")
        assert await space.column("VALUES (1), (2)") == [1, 2]
        assert await space.column("/* a /* nested */ one */ -- and\n (SELECT 7)") == [7]
        columns = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'system'"
        assert (await space.column(columns))[0] == sum(map(len, SYSTEM_SCHEMAS.values()))


async def test_times_compare_with_text_and_with_now() -> None:
    async with workspace() as space:
        sql = (
            "SELECT count(*) FROM system.catalogs WHERE created_at > now() - INTERVAL '1 hour' "
            "AND created_at > '2020-01-01' AND created_at < TIMESTAMP '2200-01-01T00:00:00Z'"
        )
        assert await space.column(sql) == [1]


async def test_both_kinds_of_freshness_give_the_same_and_others_are_refused() -> None:
    async with workspace() as space:
        sql = "SELECT name FROM system.catalogs"
        published = await space.engine.query(sql, freshness="published")
        assert published == await space.engine.query(sql, freshness="fresh")
        with pytest.raises(Invalid):
            await space.engine.query(sql, freshness="stale")
        with pytest.raises(Invalid):
            await space.engine.query(sql, as_of="0", freshness="fresh")


async def test_a_view_and_a_tables_name_need_not_be_qualified() -> None:
    async with workspace() as space:
        assert await space.column("SELECT name FROM catalogs") == ["default"]
        assert await space.column("SELECT name FROM datafusion.system.catalogs") == ["default"]
