import os
import string
from asyncio import Runner
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import Invalid, Unavailable
from arco.query.limits import QueryLimits
from arco.query.system_tables import SYSTEM_SCHEMAS
from tests.query.workspace import Workspace, workspace

HOSTILE = [
    "INSERT INTO system.tables SELECT * FROM system.tables",
    "INSERT INTO system.catalogs (name) VALUES ('x')",
    "UPDATE system.tables SET name = 'x'",
    "DELETE FROM system.tables",
    "TRUNCATE TABLE system.tables",
    "MERGE INTO catalogs USING schemas ON true WHEN MATCHED THEN DELETE",
    "DROP TABLE system.tables",
    "DROP SCHEMA system CASCADE",
    "ALTER TABLE system.tables RENAME TO x",
    "CREATE TABLE x AS SELECT 1",
    "CREATE VIEW x AS SELECT 1",
    "CREATE SCHEMA x",
    "CREATE DATABASE x",
    "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
    "CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION 's3://bucket/x/'",
    "CREATE UNBOUNDED EXTERNAL TABLE x (a int) STORED AS CSV LOCATION '/dev/zero'",
    "CREATE FUNCTION f(double) RETURNS double RETURN $1 + 1",
    "CREATE INDEX i ON system.tables (name)",
    "COPY system.tables TO '{target}' STORED AS CSV",
    "COPY (SELECT 1) TO '{target}' STORED AS PARQUET",
    "COPY system.tables FROM '/etc/passwd'",
    "SET datafusion.execution.batch_size = 1",
    "RESET datafusion.execution.batch_size",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "DEALLOCATE p",
    "BEGIN",
    "COMMIT",
    "USE system",
    "KILL 1",
    "CALL f()",
    "GRANT SELECT ON system.tables TO public",
    "LOAD DATA INPATH '/etc/passwd' INTO TABLE t",
    "ATTACH '/etc/passwd' AS x",
    "INSTALL httpfs",
    "PRAGMA database_list",
    "VACUUM",
    # Behind a word that is answered:
    "SELECT * INTO x FROM system.tables",
    "SELECT 1; DROP TABLE system.tables",
    "SELECT 1; SELECT 2",
    "EXPLAIN INSERT INTO system.tables SELECT * FROM system.tables",
    "EXPLAIN ANALYZE INSERT INTO system.catalogs SELECT * FROM system.catalogs",
    "EXPLAIN ANALYZE CREATE TABLE x AS SELECT 1",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{target}' STORED AS CSV",
    "EXPLAIN COPY system.tables TO '{target}'",
    "EXPLAIN DROP TABLE system.tables",
    "EXPLAIN SET a = 1",
    "WITH x AS (INSERT INTO catalogs SELECT * FROM catalogs RETURNING *) SELECT * FROM x",
    "WITH x AS (SELECT 1) INSERT INTO catalogs SELECT * FROM catalogs",
    "WITH x AS (SELECT 1) DELETE FROM catalogs",
    "/* SELECT */ DROP TABLE system.tables",
    "-- SELECT\nDROP TABLE system.tables",
    "(DROP TABLE system.tables)",
    # Reaching out:
    "SELECT * FROM '/etc/passwd'",
    'SELECT * FROM "/etc/passwd"',
    "SELECT * FROM 'file:///etc/passwd'",
    "SELECT * FROM 'https://example.com/x.csv'",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_parquet('/etc/passwd')",
    "SELECT * FROM parquet_metadata('/etc/passwd')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM system.grants",
    "SELECT * FROM system.tables LIMIT 1 INTO OUTFILE '{target}'",
    # Nothing at all:
    "",
    " ;",
    "-- nothing",
    "/* nothing",
    "((((",
    "SELECT 1 \0",
    "SELECT '\ud800'",
]


@pytest.fixture(scope="module")
def loop() -> Iterator[Runner]:
    with Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def space(loop: Runner) -> Iterator[Workspace]:
    stack = AsyncExitStack()
    limits = QueryLimits(run_ms=2_000, process_bytes=768 * 1024 * 1024)
    yield loop.run(_opened(stack, limits))
    loop.run(stack.aclose())


async def _opened(stack: AsyncExitStack, limits: QueryLimits) -> Workspace:
    space = await stack.enter_async_context(workspace(limits=limits))
    await space.schema("s")
    await space.table("s", "t", id="int")
    return space


@pytest.mark.parametrize("sql", HOSTILE)
def test_whatever_is_no_question_is_refused_and_changes_nothing(
    sql: str, space: Workspace, loop: Runner, tmp_path: Path
) -> None:
    before = loop.run(space.reader().head()).sha256
    target_file = tmp_path / "target"
    with pytest.raises(Invalid) as refusal:
        loop.run(space.engine.query(sql.replace("{target}", str(target_file))))
    assert not target_file.exists()
    assert str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert loop.run(space.reader().head()).sha256 == before
    assert loop.run(space.column("SELECT name FROM system.tables")) == ["t"]


def test_a_refusal_names_no_place_of_this_machine(space: Workspace, loop: Runner) -> None:
    for sql in ("SELECT nope FROM tables", "SELECT * FROM nope", "SELECT 1/0", "SELEC 1", "SELECT"):
        with pytest.raises(Invalid) as refusal:
            loop.run(space.engine.query(sql))
        assert os.sep not in str(refusal.value)
        assert ".rs" not in str(refusal.value)


WORDS = [
    *("SELECT", "FROM", "WHERE", "WITH", "VALUES", "EXPLAIN", "ANALYZE", "SHOW", "DESCRIBE", "AS"),
    *(
        "system",
        ".",
        ",",
        "(",
        ")",
        "*",
        "'",
        '"',
        ";",
        "--",
        "/*",
        "*/",
        "NULL",
        "1",
        "-1",
        "1e309",
    ),
    *("JOIN", "ON", "USING", "GROUP BY", "ORDER BY", "LIMIT", "OVER", "PARTITION BY", "UNION ALL"),
    *("INTO", "DROP", "INSERT", "COPY", "TO", "'x'", "count(*)", "name", "RECURSIVE", "CAST", "::"),
    *("array_agg", "repeat", "generate_series", "range", "regexp_replace", "now()", "interval"),
    *("information_schema", "CASE", "WHEN", "END", "IN", "EXISTS", "LATERAL", "UNNEST", "[", "]"),
    *SYSTEM_SCHEMAS,
]


@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
def test_words_in_any_order_are_answered_or_refused(
    space: Workspace, loop: Runner, sql: str
) -> None:
    _survives(space, loop, f"SELECT {sql}")
    _survives(space, loop, sql)


@given(st.text(max_size=60) | st.text(string.printable, max_size=80))
def test_any_text_is_answered_or_refused(space: Workspace, loop: Runner, sql: str) -> None:
    _survives(space, loop, sql)
    _survives(space, loop, f"SELECT {sql} FROM system.tables")


def _survives(space: Workspace, loop: Runner, sql: str) -> None:
    try:
        loop.run(space.engine.query(sql))
    except (Invalid, Unavailable) as refusal:
        assert str(refusal)
        assert "\n" not in str(refusal)
