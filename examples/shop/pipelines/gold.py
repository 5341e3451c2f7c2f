"""Gold: what people ask for. `daily_sales.sql` belongs to it too."""

from pipelines.generate import AFTER_LAST_DAY
from pipelines.raw import DAYS
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arco import Context, Daily, Weekly, asset, table, task
from arco import checks as c


@asset(
    "gold.spend_7d",
    partitions=Daily("ds", start="2026-01-11", end=AFTER_LAST_DAY),  # the first with seven days
    checks=[c.not_null("country"), c.expr("spend > 0")],
    tags=["gold"],
)
def spend_7d(
    orders: DataFrame = table("silver.orders", window=7),  # this day and the six before it
    customers: DataFrame = table("silver.customers"),
) -> DataFrame:
    """What the customers of a country have spent in seven days."""
    return (
        orders.join(customers, "customer_id")
        .groupBy("country")
        .agg(F.sum("amount").alias("spend"), F.countDistinct("customer_id").alias("buyers"))
    )


@asset("gold.conversion", partitions=DAYS, tags=["gold"])
def conversion(
    web_events: DataFrame = table("silver.web_events"),
    orders: DataFrame = table("silver.orders"),
) -> DataFrame:
    """How many of a day's sessions ended with a purchase, and what was sold."""
    visits = web_events.agg(
        F.countDistinct("session_id").alias("sessions"),
        F.countDistinct(F.when(F.col("event") == "cart", F.col("session_id"))).alias("with_cart"),
        F.countDistinct(F.when(F.col("event") == "purchase", F.col("session_id"))).alias("bought"),
    )
    sold = orders.agg(F.count("*").alias("orders"), F.sum("amount").alias("revenue"))
    return visits.crossJoin(sold).withColumn("rate", F.col("bought") / F.col("sessions"))


@asset(
    "gold.weekly_sales",
    partitions=Weekly("week", start="2026-W02", end="2026-W04"),
    tags=["gold"],
)
def weekly_sales(daily_sales: DataFrame = table("gold.daily_sales")) -> DataFrame:
    """The days of a week added up."""
    return daily_sales.groupBy("country").agg(
        F.sum("orders").alias("orders"), F.sum("revenue").alias("revenue")
    )


@task(reads=["gold.weekly_sales"], tags=["gold"])
def report(ctx: Context, spark: SparkSession) -> None:
    """Tell the best countries, in the log of the task."""
    best = (
        spark.table("weekly_sales")  # a table of `reads`, under its own name
        .groupBy("country")
        .agg(F.sum("revenue").alias("revenue"))
        .orderBy(F.desc("revenue"))
        .collect()
    )
    for row in best:
        ctx.log.info("%s: %s", row["country"], row["revenue"])
    ctx.metric("countries", len(best))
