"""Cases in which rows take a detour: views, caches, paths, hints."""

from tests.flow.lineage import queries
from tests.flow.lineage.expected_lineage import DIRECT, EXPR, Case, by

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
