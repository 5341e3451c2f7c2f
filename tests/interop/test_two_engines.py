"""Spark and PyIceberg write one table at once: every row that either acknowledged is there, once."""

import pytest
from pyiceberg.table import Table

from tests.interop import pyiceberg_client, spark_client
from tests.interop.pyiceberg_client import ids
from tests.interop.rest import Rest
from tests.interop.spark_client import LEAKS, Spark
from tests.interop.writers import WriteOutcomes, writing

pytestmark = [pytest.mark.interop, *LEAKS]

PYICEBERG_WRITERS = 2
ROWS_EACH = 12


def client() -> str:
    return f"{spark_client.name()} beside {pyiceberg_client.name()}"


def test_every_acknowledged_row_is_there_once(
    rest: Rest, spark: Spark, table: Table, namespace: str
) -> None:
    # As many attempts as it takes: what is counted here is rows, not patience.
    with table.transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retries": "100"})
    theirs = range(1, 1 + ROWS_EACH)
    with writing(
        "tests.interop.appending", [rest], f"{namespace}.t", count=PYICEBERG_WRITERS, rows=ROWS_EACH
    ) as writers:
        for each in theirs:
            spark.run(f"INSERT INTO arco.{namespace}.t VALUES ({each}, 'spark')")
        outcomes = writers.outcomes()
    stored_ids = ids(table.refresh())

    all_outcomes = WriteOutcomes(outcomes.done.union(theirs), outcomes.unknown)
    assert all_outcomes.faults(stored_ids) == []
    assert len(all_outcomes.done) == (PYICEBERG_WRITERS + 1) * ROWS_EACH
    spark.run(f"REFRESH TABLE arco.{namespace}.t")
    spark_rows = spark.ask(f"SELECT id FROM arco.{namespace}.t ORDER BY id")
    assert [row[0] for row in spark_rows] == stored_ids
    assert len(table.snapshots()) == len(stored_ids)


def test_each_reads_what_the_other_wrote(spark: Spark, table: Table, namespace: str) -> None:
    spark.run(f"INSERT INTO arco.{namespace}.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.run(f"ALTER TABLE arco.{namespace}.t ADD COLUMN price double")
    table.refresh()
    table.delete("id = 2")
    with table.update_schema() as update:
        update.rename_column("word", "text")
    spark.run(f"REFRESH TABLE arco.{namespace}.t")

    rows = spark.ask(f"SELECT id, text, price FROM arco.{namespace}.t ORDER BY id")
    assert rows == [(1, "a", None), (3, "c", None)]
    assert ids(table.refresh()) == [1, 3]
