"""`arco gc` and what runs leave behind, on a store that an Arco has written and left."""

import json
import os
from pathlib import Path

import pytest

from arco.core.errors import Invalid
from arco.core.runtime import system_runtime
from arco.core.tasks import run
from arco.flow.coordinator.messages import AttemptOutcome
from arco.server.settings import RunRetention
from tests.cli.command import arco, is_one_sentence
from tests.flow.worker.scripted_executor import (
    DONE,
    ScriptedExecutor,
    ScriptedTask,
    disk_place,
    open_coordinator,
    plan,
    run_plan,
    submit_plan,
)

DAY_S = 24 * 3_600


def _worked(doing: ScriptedTask) -> AttemptOutcome:
    doing.watch.log("it works")
    return DONE


async def _write(root: Path) -> tuple[str, str]:
    """A run that is over, and one that waits for workers."""
    runtime = system_runtime()
    async with open_coordinator("here", runtime, disk_place(root)) as book:
        over = await run_plan(book, runtime, ScriptedExecutor(a=_worked), plan("a"))
        waits = await submit_plan(book, plan("b"))
    return over.run_id, waits


def _grow_old(root: Path, days: float) -> None:
    for folder in ("runs", "logs", "leases"):
        for path in root.glob(f"**/{folder}/**/*"):
            if path.is_file():
                then = path.stat().st_mtime - days * DAY_S
                os.utime(path, (then, then))


def _plans(root: Path) -> set[str]:
    return {path.parent.name for path in root.glob("**/runs/*/plan.json")}


def _collect(root: Path, *flags: str) -> dict[str, object]:
    done = arco("gc", "--root", root, "--json", *flags)
    assert done.returncode == 0, done.stderr
    report: dict[str, object] = json.loads(done.stdout)["runs"]
    return report


def test_plans_and_logs_of_runs_that_are_over_go_after_thirty_days(tmp_path: Path) -> None:
    over, waits = run(_write(tmp_path))
    _grow_old(tmp_path, 31)
    assert _collect(tmp_path, "--run-retention-days", "40")["plans"] == 0
    assert _plans(tmp_path) == {over, waits}
    rehearsed = _collect(tmp_path, "--dry-run")
    assert _plans(tmp_path) == {over, waits}
    done = _collect(tmp_path)
    assert (rehearsed["plans"], rehearsed["logs"]) == (done["plans"], done["logs"]) == (1, 1)
    assert done["problem"] is None
    assert _plans(tmp_path) == {waits}
    gc_result = arco("gc", "--root", tmp_path)
    assert "Runs" not in gc_result.stdout  # nothing is left to be told


def test_what_was_deleted_is_reported_in_a_line(tmp_path: Path) -> None:
    run(_write(tmp_path))
    _grow_old(tmp_path, 31)
    gc_result = arco("gc", "--root", tmp_path)
    assert "Runs: deleted 1 plans, 1 parts of logs, 0 leases," in gc_result.stdout


@pytest.mark.parametrize("days", ["0", "nan", "40000", "-1"])
def test_a_span_that_cannot_be_kept_is_refused(days: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        RunRetention(float(days)).ms()
    root = tmp_path / "store"
    refused = arco("up", "--root", root, ARCO_RUN_RETENTION_DAYS=days)
    assert refused.returncode == 2
    assert is_one_sentence(refused.stderr), refused.stderr
    assert not root.exists()


def test_it_is_thirty_days_unless_set() -> None:
    assert RunRetention().ms() == 30 * DAY_S * 1_000
