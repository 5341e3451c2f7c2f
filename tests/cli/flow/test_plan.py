"""Plans as people read them."""

from pathlib import Path

import pytest

from arco.cli.flow.plan import plan_again, print_plan
from arco.core.errors import Invalid
from arco.flow.coordinator.messages import RunStatus, TaskStatus, TaskView
from arco.flow.plan.plan import Plan
from tests.cli.flow.views import RUN, seen
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
    adds, stays = "--append-again adds the rows", "; the rows that were appended before stay"
    assert announced == [
        f"gold.a: {adds} a second time, in those of gold.a, gold.b that have them{stays}",
        f"gold.log {DAYS[0]}..2026-01-14: {adds} of 2 partitions a second time{stays}",
    ]


def test_a_plan_without_rows_to_append_again_announces_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_plan(PlanningSetup(tmp_path, _pipeline(1)).plan(append_again=True))
    assert "second time" not in capsys.readouterr().out


def _retry(setup: PlanningSetup, *keys: str) -> Plan:
    failed = [TaskView(key=key, status=TaskStatus.FAILED, attempt=1) for key in keys]
    left = seen(*failed, status=RunStatus.FAILED)
    return plan_again(setup.project, left, setup.lake.state(), setup.now)


def test_a_retry_of_blocked_tasks_names_the_reason_and_both_ways_out(
    appended: PlanningSetup,
) -> None:
    with pytest.raises(Invalid) as refused:
        _retry(appended, f"gold.log@{DAYS[1]}")
    message = str(refused.value)
    assert message.startswith(
        f"nothing that run {RUN} has left can be made now: gold.log {DAYS[1]}: blocked (APPENDED): it was "
        "appended before"
    )
    assert 'declare on_change="replace"' in message
    assert "`arco run` with --append-again" in message
    assert DAYS[0] not in message  # which that run has made


def test_a_retry_is_not_blocked_by_what_its_run_has_made(appended: PlanningSetup) -> None:
    del appended.lake.tables["default.gold.log"][DAYS[1]]
    retried = _retry(appended, f"gold.log@{DAYS[1]}")
    assert [task.key for task in retried.tasks] == [f"gold.log@{DAYS[1]}"]
    assert (retried.blocked, retried.warnings) == ((), ())


def test_a_retry_lists_its_blocked_tasks_and_not_as_undeclared(appended: PlanningSetup) -> None:
    del appended.lake.tables["default.gold.log"][DAYS[1]]
    retried = _retry(appended, *(f"gold.log@{day}" for day in DAYS))
    assert [each.key for each in retried.blocked] == [f"gold.log@{DAYS[0]}"]
    assert retried.warnings == ()
