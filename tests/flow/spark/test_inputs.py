"""What a task reads: its own partitions of its inputs, as a function or a query sees them."""

import msgspec
import pytest

from arco.flow.coordinator.messages import TaskInput, TaskStatus
from tests.flow.spark.harness import DAY, Harness

MORE = pytest.mark.interop  # takes its time, and shows the same in the other format
FORMATS = pytest.mark.parametrize("kind", ["iceberg", pytest.param("parquet", marks=MORE)])

CHAIN = """
DAYS = Daily("ds", start="2026-01-01")

@asset("$.raw", partitions=DAYS, format="FORMAT")
def raw(spark, ctx):
    day = int(ctx.partition["ds"][-2:])
    return spark.range(day, day + 1).withColumnRenamed("id", "day")

@asset("$.week", partitions=DAYS, format="FORMAT")
def week(rows: DataFrame = table("$.raw", window=3)):
    return rows.select("day")

@asset("$.total", format="FORMAT")
def total(raw):
    return raw.agg(F.sum("day").alias("days"))

@asset("$.by_month", partitions=Monthly("month", start="2026-01"), format="FORMAT")
def by_month(rows: DataFrame = table("$.raw")):
    return rows.agg(F.count("*").alias("days"))
"""
QUERY = """/*---
name: $.named
partitions: {daily: ds, start: 2026-01-01}
inputs: {wide: {table: $.week, window: 2}}
format: FORMAT
---*/
-- the table is named twice, and a CTE is called like it
WITH raw AS (SELECT day FROM $.raw WHERE raw.day > 0)
SELECT raw.day, other.day AS same, :ds AS asked
FROM raw JOIN $.raw AS other ON raw.day = other.day
JOIN (SELECT DISTINCT day FROM wide) w ON w.day = raw.day;
"""


def days(harness: Harness, table: str) -> list[int]:
    return [row[0] for row in harness.rows(table)]


@FORMATS
def test_only_the_partitions_that_a_lease_names_are_read_where_missing_ones_are_skipped(
    harness: Harness, kind: str
) -> None:
    code = CHAIN.replace("FORMAT", kind).replace("window=3", 'window=3, missing="skip"')
    harness.project(code)
    for day in (3, 4, 5):
        harness.materialize("$.raw", f"ds=2026-01-0{day}")
    read = TaskInput(
        table=harness.name("$.raw"),
        table_id=None,
        partitions=("ds=2026-01-03", "ds=2026-01-05"),
        digest="the 4th had no data when the task was leased",
    )
    task = msgspec.structs.replace(harness.lease("$.week", DAY), inputs=(read,))
    outcome = harness.execute(task)
    assert outcome.status is TaskStatus.SUCCESS, outcome.error
    assert days(harness, "$.week") == [3, 5]
    [lineage] = outcome.lineage
    assert "2026-01-04" not in msgspec.json.encode(lineage).decode()


@FORMATS
def test_a_function_gets_the_partitions_that_are_mapped_to_its_own(
    harness: Harness, kind: str
) -> None:
    harness.project(CHAIN.replace("FORMAT", kind))
    for day in range(1, 6):
        harness.materialize("$.raw", f"ds=2026-01-0{day}")
    harness.materialize("$.week", DAY)
    assert days(harness, "$.week") == [3, 4, 5]
    harness.materialize("$.total")
    assert days(harness, "$.total") == [15]
    harness.materialize("$.by_month", "month=2026-01")
    assert harness.rows("$.by_month") == [(5, "2026-01")]


@FORMATS
def test_a_query_reads_the_same_and_knows_its_partition(harness: Harness, kind: str) -> None:
    query = {"pipelines/named.sql": QUERY.replace("FORMAT", kind)}
    harness.project(CHAIN.replace("FORMAT", kind), query)
    for day in (4, 5):
        harness.materialize("$.raw", f"ds=2026-01-0{day}")
    harness.materialize("$.week", DAY)
    harness.materialize("$.named", DAY)
    assert harness.rows("$.named") == [(5, 5, "2026-01-05", "2026-01-05")]


def test_who_reads_the_day_before_of_its_own_is_given_none_on_the_first(harness: Harness) -> None:
    harness.project(
        """
@asset("$.sum", partitions=Daily("ds", start="2026-01-04"))
def total(spark, before: DataFrame | None = table("$.sum", offset=-1)):
    return spark.range(1).select("id") if before is None else before.select(F.expr("id + 1 AS id"))
"""
    )
    for _ in range(2):  # also once there is a table
        harness.materialize("$.sum", "ds=2026-01-04")
        harness.materialize("$.sum", DAY)
        assert harness.rows("$.sum") == [(0, "2026-01-04"), (1, "2026-01-05")]


def test_an_input_that_is_not_there_is_named(harness: Harness) -> None:
    harness.project(CHAIN.replace("FORMAT", "iceberg"))
    outcome = harness.run("$.week", DAY)
    assert outcome.status is TaskStatus.FAILED
    assert f"there is no table {harness.name('$.raw')}" in (outcome.error or "")


def test_a_source_is_partitioned_by_a_column_of_any_type(harness: Harness) -> None:
    harness.spark.sql(f"CREATE NAMESPACE {harness.schema}")
    harness.spark.sql(
        f"CREATE TABLE {harness.schema}.events (n int, d date, r int) PARTITIONED BY (d, r)"
    )
    harness.spark.sql(
        f"INSERT INTO {harness.schema}.events VALUES (1, DATE'2026-01-05', 1), (2, DATE'2026-01-05', 2), "
        "(3, DATE'2026-01-06', 1)"
    )
    harness.project(
        """
source("$.events", partitions=[Daily("d", start="2026-01-01"), Static("r", ["1", "2"])])

@asset("$.copy", partitions=[Daily("d", start="2026-01-01"), Static("r", ["1", "2"])])
def copy(rows: DataFrame = table("$.events")):
    return rows
"""
    )
    harness.materialize("$.copy", "d=2026-01-05/r=2")
    assert [row[0] for row in harness.rows("$.copy")] == [2]
    harness.materialize("$.copy", "d=2026-01-05/r=2")
    assert [row[0] for row in harness.rows("$.copy")] == [2]
