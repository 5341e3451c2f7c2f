"""Planning costs the same few steps for each partition, however many there are.

Steps are counted, not timed: calls of functions, which are the same on each machine.
"""

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from arco.flow.plan.plan import Plan
from tests.flow.plan.model import NOW, PlanningSetup

PROJECT = """
    HOURS = Hourly("hour", start="2015-01-01T00")
    source("raw.events", partitions=HOURS)

    @asset("silver.same", partitions=HOURS)
    def same(raw=table("raw.events")): return raw

    @asset("silver.week", partitions=HOURS)
    def week(same=table("silver.same", window=7)): return same

    @asset("gold.days", partitions=Daily("ds", start="2015-01-01"))
    def days(same=table("silver.same")): return same

    @asset("gold.all", partitions=HOURS)
    def everything(days=table("gold.days", partitions="all")): return days
"""


@pytest.fixture
def setup(tmp_path: Path) -> PlanningSetup:
    return PlanningSetup(tmp_path, {"pipelines/p.py": PROJECT})


def at(setup: PlanningSetup, hours: int) -> None:
    """The shop when it has so many hours, its source filled."""
    start = NOW.replace(year=2015, month=1, day=1, hour=0)
    setup.now = start + timedelta(hours=hours)
    setup.lake.tables.clear()
    setup.lake.fill("raw.events", *setup.project.tables["default.raw.events"].keys(setup.now))


def steps(work: Callable[[], Plan]) -> tuple[int, Plan]:
    """How many functions are called meanwhile."""
    count = 0

    def note(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        result = work()
    finally:
        sys.setprofile(None)
    return count, result


@pytest.mark.parametrize("selection", ["silver.same", "silver.week", "gold.days", "gold.all"])
def test_a_plan_with_nothing_to_do_takes_few_steps_for_each_partition(
    setup: PlanningSetup, selection: str
) -> None:
    taken = []
    for hours in (480, 1_920):
        at(setup, hours)
        setup.run()
        count, planned = steps(lambda: setup.plan(selection))
        assert planned.tasks == ()
        taken.append(count)
    assert taken[1] < 1_920 * 60
    assert taken[1] < taken[0] * 4.4


@pytest.mark.parametrize("selection", ["silver.*", "silver.same gold.days", ""])
def test_a_plan_of_everything_takes_steps_by_the_number_of_tasks(
    setup: PlanningSetup, selection: str
) -> None:
    taken = []
    for hours in (480, 1_920):
        at(setup, hours)
        count, planned = steps(lambda: setup.plan(selection))
        assert planned.waiting == ()
        taken.append(count / len(planned.tasks))
    assert taken[1] < 120
    assert taken[1] < taken[0] * 1.5


def test_what_many_tasks_read_is_stored_once(setup: PlanningSetup) -> None:
    at(setup, 480)
    planned = setup.plan()
    reads_of_days = [reads for reads in planned.reads if reads.table == "default.gold.days"]
    assert [len(reads.partitions) for reads in reads_of_days] == [20]
