"""Tables that only checks look into: they come first, and their changes make nothing stale."""

from pathlib import Path
from typing import Any

import pytest

from arco.core import json
from arco.flow.coordinator.plan_store import check_plan
from arco.flow.plan.explain import explain
from arco.flow.plan.plan import plan_document
from tests.flow.plan.model import PlanningSetup, keys, reasons

_CODE = """
DAYS = Daily("ds", start="2026-01-13")

@asset("a.facts", partitions=DAYS, checks=[{check}])
def facts(): return 1

@asset("z.names", partitions=Static("region", ["eu", "us"]))
def names(): return 1
"""
_REFERENCES = 'c.references("id", "z.names")'
_QUERY = 'c.sql("select * from a.facts anti join z.names using (id)")'

FACTS = ["a.facts@ds=2026-01-13", "a.facts@ds=2026-01-14"]
NAMES = ["z.names@region=eu", "z.names@region=us"]


@pytest.fixture(params=[_REFERENCES, _QUERY], ids=["references", "sql"])
def setup(tmp_path: Path, request: pytest.FixtureRequest) -> PlanningSetup:
    return PlanningSetup(tmp_path, {"pipelines/p.py": _CODE.format(check=request.param)})


def test_what_a_check_looks_into_is_made_before_what_is_checked(setup: PlanningSetup) -> None:
    planned = setup.plan("a.facts z.names")
    check_plan(planned)
    assert keys(planned) == [*NAMES, *FACTS]
    assert [task.deps for task in planned.tasks] == [(), (), tuple(NAMES), tuple(NAMES)]
    assert [task.inputs for task in planned.tasks] == [()] * 4


def test_all_that_has_to_be_there_first_is_chosen_and_what_is_only_checked_is_not_below(
    setup: PlanningSetup,
) -> None:
    assert keys(setup.plan("+a.facts")) == [*NAMES, *FACTS]
    assert keys(setup.plan("z.names+")) == NAMES


def test_what_fails_above_a_check_holds_back_what_is_checked(setup: PlanningSetup) -> None:
    setup.lake.run(setup.project, setup.plan(), failing=NAMES[:1])
    assert setup.lake.ran == NAMES[1:]
    explanation = explain(setup.project, "a.facts", "2026-01-13", setup.lake.state(), setup.now)
    assert (explanation.status, "z.names region=eu" in explanation.why) == ("BLOCKED", True)


def test_a_table_that_a_check_looks_into_and_nothing_makes_is_lacking(setup: PlanningSetup) -> None:
    planned = setup.plan("a.facts", "2026-01-13")
    assert planned.tasks == ()
    assert [(each.key, each.lacks) for each in planned.waiting] == [(FACTS[0], ("z.names",))]
    setup.run("z.names", "region=eu")  # a part is enough: the table is there
    assert keys(setup.plan("a.facts", "2026-01-13")) == FACTS[:1]


def test_new_data_of_a_table_that_a_check_looks_into_make_nothing_stale(
    setup: PlanningSetup,
) -> None:
    setup.run()
    text = setup.files["pipelines/p.py"].replace("def names(): return 1", "def names(): return 2")
    setup.write({"pipelines/p.py": text})
    assert keys(setup.plan()) == NAMES
    setup.run()
    assert setup.plan().tasks == ()


def test_a_check_of_its_own_table_waits_for_nothing(tmp_path: Path) -> None:
    text = _CODE.format(check='c.references("parent", "a.facts", "id")')
    setup = PlanningSetup(tmp_path, {"pipelines/p.py": text})
    assert [task.deps for task in setup.plan("a.facts").tasks] == [(), ()]


PIPELINE = """
    DAYS = Daily("ds", start="2026-01-10")
    source("raw.orders", partitions=DAYS)

    @asset("silver.orders", partitions=DAYS)
    def orders(raw=table("raw.orders", missing="block")):
        return raw

    @asset("gold.reader"{cut})
    def reader(orders=table("silver.orders", {input_options})):
        return orders
"""
DAYS = [f"ds=2026-01-{day}" for day in range(10, 15)]
WINDOW, ALL, MONTH = ", partitions=DAYS", "", ', partitions=Monthly("month", start="2025-12")'


def setup_of(folder: Path, input_options: str, cut: str = WINDOW) -> PlanningSetup:
    """A shop in which the data of two days never came."""
    setup = PlanningSetup(
        folder, {"pipelines/p.py": PIPELINE.format(input_options=input_options, cut=cut)}
    )
    setup.lake.fill("raw.orders", *(day for day in DAYS if day not in (DAYS[1], DAYS[2])))
    return setup


@pytest.mark.parametrize(
    ("input_options", "cut", "waits"),
    [
        ("window=2", WINDOW, True),
        ('window=2, missing="block"', WINDOW, True),
        ('window=2, missing="skip"', WINDOW, False),
        ('partitions="all"', ALL, False),
        ('partitions="all", missing="skip"', ALL, False),
        ('partitions="all", missing="block"', ALL, True),
    ],
)
def test_a_reader_waits_for_missing_partitions_or_skips_them(
    tmp_path: Path, input_options: str, cut: str, waits: bool
) -> None:
    setup = setup_of(tmp_path, input_options, cut)
    setup.run()
    key = f"gold.reader@{DAYS[3]}" if cut is WINDOW else "gold.reader"
    planned = setup.plan("gold.reader")
    assert (key in [each.key for each in planned.waiting]) is waits
    assert (key in setup.lake.ran) is not waits


def test_a_month_skips_days_without_data(tmp_path: Path) -> None:
    setup = setup_of(tmp_path, 'missing="skip"', MONTH)
    setup.now = setup.now.replace(month=2, day=1)
    setup.run()
    assert keys(setup.plan("gold.reader")) == []
    assert "gold.reader@month=2026-01" in setup.lake.ran


def test_a_partition_that_was_skipped_makes_its_readers_stale_once_it_comes(tmp_path: Path) -> None:
    setup = setup_of(tmp_path, 'window=3, missing="skip"')
    planned = setup.plan()
    tasks = json.decode(json.encode(plan_document(planned)["tasks"]), list[dict[str, Any]])
    [read] = next(each for each in tasks if each["key"] == f"gold.reader@{DAYS[3]}")["inputs"]
    assert read == {
        "table": "silver.orders",
        "partitions": [DAYS[3]],
        "skipped": ["ds=2026-01-11..2026-01-12"],
    }
    setup.lake.run(setup.project, planned)
    assert setup.plan("gold.reader").tasks == ()
    explanation = explain(setup.project, "gold.reader", DAYS[3], setup.lake.state(), setup.now)
    assert explanation.status == "UP_TO_DATE"
    assert any(
        "skipped, no data: ds=2026-01-11..2026-01-12" in line for line in explanation.lines()
    )
    setup.lake.fill("raw.orders", DAYS[1])
    assert reasons(setup.plan()) == {
        f"silver.orders@{DAYS[1]}": "MISSING",
        f"gold.reader@{DAYS[1]}": "UPSTREAM_CHANGED",
        f"gold.reader@{DAYS[2]}": "UPSTREAM_CHANGED",
        f"gold.reader@{DAYS[3]}": "UPSTREAM_CHANGED",
    }


def test_a_reader_of_nothing_at_all_waits(tmp_path: Path) -> None:
    setup = setup_of(tmp_path, 'window=1, missing="skip"')
    setup.run()
    assert [each.key for each in setup.plan("gold.reader").waiting] == [
        f"gold.reader@{day}" for day in DAYS[1:3]
    ]


def test_partitions_of_a_source_are_waited_for_where_declared(tmp_path: Path) -> None:
    waiting = {each.key: each.lacks for each in setup_of(tmp_path, "window=2").plan().waiting}
    assert waiting[f"silver.orders@{DAYS[1]}"] == (f"raw.orders@{DAYS[1]}",)
    text = PIPELINE.format(input_options="window=2", cut=WINDOW).replace(', missing="block"', "")
    other = PlanningSetup(tmp_path / "other", {"pipelines/p.py": text})
    other.lake.fill("raw.orders", DAYS[0])
    assert other.plan("silver.orders").waiting == ()
