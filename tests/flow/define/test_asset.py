from pathlib import Path

import pytest

from arco.core.errors import Invalid
from arco.flow.define import Context, Mode, OutputDef, Retry, SourceLine, asset, check, merge, task
from arco.flow.define import checks as c
from arco.flow.define.check_rules import (
    AcceptedValues,
    Expression,
    Freshness,
    FunctionRule,
    NotNull,
    QueryRule,
    Range,
    References,
    RowCount,
    Unique,
)
from arco.flow.define.context import RecordingReporter
from arco.flow.partition import Partitions, all_partitions, offset, window
from tests.flow.define.projects import HEAD, asset_of, load

ORDERS = """
DAYS = Daily("ds", start="2026-01-01", tz="Europe/Paris")
source("raw.orders", partitions=DAYS, freshness="3h", owner="user:ana")
source("raw.customers", partitions=DAYS)

@asset("silver.orders", partitions=DAYS,
       checks=[c.not_null("order_id"), c.row_count(change=0.5, severity="warn")],
       retries=Retry(3, delay="30s", factor=2, max="10m", jitter=0.2), timeout="1h", pool="spark",
       tags=["pii", "core"], owner="user:bo", strict=True)
def orders(raw=table("raw.orders"), limit=5):
    \"\"\"Clean orders.

    Each one once.
    \"\"\"
    return [row for row in raw if row > limit]

@asset("gold.spend_7d", partitions=DAYS, mode="append", format="parquet")
def spend_7d(orders, ctx, spark, customers=table("raw.customers", partitions="all"),
             before=table("gold.spend_7d", offset=-1), week=table("silver.orders", window=7)):
    return orders

@check("gold.spend_7d", severity="warn")
def no_region_lost(df, ctx):
    \"\"\"Four regions at least.\"\"\"
    return True
"""


def test_a_decorated_function_is_the_function_itself() -> None:
    def plain(raw: list[int]) -> list[int]:
        return raw[1:]

    assert asset("silver.orders")(plain) is plain
    assert check("silver.orders")(plain) is plain
    assert plain([1, 2]) == [2]

    def effect() -> str:
        return "done"

    assert task(reads=["silver.orders"])(effect) is effect
    assert effect() == "done"


def test_an_asset_has_all_that_was_declared(tmp_path: Path) -> None:
    orders_asset = asset_of(load(tmp_path, {"pipelines/orders.py": ORDERS}), "silver.orders")
    assert orders_asset.outputs == (OutputDef("", "default.silver.orders"),)
    assert [(each.parameter, each.table) for each in orders_asset.inputs] == [
        ("raw", "default.raw.orders")
    ]
    assert orders_asset.partitions.names == ("ds",)
    assert (orders_asset.mode, orders_asset.format, orders_asset.pool) == (
        Mode("replace_partition"),
        "iceberg",
        "spark",
    )
    assert orders_asset.retries == Retry(3, delay="30s", factor=2, max="10m", jitter=0.2)
    assert (orders_asset.retries.delay_ms, orders_asset.retries.max_ms) == (30_000, 600_000)
    assert (orders_asset.timeout_ms, orders_asset.tags, orders_asset.owner) == (
        3_600_000,
        ("core", "pii"),
        "user:bo",
    )
    assert orders_asset.description == "Clean orders.\n\nEach one once."
    assert orders_asset.strict
    assert orders_asset.where == SourceLine("pipelines/orders.py", HEAD.count("\n") + 5)
    assert [(each.name, each.severity, each.table) for each in orders_asset.checks] == [
        ("not_null_order_id", "error", "default.silver.orders"),
        ("row_count_change", "warn", "default.silver.orders"),
    ]
    assert orders_asset.function is not None
    assert orders_asset.function([4, 6]) == [6]


def test_inputs_are_found_by_their_default_and_by_their_name(tmp_path: Path) -> None:
    spend_asset = asset_of(load(tmp_path, {"pipelines/orders.py": ORDERS}), "gold.spend_7d")
    assert {each.parameter: each.table for each in spend_asset.inputs} == {
        "orders": "default.silver.orders",
        "customers": "default.raw.customers",
        "before": "default.gold.spend_7d",
        "week": "default.silver.orders",
    }
    mappings = {each.parameter: each.mapping for each in spend_asset.inputs}
    assert mappings["customers"] == all_partitions
    assert mappings["before"] == offset(-1)
    assert mappings["week"] == window(7)
    assert mappings["orders"] is not None


def test_a_parameter_called_like_the_asset_is_the_table_of_that_name_that_it_does_not_write(
    tmp_path: Path,
) -> None:
    text = "source('raw.orders')\n@asset('silver.orders')\ndef orders(orders): return orders\n"
    project = load(tmp_path, {"pipelines/a.py": text})
    [only_input] = asset_of(project, "silver.orders").inputs
    assert only_input.table == "default.raw.orders"


def test_a_check_function_is_with_its_table(tmp_path: Path) -> None:
    project = load(tmp_path, {"pipelines/orders.py": ORDERS})
    asset_checks = asset_of(project, "gold.spend_7d").checks
    assert [(each.name, each.severity, each.description) for each in asset_checks] == [
        ("no_region_lost", "warn", "Four regions at least.")
    ]
    assert isinstance(asset_checks[0].rule, FunctionRule)
    assert len(project.checks) == 3


def test_a_source_has_all_that_was_declared(tmp_path: Path) -> None:
    project = load(tmp_path, {"pipelines/orders.py": ORDERS})
    source_table = next(each for each in project.sources if each.name == "default.raw.orders")
    assert (source_table.freshness_ms, source_table.owner) == (10_800_000, "user:ana")
    assert source_table.partitions.names == ("ds",)


def test_a_function_may_have_several_outputs_and_a_task_writes_by_itself(tmp_path: Path) -> None:
    text = """
    @asset(outputs={"a": "gold.a", "b": "other.gold.b"})
    def both():
        return {"a": 1, "b": 2}

    @task(reads=["gold.a", table("other.gold.b", partitions="all")], writes=["ml.model"], retries=2)
    def train(ctx, spark):
        return 7
    """
    project = load(tmp_path, {"pipelines/both.py": text})
    gold_asset = asset_of(project, "gold.a")
    assert gold_asset.outputs == (
        OutputDef("a", "default.gold.a"),
        OutputDef("b", "other.gold.b"),
    )
    [train] = project.tasks
    assert train.name == "train"
    assert [each.table for each in train.inputs] == ["default.gold.a", "other.gold.b"]
    assert train.inputs[1].mapping == all_partitions
    assert [each.table for each in train.outputs] == ["default.ml.model"]
    assert train.retries == Retry(2)
    assert train.function(None, None) == 7
    assert project.made_by["default.ml.model"] is train
    assert project.tables["other.gold.b"] == Partitions(())


def test_each_check_is_what_its_name_says() -> None:
    assert c.not_null("a", "b").rule == NotNull(("a", "b"))
    assert c.unique("a").rule == Unique(("a",))
    assert c.expr("a >= 0", name="positive").rule == Expression("a >= 0")
    assert c.expr("a >= 0", name="positive").name == "positive"
    assert c.row_count(min=1, max=9).rule == RowCount(1, 9, None)
    assert c.accepted_values("a", ["x", "y"]).rule == AcceptedValues("a", ("x", "y"))
    assert c.range("a", min=0, max=1).rule == Range("a", 0, 1)
    assert c.freshness("3h", column="at").rule == Freshness(10_800_000, "at")
    assert c.sql("select 1 where false").rule == QueryRule("select 1 where false")
    assert c.references("a", "raw.b").rule == References("a", "default.raw.b", "a")


@pytest.mark.parametrize(
    "wrong",
    [
        c.not_null,
        c.row_count,
        lambda: c.row_count(min=2, max=1),
        lambda: c.accepted_values("a", []),
        lambda: c.range("a"),
        lambda: c.freshness("soon"),
        lambda: c.expr(" "),
        lambda: c.unique("a", severity="fatal"),
        lambda: c.references("a", "b"),
        lambda: merge(on=[]),
        lambda: Retry(-1),
        lambda: Retry(1, delay="1 hour"),
        lambda: Retry(1, factor=0.5),
        lambda: Retry(1, jitter=2),
        lambda: asset("orders")(len),
        lambda: asset("a.b", mode="upsert")(lambda: 1),
    ],
)
def test_outside_of_a_project_a_mistake_is_an_error_at_once(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(Invalid):
        wrong()


def test_a_context_keeps_what_a_function_reports() -> None:
    ctx = Context(partition={"ds": "2026-01-01"})
    ctx.metric("rows", 7)
    ctx.progress(0.5, "half")
    assert isinstance(ctx.report, RecordingReporter)
    assert ctx.report.metrics == {"rows": 7}
    assert ctx.report.steps == [(0.5, "half")]
    assert ctx.partition["ds"] == "2026-01-01"
