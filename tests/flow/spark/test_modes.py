"""How rows are written to their table in each mode, in both formats, and a second time."""

import msgspec
import pytest

from arco.flow.coordinator.messages import LeasedTask, TaskStatus
from tests.flow.spark.harness import DAY, Harness

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


def project(harness: Harness, code: str, kind: str, mode: str) -> Harness:
    return harness.project(code.replace("FORMAT", kind).replace("MODE", mode))


@FORMATS
def test_a_partition_is_replaced_and_the_others_stay(harness: Harness, kind: str) -> None:
    project(harness, SALES, kind, "replace_partition")
    first = harness.materialize("$.sales", DAY)
    harness.materialize("$.sales", "ds=2026-01-06", params={"rows": "1"})
    second = harness.materialize("$.sales", DAY, params={"rows": "2"})
    assert harness.rows("$.sales") == [
        (0, 0, "2026-01-05"),
        (0, 0, "2026-01-06"),
        (1, 10, "2026-01-05"),
    ]
    (done,) = first.outputs
    assert (done.rows, done.partition, done.table) == (3, DAY, harness.name("$.sales"))
    assert done.bytes
    assert done.files
    (after,) = second.outputs
    assert (after.rows, after.table_rows) == (2, 3)
    assert after.version is not None
    assert done.version is not None
    assert after.version > done.version
    if kind == "iceberg":  # nothing is left of what was staged
        snapshots = harness.spark.sql(f"SELECT * FROM {harness.schema}.sales.snapshots")
        assert snapshots.count() == 3


@ICEBERG
def test_an_empty_result_empties_its_partition(harness: Harness, kind: str) -> None:
    project(harness, SALES, kind, "replace_partition")
    harness.materialize("$.sales", "ds=2026-01-04", params={"rows": "1"})
    harness.materialize("$.sales", DAY)
    done = harness.materialize("$.sales", DAY, params={"rows": "0"})
    assert harness.rows("$.sales") == [(0, 0, "2026-01-04")]
    assert [each.rows for each in done.outputs] == [0]


@PARQUET
def test_a_whole_table_is_replaced(harness: Harness, kind: str) -> None:
    project(harness, ITEMS, kind, "replace")
    harness.materialize("$.items")
    harness.materialize("$.items", params={"first": "7"})
    assert harness.rows("$.items") == [(7, "x"), (8, "x")]


@FORMATS
def test_rows_are_appended_by_each_run_and_once_by_all_attempts_of_it(
    harness: Harness, kind: str
) -> None:
    project(harness, ITEMS, kind, "append")
    harness.materialize("$.items")
    task = harness.lease("$.items", params={"first": "2"})
    assert harness.execute(task).status is TaskStatus.SUCCESS
    assert harness.execute(task).status is TaskStatus.SUCCESS  # its answer was lost, say
    assert [row[0] for row in harness.rows("$.items")] == [0, 1, 2, 3]


def replacing(task: LeasedTask) -> LeasedTask:
    """The same task as the book of runs leases it where rows were appended before."""
    outputs = tuple(msgspec.structs.replace(each, replaces=True) for each in task.outputs)
    return msgspec.structs.replace(task, outputs=outputs)


@FORMATS
def test_rows_that_were_appended_are_replaced_and_the_other_partitions_stay(
    harness: Harness, kind: str
) -> None:
    project(harness, SALES, kind, "append")
    harness.materialize("$.sales", DAY)
    harness.materialize("$.sales", "ds=2026-01-06", params={"rows": "1"})
    task = replacing(harness.lease("$.sales", DAY, params={"rows": "2"}))
    for _ in range(2):  # its answer was lost, say
        outcome = harness.execute(task)
        assert outcome.status is TaskStatus.SUCCESS, outcome.error
    assert [(row[0], row[2]) for row in harness.rows("$.sales")] == [
        (0, "2026-01-05"),
        (0, "2026-01-06"),
        (1, "2026-01-05"),
    ]


def test_rows_of_others_are_not_replaced_with_those_that_were_appended(harness: Harness) -> None:
    project(harness, SALES, "iceberg", "append")
    harness.materialize("$.sales", DAY, params={"rows": "1"})
    harness.materialize("$.sales", "ds=2026-01-06", params={"rows": "1"})
    harness.spark.sql(f"INSERT INTO {harness.schema}.sales VALUES (77, 7, '2026-01-05')")
    outcome = harness.execute(replacing(harness.lease("$.sales", DAY, params={"rows": "2"})))
    assert outcome.status is TaskStatus.FAILED
    assert "holds files that no run of this pipeline added: " in (outcome.error or "")
    files = harness.spark.sql(
        f"SELECT file_path FROM {harness.schema}.sales.files "
        "WHERE readable_metrics.id.lower_bound = 77"
    )
    [(path,)] = files.collect()
    assert path in (outcome.error or "")
    assert len(harness.rows("$.sales")) == 3
    other = harness.lease("$.sales", "ds=2026-01-06", params={"rows": "2"})
    assert harness.execute(replacing(other)).status is TaskStatus.SUCCESS
    assert sorted(row[0] for row in harness.rows("$.sales")) == [0, 0, 1, 77]


@PARQUET
def test_an_attempt_that_lost_its_partition_publishes_nothing(harness: Harness, kind: str) -> None:
    project(harness, SALES, kind, "replace_partition")
    harness.materialize("$.sales", DAY, params={"rows": "1"})
    late = harness.lease("$.sales", DAY)
    harness.materialize("$.sales", DAY, params={"rows": "2"})
    outcome = harness.execute(late)
    assert outcome.status is TaskStatus.FAILED
    assert not outcome.may_retry
    assert outcome.error is not None
    assert harness.name("$.sales") in outcome.error
    assert [row[0] for row in harness.rows("$.sales")] == [0, 1]


@ICEBERG
def test_a_task_that_an_earlier_attempt_has_published_is_done(harness: Harness, kind: str) -> None:
    project(harness, ITEMS, kind, "append")
    harness.materialize("$.items")
    first = harness.lease("$.items", run="RUNX", params={"first": "2"})
    second = harness.lease("$.items", run="RUNX", attempt=2, params={"first": "2"})
    assert harness.execute(first).status is TaskStatus.SUCCESS
    outcome = harness.execute(second)
    assert outcome.status is TaskStatus.SUCCESS, outcome.error
    assert [row[0] for row in harness.rows("$.items")] == [0, 1, 2, 3]


def test_rows_are_merged_on_their_key(harness: Harness) -> None:
    harness.project(MERGED)
    harness.materialize("$.items", params={"rows": "1,2", "name": "a"})
    outcome = harness.materialize("$.items", params={"rows": "2,3", "name": "b"})
    harness.materialize("$.items", params={"rows": "2,3", "name": "b"})
    assert harness.rows("$.items") == [(1, "a"), (2, "b"), (3, "b")]
    assert outcome.outputs[0].rows == 2


@MORE
def test_a_merge_of_two_rows_with_one_key_is_refused(harness: Harness) -> None:
    harness.project(MERGED)
    harness.materialize("$.items", params={"rows": "1", "name": "a"})
    outcome = harness.run("$.items", params={"rows": "2,2", "name": "b"})
    assert outcome.status is TaskStatus.FAILED
    assert "2 rows of the result have the same id (id=2)" in (outcome.error or "")
    assert harness.rows("$.items") == [(1, "a")]


ON_TWO = """
@asset("$.items", mode=merge(on=["region", "id"]))
def items(spark, ctx):
    return spark.sql("SELECT * FROM VALUES " + ctx.params["rows"] + " AS t(region, id)")
"""


def test_a_row_that_has_no_whole_key_is_not_merged(harness: Harness) -> None:
    """It would equal no row that is there, and be added once more by each run."""
    harness.project(ON_TWO)
    harness.materialize("$.items", params={"rows": "('eu', 1)"})
    outcome = harness.run("$.items", params={"rows": "('eu', 2), ('us', null)"})
    assert (outcome.status, outcome.may_retry) == (TaskStatus.FAILED, False)
    assert "merged on region, id" in (outcome.error or "")
    assert "(region=us, id=null)" in (outcome.error or "")
    assert harness.rows("$.items") == [("eu", 1)]
