"""A shop of ten days: two layers, a window, a roll-up, several outputs, a chain and a report."""

from pathlib import Path

import pytest

from tests.flow.plan.model import PlanningSetup

FILES = {
    "pipelines/__init__.py": "",
    "pipelines/money.py": """
        CENTS = 100
        UNUSED = 7

        def to_cents(amount):
            return amount * CENTS
    """,
    "pipelines/shop.py": """
        from pipelines.money import to_cents

        DAYS = Daily("ds", start="2026-01-05")
        source("raw.orders", partitions=DAYS, freshness="3h", tags=["raw"])
        source("raw.customers")

        @asset("silver.orders", partitions=DAYS, tags=["daily"], owner="ana")
        def orders(raw=table("raw.orders")):
            return to_cents(raw)

        @asset("silver.customers", retries=Retry(3, delay="30s", factor=2), pool="small")
        def customers(raw=table("raw.customers")):
            return raw

        @asset("gold.spend_7d", partitions=DAYS, tags=["daily"])
        def spend(orders=table("silver.orders", window=7), customers=table("silver.customers")):
            return orders

        @asset("gold.month", partitions=Monthly("month", start="2025-12"))
        def month(orders=table("silver.orders")):
            return orders

        @asset(outputs={"a": "gold.a", "b": "gold.b"}, partitions=DAYS)
        def both(orders=table("silver.orders")):
            return {"a": orders, "b": orders}

        @asset("gold.balance", partitions=DAYS)
        def balance(orders=table("silver.orders"), before=table("gold.balance", offset=-1)):
            return orders

        @asset("gold.total", owner="bea")
        def total(spend=table("gold.spend_7d")):
            return spend
    """,
}
DAYS = [f"ds=2026-01-{day:02}" for day in range(5, 15)]


@pytest.fixture
def setup(tmp_path: Path) -> PlanningSetup:
    """The shop with its sources filled and nothing made."""
    planning_setup = PlanningSetup(tmp_path, dict(FILES))
    planning_setup.lake.fill("raw.orders", *DAYS)
    planning_setup.lake.fill("raw.customers", "")
    return planning_setup


@pytest.fixture
def made(setup: PlanningSetup) -> PlanningSetup:
    """The shop with everything made; there was no month to make yet."""
    setup.run()
    assert setup.plan().tasks == ()
    return setup
