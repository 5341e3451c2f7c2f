"""Why a partition stands as it does."""

from dataclasses import replace
from pathlib import Path

import pytest

from arco.core.errors import Invalid
from arco.flow.plan.explain import DownstreamPartitions, Explanation, TaskFailure, explain
from tests.flow.plan.conftest import FILES
from tests.flow.plan.model import PlanningSetup


def explain_table(setup: PlanningSetup, table: str, partition: str | None = None) -> Explanation:
    return explain(setup.project, table, partition, setup.lake.state(), setup.now)


def test_what_is_up_to_date_says_from_what_it_was_made(made: PlanningSetup) -> None:
    explanation = explain_table(made, "gold.spend_7d", "2026-01-07")
    assert (explanation.status, explanation.partition) == ("UP_TO_DATE", "ds=2026-01-07")
    assert explanation.code_recorded == explanation.code_now
    assert explanation.inputs_recorded == explanation.inputs_now
    assert [(each.table, each.partitions) for each in explanation.inputs] == [
        ("default.silver.orders", ("ds=2026-01-05..2026-01-07",)),
        ("default.silver.customers", ("",)),
    ]
    assert explanation.downstream == (DownstreamPartitions("default.gold.total", ("",)),)
    lines = explanation.lines()
    assert lines[0] == ("gold.spend_7d@ds=2026-01-07: UP_TO_DATE - nothing it is made from changed")
    assert any("by attempt attempt-" in line for line in lines)
    assert any(line.startswith("  reads silver.orders ds=2026-01-05..2026-01-07") for line in lines)
    assert "  read by gold.total" in lines


def test_a_change_above_is_reported_down_to_here(made: PlanningSetup) -> None:
    made.lake.fill("raw.orders", "ds=2026-01-12")
    first = explain_table(made, "silver.orders", "ds=2026-01-12")
    assert (first.status, first.why) == ("UPSTREAM_CHANGED", "raw.orders is newer: ds=2026-01-12")
    assert first.inputs_recorded != first.inputs_now
    assert first.inputs[0].is_newer
    assert any("after what was made from it" in line for line in first.lines())
    below = explain_table(made, "gold.total")
    assert below.status == "UPSTREAM_CHANGED"
    assert below.why == "gold.spend_7d is made in this plan: ds=2026-01-12..2026-01-14"
    assert explain_table(made, "silver.orders", "2026-01-11").status == "UP_TO_DATE"


def test_changed_code_shows_both_fingerprints(made: PlanningSetup) -> None:
    text = FILES["pipelines/money.py"].replace("CENTS = 100", "CENTS = 10")
    made.write({"pipelines/money.py": text})
    explanation = explain_table(made, "silver.orders", "2026-01-06")
    assert explanation.status == "CODE_CHANGED"
    assert (
        explanation.code_recorded
        != explanation.code_now
        == made.project.fingerprints[explanation.table]
    )
    assert any(
        line.startswith("  code: now ") and "recorded" in line for line in explanation.lines()
    )
    assert explanation.inputs_recorded == explanation.inputs_now  # only the code has changed
    assert any(
        line.startswith("  inputs: ") and "as recorded" in line for line in explanation.lines()
    )
    made.lake.fill("raw.orders", "ds=2026-01-06")
    assert (
        explanation.inputs_recorded != explain_table(made, "silver.orders", "2026-01-06").inputs_now
    )


def test_what_waits_says_for_what(setup: PlanningSetup) -> None:
    setup.lake.tables.pop("default.raw.customers")
    explanation = explain_table(setup, "gold.spend_7d", "2026-01-06")
    assert (explanation.status, explanation.why) == (
        "WAITING",
        "there are no data in silver.customers",
    )
    assert explanation.code_recorded is None
    assert explanation.inputs[1].lacks == ("",)


def test_whose_failure_is_the_reason_is_named_and_reported_once_it_was_looked_up(
    setup: PlanningSetup,
) -> None:
    failing = "silver.orders@ds=2026-01-06"
    setup.lake.run(setup.project, setup.plan(), failing=[failing])
    assert explain_table(setup, "silver.orders", "2026-01-06").failed == (failing,)
    assert explain_table(setup, "gold.total").failed == (failing,)
    assert explain_table(setup, "silver.orders", "2026-01-07").failed == ()
    failure = TaskFailure(
        failing, "run-7", "it broke", ("not_null_id: 2 of 5 rows have null in id",)
    )
    lines = replace(explain_table(setup, "gold.total"), failures=(failure,)).lines()
    assert lines[1:3] == [
        f"  {failing} failed in run run-7: it broke",
        "    not_null_id: 2 of 5 rows have null in id",
    ]


def test_a_task_is_explained_by_what_is_recorded_of_its_table(tmp_path: Path) -> None:
    code = "@task(writes=['ops.board'])\ndef board(): return 1\n"
    setup = PlanningSetup(tmp_path, {"pipelines/p.py": code})
    setup.run()
    for name in ("board", "ops.board"):
        explanation = explain_table(setup, name)
        assert explanation.status == "UP_TO_DATE"
        assert explanation.code_recorded == explanation.code_now is not None
        assert explanation.made_at_ms is not None


def test_what_a_failure_above_holds_back_says_so_and_names_the_failure(
    setup: PlanningSetup,
) -> None:
    setup.lake.run(setup.project, setup.plan(), failing=["silver.orders@ds=2026-01-06"])
    assert explain_table(setup, "silver.orders", "2026-01-06").status == "FAILED"
    explanation = explain_table(setup, "gold.spend_7d", "2026-01-08")
    assert (explanation.status, explanation.why) == (
        "BLOCKED",
        "there are no data yet, and an upstream task failed last time: silver.orders ds=2026-01-06",
    )
    total = explain_table(setup, "gold.total")  # two steps below, by way of many days
    assert (total.status, total.why) == (explanation.status, explanation.why)
    assert explain_table(setup, "gold.spend_7d", "2026-01-05").status == "UP_TO_DATE"
    groups = {each.status: each.partitions for each in explain_table(setup, "gold.spend_7d").groups}
    assert groups == {
        "BLOCKED": ("ds=2026-01-06..2026-01-12",),
        "UP_TO_DATE": ("ds=2026-01-05", "ds=2026-01-13..2026-01-14"),
    }


def test_what_holds_older_data_back_is_reported_too(made: PlanningSetup) -> None:
    made.lake.fill("raw.orders", "ds=2026-01-12")
    made.lake.run(made.project, made.plan(), failing=["silver.orders@ds=2026-01-12"])
    explanation = explain_table(made, "gold.spend_7d", "2026-01-13")
    assert explanation.status == "BLOCKED"
    assert explanation.why == (
        "silver.orders is made in this plan: ds=2026-01-12, and an upstream task failed last time: "
        "silver.orders ds=2026-01-12"
    )


def test_a_table_as_a_whole_is_reported_in_groups(made: PlanningSetup) -> None:
    made.lake.fill("raw.orders", "ds=2026-01-12")
    explanation = explain_table(made, "silver.orders")
    assert (explanation.status, explanation.partition) == ("MIXED", None)
    assert {each.status: (each.count, each.partitions) for each in explanation.groups} == {
        "UPSTREAM_CHANGED": (1, ("ds=2026-01-12",)),
        "UP_TO_DATE": (9, ("ds=2026-01-05..2026-01-11", "ds=2026-01-13..2026-01-14")),
    }
    assert "  UPSTREAM_CHANGED: 1, ds=2026-01-12" in explanation.lines()
    assert f"  code: now {made.project.fingerprints[explanation.table][:12]}" in explanation.lines()
    assert not any("nothing recorded" in line for line in explanation.lines())


def test_a_second_output_and_a_source_are_explained_too(made: PlanningSetup) -> None:
    assert explain_table(made, "gold.b", "2026-01-06").status == "UP_TO_DATE"
    explanation = explain_table(made, "raw.orders", "2026-01-06")
    assert explanation.status == "SOURCE"
    assert {each.table for each in explanation.downstream} == {"default.silver.orders"}
    made.lake.tables.pop("default.raw.orders")
    assert explain_table(made, "raw.orders").status == "WAITING"


@pytest.mark.parametrize(
    ("table", "partition", "why"),
    [
        ("gold.totl", None, "no table or task 'gold.totl'; is gold.total"),
        ("silver.orders", "2026-01-05..2026-01-06", "chooses 2 partitions: write one"),
        ("silver.orders", "2027-01-01", "not complete"),
    ],
)
def test_what_cannot_be_explained_says_what_can(
    made: PlanningSetup, table: str, partition: str | None, why: str
) -> None:
    with pytest.raises(Invalid, match=why):
        explain_table(made, table, partition)
