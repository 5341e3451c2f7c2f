"""Spark SQL: definitions, rows, time travel, branches, views and maintenance."""

import datetime as dt

import pytest

from tests.interop import spark_client
from tests.interop.spark_client import LEAKS, Spark

pytestmark = [pytest.mark.interop, *LEAKS]

client = spark_client.name


def test_a_table_is_described_as_it_was_created(sql: Spark, namespace: str) -> None:
    sql.run(
        "CREATE TABLE t (id bigint NOT NULL COMMENT 'the key', word string, at timestamp, day date, "
        "price decimal(10,2), tags array<string>, more map<string,int>, deep struct<a:int,b:string>) "
        "USING iceberg PARTITIONED BY (days(at), bucket(4, id)) COMMENT 'what was sold' "
        "TBLPROPERTIES ('team'='sales')"
    )

    columns = {row[0]: row[1] for row in sql.ask("DESCRIBE t") if not row[0].startswith("#")}
    assert columns["price"] == "decimal(10,2)"
    assert columns["deep"] == "struct<a:int,b:string>"
    assert dict(sql.ask("SHOW TBLPROPERTIES t"))["team"] == "sales"
    assert ("Comment", "what was sold", "") in sql.ask("DESCRIBE EXTENDED t")
    assert "days(at), bucket(4, id)" in sql.ask("SHOW CREATE TABLE t")[0][0]
    assert sql.ask("SHOW TABLES") == [(namespace, "t", False)]
    sql.run("DROP TABLE t")
    assert sql.ask("SHOW TABLES") == []


def test_columns_partitions_and_names_change(sql: Spark, namespace: str) -> None:
    sql.run("CREATE TABLE t (id int, word string) USING iceberg")
    sql.run("INSERT INTO t VALUES (1, 'a')")
    sql.run("ALTER TABLE t ADD COLUMNS (price double AFTER id)")
    sql.run("ALTER TABLE t RENAME COLUMN word TO text")
    sql.run("ALTER TABLE t ALTER COLUMN id TYPE bigint")
    sql.run("ALTER TABLE t ADD PARTITION FIELD truncate(1, text)")
    sql.run("ALTER TABLE t SET TBLPROPERTIES ('stage'='two')")
    sql.run("INSERT INTO t VALUES (5000000000, 1.5, 'b')")
    sql.run("ALTER TABLE t RENAME TO u")

    assert sql.ask("SELECT * FROM u ORDER BY id") == [(1, None, "a"), (5_000_000_000, 1.5, "b")]
    assert sql.ask("SELECT id FROM u WHERE text = 'b'") == [(5_000_000_000,)]
    sql.run("ALTER TABLE u DROP COLUMN price")
    sql.run("ALTER TABLE u REPLACE PARTITION FIELD truncate(1, text) WITH bucket(2, id)")
    sql.run("ALTER TABLE u WRITE ORDERED BY id")
    sql.run("INSERT INTO u VALUES (7, 'c')")
    assert sql.ask("SELECT * FROM u ORDER BY id") == [(1, "a"), (7, "c"), (5_000_000_000, "b")]
    assert sql.ask(f"SELECT DISTINCT spec_id FROM {namespace}.u.files ORDER BY 1") == [
        (0,),
        (1,),
        (2,),
    ]


def test_a_table_is_created_and_replaced_from_a_query(sql: Spark, namespace: str) -> None:
    sql.run("CREATE TABLE t USING iceberg AS SELECT id, id * 2 AS double FROM range(3)")
    assert sql.ask("SELECT * FROM t ORDER BY id") == [(0, 0), (1, 2), (2, 4)]
    sql.run("REPLACE TABLE t USING iceberg AS SELECT 'x' AS word")
    assert sql.ask("SELECT * FROM t") == [("x",)]
    sql.run(
        "CREATE OR REPLACE TABLE t USING iceberg PARTITIONED BY (id) AS SELECT id FROM range(2)"
    )

    assert sql.ask("SELECT * FROM t ORDER BY id") == [(0,), (1,)]
    assert sql.ask(f"SELECT count(*) FROM {namespace}.t.history") == [(3,)]


def test_a_table_with_that_name_is_not_replaced_by_accident(sql: Spark) -> None:
    sql.run("CREATE TABLE t (id int) USING iceberg")
    sql.run("CREATE TABLE IF NOT EXISTS t (other string) USING iceberg")
    assert sql.ask("DESCRIBE t")[0][0] == "id"
    with pytest.raises(Exception, match="ALREADY_EXISTS"):
        sql.run("CREATE TABLE t (other string) USING iceberg")


def test_rows_are_inserted_overwritten_updated_deleted_and_truncated(sql: Spark) -> None:
    sql.run("CREATE TABLE t (id bigint, word string, day date) USING iceberg PARTITIONED BY (day)")
    sql.run(
        "INSERT INTO t VALUES (1, 'a', DATE'2026-01-01'), (2, 'b', DATE'2026-01-02'), "
        "(3, 'c', DATE'2026-01-02')"
    )
    sql.run("UPDATE t SET word = 'new' WHERE id = 2")
    sql.run("DELETE FROM t WHERE id = 3")
    assert sql.ask("SELECT id, word FROM t ORDER BY id") == [(1, "a"), (2, "new")]
    sql.run("INSERT OVERWRITE t SELECT 9, 'over', DATE'2026-01-02'")
    assert (9, "over", dt.date(2026, 1, 2)) in sql.ask("SELECT * FROM t")
    sql.run("TRUNCATE TABLE t")
    assert sql.ask("SELECT * FROM t") == []


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_merge_updates_deletes_and_inserts(sql: Spark, mode: str, namespace: str) -> None:
    sql.run(
        "CREATE TABLE t (id bigint, word string) USING iceberg TBLPROPERTIES "
        f"('write.merge.mode'='{mode}', 'write.update.mode'='{mode}', 'write.delete.mode'='{mode}')"
    )
    sql.run("INSERT INTO t SELECT /*+ COALESCE(1) */ id, concat('w', id) FROM range(6)")
    sql.run(
        "MERGE INTO t USING (SELECT * FROM VALUES (1, 'new'), (2, 'gone'), (9, 'added') AS s(id, word)) s "
        "ON t.id = s.id WHEN MATCHED AND s.word = 'gone' THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET word = s.word WHEN NOT MATCHED THEN INSERT *"
    )
    sql.run("UPDATE t SET word = 'five' WHERE id = 5")
    sql.run("DELETE FROM t WHERE id = 4")

    expected = [(0, "w0"), (1, "new"), (3, "w3"), (5, "five"), (9, "added")]
    assert sql.ask("SELECT * FROM t ORDER BY id") == expected
    deletes = sql.ask(f"SELECT count(*) FROM {namespace}.t.delete_files")[0][0]
    assert (deletes > 0) is (mode == "merge-on-read")


def test_the_past_is_read_by_snapshot_and_by_time_and_brought_back(
    sql: Spark, namespace: str
) -> None:
    sql.run("CREATE TABLE t (id bigint) USING iceberg")
    for each in (1, 2, 3):
        sql.run(f"INSERT INTO t VALUES ({each})")
    past = sql.ask(
        f"SELECT snapshot_id, committed_at FROM {namespace}.t.snapshots ORDER BY committed_at"
    )
    first, second = past[0][0], past[1][1]

    assert sql.ask(f"SELECT * FROM t VERSION AS OF {first}") == [(1,)]
    assert sql.ask(f"SELECT * FROM t TIMESTAMP AS OF '{second}' ORDER BY id") == [(1,), (2,)]
    sql.run(f"CALL arco.system.rollback_to_snapshot('{namespace}.t', {first})")
    assert sql.ask("SELECT * FROM t") == [(1,)]


def test_branches_and_tags_are_written_read_and_merged(sql: Spark, namespace: str) -> None:
    sql.run("CREATE TABLE t (id bigint) USING iceberg")
    sql.run("INSERT INTO t VALUES (1)")
    sql.run("ALTER TABLE t CREATE BRANCH trial")
    sql.run("ALTER TABLE t CREATE TAG v1 RETAIN 7 DAYS")
    sql.run(f"INSERT INTO {namespace}.t.branch_trial VALUES (2)")

    assert sql.ask("SELECT * FROM t") == [(1,)]
    assert sql.ask("SELECT * FROM t VERSION AS OF 'trial' ORDER BY id") == [(1,), (2,)]
    sql.run(f"CALL arco.system.fast_forward('{namespace}.t', 'main', 'trial')")
    assert sql.ask("SELECT * FROM t ORDER BY id") == [(1,), (2,)]
    assert sql.ask("SELECT * FROM t VERSION AS OF 'v1'") == [(1,)]
    sql.run("ALTER TABLE t DROP BRANCH trial")
    sql.run("ALTER TABLE t DROP TAG v1")
    assert sql.ask(f"SELECT name FROM {namespace}.t.refs") == [("main",)]


def test_a_view_is_created_replaced_renamed_and_dropped(sql: Spark, namespace: str) -> None:
    sql.run("CREATE TABLE t USING iceberg AS SELECT id FROM range(5)")
    sql.run("CREATE VIEW v (big COMMENT 'more than two') AS SELECT id FROM t WHERE id > 2")
    assert sql.ask("SELECT * FROM v ORDER BY big") == [(3,), (4,)]
    sql.run("CREATE OR REPLACE VIEW v AS SELECT count(*) AS n FROM t")
    assert sql.ask("SELECT n FROM v") == [(5,)]
    sql.run("ALTER VIEW v SET TBLPROPERTIES ('team'='sales')")
    assert ("team", "sales") in sql.ask("SHOW TBLPROPERTIES v")
    sql.run("ALTER VIEW v RENAME TO w")

    assert [row[1] for row in sql.ask("SHOW VIEWS")] == ["w"]
    assert [row[1] for row in sql.ask("SHOW TABLES")] == ["t"]
    assert sql.ask("SELECT n FROM w") == [(5,)]
    sql.run("DROP VIEW w")
    assert sql.ask("SHOW VIEWS") == []


def test_namespaces_nest_and_have_properties(sql: Spark, namespace: str) -> None:
    sql.run(f"CREATE NAMESPACE arco.{namespace}.eu WITH PROPERTIES ('region'='europe')")
    sql.run(f"CREATE NAMESPACE arco.{namespace}.eu.west")
    sql.run(f"CREATE TABLE arco.{namespace}.eu.west.t USING iceberg AS SELECT 1 AS id")

    assert sql.ask(f"SHOW NAMESPACES IN arco.{namespace}") == [(f"{namespace}.eu",)]
    assert sql.ask(f"SELECT * FROM arco.{namespace}.eu.west.t") == [(1,)]
    described = dict(sql.ask(f"DESCRIBE NAMESPACE EXTENDED arco.{namespace}.eu"))
    assert "(region,europe)" in described["Properties"]
    with pytest.raises(Exception, match=r"(?i)not.empty"):
        sql.run(f"DROP NAMESPACE arco.{namespace}.eu")
    sql.run(f"DROP TABLE arco.{namespace}.eu.west.t PURGE")
    sql.run(f"DROP NAMESPACE arco.{namespace}.eu.west")
    assert sql.ask(f"SHOW NAMESPACES IN arco.{namespace}.eu") == []


def test_names_with_dots_and_letters_of_all_kinds_go_there_and_back(sql: Spark) -> None:
    sql.run("CREATE TABLE `größe 😀` (`a.b` int, `c d` string) USING iceberg")
    sql.run("INSERT INTO `größe 😀` VALUES (1, 'x')")

    assert sql.ask("SELECT `a.b`, `c d` FROM `größe 😀`") == [(1, "x")]
    assert [row[1] for row in sql.ask("SHOW TABLES")] == ["größe 😀"]
