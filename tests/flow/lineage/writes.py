"""Cases that write by themselves, and those that need Iceberg."""

from tests.flow.lineage import queries
from tests.flow.lineage.expected_lineage import AGG, CASE, CAST, DIRECT, EXPR, Case, by

WRITES = (
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
