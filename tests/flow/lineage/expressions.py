"""Cases of columns: what becomes of values inside a row."""

from tests.flow.lineage import queries
from tests.flow.lineage.expected_lineage import CASE, CAST, DIRECT, EXPR, WIN, Case

EXPRESSIONS = (
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
        "explode",
        {"id": {"orders.id": DIRECT}, "tag": {"orders.tags": EXPR}},
        frame=queries.sql("select id, explode(tags) as tag from orders"),
    ),
    Case(
        "posexplode in a lateral view",
        {"id": {"orders.id": DIRECT}, "at": {"orders.tags": EXPR}, "tag": {"orders.tags": EXPR}},
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
        "functions over arrays",
        {"loud": {"orders.tags": EXPR}, "kept": {"orders.tags": EXPR, "orders.status": EXPR}},
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
        "a column changed 150 times",
        {"id": {"customers.id": EXPR}},
        frame=queries.many_columns_added,
    ),
    Case(
        "functions for null",
        {"who": {"customers.name": EXPR, "customers.region": EXPR}},
        frame=queries.sql("select coalesce(name, region, '?') as who from customers"),
    ),
)
