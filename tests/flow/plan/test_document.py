"""A plan as a document."""

import msgspec

from arco.core import json
from arco.flow.plan.plan import BlockedPartition, plan_document
from tests.flow.plan.model import Shop


def test_a_document_says_what_a_plan_does(shop: Shop) -> None:
    planned = shop.plan("silver.orders gold.spend_7d", "2026-01-05..2026-01-06")
    found = plan_document(planned)
    assert found["plan_id"] == planned.plan_id
    assert found["now"] == "2026-01-15T06:00:00Z"
    assert found["tasks"] == [
        {
            "key": f"silver.orders@ds=2026-01-0{day}",
            "asset": "silver.orders",
            "partition": f"ds=2026-01-0{day}",
            "reason": "MISSING",
            "detail": "there are no data yet",
            "inputs": [{"table": "raw.orders", "partitions": [f"ds=2026-01-0{day}"]}],
            "deps": [],
        }
        for day in (5, 6)
    ]
    assert found["waiting"] == [
        {"key": f"gold.spend_7d@ds=2026-01-0{day}", "lacks": ["silver.customers"]} for day in (5, 6)
    ]
    assert found["up_to_date"] == 0


def test_a_document_says_what_a_plan_does_not_make(shop: Shop) -> None:
    bare = BlockedPartition(key="gold.log@ds=2026-01-05", reason="APPENDED", cause="its rows exist")
    planned = msgspec.structs.replace(
        shop.plan(), blocked=(bare, msgspec.structs.replace(bare, fix="drop them"))
    )
    told = {"key": "gold.log@ds=2026-01-05", "reason": "APPENDED", "cause": "its rows exist"}
    assert plan_document(planned)["blocked"] == [told, {**told, "fix": "drop them"}]


def test_long_inputs_are_told_as_ranges(made: Shop) -> None:
    found = plan_document(made.plan("gold.total", force=True))
    assert json.encode(found["tasks"]).count(b"2026-01") == 2
    assert b"ds=2026-01-05..2026-01-14" in json.encode(found["tasks"])
