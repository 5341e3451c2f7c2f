"""Silver: clean rows, with the checks that keep them so."""

from pipelines.raw import DAYS
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arco import Result, asset, check, table
from arco import checks as c

MOST_LATE = 0.05  # of a day's orders


@asset(
    "silver.customers",
    owner="group:crm",
    checks=[c.not_null("customer_id", "country"), c.unique("customer_id")],
)
def clean_customers(customers: DataFrame = table("raw.customers")) -> DataFrame:
    """Customers without what would tell who they are."""
    return customers.select(
        "customer_id",
        F.sha2("email", 256).alias("email_hash"),
        F.split("email", "@")[1].alias("email_domain"),
        "country",
        "since",
    )


@asset(
    "silver.orders",
    partitions=DAYS,
    owner="group:sales",
    checks=[
        c.not_null("order_id", "customer_id"),
        c.unique("order_id"),
        c.expr("amount > 0", name="amount_positive"),
        c.row_count(min=1),
    ],
)
def clean_orders(orders: DataFrame = table("raw.orders")) -> DataFrame:
    """Each order once, with an amount and a customer; what is late is marked."""
    return (
        orders.withColumn("amount", F.expr("try_cast(amount AS decimal(10, 2))"))
        .where("customer_id IS NOT NULL AND amount > 0")
        .dropDuplicates(["order_id"])
        .withColumn("is_late", F.to_date("ordered_at") < F.to_date("ds"))
    )


@check("silver.orders", severity="warn")
def few_are_late(orders: DataFrame) -> Result:
    """Of a day's orders at most 5 in 100 came late."""
    share = orders.agg(F.avg(F.col("is_late").cast("int"))).first()[0] or 0.0
    return Result(
        share <= MOST_LATE,
        expected=f"at most {MOST_LATE:.0%}",
        actual=f"{share:.1%}",
        message=f"{share:.1%} of the orders are late",
    )


@asset(
    "silver.web_events",
    partitions=DAYS,
    owner="group:web",
    checks=[
        c.not_null("session_id"),
        c.accepted_values("event", ["view", "cart", "purchase"]),
    ],
)
def clean_web_events(web_events: DataFrame = table("raw.web_events")) -> DataFrame:
    """Clicks of people: bots are left out."""
    return web_events.where("agent NOT LIKE 'bot/%'").drop("agent")
