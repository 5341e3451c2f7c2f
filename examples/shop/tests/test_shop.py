"""The functions of the shop, called like any other functions: no Arco is needed for that."""

from decimal import Decimal

from pipelines import generate
from pipelines.gold import conversion, spend_7d
from pipelines.silver import clean_customers, clean_orders, few_are_late
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def raw_orders(spark: SparkSession, *rows: tuple[str, int | None, str, str]) -> DataFrame:
    columns = "order_id string, customer_id bigint, amount string, ordered_at string, ds string"
    dated = spark.createDataFrame([(*row, "2026-01-05") for row in rows], columns)
    return dated.withColumn("ordered_at", F.to_timestamp("ordered_at"))


def test_an_order_is_kept_once_and_broken_ones_are_dropped(spark: SparkSession) -> None:
    noon = "2026-01-05 12:00:00"
    raw = raw_orders(
        spark,
        ("a", 1, "12.50", noon),
        ("a", 1, "12.50", noon),
        ("b", None, "3.00", noon),
        ("c", 2, "n/a", noon),
        ("d", 2, "-4.00", noon),
    )

    assert [(row.order_id, row.amount) for row in clean_orders(raw).collect()] == [
        ("a", Decimal("12.50"))
    ]


def test_an_order_of_the_day_before_is_late(spark: SparkSession) -> None:
    raw = raw_orders(
        spark, ("a", 1, "1.00", "2026-01-05 00:00:00"), ("b", 1, "1.00", "2026-01-04 23:59:59")
    )

    found = {row.order_id: row.is_late for row in clean_orders(raw).collect()}
    assert found == {"a": False, "b": True}


def test_the_warning_tells_the_share_of_late_orders(spark: SparkSession) -> None:
    judged = few_are_late(spark.createDataFrame([(True,), (False,)], "is_late boolean"))

    assert not judged.passed
    assert judged.actual == "50.0%"


def test_silver_does_not_know_who_a_customer_is(spark: SparkSession) -> None:
    columns = set(clean_customers(generate.customers(spark)).columns)

    assert not columns & {"name", "email", "phone"}


def test_spend_is_counted_by_country(spark: SparkSession) -> None:
    orders = spark.createDataFrame([(1, 2.0), (1, 3.0), (2, 4.0)], "customer_id int, amount double")
    customers = spark.createDataFrame([(1, "DE"), (2, "FR")], "customer_id int, country string")

    found = {row.country: (row.spend, row.buyers) for row in spend_7d(orders, customers).collect()}
    assert found == {"DE": (5.0, 1), "FR": (4.0, 1)}


def test_a_session_converts_once_however_much_it_buys(spark: SparkSession) -> None:
    events = spark.createDataFrame(
        [("s1", "view"), ("s1", "purchase"), ("s1", "purchase"), ("s2", "view")],
        "session_id string, event string",
    )
    orders = spark.createDataFrame([(Decimal("1.00"),)], "amount decimal(10, 2)")

    assert conversion(events, orders).first().rate == 0.5


def test_the_data_are_the_same_whenever_they_are_made(spark: SparkSession) -> None:
    day = generate.LATE_DELIVERY
    assert (
        generate.orders(spark, day).exceptAll(generate.orders(spark, day).repartition(7)).isEmpty()
    )
