"""The cases of the matrix: queries with their truth."""

from tests.flow.lineage import queries
from tests.flow.lineage.truth import AGG, CASE, CAST, DIRECT, EXPR, UNKNOWN, WIN, Case, by

CASES = (
    Case(
        "direct, cast, expression and literal",
        {
            "id": {"orders.id": DIRECT},
            "renamed": {"orders.status": DIRECT},
            "whole": {"orders.amount": CAST},
            "domain": {"orders.email": EXPR},
            "both": {"orders.amount": EXPR, "orders.id": EXPR},
            "one": {},
        },
        frame=queries.sql(
            """select id, status as renamed, cast(amount as int) as whole,
                      split(email, '@')[1] as domain, amount * id as both, 1 as one from orders"""
        ),
        tags=frozenset(("quick", "fixture")),
    ),
    Case(
        "case and if",
        {
            "size": {"orders.amount": CASE, "orders.status": CASE},
            "flag": {"orders.status": CASE, "orders.id": CASE},
        },
        frame=queries.sql(
            """select case when amount > 15 then status else 'small' end as size,
                      if(status = 'paid', id, 0) as flag from orders"""
        ),
    ),
    Case(
        "inner join with filter",
        {"id": {"orders.id": DIRECT}, "name": {"customers.name": DIRECT}},
        by("JOIN", "orders.customer_id", "customers.id") | by("FILTER", "orders.status"),
        frame=queries.sql(
            """select o.id, c.name from orders o join customers c on o.customer_id = c.id
               where o.status = 'paid'"""
        ),
        tags=frozenset(("quick",)),
    ),
    Case(
        "join using",
        {"id": {"orders.id": DIRECT}, "name": {"customers.name": DIRECT}},
        by("JOIN", "orders.id", "customers.id"),
        frame=queries.sql("select id, name from orders join customers using (id)"),
    ),
    Case(
        "natural full outer join",
        {
            "id": {"orders.id": EXPR, "customers.id": EXPR},
            "name": {"customers.name": DIRECT},
        },
        by("JOIN", "orders.id", "customers.id"),
        frame=queries.sql("select id, name from orders natural full outer join customers"),
    ),
    Case(
        "left outer and left anti join",
        {"id": {"orders.id": DIRECT}, "region": {"customers.region": DIRECT}},
        by("JOIN", "orders.customer_id", "customers.id", "orders.id", "customers.parent_id"),
        frame=queries.sql(
            """select o.id, c.region from orders o left join customers c on o.customer_id = c.id
               left anti join customers p on o.id = p.parent_id"""
        ),
    ),
    Case(
        "self join",
        {"name": {"customers.name": DIRECT}, "parent": {"customers.name": DIRECT}},
        by("JOIN", "customers.parent_id", "customers.id"),
        frame=queries.self_join,
    ),
    Case(
        "group by with having",
        {
            "customer_id": {"orders.customer_id": DIRECT},
            "total": {"orders.amount": AGG},
            "rows": {},
        },
        by("GROUP_BY", "orders.customer_id") | by("FILTER", "orders.id"),
        frame=queries.sql(
            """select customer_id, sum(amount) as total, count(*) as rows from orders
               group by customer_id having max(id) > 0"""
        ),
        tags=frozenset(("quick", "fixture")),
    ),
    Case(
        "the same by functions: join, filter, group, sort",
        {"region": {"customers.region": DIRECT}, "spend": {"orders.amount": AGG}},
        by("JOIN", "orders.customer_id", "customers.id")
        | by("FILTER", "orders.status")
        | by("GROUP_BY", "customers.region")
        | by("SORT", "customers.region"),
        frame=queries.by_functions,
        tags=frozenset(("quick",)),
    ),
    Case(
        "the same by SQL: join, filter, group, sort",
        {"region": {"customers.region": DIRECT}, "spend": {"orders.amount": AGG}},
        by("JOIN", "orders.customer_id", "customers.id")
        | by("FILTER", "orders.status")
        | by("GROUP_BY", "customers.region")
        | by("SORT", "customers.region"),
        frame=queries.sql(
            """select region, sum(amount) as spend from orders o join customers c
               on o.customer_id = c.id where status = 'paid' group by region order by region"""
        ),
    ),
    Case(
        "window",
        {
            "id": {"orders.id": DIRECT},
            "place": {"orders.customer_id": WIN, "orders.amount": WIN},
            "so_far": {"orders.customer_id": WIN, "orders.amount": WIN, "orders.ds": WIN},
        },
        frame=queries.sql(
            """select id, row_number() over (partition by customer_id order by amount) as place,
                      sum(amount) over (partition by customer_id order by ds) as so_far from orders"""
        ),
        tags=frozenset(("quick", "fixture")),
    ),
    Case(
        "union all",
        {
            "key": {"orders.id": DIRECT, "customers.id": DIRECT},
            "label": {"orders.status": DIRECT, "customers.name": EXPR},
        },
        frame=queries.sql(
            """select id as key, status as label from orders
               union all select id, upper(name) from customers"""
        ),
    ),
    Case(
        "union distinct",
        {"label": {"orders.status": DIRECT, "customers.name": DIRECT}},
        by("GROUP_BY", "orders.status", "customers.name"),
        frame=queries.sql("select status as label from orders union select name from customers"),
    ),
    Case(
        "union by name",
        {
            "id": {"orders.id": DIRECT, "customers.id": DIRECT},
            "label": {"orders.status": DIRECT, "customers.name": DIRECT},
        },
        frame=queries.union_by_name,
    ),
    Case(
        "intersect and except",
        {"id": {"orders.customer_id": DIRECT}},
        by("FILTER", "orders.customer_id", "customers.id", "customers.parent_id"),
        frame=queries.sql(
            """select customer_id as id from orders intersect all select id from customers
               except all select parent_id from customers"""
        ),
    ),
    Case(
        "common table expressions, one used twice",
        {"id": {"orders.id": DIRECT}, "share": {"orders.amount": AGG}},
        by("JOIN", "orders.customer_id") | by("GROUP_BY", "orders.customer_id"),
        frame=queries.sql(
            """with paid as (select id, customer_id, amount from orders),
                    sums as (select customer_id, sum(amount) as total from paid group by customer_id)
               select p.id, p.amount / s.total as share from paid p
               join sums s on p.customer_id = s.customer_id"""
        ),
    ),
    Case(
        "nested subqueries",
        {"twice": {"orders.amount": EXPR}},
        by("FILTER", "orders.amount", "orders.id"),
        frame=queries.sql(
            """select twice from (select id, twice from (select id, amount * 2 as twice from orders)
               where twice > 10) where id > 1"""
        ),
    ),
    Case(
        "scalar subquery",
        {"id": {"orders.id": DIRECT}, "least": {"customers.id": AGG}},
        frame=queries.sql("select id, (select min(id) from customers) as least from orders"),
    ),
    Case(
        "correlated scalar subquery",
        {"id": {"orders.id": DIRECT}, "who": {"customers.name": AGG}},
        by("FILTER", "customers.id", "orders.customer_id"),
        frame=queries.sql(
            """select id, (select max(name) from customers c where c.id = o.customer_id) as who
               from orders o"""
        ),
    ),
    Case(
        "in and not exists",
        {"id": {"orders.id": DIRECT}},
        by("FILTER", "orders.customer_id", "customers.id", "customers.region", "orders.id")
        | by("FILTER", "customers.parent_id"),
        frame=queries.sql(
            """select id from orders o
               where customer_id in (select id from customers where region = 'eu')
               and not exists (select 1 from customers c where c.parent_id = o.id)"""
        ),
        tags=frozenset(("quick", "fixture")),
    ),
    Case(
        "lateral join",
        {"id": {"orders.id": DIRECT}, "twice": {"orders.amount": EXPR}},
        frame=queries.sql(
            "select id, twice from orders, lateral (select orders.amount * 2 as twice)"
        ),
    ),
    Case(
        "explode",
        {"id": {"orders.id": DIRECT}, "tag": {"orders.tags": EXPR}},
        frame=queries.sql("select id, explode(tags) as tag from orders"),
    ),
    Case(
        "posexplode in a lateral view",
        {
            "id": {"orders.id": DIRECT},
            "at": {"orders.tags": EXPR},
            "tag": {"orders.tags": EXPR},
        },
        frame=queries.sql(
            "select id, at, tag from orders lateral view posexplode(tags) t as at, tag"
        ),
    ),
    Case(
        "inline of a stored array, and of one written out",
        {
            "sku": {"orders.items": EXPR},
            "first": {"orders.id": EXPR, "orders.customer_id": EXPR},
            "second": {"orders.amount": EXPR},
        },
        frame=queries.sql(
            """select sku, first, second from orders lateral view inline(items) i as sku, qty
               lateral view inline(array(
                 named_struct('a', id, 'b', amount), named_struct('a', customer_id, 'b', amount))) j
               as first, second"""
        ),
    ),
    Case(
        "stack",
        {"what": {}, "value": {"orders.amount": EXPR, "orders.id": EXPR}},
        frame=queries.sql(
            """select what, value from orders
               lateral view stack(2, 'amount', amount, 'id', cast(id as double)) s as what, value"""
        ),
    ),
    Case(
        "python function",
        {
            "id": {"orders.id": DIRECT},
            "label": {"orders.status": EXPR, "orders.amount": EXPR},
        },
        frame=queries.udf,
    ),
    Case(
        "pandas function",
        {"id": {"orders.id": DIRECT}, "twice": {"orders.amount": EXPR}},
        frame=queries.pandas_udf,
    ),
    Case(
        "map in pandas",
        {
            "key": {"orders.id": UNKNOWN, "orders.amount": UNKNOWN},
            "value": {"orders.id": UNKNOWN, "orders.amount": UNKNOWN},
        },
        soundness="opaque",
        frame=queries.map_in_pandas,
    ),
    Case(
        "apply in pandas by group",
        {"value": {"orders.customer_id": UNKNOWN, "orders.amount": UNKNOWN}},
        by("GROUP_BY", "orders.customer_id"),
        soundness="opaque",
        frame=queries.grouped_in_pandas,
    ),
    Case(
        "map in arrow",
        {"id": {"customers.id": UNKNOWN}},
        soundness="opaque",
        frame=queries.map_in_arrow,
    ),
    Case(
        "cogroup in pandas",
        {
            "amount": {
                "orders.customer_id": UNKNOWN,
                "orders.amount": UNKNOWN,
                "customers.id": UNKNOWN,
            }
        },
        by("GROUP_BY", "orders.customer_id", "customers.id"),
        soundness="opaque",
        frame=queries.cogrouped,
    ),
    Case(
        "table function of Python",
        {"status": {"orders.status": DIRECT}, "y": {"orders.id": UNKNOWN}},
        soundness="opaque",
        frame=queries.table_function,
    ),
    Case(
        "stored view",
        {"shout": {"customers.name": EXPR}},
        frame=queries.stored_view,
    ),
    Case(
        "pipe syntax",
        {"id": {"orders.id": DIRECT}, "twice": {"orders.amount": EXPR}},
        by("FILTER", "orders.id"),
        frame=queries.sql(
            "from orders |> where id > 1 |> extend amount * 2 as twice |> select id, twice"
        ),
    ),
    Case(
        "pivot",
        {
            "customer_id": {"orders.customer_id": DIRECT},
            "paid": {"orders.amount": AGG, "orders.status": AGG},
            "open": {"orders.amount": AGG, "orders.status": AGG},
        },
        by("GROUP_BY", "orders.customer_id", "orders.status"),
        frame=queries.pivot,
    ),
    Case(
        "unpivot",
        {
            "id": {"orders.id": DIRECT},
            "what": {},
            "value": {"orders.status": DIRECT, "orders.email": DIRECT},
        },
        by("FILTER", "orders.status", "orders.email"),
        frame=queries.sql(
            """select id, what, value from (select id, status, email from orders)
               unpivot (value for what in (status, email))"""
        ),
        tags=frozenset(("fixture",)),
    ),
    Case(
        "cube",
        {
            "region": {"customers.region": DIRECT},
            "name": {"customers.name": DIRECT},
            "most": {"customers.id": AGG},
        },
        by("GROUP_BY", "customers.region", "customers.name"),
        frame=queries.sql(
            "select region, name, max(id) as most from customers group by cube (region, name)"
        ),
        tags=frozenset(("quick",)),
    ),
    Case(
        "rollup",
        {
            "region": {"customers.region": DIRECT},
            "level": {},
            "most": {"customers.id": AGG},
        },
        by("GROUP_BY", "customers.region", "customers.name"),
        frame=queries.sql(
            """select region, grouping_id() as level, max(id) as most from customers
               group by rollup (region, name)"""
        ),
    ),
    Case(
        "grouping sets",
        {
            "region": {"customers.region": DIRECT},
            "name": {"customers.name": DIRECT},
            "rows": {"customers.id": AGG},
        },
        by("GROUP_BY", "customers.region", "customers.name"),
        frame=queries.sql(
            """select region, name, count(id) as rows from customers
               group by grouping sets ((region), (name))"""
        ),
    ),
    Case(
        "fields of structs, stored and made on the way",
        {
            "city": {"orders.address": EXPR},
            "number": {"orders.id": DIRECT},
            "label": {"orders.status": DIRECT},
            "all": {"orders.id": EXPR, "orders.status": EXPR},
        },
        frame=queries.sql(
            """select address.city as city, s.number as number, s.label as label, s as all
               from (select address, named_struct('number', id, 'label', status) as s from orders)"""
        ),
    ),
    Case(
        "drop duplicates",
        {
            "id": {"orders.id": DIRECT},
            "email": {"orders.email": DIRECT},
            "status": {"orders.status": DIRECT},
        },
        by("GROUP_BY", "orders.email"),
        frame=queries.dedup,
    ),
    Case(
        "functions over arrays",
        {
            "loud": {"orders.tags": EXPR},
            "kept": {"orders.tags": EXPR, "orders.status": EXPR},
        },
        frame=queries.sql(
            """select transform(tags, t -> upper(t)) as loud,
                      filter(tags, t -> t > status) as kept from orders"""
        ),
    ),
    Case(
        "from_json",
        {"k": {"orders.payload": EXPR}},
        frame=queries.sql("select from_json(payload, 'k int').k as k from orders"),
    ),
    Case(
        "cached frame",
        {"id": {"orders.id": DIRECT}, "twice": {"orders.amount": EXPR}},
        by("FILTER", "orders.status"),
        frame=queries.cached,
    ),
    Case(
        "temporary view",
        {"key": {"customers.id": DIRECT}, "shout": {"customers.name": EXPR}},
        by("FILTER", "customers.id"),
        frame=queries.temp_view,
    ),
    Case(
        "files by their path",
        {"id": {"events.id": DIRECT}, "next": {"events.k": EXPR}},
        by("FILTER", "events.p"),
        frame=queries.by_path,
        partitions={"events": ("p=1",)},
    ),
    Case(
        "rows from Python objects",
        {"name": {"customers.name": DIRECT}, "rate": {}},
        by("JOIN", "customers.region"),
        soundness="declared",
        frame=queries.from_objects,
    ),
    Case("checkpoint", {}, soundness="declared", frame=queries.checkpointed),
    Case(
        "repartition and hint",
        {"status": {"orders.status": DIRECT}, "name": {"customers.name": DIRECT}},
        by("JOIN", "orders.customer_id", "customers.id"),
        frame=queries.spread,
    ),
    Case(
        "metrics observed on the way",
        {"id": {"orders.id": DIRECT}, "amount": {"orders.amount": DIRECT}},
        frame=queries.observed,
    ),
    Case(
        "a column changed 150 times",
        {"id": {"customers.id": EXPR}},
        frame=queries.many_columns_added,
    ),
    Case(
        "distinct, limit and sample",
        {"region": {"customers.region": DIRECT}},
        by("GROUP_BY", "customers.region"),
        frame=queries.sql("select distinct region from customers tablesample (50 percent) limit 5"),
    ),
    Case(
        "functions for null",
        {"who": {"customers.name": EXPR, "customers.region": EXPR}},
        frame=queries.sql("select coalesce(name, region, '?') as who from customers"),
    ),
    Case(
        "largest by another column",
        {"best": {"orders.id": AGG, "orders.amount": AGG}},
        frame=queries.sql("select max(struct(amount, id)).id as best from orders"),
    ),
    Case(
        "recursive query",
        {"id": {"customers.id": DIRECT, "customers.parent_id": DIRECT}, "depth": {}},
        by("FILTER", "customers.region") | by("JOIN", "customers.id", "customers.parent_id"),
        frame=queries.sql(
            """with recursive up as (
                 select id, 0 as depth from customers where region = 'eu'
                 union all
                 select c.parent_id, u.depth + 1 from up u join customers c on c.id = u.id)
               select id, depth from up"""
        ),
        tags=frozenset(("from 4.1",)),
    ),
    Case(
        "insert by position",
        {"customer_id": {"orders.id": DIRECT}, "total": {"orders.amount": DIRECT}},
        write=queries.insert_by_position,
        tags=frozenset(("quick",)),
    ),
    Case(
        "insert by name",
        {"customer_id": {"orders.id": DIRECT}, "total": {"orders.amount": DIRECT}},
        write=queries.insert_by_name,
    ),
    Case(
        "save as table",
        {"id": {"orders.id": DIRECT}, "whole": {"orders.amount": CAST}},
        write=queries.save_as_table,
    ),
    Case(
        "merge into Iceberg",
        {
            "id": {"orders.id": DIRECT},
            "amount": {"orders.amount": EXPR, "ledger.amount": EXPR},
            "note": {"orders.status": EXPR},
        },
        by("JOIN", "orders.id", "ledger.id") | by("FILTER", "orders.amount"),
        write=queries.merge,
        needs_iceberg=True,
        tags=frozenset(("fixture",)),
    ),
    Case(
        "update of Iceberg",
        {
            "id": {"ledger.id": CASE},
            "amount": {"ledger.id": CASE, "ledger.amount": CASE},
            "note": {"ledger.id": CASE, "ledger.note": CASE, "customers.name": AGG},
        },
        write=queries.update,
        needs_iceberg=True,
    ),
    Case(
        "delete from Iceberg",
        {},
        by("FILTER", "ledger.id", "customers.parent_id"),
        write=queries.delete,
        needs_iceberg=True,
    ),
    Case(
        "staged snapshot of Iceberg",
        {"id": {"orders.id": DIRECT}, "ds": {"orders.ds": DIRECT}},
        write=queries.staged,
        needs_iceberg=True,
    ),
    Case(
        "partitions of Iceberg by their column",
        {"id": {"sales.id": DIRECT}},
        by("FILTER", "sales.ds"),
        frame=queries.sql("select id from ice.db.sales where ds = date'2026-01-01'"),
        needs_iceberg=True,
        partitions={"sales": ("ds=2026-01-01",)},
        snapshots=frozenset({"sales"}),
    ),
    Case(
        "partitions of Iceberg by days",
        {"id": {"visits.id": DIRECT}},
        by("FILTER", "visits.at"),
        frame=queries.iceberg_days,
        needs_iceberg=True,
        partitions={"visits": ("at_day=2026-01-02", "at_day=2026-01-03")},
        snapshots=frozenset({"visits"}),
    ),
    Case(
        "branch of Iceberg",
        {"id": {"orders.customer_id": DIRECT}},
        write=queries.to_a_branch,
        needs_iceberg=True,
    ),
    Case(
        "merge on read into Iceberg",
        {"id": {"sales.id": DIRECT}, "amount": {"sales.amount": DIRECT}},
        by("JOIN", "sales.id", "deltas.id"),
        write=queries.merge_on_read,
        needs_iceberg=True,
    ),
    Case(
        "overwrite of Iceberg's partitions",
        {
            "id": {"orders.id": DIRECT},
            "amount": {"orders.amount": EXPR},
            "ds": {"orders.ds": DIRECT},
        },
        by("FILTER", "orders.ds"),
        write=queries.iceberg_dynamic,
        needs_iceberg=True,
        partitions={"orders": ("ds=2026-01-02",)},
    ),
    Case(
        "overwrite of Iceberg by a filter",
        {
            "id": {"orders.id": DIRECT},
            "amount": {"orders.amount": DIRECT},
            "ds": {"orders.ds": DIRECT},
        },
        by("FILTER", "orders.ds"),
        write=queries.iceberg_by_filter,
        needs_iceberg=True,
    ),
    Case(
        "table of Iceberg created from a query",
        {"id": {"sales.id": DIRECT}, "total": {"sales.amount": AGG}},
        by("GROUP_BY", "sales.id"),
        write=queries.iceberg_created,
        needs_iceberg=True,
    ),
)
