"""What a plan refuses since the table of an asset cannot take it."""

from pathlib import Path

import pytest

from arco.flow.plan.plan import Plan, plan_document
from arco.flow.state import ColumnChange, LastAttempt
from tests.flow.plan.conftest import FILES
from tests.flow.plan.model import Shop, keys

ORDERS = "default.silver.orders"
SHOP = "pipelines/shop.py"


def blocks(planned: Plan) -> dict[str, str]:
    return {each.key: each.reason for each in planned.blocked}


def changed(shop: Shop, old: str, new: str) -> None:
    assert old in FILES[SHOP]
    shop.write({SHOP: FILES[SHOP].replace(old, new)})


DAYS = """
@asset("silver.days", partitions=PARTITIONS)
def days(): return None

@asset("silver.other")
def other(): return None
"""


@pytest.mark.parametrize(
    "partitions", ['Hourly("ds", start="2026-01-14T20")', 'Daily("day", start="2026-01-14")']
)
def test_another_partitioning_is_blocked_and_the_rest_goes_on(
    tmp_path: Path, partitions: str
) -> None:
    daily = DAYS.replace("PARTITIONS", 'Daily("ds", start="2026-01-13")')
    shop = Shop(tmp_path, {"pipelines/p.py": daily})
    shop.run("silver.days")
    shop.write({"pipelines/p.py": DAYS.replace("PARTITIONS", partitions)})
    planned = shop.plan()
    assert set(blocks(planned).values()) == {"PARTITIONING"}
    assert keys(planned) == ["silver.other"]
    [blocked, *_] = planned.blocked
    assert "silver.days has the partition ds=2026-01-13" in blocked.cause
    assert "`arco partitions clear silver.days all`" in blocked.fix
    assert "`arco table drop silver.days`" in blocked.fix
    assert shop.plan("silver.days", force=True).tasks == ()
    shop.lake.tables["default.silver.days"].clear()
    assert shop.plan("silver.days").blocked == ()


def test_another_start_is_no_other_partitioning(made: Shop) -> None:
    changed(
        made, 'DAYS = Daily("ds", start="2026-01-05")', 'DAYS = Daily("ds", start="2026-01-10")'
    )
    assert made.plan().blocked == ()


def test_who_replaces_all_rows_may_cut_them_otherwise(made: Shop) -> None:
    changed(
        made,
        '@asset("gold.total", owner',
        '@asset("gold.total", partitions=DAYS, mode="replace", owner',
    )
    assert made.plan("gold.total").blocked == ()


def test_another_format_is_blocked(made: Shop) -> None:
    made.lake.formats[ORDERS] = "ICEBERG"
    changed(made, '@asset("silver.orders",', '@asset("silver.orders", format="parquet",')
    planned = made.plan("silver.orders")
    assert set(blocks(planned).values()) == {"FORMAT"}
    assert "is a table of the format iceberg" in planned.blocked[0].cause
    assert "`arco table drop silver.orders`" in planned.blocked[0].fix


def attempt(shop: Shop, *changes: tuple[str, str | None, str | None]) -> LastAttempt:
    return LastAttempt(
        task="silver.orders@ds=2026-01-06",
        run_id="run-7",
        status="FAILED",
        ended_at_ms=shop.lake.clock_ms + 1,
        code_fingerprint=shop.project.fingerprints[ORDERS],
        changes=tuple(
            ColumnChange(table=ORDERS, column=name, before=before, after=after)
            for name, before, after in changes
        ),
    )


@pytest.fixture
def edited(made: Shop) -> Shop:
    """The shop after a change of code, which was tried once."""
    changed(made, "return to_cents(raw)", "return str(to_cents(raw))")
    made.lake.last_attempts[ORDERS] = attempt(
        made, ("amount", "int", "string"), ("note", None, "string")
    )
    return made


def test_the_columns_that_the_last_attempt_met_are_shown(edited: Shop) -> None:
    planned = edited.plan("silver.orders")
    assert plan_document(planned)["columns"] == [
        {
            "table": "silver.orders",
            "task": "silver.orders@ds=2026-01-06",
            "run_id": "run-7",
            "status": "FAILED",
            "code_fingerprint": edited.project.fingerprints[ORDERS],
            "added": [{"column": "note", "type": "string"}],
            "changed": [{"column": "amount", "table_type": "int", "result_type": "string"}],
            "missing": [],
        }
    ]
    [warned] = [each for each in planned.warnings if "in the last attempt" in each]
    assert warned == (
        "silver.orders: column changes in the last attempt (FAILED, run run-7, this code): "
        "amount int -> string, note string added"
    )


def test_a_type_that_was_refused_is_blocked_until_something_changes(edited: Shop) -> None:
    assert set(blocks(edited.plan("silver.orders")).values()) == {"COLUMN_TYPE"}
    assert "amount int -> string" in edited.plan("silver.orders").blocked[0].cause
    assert edited.plan("silver.orders", force=True).blocked == ()
    edited.lake.changed_at_ms["default.raw.orders"] = edited.lake.clock_ms + 2
    assert edited.plan("silver.orders").blocked == ()  # its input may have the type now
    del edited.lake.changed_at_ms["default.raw.orders"]
    changed(edited, "return to_cents(raw)", "return int(to_cents(raw))")
    assert edited.plan("silver.orders").blocked == ()


def test_a_missing_column_is_blocked_unless_the_asset_says_what_to_do(edited: Shop) -> None:
    edited.lake.last_attempts[ORDERS] = attempt(edited, ("amount", "int", None))
    planned = edited.plan("silver.orders")
    assert set(blocks(planned).values()) == {"MISSING_COLUMN"}
    assert "on_missing_column='null' or 'drop'" in planned.blocked[0].fix
    text = edited.files[SHOP].replace(
        '"silver.orders",', '"silver.orders", on_missing_column="null",', 1
    )
    edited.write({SHOP: text})
    assert edited.plan("silver.orders").blocked == ()
