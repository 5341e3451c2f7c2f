"""Cases as people write them every day: several steps in one query, and values inside values."""

from typing import TYPE_CHECKING

from tests.flow.lineage.expected_lineage import (
    AGG,
    CASE,
    CAST,
    DIRECT,
    EXPR,
    UNKNOWN,
    WIN,
    Case,
    Sources,
    by,
)
from tests.flow.lineage.queries import sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def orders(*columns: str, transformation: str = DIRECT) -> Sources:
    return {f"orders.{name}": transformation for name in columns}


def customers(*columns: str, transformation: str = DIRECT) -> Sources:
    return {f"customers.{name}": transformation for name in columns}


def cleaned(session: "SparkSession") -> "DataFrame":
    filled = session.table("customers").fillna({"region": "?"}).dropna(subset=["name"])
    return filled.replace("eu", "EU", subset=["region"]).drop("parent_id")


def renamed_struct(session: "SparkSession") -> "DataFrame":
    from pyspark.sql import functions as fn

    pair = fn.struct(fn.col("status").alias("s"), fn.col("amount").alias("a")).alias("pair")
    packed = session.table("orders").select(pair, "address", "status")
    changed = fn.col("address").withField("zip", fn.col("status")).alias("address")
    return packed.select(fn.col("pair.s").alias("state"), fn.col("pair.a").alias("paid"), changed)


def exploded_structs(session: "SparkSession") -> "DataFrame":
    from pyspark.sql import functions as fn

    lines = session.table("orders").select("id", "amount", fn.explode("items").alias("item"))
    return lines.select("id", "item.sku", (fn.col("item.qty") * fn.col("amount")).alias("worth"))


def missing_columns(session: "SparkSession") -> "DataFrame":
    orders = session.table("orders").select("id", "status")
    return orders.unionByName(session.table("customers").select("name", "id"), True)


def pivot_of_unknown_values(session: "SparkSession") -> "DataFrame":
    return session.table("orders").groupBy("customer_id").pivot("status").sum("amount")


def mapped_then_filtered(session: "SparkSession") -> "DataFrame":
    orders = session.table("orders").select("id", "amount")
    mapped = orders.mapInPandas(lambda frames: frames, "id bigint, amount double")
    return mapped.where("amount > 1").selectExpr("id + 1 as next")


def with_arguments(session: "SparkSession") -> "DataFrame":
    return session.sql(
        "select id, amount * :rate as x from orders where status = :status",
        args={"rate": 2, "status": "paid"},
    )


COMPOSITE_QUERIES = (
    Case(
        "nested CTE with a window, joined by using",
        {"id": orders("customer_id"), "name": customers("name"), "order_id": orders("id")},
        by("JOIN", "orders.customer_id", "customers.id")
        | by("FILTER", "orders.customer_id", "orders.amount"),
        frame=sql(
            """with a as (select id as order_id, customer_id as id, amount from orders),
                    b as (select *, row_number() over (partition by id order by amount) as n from a)
               select id, name, order_id from b join customers using (id) where n = 1"""
        ),
    ),
    Case(
        "union of aggregates",
        {"v": {**orders("amount", transformation=AGG), **customers("id", transformation=AGG)}},
        frame=sql(
            """select 'o' as what, sum(amount) as v from orders
               union all select 'c', count(id) from customers"""
        ),
    ),
    Case(
        "shared union joined with itself",
        {
            "id": {**orders("id"), **customers("id")},
            "label": {**orders("status"), **customers("name")},
        },
        by("GROUP_BY", "orders.id", "orders.status", "customers.id", "customers.name")
        | by("JOIN", "orders.id", "customers.id")
        | by("FILTER", "orders.status", "customers.name"),
        frame=sql(
            """with u as (select id, status as label from orders union select id, name from customers)
               select a.id, b.label from u a join u b on a.id = b.id where a.label <> 'z'"""
        ),
    ),
    Case(
        "exists as a value, and several columns in a subquery",
        {"id": customers("id")},
        by("FILTER", "orders.customer_id", "customers.id", "customers.region"),
        frame=sql(
            """select id, case when exists (select 1 from orders o where o.customer_id = c.id)
                               then 1 else 0 end as has
               from customers c where (id, region) in (select customer_id, 'eu' from orders)"""
        ),
    ),
    Case(
        "lag, lead and a named window",
        {
            "gain": orders("amount", "customer_id", "id", transformation=WIN),
            "after": orders("email", "customer_id", "id", transformation=WIN),
            "place": orders("ds", transformation=WIN),
        },
        frame=sql(
            """select amount - lag(amount) over w as gain, lead(email) over w as after,
                      rank() over (order by ds) as place
               from orders window w as (partition by customer_id order by id)"""
        ),
    ),
    Case(
        "aggregates with a filter and by another column",
        {
            "best": orders("status", "amount", transformation=AGG),
            "mails": orders("email", transformation=AGG),
            "paid": orders("amount", "status", transformation=AGG),
            "ids": orders("id", transformation=AGG),
        },
        frame=sql(
            """select max_by(status, amount) as best, count(distinct email) as mails,
                      sum(amount) filter (where status = 'paid') as paid, collect_list(id) as ids
               from orders"""
        ),
    ),
    Case(
        "maps, JSON and functions that try",
        {
            "keys": orders("status", "email", transformation=EXPR),
            "json": orders("id", "status", transformation=EXPR),
            "k": orders("payload", transformation=EXPR),
            "v": orders("payload", transformation=EXPR),
            "ratio": orders("amount", "id", transformation=EXPR),
            "number": orders("email", transformation=CAST),
        },
        frame=sql(
            """select map_keys(map(status, email)) as keys, to_json(struct(id, status)) as json, t.k,
                      variant_get(parse_json(payload), '$.k', 'int') as v,
                      try_divide(amount, id) as ratio, try_cast(email as int) as number
               from orders lateral view json_tuple(payload, 'k') t as k"""
        ),
    ),
    Case(
        "structs in structs",
        {
            "whole": orders("id", "status", "email", transformation=EXPR),
            "inner": orders("status", "email", transformation=EXPR),
            "mail": orders("email"),
        },
        frame=sql(
            """select s as whole, s.b as inner, s.b.d as mail from (select named_struct(
                 'a', id, 'b', named_struct('c', status, 'd', email)) as s from orders)"""
        ),
    ),
    Case(
        "struct taken apart, one field of a stored one replaced",
        {
            "state": orders("status"),
            "paid": orders("amount"),
            "address": orders("address", "status", transformation=EXPR),
        },
        frame=renamed_struct,
    ),
    Case(
        "fields of structs that were exploded",
        {
            "id": orders("id"),
            "sku": orders("items", transformation=EXPR),
            "worth": orders("items", "amount", transformation=EXPR),
        },
        frame=exploded_structs,
    ),
    Case(
        "nulls filled, rows dropped, values replaced",
        {
            "id": customers("id"),
            "name": customers("name"),
            "region": customers("region", transformation=CASE),
        },
        by("FILTER", "customers.name"),
        frame=cleaned,
    ),
    Case(
        "union by name where columns are missing",
        {
            "id": {**orders("id"), **customers("id")},
            "status": orders("status"),
            "name": customers("name"),
        },
        frame=missing_columns,
    ),
    Case(
        "pivot whose values are looked up first",
        {
            "customer_id": orders("customer_id"),
            "paid": orders("amount", "status", transformation=AGG),
            "open": orders("amount", "status", transformation=AGG),
        },
        by("GROUP_BY", "orders.customer_id", "orders.status"),
        frame=pivot_of_unknown_values,
    ),
    Case(
        "map in pandas, then filtered",
        {"next": orders("id", "amount", transformation=UNKNOWN)},
        by("FILTER", "orders.id", "orders.amount"),
        soundness="opaque",
        frame=mapped_then_filtered,
    ),
    Case(
        "query with arguments",
        {"id": orders("id"), "x": orders("amount", transformation=EXPR)},
        by("FILTER", "orders.status"),
        frame=with_arguments,
    ),
)
