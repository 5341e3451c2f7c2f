"""Raw: what came in, as it came. In a real shop these would be sources that something else fills."""

from pipelines import generate
from pyspark.sql import DataFrame, SparkSession

from arco import Context, Daily, asset
from arco import checks as c

DAYS = Daily("ds", start=generate.FIRST_DAY, end=generate.AFTER_LAST_DAY)


@asset("raw.customers", tags=["pii"], owner="group:crm", checks=[c.row_count(min=1)])
def customers(spark: SparkSession) -> DataFrame:
    """One row a customer. Personal data: name, email, phone."""
    return generate.customers(spark)


@asset("raw.orders", partitions=DAYS, owner="group:sales")
def orders(ctx: Context, spark: SparkSession) -> DataFrame:
    """The orders that came in on a day, with all their faults."""
    return generate.orders(spark, ctx.partition["ds"])


@asset("raw.web_events", partitions=DAYS, owner="group:web")
def web_events(ctx: Context, spark: SparkSession) -> DataFrame:
    """The clicks of a day."""
    return generate.web_events(spark, ctx.partition["ds"])
