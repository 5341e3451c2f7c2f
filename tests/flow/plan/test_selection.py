"""What people write to choose assets and tasks."""

import pytest

from arco.core.errors import Invalid
from arco.flow.plan.graph import AssetGraph, select_makers
from tests.flow.plan.model import PlanningSetup

ALL = {
    *("silver.orders", "silver.customers", "gold.spend_7d", "gold.month", "gold.a"),
    *("gold.balance", "gold.total"),
}


def chosen(setup: PlanningSetup, selection: str) -> set[str]:
    return {
        each.name.removeprefix("default.")
        for each in select_makers(AssetGraph(setup.project), selection)
    }


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ("", ALL),
        (" , ", ALL),
        ("gold.total", {"gold.total"}),
        ("default.gold.total", {"gold.total"}),
        ("gold.b", {"gold.a"}),
        ("gold.b+", {"gold.a"}),
        ("+gold.total", {"gold.total", "gold.spend_7d", "silver.orders", "silver.customers"}),
        ("1+gold.total", {"gold.total", "gold.spend_7d"}),
        ("0+gold.total", {"gold.total"}),
        ("2+gold.total", {"gold.total", "gold.spend_7d", "silver.orders", "silver.customers"}),
        ("silver.customers+", {"silver.customers", "gold.spend_7d", "gold.total"}),
        ("silver.customers+1", {"silver.customers", "gold.spend_7d"}),
        ("raw.customers+", {"silver.customers", "gold.spend_7d", "gold.total"}),
        ("raw.customers+1", {"silver.customers"}),
        (
            "1+gold.spend_7d+1",
            {*("gold.spend_7d", "silver.orders"), "silver.customers", "gold.total"},
        ),
        ("tag:daily", {"silver.orders", "gold.spend_7d"}),
        ("tag:d*", {"silver.orders", "gold.spend_7d"}),
        ("tag:raw+1", {*("silver.orders",)}),
        ("+tag:daily", {"silver.orders", "gold.spend_7d", "silver.customers"}),
        ("owner:bea", {"gold.total"}),
        ("silver.*", {"silver.orders", "silver.customers"}),
        ("*.?", {"gold.a"}),
        ("gold.a,gold.month", {"gold.a", "gold.month"}),
        ("gold.a  gold.month, owner:bea", {"gold.a", "gold.month", "gold.total"}),
    ],
)
def test_a_selection_chooses_these(setup: PlanningSetup, selection: str, names: set[str]) -> None:
    assert chosen(setup, selection) == names


def test_a_task_is_chosen_by_its_name_and_through_its_tables(setup: PlanningSetup) -> None:
    text = '@task(reads=["gold.total"], writes=["gold.model"])\ndef train(ctx):\n    return None\n'
    setup.write({"pipelines/train.py": text})
    assert (
        chosen(setup, "train") == chosen(setup, "gold.model") == chosen(setup, "tr*") == {"train"}
    )
    assert chosen(setup, "gold.total+") == {"gold.total", "train"}
    assert "gold.spend_7d" in chosen(setup, "+train")


@pytest.mark.parametrize(
    ("selection", "why"),
    [
        ("gold.totl", "no asset or task 'gold.totl'; is gold.total"),
        ("silver.order gold.a", "no asset or task 'silver.order'; is silver.orders"),
        ("zzz", r"no asset or task 'zzz': there are gold.a, gold.b, .* and \d+ more$"),
        ("x.*", r"no asset or task matches 'x\.\*'"),
        ("tag:dayly", "nothing has the tag 'dayly'; is daily meant"),
        ("owner:xx", "nothing has the owner 'xx': there are ana, bea"),
        ("raw.orders", r"selects only sources.*write 'raw.orders\+'"),
        ("+raw.orders", "selects only sources"),
        ("+", "does not choose anything"),
        ("a+b+c", "does not choose anything"),
        ("Gold.total", "is gold.total"),
    ],
)
def test_what_chooses_nothing_is_reported_with_what_may_be_meant(
    setup: PlanningSetup, selection: str, why: str
) -> None:
    with pytest.raises(Invalid, match=why):
        chosen(setup, selection)


def test_makers_stand_after_what_they_read_from(setup: PlanningSetup) -> None:
    names = [each.name for each in select_makers(AssetGraph(setup.project), "")]
    for maker in select_makers(AssetGraph(setup.project), ""):
        for each in maker.inputs:
            if each.table in names and each.table != maker.name:
                assert names.index(each.table) < names.index(maker.name)
