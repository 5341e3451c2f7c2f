"""Cases of joins, unions and subqueries, and of rows read through views, caches, paths and hints."""

from tests.flow.lineage import queries
from tests.flow.lineage.expected_lineage import AGG, DIRECT, EXPR, Case, by

RELATIONS = (
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
        {"id": {"orders.id": EXPR, "customers.id": EXPR}, "name": {"customers.name": DIRECT}},
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
        "pipe syntax",
        {"id": {"orders.id": DIRECT}, "twice": {"orders.amount": EXPR}},
        by("FILTER", "orders.id"),
        frame=queries.sql(
            "from orders |> where id > 1 |> extend amount * 2 as twice |> select id, twice"
        ),
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
)


INDIRECT_READS = (
    Case("stored view", {"shout": {"customers.name": EXPR}}, frame=queries.stored_view),
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
)
