"""The queries of the matrix: functions that make a frame, or write by themselves."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from arco.flow.lineage import Dataset
from tests.flow.lineage.sample_tables import root_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sql(text: str) -> Any:
    """A frame by SQL."""
    return lambda session: session.sql(text)


def by_functions(session: "SparkSession") -> "DataFrame":
    from pyspark.sql import functions as fn

    orders, customers = session.table("orders"), session.table("customers")
    joined = orders.join(customers, orders.customer_id == customers.id)
    return (
        joined.where(fn.col("status") == "paid")
        .groupBy("region")
        .agg(fn.sum("amount").alias("spend"))
        .orderBy("region")
    )


def udf(session: "SparkSession") -> "DataFrame":
    from pyspark.sql import functions as fn

    longer = fn.udf(lambda name, amount: f"{name}{amount}", "string")
    return session.table("orders").select("id", longer("status", "amount").alias("label"))


def pandas_udf(session: "SparkSession") -> "DataFrame":
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.pandas import functions as pandas_functions

    def doubled(amounts: pd.Series) -> pd.Series:
        return amounts * 2

    pandas_udf: Any = pandas_functions.pandas_udf  # its types know no class of pandas
    twice = pandas_udf(doubled, "double")
    return session.table("orders").select("id", twice("amount").alias("twice"))


def map_in_pandas(session: "SparkSession") -> "DataFrame":
    def same(frames: Iterator[Any]) -> Iterator[Any]:
        for frame in frames:
            yield frame.set_axis(["key", "value"], axis=1)

    mapped: Any = same
    orders = session.table("orders").select("id", "amount")
    return orders.mapInPandas(mapped, "key bigint, value double")


def grouped_in_pandas(session: "SparkSession") -> "DataFrame":
    orders = session.table("orders").select("customer_id", "amount")
    return orders.groupBy("customer_id").applyInPandas(
        lambda frame: frame[["amount"]].set_axis(["value"], axis=1), "value double"
    )


def union_by_name(session: "SparkSession") -> "DataFrame":
    orders = session.table("orders").selectExpr("id", "status as label")
    customers = session.table("customers").selectExpr("name as label", "id")
    return orders.unionByName(customers)


def dedup(session: "SparkSession") -> "DataFrame":
    return session.table("orders").select("id", "email", "status").dropDuplicates(["email"])


def cached(session: "SparkSession") -> "DataFrame":
    paid = session.table("orders").where("status = 'paid'").cache()
    paid.count()
    return paid.selectExpr("id", "amount * 2 as twice")


def temp_view(session: "SparkSession") -> "DataFrame":
    session.sql("select id as key, upper(name) as shout from customers").createOrReplaceTempView(
        "v"
    )
    return session.sql("select key, shout from v where key > 1")


def pivot(session: "SparkSession") -> "DataFrame":
    orders = session.table("orders")
    grouped = orders.groupBy("customer_id")
    return grouped.pivot("status", ["paid", "open"]).sum("amount")  # noqa: PD010 - not pandas


def self_join(session: "SparkSession") -> "DataFrame":
    child, parent = session.table("customers").alias("c"), session.table("customers").alias("p")
    from pyspark.sql import functions as fn

    return child.join(parent, fn.col("c.parent_id") == fn.col("p.id"), "left").select(
        fn.col("c.name").alias("name"), fn.col("p.name").alias("parent")
    )


def by_path(session: "SparkSession") -> "DataFrame":
    events = session.read.parquet(str(root_of(session) / "events"))
    return events.where("p = 1").selectExpr("id", "k + 1 as next")


def from_objects(session: "SparkSession") -> "DataFrame":
    rates = session.createDataFrame([("eu", 1.5)], "region string, rate double")
    return session.table("customers").join(rates, "region").select("name", "rate")


def observed(session: "SparkSession") -> "DataFrame":
    from pyspark.sql import Observation
    from pyspark.sql import functions as fn

    paid = session.table("orders").select("id", "amount")
    return paid.observe(Observation("checks"), fn.count(fn.lit(1)).alias("rows"))


def cogrouped(session: "SparkSession") -> "DataFrame":
    orders = session.table("orders").select("customer_id", "amount")
    customers = session.table("customers").select("id")
    both = orders.groupBy("customer_id").cogroup(customers.groupBy("id"))
    return both.applyInPandas(lambda left, _right: left[["amount"]], "amount double")


def table_function(session: "SparkSession") -> "DataFrame":
    from pyspark.sql import functions as fn

    class Again:
        def eval(self, x: int) -> Iterator[tuple[int]]:
            yield (x,)

    udtf: Any = fn.udtf(Again, returnType="y bigint")
    session.udtf.register("again", udtf)
    return session.sql("select status, y from orders, lateral again(id)")


def map_in_arrow(session: "SparkSession") -> "DataFrame":
    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    mapped: Any = same
    return session.table("customers").select("id").mapInArrow(mapped, "id bigint")


def checkpointed(session: "SparkSession") -> "DataFrame":
    return session.table("customers").select("id").localCheckpoint()


def spread(session: "SparkSession") -> "DataFrame":
    orders, customers = session.table("orders"), session.table("customers").hint("broadcast")
    spread = orders.repartition(2, "status")
    return spread.join(customers, spread.customer_id == customers.id).select("status", "name")


def insert_by_name(session: "SparkSession") -> Dataset:
    session.sql("insert into spend by name select amount as total, id as customer_id from orders")
    return Dataset("shop.spend")


def delete(session: "SparkSession") -> Dataset:
    session.sql("delete from ice.db.ledger where id in (select parent_id from customers)")
    return Dataset("ice.db.ledger")


def staged(session: "SparkSession") -> Dataset:
    session.sql("create or replace table ice.db.audited (id bigint, ds date) using iceberg")
    session.sql("alter table ice.db.audited set tblproperties ('write.wap.enabled' = 'true')")
    session.conf.set("spark.wap.id", "attempt-1")
    session.sql("select id, ds from orders").writeTo("ice.db.audited").append()
    return Dataset("db.audited")


def to_a_branch(session: "SparkSession") -> Dataset:
    session.sql("create or replace table ice.db.branched (id bigint) using iceberg")
    session.sql("alter table ice.db.branched create branch audit")
    session.sql("insert into ice.db.branched.branch_audit select customer_id from orders")
    return Dataset("ice.db.branched")


def stored_view(session: "SparkSession") -> "DataFrame":
    session.sql("create or replace view loud as select id, upper(name) as shout from customers")
    return session.sql("select shout from loud")


def many_columns_added(session: "SparkSession") -> "DataFrame":
    from pyspark.sql import functions as fn

    frame = session.table("customers").select("id")
    for _ in range(150):
        frame = frame.withColumn("id", fn.col("id") + 1)
    return frame


def insert_by_position(session: "SparkSession") -> Dataset:
    session.sql("insert into spend select id, amount from orders")
    return Dataset("shop.spend")


def save_as_table(session: "SparkSession") -> Dataset:
    session.sql("drop table if exists saved")
    session.sql("select id, cast(amount as int) as whole from orders").write.saveAsTable("saved")
    return Dataset("spark_catalog.shop.saved")


def merge(session: "SparkSession") -> Dataset:
    session.sql(
        """
        merge into ice.db.ledger t
        using (select id, amount, upper(status) as label from orders) s
        on t.id = s.id
        when matched and s.amount > 15 then update set t.amount = s.amount + t.amount
        when not matched then insert (id, amount, note) values (s.id, s.amount, s.label)
        """
    )
    return Dataset("ice.db.ledger")


def update(session: "SparkSession") -> Dataset:
    session.sql(
        """update ice.db.ledger set amount = amount * 2, note = (select max(name) from customers)
           where id = 1"""
    )
    return Dataset("ice.db.ledger")


def merge_on_read(session: "SparkSession") -> Dataset:
    session.sql(
        """
        create or replace table ice.db.deltas (id bigint, amount double) using iceberg
        tblproperties ('format-version' = '2', 'write.merge.mode' = 'merge-on-read')
        """
    )
    session.sql("insert into ice.db.deltas values (1, 1.0)")
    session.sql(
        """
        merge into ice.db.deltas t using ice.db.sales s on t.id = s.id
        when matched then update set t.amount = s.amount
        when not matched then insert *
        """
    )
    return Dataset("ice.db.deltas")


def iceberg_dynamic(session: "SparkSession") -> Dataset:
    frame = session.sql(
        "select id, amount * 2 as amount, ds from orders where ds = date'2026-01-02'"
    )
    frame.writeTo("ice.db.sales").overwritePartitions()
    return Dataset("ice.db.sales")


def iceberg_by_filter(session: "SparkSession") -> Dataset:
    from pyspark.sql import functions as fn

    day = fn.lit("2026-01-03").cast("date")
    frame = session.sql("select id, amount, ds from orders where ds = date'2026-01-03'")
    frame.writeTo("ice.db.sales").overwrite(fn.col("ds") == day)
    return Dataset("ice.db.sales")


def iceberg_created(session: "SparkSession") -> Dataset:
    session.sql("drop table if exists ice.db.made")
    session.sql(
        """create table ice.db.made using iceberg as
           select id, sum(amount) total from ice.db.sales group by id"""
    )
    return Dataset("ice.db.made")


def iceberg_days(session: "SparkSession") -> "DataFrame":
    session.sql(
        """create or replace table ice.db.visits (id bigint, at timestamp) using iceberg
           partitioned by (days(at))"""
    )
    session.sql(
        """insert into ice.db.visits values
           (1, timestamp'2026-01-01 10:00:00'), (2, timestamp'2026-01-02 10:00:00'),
           (3, timestamp'2026-01-03 10:00:00')"""
    )
    return session.sql("select id from ice.db.visits where at > timestamp'2026-01-02 00:00:00'")
