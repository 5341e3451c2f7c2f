"""DuckDB: it stages every table that it creates, and commits through transactions of several tables."""

from pathlib import Path

import duckdb
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tests.interop import duckdb_client
from tests.interop.duckdb_client import ask, connect
from tests.interop.pyiceberg_client import ids, numbered
from tests.interop.rest import Rest

pytestmark = pytest.mark.interop

client = duckdb_client.name


@pytest.fixture(scope="session")
def extensions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("duckdb")


@pytest.fixture
def db(rest: Rest, extensions: Path, namespace: str) -> duckdb.DuckDBPyConnection:
    """A connection whose default schema is a new one of the catalog."""
    connection = connect(rest, extensions)
    connection.execute(f"CREATE SCHEMA arco.{namespace}")
    connection.execute(f"USE arco.{namespace}")
    return connection


def test_rows_are_inserted_and_read_back(db: duckdb.DuckDBPyConnection) -> None:
    db.execute("CREATE TABLE t (id BIGINT, word VARCHAR, day DATE, price DECIMAL(9, 2))")
    db.execute("INSERT INTO t VALUES (1, 'a', DATE '2026-01-01', 1.50), (2, NULL, NULL, NULL)")
    db.execute("INSERT INTO t SELECT range, 'more', NULL, range FROM range(3, 6)")

    assert ask(
        db, "SELECT id, word, day::VARCHAR, price::DOUBLE FROM t WHERE id < 3 ORDER BY id"
    ) == [
        (1, "a", "2026-01-01", 1.5),
        (2, None, None, None),
    ]
    assert ask(db, "SELECT count(*), sum(id) FROM t") == [(5, 15)]


def test_another_connection_sees_what_was_committed(
    db: duckdb.DuckDBPyConnection, rest: Rest, extensions: Path, namespace: str
) -> None:
    db.execute("CREATE TABLE t (id BIGINT)")
    db.execute("INSERT INTO t VALUES (1), (2)")
    other = connect(rest, extensions)

    tables = ask(other, f"SELECT name FROM (SHOW ALL TABLES) WHERE schema = '{namespace}'")
    assert tables == [("t",)]
    assert ask(other, f"SELECT id FROM arco.{namespace}.t ORDER BY id") == [(1,), (2,)]


def test_a_table_is_created_from_a_query(db: duckdb.DuckDBPyConnection, rest: Rest) -> None:
    if rest.served is None:
        pytest.skip("on a local disk this needs a server that makes the folders of a table")
    db.execute("CREATE TABLE t AS SELECT range AS id, 'w' || range AS word FROM range(100)")

    assert ask(db, "SELECT count(*), max(word) FROM t") == [(100, "w99")]


def test_rows_are_updated_and_deleted(db: duckdb.DuckDBPyConnection) -> None:
    db.execute("CREATE TABLE t (id BIGINT, word VARCHAR)")
    db.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    db.execute("UPDATE t SET word = 'new' WHERE id = 1")
    db.execute("DELETE FROM t WHERE id = 2")

    assert ask(db, "FROM t ORDER BY id") == [(1, "new"), (3, "c")]


def test_a_merge_updates_and_inserts(db: duckdb.DuckDBPyConnection) -> None:
    db.execute("CREATE TABLE t (id BIGINT, word VARCHAR)")
    db.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    db.execute(
        "MERGE INTO t USING (VALUES (1, 'new'), (3, 'c')) AS s(id, word) ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET word = s.word "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.word)"
    )

    assert ask(db, "FROM t ORDER BY id") == [(1, "new"), (2, "b"), (3, "c")]


def test_a_transaction_commits_several_tables_at_once(
    db: duckdb.DuckDBPyConnection, rest: Rest, extensions: Path, namespace: str
) -> None:
    db.execute("CREATE TABLE orders (id BIGINT)")
    db.execute("CREATE TABLE lines (id BIGINT, line BIGINT)")
    other = connect(rest, extensions)
    both = (
        f"SELECT (SELECT count(*) FROM arco.{namespace}.orders), "
        f"(SELECT count(*) FROM arco.{namespace}.lines)"
    )
    db.execute("BEGIN")
    db.execute("INSERT INTO orders VALUES (1), (2)")
    db.execute("INSERT INTO lines VALUES (1, 1), (1, 2), (2, 1)")
    before = ask(other, both)
    db.execute("COMMIT")

    assert before == [(0, 0)]
    assert ask(other, both) == [(2, 3)]


def test_a_transaction_that_is_rolled_back_leaves_nothing(
    db: duckdb.DuckDBPyConnection, rest: Rest, extensions: Path, namespace: str
) -> None:
    db.execute("CREATE TABLE t (id BIGINT)")
    db.execute("INSERT INTO t VALUES (1)")
    db.execute("BEGIN")
    db.execute("INSERT INTO t VALUES (2)")
    db.execute("CREATE TABLE never (id BIGINT)")
    db.execute("ROLLBACK")
    other = connect(rest, extensions)

    assert ask(db, "FROM t") == [(1,)]
    tables = ask(other, f"SELECT name FROM (SHOW ALL TABLES) WHERE schema = '{namespace}'")
    assert tables == [("t",)]


def test_of_two_transactions_on_one_table_the_later_fails_as_a_whole(
    db: duckdb.DuckDBPyConnection, rest: Rest, extensions: Path, namespace: str
) -> None:
    db.execute("CREATE TABLE hot (id BIGINT)")
    db.execute("CREATE TABLE quiet (id BIGINT)")
    db.execute("INSERT INTO hot VALUES (0)")
    other = connect(rest, extensions)
    db.execute("BEGIN")
    db.execute("INSERT INTO quiet VALUES (1)")
    db.execute("INSERT INTO hot VALUES (1)")
    other.execute(f"INSERT INTO arco.{namespace}.hot VALUES (2)")
    with pytest.raises(duckdb.Error, match="409"):
        db.execute("COMMIT")

    fresh = connect(rest, extensions)
    assert ask(fresh, f"SELECT id FROM arco.{namespace}.hot ORDER BY id") == [(0,), (2,)]
    assert ask(fresh, f"SELECT id FROM arco.{namespace}.quiet") == []


def test_columns_and_names_change(db: duckdb.DuckDBPyConnection) -> None:
    db.execute("CREATE TABLE t (id BIGINT, word VARCHAR)")
    db.execute("INSERT INTO t VALUES (1, 'a')")
    db.execute("ALTER TABLE t ADD COLUMN price DOUBLE")
    db.execute("ALTER TABLE t RENAME COLUMN word TO text")
    db.execute("ALTER TABLE t RENAME TO u")
    db.execute("INSERT INTO u VALUES (2, 'b', 1.5)")

    assert ask(db, "SELECT id, text, price FROM u ORDER BY id") == [(1, "a", None), (2, "b", 1.5)]
    with pytest.raises(duckdb.Error, match="does not exist"):
        db.execute("FROM t")


def test_a_table_and_its_schema_are_dropped(db: duckdb.DuckDBPyConnection, namespace: str) -> None:
    db.execute("CREATE TABLE t (id BIGINT)")
    db.execute("USE memory")
    with pytest.raises(duckdb.Error, match="not empty"):
        db.execute(f"DROP SCHEMA arco.{namespace}")
    db.execute(f"DROP TABLE arco.{namespace}.t")
    db.execute(f"DROP SCHEMA arco.{namespace}")

    schemas = ask(db, "SELECT schema_name FROM information_schema.schemata")
    assert (namespace,) not in schemas


def test_it_reads_what_pyiceberg_wrote_and_the_other_way_round(
    rest: Rest, extensions: Path, catalog: Catalog, table: Table, namespace: str
) -> None:
    table.append(numbered(1, 2, 3))
    table.delete("id = 2")
    db = connect(rest, extensions)
    assert ask(db, f"SELECT id, word FROM arco.{namespace}.t ORDER BY id") == [(1, "w1"), (3, "w3")]
    db.execute(f"INSERT INTO arco.{namespace}.t VALUES (4, 'w4')")

    assert ids(table.refresh()) == [1, 3, 4]
