"""The shop's data, made up: the same rows for the same day, wherever and however often they are made.

Values are drawn by hashing the number of a row, so they do not depend on how Spark spreads the work.
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

FIRST_DAY = "2026-01-05"
AFTER_LAST_DAY = "2026-01-15"

CUSTOMERS = 2_000
ORDERS_A_DAY = 3_000
EVENTS_A_DAY = 12_000

LATE_DELIVERY = "2026-01-12"  # a shop was offline: many of its orders came a day late
BROKEN_TRACKER = "2026-01-08"  # the web site forgot its sessions for some hours

_SEED = 20260105
_COUNTRIES = ("DE", "FR", "ES", "IT", "PL", "NL")
_NAMES = ("ana", "bob", "carla", "dmitri", "elif", "farid", "greta", "hugo", "ines", "jan")
_MAIL = ("example.com", "example.org", "mail.example", "post.example")
_PAGES = ("/", "/shoes", "/shirts", "/hats", "/sale", "/basket")


def draw(most: int, *salt: str) -> Column:
    """A number from 0 to `most`, not included: the same for the same row and salt."""
    drawn = F.xxhash64("id", F.lit(_SEED), *(F.lit(each) for each in salt))
    return F.pmod(drawn, F.lit(most))


def one_of(values: tuple[str, ...], *salt: str) -> Column:
    """One of a few values."""
    return F.element_at(F.array(*map(F.lit, values)), (draw(len(values), *salt) + 1).cast("int"))


def customers(spark: SparkSession) -> DataFrame:
    """All customers, with what the shop knows of them."""
    name = F.concat(one_of(_NAMES, "name"), F.lit("."), F.col("id").cast("string"))
    return spark.range(1, CUSTOMERS + 1).select(
        F.col("id").alias("customer_id"),
        name.alias("name"),
        F.concat(name, F.lit("@"), one_of(_MAIL, "mail")).alias("email"),
        F.concat(F.lit("+49 30 "), F.lpad(draw(10_000_000, "phone").cast("string"), 7, "0")).alias(
            "phone"
        ),
        one_of(_COUNTRIES, "country").alias("country"),
        F.date_sub(F.lit(FIRST_DAY).cast("date"), draw(900, "since").cast("int")).alias("since"),
    )


def orders(spark: SparkSession, ds: str) -> DataFrame:
    """The orders that came in on a day, as the tills wrote them: some late, some broken, some twice."""
    late = draw(100, ds, "late") < (14 if ds == LATE_DELIVERY else 2)
    broken = draw(200, ds, "broken")
    amount = (draw(18_000, ds, "amount") + 199) / 100
    once = (
        spark.range(ORDERS_A_DAY)
        .withColumn("order_id", F.concat(F.lit(f"{ds}-"), F.col("id").cast("string")))
        .withColumn("customer_id", F.when(broken != 0, draw(CUSTOMERS, ds, "who") + 1))
        .withColumn(
            "amount",
            F.when(broken == 1, F.lit("n/a"))
            .when(broken == 2, F.concat(F.lit("-"), amount.cast("string")))
            .otherwise(amount.cast("string")),
        )
        .withColumn("ordered_at", _moment(ds, late))
    )
    twice = once.where(draw(100, ds, "twice") == 0)
    return once.unionByName(twice).drop("id")


def web_events(spark: SparkSession, ds: str) -> DataFrame:
    """The clicks of a day; sessions are missing while the tracker is broken."""
    session = F.concat(F.lit(f"{ds}-s"), draw(EVENTS_A_DAY // 8, ds, "session").cast("string"))
    if ds == BROKEN_TRACKER:
        session = F.when(draw(10, ds, "lost") > 3, session)
    step = draw(100, ds, "step")
    return (
        spark.range(EVENTS_A_DAY)
        .withColumn("event_id", F.concat(F.lit(f"{ds}-e"), F.col("id").cast("string")))
        .withColumn("session_id", session)
        .withColumn("page", one_of(_PAGES, ds, "page"))
        .withColumn("event", F.when(step < 6, "purchase").when(step < 25, "cart").otherwise("view"))
        .withColumn("agent", F.when(draw(50, ds, "bot") == 0, "bot/1.0").otherwise("browser"))
        .withColumn("at", _moment(ds, F.lit(False)))
        .drop("id")
    )


def _moment(ds: str, late: Column) -> Column:
    """A second of the day, or of the day before."""
    second = draw(86_400, ds, "second") - F.when(late, 86_400).otherwise(0)
    return F.timestamp_seconds(F.unix_timestamp(F.lit(f"{ds} 00:00:00")) + second)
