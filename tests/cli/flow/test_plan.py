"""Plans as people read them."""

from pathlib import Path

import pytest

from arco.cli.flow.plan import print_plan
from tests.flow.plan.model import PlanningSetup

_PIPELINE = """
    DAYS = Daily("ds", start="2026-01-13")

    @asset("gold.log", partitions=DAYS, mode="append")
    def log(spark): return {rows}

    @asset(outputs={{"a": "gold.a", "b": "gold.b"}}, mode="append")
    def both(spark): return {rows}
"""
DAYS = ["ds=2026-01-13", "ds=2026-01-14"]


def _pipeline(rows: int) -> dict[str, str]:
    return {"pipelines/p.py": _PIPELINE.format(rows=rows)}


@pytest.fixture
def appended(tmp_path: Path) -> PlanningSetup:
    """Two assets whose rows were appended by code that has changed since."""
    setup = PlanningSetup(tmp_path, _pipeline(1))
    setup.run()
    setup.write(_pipeline(2))
    return setup


def test_rows_that_are_appended_again_are_announced_by_the_plan(
    appended: PlanningSetup, capsys: pytest.CaptureFixture[str]
) -> None:
    print_plan(appended.plan(append_again=True))
    announced = [line for line in capsys.readouterr().out.splitlines() if "second time" in line]
    again, stays = "--append-again adds the rows", "; the rows that were appended before stay"
    assert announced == [
        f"gold.a: {again} a second time, in those of gold.a, gold.b that have them{stays}",
        f"gold.log {DAYS[0]}..2026-01-14: {again} of 2 partitions a second time{stays}",
    ]


def test_a_plan_without_rows_to_append_again_announces_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_plan(PlanningSetup(tmp_path, _pipeline(1)).plan(append_again=True))
    assert "second time" not in capsys.readouterr().out
