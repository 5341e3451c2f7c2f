"""How a result fits its table: partition columns, new columns, columns that are missing or different."""

import pytest
from pyspark.sql.types import LongType, StructField

from arco.flow.run.wire import Outcome, TaskStatus
from arco.flow.spark.iceberg_table import IcebergCatalogs
from tests.flow.spark.house import DAY, House

MORE = pytest.mark.interop  # takes its time, and shows the same in the other format
FORMATS = pytest.mark.parametrize("kind", ["iceberg", pytest.param("parquet", marks=MORE)])

SALES = """
@asset("$.sales", partitions=Daily("ds", start="2026-01-01"), format="FORMAT")
def sales(spark, ctx):
    return spark.sql(ctx.params["sql"])
"""


def run(house: House, sql: str, partition: str = DAY) -> Outcome:
    return house.run("$.sales", partition, params={"sql": sql})


def refused(outcome: Outcome) -> str:
    assert outcome.status is TaskStatus.FAILED
    assert not outcome.may_retry
    assert all(each.version is None for each in outcome.outputs)
    return outcome.error or ""


@FORMATS
def test_rows_of_another_partition_are_refused_and_nothing_is_published(
    house: House, kind: str
) -> None:
    house.project(SALES.replace("FORMAT", kind))
    assert run(house, "SELECT 1 AS id").status is TaskStatus.SUCCESS
    told = refused(
        run(house, "SELECT INT(id), IF(id < 2, '2026-01-05', '2026-01-08') AS ds FROM range(3)")
    )
    assert "1 of 3 rows do not belong to ds=2026-01-05, such as one with ds=2026-01-08" in told
    assert house.rows("$.sales") == [(1, "2026-01-05")]


@FORMATS
def test_a_table_gets_the_new_columns_of_a_result_and_null_for_those_that_it_lacks(
    house: House, kind: str
) -> None:
    house.project(missing_column("null", kind))
    assert run(house, "SELECT 1 AS id, 'a' AS name").status is TaskStatus.SUCCESS
    wider = run(house, "SELECT 2 AS id, array(1D) AS sizes", "ds=2026-01-06")
    assert wider.status is TaskStatus.SUCCESS, wider.error
    assert house.columns("$.sales") == {
        "id": "int",
        "name": "string",
        "ds": "string",
        "sizes": "array<double>",
    }
    assert house.rows("$.sales") == [
        (1, "a", "2026-01-05", None),
        (2, None, "2026-01-06", [1.0]),
    ]


def missing_column(what: str, kind: str) -> str:
    return SALES.replace("FORMAT", kind).replace("format=", f'on_missing_column="{what}", format=')


def differences(outcome: Outcome) -> list[tuple[str, str | None, str | None]]:
    return [(each.column, each.before, each.after) for each in outcome.column_changes]


@FORMATS
def test_a_column_that_the_result_lacks_is_refused_and_nothing_is_published(
    house: House, kind: str
) -> None:
    house.project(SALES.replace("FORMAT", kind))
    assert run(house, "SELECT 1 AS id, 'a' AS name").status is TaskStatus.SUCCESS
    lacking = run(house, "SELECT 2 AS id, true AS is_new")
    told = refused(lacking)
    assert "the result lacks the column 'name', which the table has: return it" in told
    assert "on_missing_column='null'" in told
    assert "on_missing_column='drop'" in told
    assert differences(lacking) == [("is_new", None, "boolean"), ("name", "string", None)]
    assert house.rows("$.sales") == [(1, "a", "2026-01-05")]


@FORMATS
def test_a_column_that_the_result_lacks_is_dropped_if_that_is_declared(
    house: House, kind: str
) -> None:
    house.project(missing_column("drop", kind))
    assert run(house, "SELECT 1 AS id, 'a' AS name").status is TaskStatus.SUCCESS
    assert run(house, "SELECT 2 AS id", "ds=2026-01-06").status is TaskStatus.SUCCESS
    assert house.columns("$.sales") == {"id": "int", "ds": "string"}
    if kind == "iceberg":  # plain files keep what they were written with, and the catalog hides it
        assert house.rows("$.sales") == [(1, "2026-01-05"), (2, "2026-01-06")]
    again = run(house, "SELECT 3 AS id")
    assert (again.status, differences(again)) == (TaskStatus.SUCCESS, [])


@MORE
def test_a_merge_may_drop_a_column_too(house: House) -> None:
    house.project(
        """
@asset("$.sales", mode=merge(on=["id"]), on_missing_column="drop")
def sales(spark, ctx):
    return spark.sql(ctx.params["sql"])
"""
    )
    assert run(house, "SELECT 1 AS id, 'a' AS name", "").status is TaskStatus.SUCCESS
    done = run(house, "SELECT 2 AS id", "")
    assert done.status is TaskStatus.SUCCESS, done.error
    assert house.columns("$.sales") == {"id": "int"}
    assert house.rows("$.sales") == [(1,), (2,)]


@FORMATS
def test_a_table_without_rows_takes_the_types_of_the_result(house: House, kind: str) -> None:
    house.project(SALES.replace("FORMAT", kind))
    assert run(house, "SELECT 1 AS id, 'a' AS name").status is TaskStatus.SUCCESS
    assert run(house, "SELECT 1 AS id, 'a' AS name LIMIT 0").status is TaskStatus.SUCCESS
    done = run(house, "SELECT 'one' AS id")
    assert done.status is TaskStatus.SUCCESS, done.error
    assert house.columns("$.sales")["id"] == "string"
    assert differences(done) == [("id", "int", "string"), ("name", "string", None)]


@FORMATS
def test_a_column_of_another_type_is_refused_with_both_types(house: House, kind: str) -> None:
    house.project(SALES.replace("FORMAT", kind))
    assert run(house, "SELECT 1 AS id").status is TaskStatus.SUCCESS
    told = refused(run(house, "SELECT 'one' AS id"))
    assert "column 'id' is int in the table and string in the result" in told


@MORE
def test_a_date_will_do_as_the_column_of_a_day(house: House) -> None:
    house.project(SALES.replace("FORMAT", "iceberg"))
    days = "SELECT 1L AS id, DATE'2026-01-05' AS ds"
    assert run(house, days).status is TaskStatus.SUCCESS
    assert run(house, days).status is TaskStatus.SUCCESS
    assert house.columns("$.sales") == {"id": "bigint", "ds": "date"}
    assert len(house.rows("$.sales")) == 1


@MORE
def test_small_numbers_are_stored_as_iceberg_has_them(house: House) -> None:
    house.project(SALES.replace("FORMAT", "iceberg"))
    for _ in range(2):
        done = run(house, "SELECT 1Y AS tiny, struct(2S AS a) AS nested")
        assert done.status is TaskStatus.SUCCESS, done.error
    assert house.columns("$.sales")["nested"] == "struct<a:int>"


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT 1 AS id, null AS nothing", "column 'nothing' has no type"),
        ("SELECT 1 AS id, 2 AS ID", "two columns called 'ID'"),
    ],
)
def test_what_no_table_can_hold_is_told(house: House, sql: str, told: str) -> None:
    house.project(SALES.replace("FORMAT", "iceberg"))
    assert told in refused(run(house, sql))


@MORE
def test_each_dimension_is_a_column(house: House) -> None:
    house.project(
        """
@asset("$.sales", partitions=[Daily("ds", start="2026-01-01"), Static("region", ["eu", "us"])])
def sales(spark):
    return spark.range(1)
"""
    )
    for region in ("eu", "us", "eu"):
        house.made("$.sales", f"ds=2026-01-05/region={region}")
    assert house.rows("$.sales") == [(0, "2026-01-05", "eu"), (0, "2026-01-05", "us")]


@MORE
def test_a_table_of_another_format_is_left_alone(house: House) -> None:
    house.project(SALES.replace("FORMAT", "parquet"))
    assert run(house, "SELECT 1 AS id").status is TaskStatus.SUCCESS
    house.project(SALES.replace("FORMAT", "iceberg"))
    assert "is a table of the format parquet" in refused(run(house, "SELECT 1 AS id"))


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
def test_a_table_that_was_cut_otherwise_is_refused_and_stays_as_it_is(
    house: House, kind: str, before: str, after: str, partition: str
) -> None:
    def cut(how: str) -> str:
        return SALES.replace("FORMAT", kind).replace(CUTS["by day"], CUTS[how])

    house.project(cut(before))
    first = run(house, "SELECT 1 AS id", DAY if before == "by day" else "")
    assert first.status is TaskStatus.SUCCESS, first.error
    was = house.rows("$.sales")
    house.project(cut(after))
    told = refused(run(house, "SELECT 7 AS id", partition))
    if (
        "files with rows" not in told
    ):  # an unpartitioned table of Iceberg is met when it is published
        assert f"`arco partitions clear {house.name('$.sales')} all`" in told
    assert f"`arco table drop {house.name('$.sales')}`" in told
    assert [row[: len(was[0])] for row in house.rows("$.sales")] == was


def test_two_partitions_may_bring_the_same_new_column_at_the_same_time(house: House) -> None:
    house.project(SALES.replace("FORMAT", "iceberg"))
    assert run(house, "SELECT 1 AS id").status is TaskStatus.SUCCESS
    catalogs = IcebergCatalogs(house.spark)
    one, other = (catalogs.load(house.name("$.sales")) for _ in range(2))
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
    house: House,
) -> None:
    house.project(SALES.replace("FORMAT", "iceberg") + COPY)
    assert run(house, "SELECT 1 AS id, 2 AS amount, 'x' AS email").status is TaskStatus.SUCCESS
    table = house.name("$.sales")
    house.spark.sql(f"ALTER TABLE {table} RENAME COLUMN amount TO size")
    house.spark.sql(f"ALTER TABLE {table} DROP COLUMN email")
    house.made("$.copy", DAY)
    assert list(house.columns("$.copy")) == ["id", "size", "ds"]
    assert house.rows("$.copy") == [(1, 2, "2026-01-05")]


def test_a_table_that_was_dropped_is_described_again_when_it_is_made_again(house: House) -> None:
    house.project(SALES.replace('format="FORMAT"', 'description="All of them."'))
    for _ in range(2):
        made = house.run("$.sales", DAY, params={"sql": "SELECT 1 AS id"}, at=-1)
        assert made.status is TaskStatus.SUCCESS, made.error
        told = house.shared.lake.arco.transport.get(
            f"/catalogs/default/schemas/{house.schema}/tables/sales"
        )
        assert b'"comment":"All of them."' in told
        house.spark.sql(f"DROP TABLE {house.schema}.sales")
