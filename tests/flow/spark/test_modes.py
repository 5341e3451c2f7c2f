"""How rows enter their table, in both formats, and again."""

import msgspec
import pytest

from arco.flow.coordinator.messages import LeasedTask, TaskStatus
from tests.flow.spark.house import DAY, House

FORMATS = pytest.mark.parametrize("kind", ["iceberg", "parquet"])
MORE = pytest.mark.interop  # takes its time, and shows the same in the other format
ICEBERG = pytest.mark.parametrize("kind", ["iceberg", pytest.param("parquet", marks=MORE)])
PARQUET = pytest.mark.parametrize("kind", [pytest.param("iceberg", marks=MORE), "parquet"])

SALES = """
@asset("$.sales", partitions=Daily("ds", start="2026-01-01"), format="FORMAT", mode="MODE")
def sales(spark, ctx):
    return spark.range(int(ctx.params.get("rows", 3))).selectExpr("id", "id * 10 AS amount")
"""
ITEMS = """
@asset("$.items", format="FORMAT", mode="MODE")
def items(spark, ctx):
    first = int(ctx.params.get("first", 0))
    return spark.range(first, first + 2).selectExpr("id", "'x' AS name")
"""
MERGED = """
@asset("$.items", mode=merge(on=["id"]))
def items(spark, ctx):
    rows = ctx.params["rows"].split(",")
    return spark.createDataFrame([(int(each), ctx.params["name"]) for each in rows], ["id", "name"])
"""


def project(house: House, code: str, kind: str, mode: str) -> House:
    return house.project(code.replace("FORMAT", kind).replace("MODE", mode))


@FORMATS
def test_a_partition_is_replaced_and_the_others_stay(house: House, kind: str) -> None:
    project(house, SALES, kind, "replace_partition")
    first = house.made("$.sales", DAY)
    house.made("$.sales", "ds=2026-01-06", params={"rows": "1"})
    again = house.made("$.sales", DAY, params={"rows": "2"})
    assert house.rows("$.sales") == [
        (0, 0, "2026-01-05"),
        (0, 0, "2026-01-06"),
        (1, 10, "2026-01-05"),
    ]
    (done,) = first.outputs
    assert (done.rows, done.partition, done.table) == (3, DAY, house.name("$.sales"))
    assert done.bytes
    assert done.files
    (after,) = again.outputs
    assert (after.rows, after.table_rows) == (2, 3)
    assert after.version is not None
    assert done.version is not None
    assert after.version > done.version
    if kind == "iceberg":  # nothing is left of what was staged
        snapshots = house.spark.sql(f"SELECT * FROM {house.schema}.sales.snapshots")
        assert snapshots.count() == 3


@ICEBERG
def test_an_empty_result_empties_its_partition(house: House, kind: str) -> None:
    project(house, SALES, kind, "replace_partition")
    house.made("$.sales", "ds=2026-01-04", params={"rows": "1"})
    house.made("$.sales", DAY)
    done = house.made("$.sales", DAY, params={"rows": "0"})
    assert house.rows("$.sales") == [(0, 0, "2026-01-04")]
    assert [each.rows for each in done.outputs] == [0]


@PARQUET
def test_a_whole_table_is_replaced(house: House, kind: str) -> None:
    project(house, ITEMS, kind, "replace")
    house.made("$.items")
    house.made("$.items", params={"first": "7"})
    assert house.rows("$.items") == [(7, "x"), (8, "x")]


@FORMATS
def test_rows_are_appended_by_each_run_and_once_by_all_attempts_of_it(
    house: House, kind: str
) -> None:
    project(house, ITEMS, kind, "append")
    house.made("$.items")
    task = house.lease("$.items", params={"first": "2"})
    assert house.carry_out(task).status is TaskStatus.SUCCESS
    assert house.carry_out(task).status is TaskStatus.SUCCESS  # its answer was lost, say
    assert [row[0] for row in house.rows("$.items")] == [0, 1, 2, 3]


def replacing(task: LeasedTask) -> LeasedTask:
    """The same task as the book of runs leases it where rows were appended before."""
    outputs = tuple(msgspec.structs.replace(each, replaces=True) for each in task.outputs)
    return msgspec.structs.replace(task, outputs=outputs)


@FORMATS
def test_rows_that_were_appended_are_replaced_and_the_other_partitions_stay(
    house: House, kind: str
) -> None:
    project(house, SALES, kind, "append")
    house.made("$.sales", DAY)
    house.made("$.sales", "ds=2026-01-06", params={"rows": "1"})
    task = replacing(house.lease("$.sales", DAY, params={"rows": "2"}))
    for _ in range(2):  # its answer was lost, say
        outcome = house.carry_out(task)
        assert outcome.status is TaskStatus.SUCCESS, outcome.error
    assert [(row[0], row[2]) for row in house.rows("$.sales")] == [
        (0, "2026-01-05"),
        (0, "2026-01-06"),
        (1, "2026-01-05"),
    ]


def test_rows_of_others_are_not_replaced_with_those_that_were_appended(house: House) -> None:
    project(house, SALES, "iceberg", "append")
    house.made("$.sales", DAY, params={"rows": "1"})
    house.made("$.sales", "ds=2026-01-06", params={"rows": "1"})
    house.spark.sql(f"INSERT INTO {house.schema}.sales VALUES (77, 7, '2026-01-05')")
    outcome = house.carry_out(replacing(house.lease("$.sales", DAY, params={"rows": "2"})))
    assert outcome.status is TaskStatus.FAILED
    assert "holds files that no run of this pipeline added: " in (outcome.error or "")
    files = house.spark.sql(
        f"SELECT file_path FROM {house.schema}.sales.files "
        "WHERE readable_metrics.id.lower_bound = 77"
    )
    [(path,)] = files.collect()
    assert path in (outcome.error or "")
    assert len(house.rows("$.sales")) == 3
    other = house.lease("$.sales", "ds=2026-01-06", params={"rows": "2"})
    assert house.carry_out(replacing(other)).status is TaskStatus.SUCCESS
    assert sorted(row[0] for row in house.rows("$.sales")) == [0, 0, 1, 77]


@PARQUET
def test_an_attempt_that_lost_its_partition_publishes_nothing(house: House, kind: str) -> None:
    project(house, SALES, kind, "replace_partition")
    house.made("$.sales", DAY, params={"rows": "1"})
    late = house.lease("$.sales", DAY)
    house.made("$.sales", DAY, params={"rows": "2"})
    outcome = house.carry_out(late)
    assert outcome.status is TaskStatus.FAILED
    assert not outcome.may_retry
    assert outcome.error is not None
    assert house.name("$.sales") in outcome.error
    assert [row[0] for row in house.rows("$.sales")] == [0, 1]


@ICEBERG
def test_a_task_that_an_earlier_attempt_has_published_is_done(house: House, kind: str) -> None:
    project(house, ITEMS, kind, "append")
    house.made("$.items")
    first = house.lease("$.items", run="RUNX", params={"first": "2"})
    second = house.lease("$.items", run="RUNX", attempt=2, params={"first": "2"})
    assert house.carry_out(first).status is TaskStatus.SUCCESS
    outcome = house.carry_out(second)
    assert outcome.status is TaskStatus.SUCCESS, outcome.error
    assert [row[0] for row in house.rows("$.items")] == [0, 1, 2, 3]


def test_rows_are_merged_on_their_key(house: House) -> None:
    house.project(MERGED)
    house.made("$.items", params={"rows": "1,2", "name": "a"})
    outcome = house.made("$.items", params={"rows": "2,3", "name": "b"})
    house.made("$.items", params={"rows": "2,3", "name": "b"})
    assert house.rows("$.items") == [(1, "a"), (2, "b"), (3, "b")]
    assert outcome.outputs[0].rows == 2


@MORE
def test_a_merge_of_two_rows_with_one_key_is_refused(house: House) -> None:
    house.project(MERGED)
    house.made("$.items", params={"rows": "1", "name": "a"})
    outcome = house.run("$.items", params={"rows": "2,2", "name": "b"})
    assert outcome.status is TaskStatus.FAILED
    assert "2 rows of the result have the same id (id=2)" in (outcome.error or "")
    assert house.rows("$.items") == [(1, "a")]


ON_TWO = """
@asset("$.items", mode=merge(on=["region", "id"]))
def items(spark, ctx):
    return spark.sql("SELECT * FROM VALUES " + ctx.params["rows"] + " AS t(region, id)")
"""


def test_a_row_that_has_no_whole_key_is_not_merged(house: House) -> None:
    """It would equal no row that is there, and be added once more by each run."""
    house.project(ON_TWO)
    house.made("$.items", params={"rows": "('eu', 1)"})
    outcome = house.run("$.items", params={"rows": "('eu', 2), ('us', null)"})
    assert (outcome.status, outcome.may_retry) == (TaskStatus.FAILED, False)
    assert "merged on region, id" in (outcome.error or "")
    assert "(region=us, id=null)" in (outcome.error or "")
    assert house.rows("$.items") == [("eu", 1)]
