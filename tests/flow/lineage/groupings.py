"""Cases in which many rows become one, or one becomes many columns."""

from tests.flow.lineage import queries
from tests.flow.lineage.expected_lineage import AGG, DIRECT, Case, by

GROUPINGS = (
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
        {"region": {"customers.region": DIRECT}, "level": {}, "most": {"customers.id": AGG}},
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
        "distinct, limit and sample",
        {"region": {"customers.region": DIRECT}},
        by("GROUP_BY", "customers.region"),
        frame=queries.sql("select distinct region from customers tablesample (50 percent) limit 5"),
    ),
    Case(
        "largest by another column",
        {"best": {"orders.id": AGG, "orders.amount": AGG}},
        frame=queries.sql("select max(struct(amount, id)).id as best from orders"),
    ),
)
