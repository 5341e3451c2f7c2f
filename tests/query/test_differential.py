"""The same questions to another engine that reads the files itself, with SQL that anybody can write."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from arco.catalog.snapshot import Snapshot
from arco.fold.table import StateTable
from arco.fold.tier1 import TIER1
from arco.query.system_tables import STATISTICS
from tests.query.changes import Changes
from tests.query.workspace import workspace

# One row for each key, the one of the highest commit; and being alive is inherited.
FOLD = """
CREATE VIEW all_{name} AS SELECT * FROM (
    SELECT *, row_number() OVER (PARTITION BY {key} ORDER BY _commit DESC, _position DESC) AS _rank
    FROM ({rows})
) WHERE _rank = 1 {moved}
"""
LIVE = """
CREATE VIEW live AS WITH RECURSIVE live(id) AS (
    SELECT catalog_id FROM all_catalogs WHERE dropped_at IS NULL
    UNION ALL
    SELECT schema_id FROM all_schemas JOIN live ON live.id = coalesce(parent_id, catalog_id)
    WHERE dropped_at IS NULL
) SELECT id FROM live;
CREATE SCHEMA arco;
CREATE VIEW arco.catalogs AS SELECT {catalogs} FROM all_catalogs WHERE dropped_at IS NULL;
CREATE VIEW arco.schemas AS SELECT {schemas} FROM all_schemas WHERE schema_id IN (FROM live);
CREATE VIEW arco.tables AS SELECT {tables} FROM all_tables
    WHERE dropped_at IS NULL AND schema_id IN (FROM live);
CREATE VIEW arco.columns AS SELECT {columns} FROM all_columns
    WHERE dropped_at IS NULL AND table_id IN (SELECT table_id FROM arco.tables);
CREATE VIEW arco.schema_versions AS SELECT {schema_versions} FROM all_schema_versions
    WHERE table_id IN (SELECT table_id FROM arco.tables);
CREATE VIEW arco.objects AS SELECT {objects} FROM all_objects
    WHERE id IN (FROM live) OR id IN (SELECT table_id FROM arco.tables);
CREATE VIEW arco.places AS SELECT {places} FROM all_places
    WHERE dropped_at IS NULL AND table_id IN (SELECT table_id FROM arco.tables);
"""

QUESTIONS = [
    "SELECT * FROM system.catalogs ORDER BY catalog_id",
    "SELECT * FROM system.schemas ORDER BY schema_id",
    "SELECT * FROM system.tables ORDER BY table_id",
    "SELECT * FROM system.columns ORDER BY column_id",
    "SELECT * FROM system.schema_versions ORDER BY table_id, version",
    "SELECT * FROM system.objects ORDER BY id",
    "SELECT * FROM system.places ORDER BY location, table_id",
    (
        "SELECT format, count(*) AS n, min(created_at) AS first FROM system.tables GROUP BY format "
        "ORDER BY format"
    ),
    (
        "SELECT c.name AS catalog, s.path AS path, t.name AS name, count(k.column_id) AS width "
        "FROM system.tables t JOIN system.schemas s ON s.schema_id = t.schema_id "
        "JOIN system.catalogs c ON c.catalog_id = t.catalog_id "
        "LEFT JOIN system.columns k ON k.table_id = t.table_id "
        "GROUP BY c.name, s.path, t.name ORDER BY c.name, s.path, t.name"
    ),
    (
        "SELECT name, row_number() OVER (PARTITION BY table_id ORDER BY position DESC) AS n "
        "FROM system.columns ORDER BY table_id, position"
    ),
    (
        "SELECT t.table_id FROM system.tables t WHERE NOT EXISTS "
        "(SELECT 1 FROM system.columns k WHERE k.table_id = t.table_id AND k.name = 'x') ORDER BY 1"
    ),
    (
        "SELECT upper(name) AS name FROM system.tables WHERE comment IS NOT NULL AND name LIKE '%u%' "
        "UNION SELECT name FROM system.schemas ORDER BY name"
    ),
]


async def _duck(root: Path, snapshot: Snapshot) -> duckdb.DuckDBPyConnection:
    duck = duckdb.connect()
    duck.execute("SET timezone = 'UTC'")
    for table in TIER1.values():
        refs = await snapshot.files_of(table)
        if refs:
            files = {str(next(root.rglob(ref.path))): ref.is_combined for ref in refs}
            duck.execute(_fold(table, files))
        else:
            duck.register(f"all_{table.name}", table.schema.empty_table())
    names = {name: ", ".join(f'"{c}"' for c in table.visible) for name, table in TIER1.items()}
    for name, (statistics, columns) in STATISTICS.items():
        # Nobody has told of any.
        duck.register(f"no_{name}", statistics.schema.empty_table())
        nulls = [f"(SELECT any_value({column}) FROM no_{name}) AS {column}" for column in columns]
        names[name] = ", ".join([names[name], *nulls])
    duck.execute(LIVE.format(**names))
    return duck


def _fold(table: StateTable, files: dict[str, bool]) -> str:
    """The view of a table over its files, combined ones or not."""
    parts = [
        f"SELECT unnest({table.name}) FROM read_parquet('{file}') WHERE {table.name} IS NOT NULL"
        if is_combined
        else f"FROM read_parquet('{file}')"
        for file, is_combined in files.items()
    ]
    rows = " UNION ALL BY NAME ".join(parts)
    moved = "AND NOT coalesce(_moved, false)" if "_moved" in table.schema.names else ""
    return FOLD.format(name=table.name, key=", ".join(table.key), rows=rows, moved=moved)


def _ask(duck: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    # `system` is a catalog of its own there.
    rows: list[dict[str, Any]] = (
        duck.execute(sql.replace("system.", "arco.")).to_arrow_table().to_pylist()
    )
    return rows


def _same(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Maps have no order."""
    return [
        {
            name: dict(value) if name == "properties" and value is not None else value
            for name, value in row.items()
        }
        for row in rows
    ]


@pytest.mark.parametrize("seed", range(3))
async def test_another_engine_over_the_same_files_gives_the_same(seed: int, tmp_path: Path) -> None:
    root = tmp_path / "store"
    answered = 0
    async with workspace(root) as space:
        await space.schema("a")
        await space.table("a", "t", id="bigint", x="date")
        changes = Changes(space, seed)
        for _ in range(3):
            await changes.make(14)
            if seed % 2:
                await space.compactor.merge()
                await changes.make(3)
            snapshot = await space.reader().head()
            duck = await _duck(root, snapshot)
            for sql in QUESTIONS:
                ours = _same(await space.ask(sql, as_of=str(snapshot.number)))
                theirs = _same(_ask(duck, sql))
                assert ours == theirs, sql
                answered += len(ours)
            duck.close()
    assert answered > 100  # a catalog that is always empty would prove nothing


async def test_an_old_number_is_answered_from_its_own_files(tmp_path: Path) -> None:
    root = tmp_path / "store"
    async with workspace(root) as space:
        await space.schema("a")
        await space.table("a", "t", id="bigint")
        changes = Changes(space, 99)
        await changes.make(40)
        head = await space.reader().head()
        for number in range(2, head.number, 5):
            duck = await _duck(root, await space.reader().at_number(number))
            sql = "SELECT * FROM system.tables ORDER BY table_id"
            theirs = _same(_ask(duck, sql))
            assert _same(await space.ask(sql, as_of=str(number))) == theirs
            duck.close()


async def test_whatever_is_not_live_stands_among_the_dropped(tmp_path: Path) -> None:
    async with workspace() as space:
        await space.schema("a")
        await space.table("a", "t", id="bigint")
        await Changes(space, 7).make(40)
        snapshot = await space.reader().head()
        dropped_rows = await space.ask(
            "SELECT * FROM system.dropped_objects WHERE kind <> 'COLUMN'"
        )
        live = set(await space.column("SELECT id FROM system.objects"))
        assert dropped_rows
        assert not live & {row["id"] for row in dropped_rows}
        for row in dropped_rows:
            details = await snapshot.find(row["id"], dropped=True)
            assert not await snapshot.is_live(details.row)
            assert row["name"] == details.row.name
            own = details.row.dropped_at
            assert (row["dropped_with"] is None) == (own is not None)
            assert row["dropped_at"] is not None
        for object_id in live:
            await snapshot.find(object_id)  # raises for what is not live
