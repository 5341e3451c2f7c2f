"""What a task reads: its own partitions of its inputs, as a function or a query sees them."""

import msgspec
import pytest

from arco.flow.coordinator.messages import TaskInput, TaskStatus
from tests.flow.spark.house import DAY, House

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


def days(house: House, table: str) -> list[int]:
    return [row[0] for row in house.rows(table)]


@FORMATS
def test_only_the_partitions_that_a_lease_names_are_read_where_missing_ones_are_skipped(
    house: House, kind: str
) -> None:
    code = CHAIN.replace("FORMAT", kind).replace("window=3", 'window=3, missing="skip"')
    house.project(code)
    for day in (3, 4, 5):
        house.made("$.raw", f"ds=2026-01-0{day}")
    read = TaskInput(
        table=house.name("$.raw"),
        table_id=None,
        partitions=("ds=2026-01-03", "ds=2026-01-05"),
        digest="the 4th had no data when the task was leased",
    )
    task = msgspec.structs.replace(house.lease("$.week", DAY), inputs=(read,))
    outcome = house.carry_out(task)
    assert outcome.status is TaskStatus.SUCCESS, outcome.error
    assert days(house, "$.week") == [3, 5]
    [told] = outcome.lineage
    assert "2026-01-04" not in msgspec.json.encode(told).decode()


@FORMATS
def test_a_function_gets_the_partitions_that_are_mapped_to_its_own(house: House, kind: str) -> None:
    house.project(CHAIN.replace("FORMAT", kind))
    for day in range(1, 6):
        house.made("$.raw", f"ds=2026-01-0{day}")
    house.made("$.week", DAY)
    assert days(house, "$.week") == [3, 4, 5]
    house.made("$.total")
    assert days(house, "$.total") == [15]
    house.made("$.by_month", "month=2026-01")
    assert house.rows("$.by_month") == [(5, "2026-01")]


@FORMATS
def test_a_query_reads_the_same_and_knows_its_partition(house: House, kind: str) -> None:
    query = {"pipelines/named.sql": QUERY.replace("FORMAT", kind)}
    house.project(CHAIN.replace("FORMAT", kind), query)
    for day in (4, 5):
        house.made("$.raw", f"ds=2026-01-0{day}")
    house.made("$.week", DAY)
    house.made("$.named", DAY)
    assert house.rows("$.named") == [(5, 5, "2026-01-05", "2026-01-05")]


def test_who_reads_the_day_before_of_its_own_is_given_none_on_the_first(house: House) -> None:
    house.project(
        """
@asset("$.sum", partitions=Daily("ds", start="2026-01-04"))
def total(spark, before: DataFrame | None = table("$.sum", offset=-1)):
    return spark.range(1).select("id") if before is None else before.select(F.expr("id + 1 AS id"))
"""
    )
    for _ in range(2):  # also once there is a table
        house.made("$.sum", "ds=2026-01-04")
        house.made("$.sum", DAY)
        assert house.rows("$.sum") == [(0, "2026-01-04"), (1, "2026-01-05")]


def test_an_input_that_is_not_there_is_named(house: House) -> None:
    house.project(CHAIN.replace("FORMAT", "iceberg"))
    outcome = house.run("$.week", DAY)
    assert outcome.status is TaskStatus.FAILED
    assert f"there is no table {house.name('$.raw')}" in (outcome.error or "")


def test_a_source_is_cut_by_its_column_whatever_its_type(house: House) -> None:
    house.spark.sql(f"CREATE NAMESPACE {house.schema}")
    house.spark.sql(
        f"CREATE TABLE {house.schema}.events (n int, d date, r int) PARTITIONED BY (d, r)"
    )
    house.spark.sql(
        f"INSERT INTO {house.schema}.events VALUES (1, DATE'2026-01-05', 1), (2, DATE'2026-01-05', 2), "
        "(3, DATE'2026-01-06', 1)"
    )
    house.project(
        """
source("$.events", partitions=[Daily("d", start="2026-01-01"), Static("r", ["1", "2"])])

@asset("$.copy", partitions=[Daily("d", start="2026-01-01"), Static("r", ["1", "2"])])
def copy(rows: DataFrame = table("$.events")):
    return rows
"""
    )
    house.made("$.copy", "d=2026-01-05/r=2")
    assert [row[0] for row in house.rows("$.copy")] == [2]
    house.made("$.copy", "d=2026-01-05/r=2")
    assert [row[0] for row in house.rows("$.copy")] == [2]
