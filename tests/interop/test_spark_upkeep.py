"""Spark: the procedures that keep a table in shape, and what the third format version brings."""

import json
import os
from pathlib import Path

import pytest

from tests.interop import spark_client
from tests.interop.pyiceberg_client import connect
from tests.interop.rest import Rest
from tests.interop.spark_client import LEAKS, Spark

pytestmark = [pytest.mark.interop, *LEAKS]

client = spark_client.name


def _fill(sql: Spark, count: int) -> None:
    """A table of so many snapshots, each with a file of one row."""
    sql.run("CREATE TABLE t (id bigint) USING iceberg")
    for each in range(count):
        sql.run(f"INSERT INTO t VALUES ({each})")


def test_snapshots_expire(sql: Spark, namespace: str) -> None:
    _fill(sql, 4)
    sql.run(
        f"CALL arco.system.expire_snapshots(table => '{namespace}.t', "
        "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 2)"
    )

    assert sql.ask(f"SELECT count(*) FROM {namespace}.t.snapshots") == [(2,)]
    assert sql.ask("SELECT id FROM t ORDER BY id") == [(0,), (1,), (2,), (3,)]


def test_small_files_become_one(sql: Spark, namespace: str) -> None:
    _fill(sql, 4)
    (result,) = sql.ask(
        f"CALL arco.system.rewrite_data_files(table => '{namespace}.t', "
        "options => map('min-input-files', '2'))"
    )

    assert result[:2] == (4, 1)
    assert sql.ask(f"SELECT count(*), sum(record_count) FROM {namespace}.t.files") == [(1, 4)]
    assert sql.ask("SELECT id FROM t ORDER BY id") == [(0,), (1,), (2,), (3,)]


def test_manifests_become_one(sql: Spark, namespace: str) -> None:
    _fill(sql, 3)
    (result,) = sql.ask(f"CALL arco.system.rewrite_manifests('{namespace}.t')")

    assert result[:2] == (3, 1)
    assert sql.ask(f"SELECT count(*) FROM {namespace}.t.manifests") == [(1,)]
    assert sql.ask("SELECT count(*) FROM t") == [(3,)]


def test_files_that_no_manifest_names_are_removed(
    sql: Spark, namespace: str, table_directory: Path
) -> None:
    sql.run(f"CREATE TABLE t (id bigint) USING iceberg LOCATION '{table_directory.as_uri()}'")
    sql.run("INSERT INTO t VALUES (1)")
    orphan = table_directory / "data" / "orphan.parquet"
    orphan.write_bytes(b"no manifest names this")
    os.utime(orphan, (0, 0))
    removed = sql.ask(f"CALL arco.system.remove_orphan_files('{namespace}.t')")

    assert [Path(row[0]).name for row in removed] == ["orphan.parquet"]
    assert not orphan.exists()
    assert sql.ask("SELECT * FROM t") == [(1,)]


def test_a_table_is_registered_by_its_metadata_file(
    sql: Spark, namespace: str, table_directory: Path
) -> None:
    sql.run(f"CREATE TABLE t (id bigint) USING iceberg LOCATION '{table_directory.as_uri()}'")
    sql.run("INSERT INTO t VALUES (1), (2)")
    files = sql.ask(f"SELECT file FROM {namespace}.t.metadata_log_entries ORDER BY timestamp")
    sql.run("DROP TABLE t")
    sql.run(f"CALL arco.system.register_table('{namespace}.again', '{files[-1][0]}')")
    sql.run("INSERT INTO again VALUES (3)")

    assert sql.ask("SELECT id FROM again ORDER BY id") == [(1,), (2,), (3,)]


def test_statistics_are_kept_with_the_table(sql: Spark, rest: Rest, namespace: str) -> None:
    _fill(sql, 2)
    sql.run(f"CALL arco.system.compute_table_stats('{namespace}.t')")
    sql.run("INSERT INTO t VALUES (9)")

    (statistics,) = connect(rest).load_table((namespace, "t")).metadata.statistics
    assert statistics.statistics_path.endswith(".stats")
    assert [blob.properties for blob in statistics.blob_metadata] == [{"ndv": "2"}]


def test_a_table_rises_to_the_third_version(sql: Spark) -> None:
    sql.run("CREATE TABLE t (id bigint) USING iceberg TBLPROPERTIES ('format-version'='2')")
    sql.run("INSERT INTO t VALUES (1)")
    sql.run("ALTER TABLE t SET TBLPROPERTIES ('format-version'='3')")
    sql.run("INSERT INTO t VALUES (2)")

    assert dict(sql.ask("SHOW TBLPROPERTIES t"))["format-version"] == "3"
    assert sql.ask("SELECT id FROM t ORDER BY id") == [(1,), (2,)]
    numbered = sql.ask("SELECT _row_id FROM t WHERE _row_id IS NOT NULL")
    assert len(set(numbered)) == len(numbered) >= 1


def test_variants_are_written_and_asked(sql: Spark) -> None:
    sql.run(
        "CREATE TABLE t (id bigint, v variant) USING iceberg TBLPROPERTIES ('format-version'='3')"
    )
    sql.run("""INSERT INTO t SELECT 1, parse_json('{"a": {"b": [1, 2]}}')""")
    sql.run("""INSERT INTO t SELECT 2, parse_json('"word"')""")

    assert sql.ask("SELECT variant_get(v, '$.a.b[1]', 'int') FROM t WHERE id = 1") == [(2,)]
    shown = sql.ask("SELECT to_json(v) FROM t ORDER BY id")
    assert [json.loads(row[0]) for row in shown] == [{"a": {"b": [1, 2]}}, "word"]


def test_deletion_vectors_hide_rows(sql: Spark, namespace: str) -> None:
    sql.run(
        "CREATE TABLE t (id bigint) USING iceberg TBLPROPERTIES "
        "('format-version'='3', 'write.delete.mode'='merge-on-read')"
    )
    sql.run("INSERT INTO t SELECT /*+ COALESCE(1) */ id FROM range(10)")
    sql.run("DELETE FROM t WHERE id IN (3, 4)")
    sql.run("DELETE FROM t WHERE id = 5")

    expected_rows = [(each,) for each in range(10) if each not in {3, 4, 5}]
    assert sql.ask("SELECT id FROM t ORDER BY id") == expected_rows
    vectors = sql.ask(f"SELECT file_format, record_count FROM {namespace}.t.delete_files")
    assert vectors == [("PUFFIN", 3)]


def test_rows_keep_their_ids_when_they_change(sql: Spark) -> None:
    sql.run(
        "CREATE TABLE t (id bigint, word string) USING iceberg TBLPROPERTIES ('format-version'='3')"
    )
    sql.run("INSERT INTO t SELECT /*+ COALESCE(1) */ id, 'a' FROM range(3)")
    sql.run("INSERT INTO t VALUES (3, 'b')")
    before = dict(sql.ask("SELECT id, _row_id FROM t"))
    sql.run("UPDATE t SET word = 'new' WHERE id = 1")

    assert sorted(before.values()) == [0, 1, 2, 3]
    after = sql.ask("SELECT id, _row_id, _last_updated_sequence_number FROM t ORDER BY id")
    assert {row[0]: row[1] for row in after} == before
    assert [row[2] for row in after] == [1, 3, 1, 2]


def test_variants_need_the_third_version(sql: Spark) -> None:
    with pytest.raises(Exception, match=r"(?i)v3|format version|not supported until"):
        sql.run("CREATE TABLE t (v variant) USING iceberg TBLPROPERTIES ('format-version'='2')")

    assert sql.ask("SHOW TABLES") == []
