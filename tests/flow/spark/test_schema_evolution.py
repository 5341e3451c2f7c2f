"""How a result fits its table: partition columns, new columns, columns that are missing or different."""

import pytest
from pyspark.sql.types import LongType, StructField

from arco.flow.coordinator.messages import AttemptOutcome, TaskStatus
from arco.flow.spark.iceberg_table import IcebergCatalogs
from tests.flow.spark.harness import DAY, Harness

MORE = pytest.mark.interop  # takes its time, and shows the same in the other format
FORMATS = pytest.mark.parametrize("kind", ["iceberg", pytest.param("parquet", marks=MORE)])

SALES = """
@asset("$.sales", partitions=Daily("ds", start="2026-01-01"), format="FORMAT")
def sales(spark, ctx):
    return spark.sql(ctx.params["sql"])
"""


def run(harness: Harness, sql: str, partition: str = DAY) -> AttemptOutcome:
    return harness.run("$.sales", partition, params={"sql": sql})


def refused(outcome: AttemptOutcome) -> str:
    assert outcome.status is TaskStatus.FAILED
    assert not outcome.may_retry
    assert all(each.version is None for each in outcome.outputs)
    return outcome.error or ""


@FORMATS
def test_rows_of_another_partition_are_refused_and_nothing_is_published(
    harness: Harness, kind: str
) -> None:
    harness.project(SALES.replace("FORMAT", kind))
    assert run(harness, "SELECT 1 AS id").status is TaskStatus.SUCCESS
    error = refused(
        run(harness, "SELECT INT(id), IF(id < 2, '2026-01-05', '2026-01-08') AS ds FROM range(3)")
    )
    assert "1 of 3 rows do not belong to ds=2026-01-05, such as one with ds=2026-01-08" in error
    assert harness.rows("$.sales") == [(1, "2026-01-05")]


@FORMATS
def test_a_table_gets_the_new_columns_of_a_result_and_null_for_those_that_it_lacks(
    harness: Harness, kind: str
) -> None:
    harness.project(missing_column("null", kind))
    assert run(harness, "SELECT 1 AS id, 'a' AS name").status is TaskStatus.SUCCESS
    wider = run(harness, "SELECT 2 AS id, array(1D) AS sizes", "ds=2026-01-06")
    assert wider.status is TaskStatus.SUCCESS, wider.error
    assert harness.columns("$.sales") == {
        "id": "int",
        "name": "string",
        "ds": "string",
        "sizes": "array<double>",
    }
    assert harness.rows("$.sales") == [(1, "a", "2026-01-05", None), (2, None, "2026-01-06", [1.0])]


def missing_column(what: str, kind: str) -> str:
    return SALES.replace("FORMAT", kind).replace("format=", f'on_missing_column="{what}", format=')


def differences(outcome: AttemptOutcome) -> list[tuple[str, str | None, str | None]]:
    return [(each.column, each.before, each.after) for each in outcome.column_changes]


@FORMATS
def test_a_column_that_the_result_lacks_is_refused_and_nothing_is_published(
    harness: Harness, kind: str
) -> None:
    harness.project(SALES.replace("FORMAT", kind))
    assert run(harness, "SELECT 1 AS id, 'a' AS name").status is TaskStatus.SUCCESS
    lacking = run(harness, "SELECT 2 AS id, true AS is_new")
    error = refused(lacking)
    assert "the result lacks the column 'name', which the table has: return it" in error
    assert "on_missing_column='null'" in error
    assert "on_missing_column='drop'" in error
    assert differences(lacking) == [("is_new", None, "boolean"), ("name", "string", None)]
    assert harness.rows("$.sales") == [(1, "a", "2026-01-05")]


@FORMATS
def test_a_column_that_the_result_lacks_is_dropped_if_that_is_declared(
    harness: Harness, kind: str
) -> None:
    harness.project(missing_column("drop", kind))
    assert run(harness, "SELECT 1 AS id, 'a' AS name").status is TaskStatus.SUCCESS
    assert run(harness, "SELECT 2 AS id", "ds=2026-01-06").status is TaskStatus.SUCCESS
    assert harness.columns("$.sales") == {"id": "int", "ds": "string"}
    if kind == "iceberg":  # plain files keep what they were written with, and the catalog hides it
        assert harness.rows("$.sales") == [(1, "2026-01-05"), (2, "2026-01-06")]
    second = run(harness, "SELECT 3 AS id")
    assert (second.status, differences(second)) == (TaskStatus.SUCCESS, [])


@MORE
def test_a_merge_may_drop_a_column_too(harness: Harness) -> None:
    harness.project(
        """
@asset("$.sales", mode=merge(on=["id"]), on_missing_column="drop")
def sales(spark, ctx):
    return spark.sql(ctx.params["sql"])
"""
    )
    assert run(harness, "SELECT 1 AS id, 'a' AS name", "").status is TaskStatus.SUCCESS
    done = run(harness, "SELECT 2 AS id", "")
    assert done.status is TaskStatus.SUCCESS, done.error
    assert harness.columns("$.sales") == {"id": "int"}
    assert harness.rows("$.sales") == [(1,), (2,)]


@FORMATS
def test_a_table_without_rows_takes_the_types_of_the_result(harness: Harness, kind: str) -> None:
    harness.project(SALES.replace("FORMAT", kind))
    assert run(harness, "SELECT 1 AS id, 'a' AS name").status is TaskStatus.SUCCESS
    assert run(harness, "SELECT 1 AS id, 'a' AS name LIMIT 0").status is TaskStatus.SUCCESS
    done = run(harness, "SELECT 'one' AS id")
    assert done.status is TaskStatus.SUCCESS, done.error
    assert harness.columns("$.sales")["id"] == "string"
    assert differences(done) == [("id", "int", "string"), ("name", "string", None)]


@FORMATS
def test_a_column_of_another_type_is_refused_with_both_types(harness: Harness, kind: str) -> None:
    harness.project(SALES.replace("FORMAT", kind))
    assert run(harness, "SELECT 1 AS id").status is TaskStatus.SUCCESS
    error = refused(run(harness, "SELECT 'one' AS id"))
    assert "column 'id' is int in the table and string in the result" in error


@MORE
def test_a_date_will_do_as_the_column_of_a_day(harness: Harness) -> None:
    harness.project(SALES.replace("FORMAT", "iceberg"))
    days = "SELECT 1L AS id, DATE'2026-01-05' AS ds"
    assert run(harness, days).status is TaskStatus.SUCCESS
    assert run(harness, days).status is TaskStatus.SUCCESS
    assert harness.columns("$.sales") == {"id": "bigint", "ds": "date"}
    assert len(harness.rows("$.sales")) == 1


@MORE
def test_small_numbers_are_stored_as_iceberg_has_them(harness: Harness) -> None:
    harness.project(SALES.replace("FORMAT", "iceberg"))
    for _ in range(2):
        done = run(harness, "SELECT 1Y AS tiny, struct(2S AS a) AS nested")
        assert done.status is TaskStatus.SUCCESS, done.error
    assert harness.columns("$.sales")["nested"] == "struct<a:int>"


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SELECT 1 AS id, null AS nothing", "column 'nothing' has no type"),
        ("SELECT 1 AS id, 2 AS ID", "two columns called 'ID'"),
    ],
)
def test_a_result_that_no_table_can_hold_is_an_error(
    harness: Harness, sql: str, error: str
) -> None:
    harness.project(SALES.replace("FORMAT", "iceberg"))
    assert error in refused(run(harness, sql))


@MORE
def test_each_dimension_is_a_column(harness: Harness) -> None:
    harness.project(
        """
@asset("$.sales", partitions=[Daily("ds", start="2026-01-01"), Static("region", ["eu", "us"])])
def sales(spark):
    return spark.range(1)
"""
    )
    for region in ("eu", "us", "eu"):
        harness.materialize("$.sales", f"ds=2026-01-05/region={region}")
    assert harness.rows("$.sales") == [(0, "2026-01-05", "eu"), (0, "2026-01-05", "us")]


@MORE
def test_a_table_of_another_format_is_left_alone(harness: Harness) -> None:
    harness.project(SALES.replace("FORMAT", "parquet"))
    assert run(harness, "SELECT 1 AS id").status is TaskStatus.SUCCESS
    harness.project(SALES.replace("FORMAT", "iceberg"))
    assert "is a table of the format parquet" in refused(run(harness, "SELECT 1 AS id"))


CUTS = {
    "by day": 'partitions=Daily("ds", start="2026-01-01"), ',
    "by month": 'partitions=Monthly("month", start="2026-01"), ',
    "not at all": "",
}


@FORMATS
@pytest.mark.parametrize(
    ("before", "after", "partition"),
    [("by day", "by month", "month=2026-01"), ("not at all", "by day", DAY)],
)
def test_a_table_with_other_partition_columns_is_refused_and_stays(
    harness: Harness, kind: str, before: str, after: str, partition: str
) -> None:
    def cut(partitioning: str) -> str:
        return SALES.replace("FORMAT", kind).replace(CUTS["by day"], CUTS[partitioning])

    harness.project(cut(before))
    first = run(harness, "SELECT 1 AS id", DAY if before == "by day" else "")
    assert first.status is TaskStatus.SUCCESS, first.error
    was = harness.rows("$.sales")
    harness.project(cut(after))
    error = refused(run(harness, "SELECT 7 AS id", partition))
    if (
        "files with rows" not in error
    ):  # an unpartitioned table of Iceberg is met when it is published
        assert f"`arco partitions clear {harness.name('$.sales')} all`" in error
    assert f"`arco table drop {harness.name('$.sales')}`" in error
    assert [row[: len(was[0])] for row in harness.rows("$.sales")] == was


def test_two_partitions_may_bring_the_same_new_column_at_the_same_time(harness: Harness) -> None:
    harness.project(SALES.replace("FORMAT", "iceberg"))
    assert run(harness, "SELECT 1 AS id").status is TaskStatus.SUCCESS
    catalogs = IcebergCatalogs(harness.spark)
    one, other = (catalogs.load(harness.name("$.sales")) for _ in range(2))
    assert one is not None
    assert other is not None
    catalogs.widen(one, (StructField("size", LongType()),))
    catalogs.widen(other, (StructField("size", LongType()), StructField("more", LongType())))
    columns = other.java.schema().columns()
    assert [str(each.name()) for each in columns] == ["id", "ds", "size", "more"]


COPY = """
@asset("$.copy", partitions=Daily("ds", start="2026-01-01"))
def copy(sales):
    return sales.where("size > 0")
"""


def test_columns_that_were_renamed_or_dropped_by_hand_are_read_as_they_are_now(
    harness: Harness,
) -> None:
    harness.project(SALES.replace("FORMAT", "iceberg") + COPY)
    assert run(harness, "SELECT 1 AS id, 2 AS amount, 'x' AS email").status is TaskStatus.SUCCESS
    table = harness.name("$.sales")
    harness.spark.sql(f"ALTER TABLE {table} RENAME COLUMN amount TO size")
    harness.spark.sql(f"ALTER TABLE {table} DROP COLUMN email")
    harness.materialize("$.copy", DAY)
    assert list(harness.columns("$.copy")) == ["id", "size", "ds"]
    assert harness.rows("$.copy") == [(1, 2, "2026-01-05")]


def test_a_dropped_table_is_described_again_when_it_is_recreated(harness: Harness) -> None:
    harness.project(SALES.replace('format="FORMAT"', 'description="All of them."'))
    for _ in range(2):
        outcome = harness.run("$.sales", DAY, params={"sql": "SELECT 1 AS id"}, at=-1)
        assert outcome.status is TaskStatus.SUCCESS, outcome.error
        error = harness.shared.catalog.arco.transport.get(
            f"/catalogs/default/schemas/{harness.schema}/tables/sales"
        )
        assert b'"comment":"All of them."' in error
        harness.spark.sql(f"DROP TABLE {harness.schema}.sales")
