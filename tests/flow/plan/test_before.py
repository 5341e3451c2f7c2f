"""Tables that only checks look into: they come first, and their changes make nothing stale."""

from pathlib import Path

import pytest

from arco.flow.coordinator.plan_store import check_plan
from arco.flow.plan.explain import explain
from tests.flow.plan.model import Shop, keys

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
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Shop:
    return Shop(tmp_path, {"pipelines/p.py": _CODE.format(check=request.param)})


def test_what_a_check_looks_into_is_made_before_what_is_checked(shop: Shop) -> None:
    planned = shop.plan("a.facts z.names")
    check_plan(planned)
    assert keys(planned) == [*NAMES, *FACTS]
    assert [task.deps for task in planned.tasks] == [(), (), tuple(NAMES), tuple(NAMES)]
    assert [task.inputs for task in planned.tasks] == [()] * 4


def test_all_that_has_to_be_there_first_is_chosen_and_what_is_only_checked_is_not_below(
    shop: Shop,
) -> None:
    assert keys(shop.plan("+a.facts")) == [*NAMES, *FACTS]
    assert keys(shop.plan("z.names+")) == NAMES


def test_what_fails_above_a_check_holds_back_what_is_checked(shop: Shop) -> None:
    shop.lake.run(shop.project, shop.plan(), failing=NAMES[:1])
    assert shop.lake.ran == NAMES[1:]
    found = explain(shop.project, "a.facts", "2026-01-13", shop.lake.state(), shop.now)
    assert (found.status, "z.names region=eu" in found.why) == ("BLOCKED", True)


def test_a_table_that_a_check_looks_into_and_nothing_makes_is_lacking(shop: Shop) -> None:
    planned = shop.plan("a.facts", "2026-01-13")
    assert planned.tasks == ()
    assert [(each.key, each.lacks) for each in planned.waiting] == [(FACTS[0], ("z.names",))]
    shop.run("z.names", "region=eu")  # a part is enough: the table is there
    assert keys(shop.plan("a.facts", "2026-01-13")) == FACTS[:1]


def test_new_data_of_a_table_that_a_check_looks_into_make_nothing_stale(shop: Shop) -> None:
    shop.run()
    text = shop.files["pipelines/p.py"].replace("def names(): return 1", "def names(): return 2")
    shop.write({"pipelines/p.py": text})
    assert keys(shop.plan()) == NAMES
    shop.run()
    assert shop.plan().tasks == ()


def test_a_check_of_its_own_table_waits_for_nothing(tmp_path: Path) -> None:
    text = _CODE.format(check='c.references("parent", "a.facts", "id")')
    shop = Shop(tmp_path, {"pipelines/p.py": text})
    assert [task.deps for task in shop.plan("a.facts").tasks] == [(), ()]
