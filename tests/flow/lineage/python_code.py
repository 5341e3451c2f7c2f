"""Cases with code of Python, which no plan shows from inside."""

from tests.flow.lineage import queries
from tests.flow.lineage.expected_lineage import DIRECT, EXPR, UNKNOWN, Case, by

PYTHON_CODE = (
    Case(
        "python function",
        {"id": {"orders.id": DIRECT}, "label": {"orders.status": EXPR, "orders.amount": EXPR}},
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
        "rows from Python objects",
        {"name": {"customers.name": DIRECT}, "rate": {}},
        by("JOIN", "customers.region"),
        soundness="declared",
        frame=queries.from_objects,
    ),
)
