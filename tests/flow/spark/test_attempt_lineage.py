"""The lineage of tasks, and undeclared inputs."""

import pytest

from arco.flow.coordinator.messages import TaskStatus
from tests.flow.spark.harness import Harness, RecordingWatch

CODE = """
@asset("$.customers", format="FORMAT")
def customers(spark):
    return spark.range(3).selectExpr("id AS customer", "'eu' AS region")

@asset("$.orders", format="FORMAT")
def orders(spark):
    return spark.range(5).selectExpr("id", "id % 3 AS customer", "id * 2 AS amount")

@asset("$.spend", format="FORMAT")
def spend(orders, customers):
    return orders.join(customers, "customer").groupBy("region").agg(F.sum("amount").alias("spend"))
"""
SLY = """
@asset("$.sly", strict=STRICT)
def sly(orders, spark):
    return orders.join(spark.table("$.customers"), "customer")
"""


@pytest.mark.parametrize("kind", [pytest.param("iceberg", marks=pytest.mark.interop), "parquet"])
def test_columns_are_traced_to_the_tables_they_come_from(harness: Harness, kind: str) -> None:
    harness.project(CODE.replace("FORMAT", kind))
    harness.materialize("$.customers")
    harness.materialize("$.orders")
    outcome = harness.materialize("$.spend")
    (observed,) = outcome.lineage
    ids = {
        name: harness.shared.catalog.find(harness.name(f"$.{name}"))
        for name in ("orders", "customers", "spend")
    }
    tables = {each.table_id: name for name, each in ids.items() if each is not None}
    assert observed.soundness == "exact"
    assert {tables.get(each.table_id or "") for each in observed.inputs} == {"orders", "customers"}
    assert [tables.get(each.table_id or "") for each in observed.outputs] == ["spend"]
    edges = {
        (tables.get(each.source_table_id or ""), each.source_name, each.target_name)
        for each in observed.column_edges
        if each.target_name != "*"
    }
    assert edges == {("customers", "region", "region"), ("orders", "amount", "spend")}
    assert all(each.source_column_id and each.source_table_id for each in observed.column_edges)
    assert outcome.rows_read == 8
    assert outcome.warnings == ()


DAYS = """
DAYS = Daily("ds", start="2026-01-01", end="2026-01-04")

@asset("$.sales", partitions=DAYS, format="FORMAT")
def sales(spark):
    return spark.range(4).selectExpr("id")

@asset("$.last_two", partitions=DAYS, format="FORMAT")
def last_two(sales=table("$.sales", window=2)):
    return sales.select("id").distinct()
"""


@pytest.mark.parametrize("kind", [pytest.param("iceberg", marks=pytest.mark.interop), "parquet"])
def test_the_partitions_that_were_read_are_known(harness: Harness, kind: str) -> None:
    harness.project(DAYS.replace("FORMAT", kind))
    for day in (1, 2, 3):
        harness.materialize("$.sales", f"ds=2026-01-0{day}")
    (observed,) = harness.materialize("$.last_two", "ds=2026-01-03").lineage
    assert [set(each.partitions) for each in observed.inputs] == [
        {"ds=2026-01-02", "ds=2026-01-03"}
    ]
    assert [each.partitions for each in observed.outputs] == [("ds=2026-01-03",)]


CUTS = """
SAME = Daily("ds", start="2026-01-01", end="2026-01-04")

@asset("$.plain", partitions=SAME, format="FORMAT")
def plain(sales):
    return sales.select("id")

@asset("$.whole", format="FORMAT")
def whole(sales=table("$.sales", partitions="all")):
    return sales.select("id", "ds")

@asset("$.joined", partitions=SAME, format="FORMAT")
def joined(sales):
    return sales.alias("a").join(sales.alias("b"), F.expr("a.id = b.id")).select("a.id")

@asset("$.own", partitions=SAME, format="FORMAT")
def own(sales=table("$.sales", window=2)):
    return sales.where("ds < '2026-01-03'").select("id")
"""
QUERY = """/*---
name: $.named
partitions: {daily: ds, start: 2026-01-01, end: 2026-01-04}
inputs: {both: {table: $.sales, window: 2}}
format: FORMAT
---*/
SELECT a.id, (SELECT count(*) FROM both) AS n FROM $.sales a WHERE a.id IN (SELECT id FROM $.sales)
"""


@pytest.mark.parametrize("kind", ["iceberg", pytest.param("parquet", marks=pytest.mark.interop)])
def test_filters_of_the_code_are_lineage_and_the_partition_filter_is_not(
    harness: Harness, kind: str
) -> None:
    query = {"pipelines/named.sql": QUERY.replace("FORMAT", kind)}
    harness.project((DAYS + CUTS).replace("FORMAT", kind), query)
    for day in (1, 2, 3):
        harness.materialize("$.sales", f"ds=2026-01-0{day}")

    read: dict[str, set[str]] = {}

    def edges(maker: str, partition: str = "ds=2026-01-03") -> set[str]:
        (observed,) = harness.materialize(maker, partition).lineage
        assert observed.soundness == "exact"
        read[maker] = {key for each in observed.inputs for key in each.partitions}
        return {
            f"{each.source_name} {each.transformation_type} {each.target_name}"
            for each in observed.column_edges
        }

    assert edges("$.plain") == {"id DIRECT id"}
    assert edges("$.whole", "") == {"id DIRECT id", "ds DIRECT ds"}
    assert edges("$.joined") == {"id DIRECT id", "id JOIN *"}
    assert edges("$.own") == {"id DIRECT id", "ds FILTER *"}
    assert edges("$.named") == {"id DIRECT id", "id FILTER *"}
    assert read["$.plain"] == read["$.joined"] == {"ds=2026-01-03"}


def test_an_input_that_was_not_declared_is_a_warning(harness: Harness) -> None:
    harness.project(CODE.replace("FORMAT", "iceberg") + SLY.replace("STRICT", "False"))
    harness.materialize("$.customers")
    harness.materialize("$.orders")
    watch = RecordingWatch()
    outcome = harness.execute(harness.lease("$.sly"), watch)
    warning = f"it reads {harness.name('$.customers')} without having declared it"
    assert outcome.warnings == (warning,)
    assert warning in watch.lines


def test_in_a_strict_asset_it_is_an_error_and_nothing_is_published(harness: Harness) -> None:
    harness.project(CODE.replace("FORMAT", "iceberg") + SLY.replace("STRICT", "True"))
    harness.materialize("$.customers")
    harness.materialize("$.orders")
    outcome = harness.run("$.sly")
    assert outcome.status is TaskStatus.FAILED
    assert "without having declared it" in (outcome.error or "")
    assert harness.rows("$.sly") == []


COUNTED = """
@asset("$.counted", partitions=DAYS, format="FORMAT")
def counted(sales=table("$.sales", window=2)):
    return sales.agg(F.count("*").alias("n"), F.max("id").alias("most"))
"""


@pytest.mark.interop
def test_partitions_that_were_answered_from_metadata_are_those_of_the_input(
    harness: Harness,
) -> None:
    harness.project((DAYS + COUNTED).replace("FORMAT", "iceberg"))
    for day in (1, 2, 3):
        harness.materialize("$.sales", f"ds=2026-01-0{day}")
    (observed,) = harness.materialize("$.counted", "ds=2026-01-03").lineage
    assert [set(each.partitions) for each in observed.inputs] == [
        {"ds=2026-01-02", "ds=2026-01-03"}
    ]
    assert observed.soundness == "exact"


PAST_QUERIES = """
@asset("$.past", format="FORMAT", checks=[c.unique("customer")])
def past(orders, customers):
    return customers.withColumn("orders", F.lit(orders.rdd.count()))

@asset("$.checked", format="FORMAT", checks=[c.unique("customer")])
def checked(customers):
    return customers
"""


def test_an_input_read_without_a_query_is_declared(harness: Harness) -> None:
    harness.project((CODE + PAST_QUERIES).replace("FORMAT", "parquet"))
    for name in ("customers", "orders"):
        harness.materialize(f"$.{name}")
    (observed,) = harness.materialize("$.past").lineage
    assert observed.soundness == "declared"
    assert {each.name for each in observed.inputs} == {
        harness.name("$.orders"),
        harness.name("$.customers"),
    }
    (observed,) = harness.materialize("$.checked").lineage
    assert observed.soundness == "exact"  # its check reads in another session


def test_the_error_for_a_parquet_table_by_name_says_how_to_read_it(harness: Harness) -> None:
    harness.project(CODE.replace("FORMAT", "parquet") + SLY.replace("STRICT", "False"))
    harness.materialize("$.customers")
    harness.materialize("$.orders")
    outcome = harness.run("$.sly")
    assert outcome.status is TaskStatus.FAILED
    assert outcome.error is not None
    assert outcome.error.startswith("AnalysisException: [TABLE_OR_VIEW_NOT_FOUND]")
    name = harness.name("$.customers")
    assert f"customers=table('{name}')" in outcome.error.splitlines()[-1]


TASK = """
@asset("$.orders")
def orders(spark):
    return spark.range(5).selectExpr("id", "id * 2 AS amount")

@task(reads=["$.orders"], writes=["$.model"])
def train(spark):
    TRAIN
"""
BY_SPARK = (
    """spark.sql("select max(amount) as best from orders").writeTo("$.model").createOrReplace()"""
)
BY_ITSELF = """spark.sql("create table if not exists $.model (best bigint) using iceberg")"""


@pytest.mark.interop
def test_what_a_task_writes_is_traced_to_what_it_reads(harness: Harness) -> None:
    harness.project(TASK.replace("TRAIN", BY_SPARK))
    harness.materialize("$.orders")
    (observed,) = harness.materialize("train").lineage
    assert observed.soundness == "exact"
    assert [each.name for each in observed.inputs] == [harness.name("$.orders")]
    assert [each.name for each in observed.outputs] == [harness.name("$.model")]
    assert [(each.source_name, each.target_name) for each in observed.column_edges] == [
        ("amount", "best")
    ]
    harness.project(TASK.replace("(spark):\n    TRAIN", "(ctx):\n    pass"))
    (declared,) = harness.materialize("train").lineage
    assert declared.soundness == "declared"
    assert [each.table_id for each in declared.inputs] == [
        each.table_id for each in observed.inputs
    ]
    assert [each.table_id for each in declared.outputs] == [
        each.table_id for each in observed.outputs
    ]


@pytest.mark.interop
def test_a_task_that_writes_without_spark_has_its_declared_lineage(harness: Harness) -> None:
    harness.project(TASK.replace("TRAIN", BY_ITSELF))
    harness.materialize("$.orders")
    (observed,) = harness.materialize("train").lineage
    assert observed.soundness == "table_only"
    assert [each.name for each in observed.inputs] == [harness.name("$.orders")]
