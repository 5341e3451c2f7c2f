"""The projects that people begin with: what `arco init` writes, and the shop. Both run on a real Spark."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import Run, arco
from tests.processes.spark_child import spark_environments

SHOP = Path(__file__).parents[3] / "examples" / "shop"
CANARY = "a-secret-of-arco"
BLOCKED = {"silver.web_events@ds=2026-01-08", "gold.conversion@ds=2026-01-08"}

pytestmark = [pytest.mark.xdist_group("spark-commands"), pytest.mark.timeout(900)]


def unit_tests(folder: Path) -> Run:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder / "tests"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_new_project_runs_and_then_has_nothing_to_do(tmp_path: Path) -> None:
    folder, root = tmp_path / "mine", ("--root", str(tmp_path / "store"), "--no-fsync")
    assert arco("init", folder).returncode == 0
    flags = ("--format", "parquet", "--project", str(folder), *root)

    with spark_environments() as spark:
        run = arco("run", *flags, ARCO_SERVICE_TOKEN=CANARY)
    assert any("SparkSubmit" in command for command, _ in spark.values())
    assert all(CANARY not in variables for _, variables in spark.values())
    assert run.returncode == 0, run.stdout + run.stderr
    assert "silver.visits        ds=2026-01-01..2026-01-05 (5)" in run.stdout
    assert run.stderr == ""
    second_run = arco("run", *flags)
    assert second_run.stdout == "Nothing to do: 11 partitions up to date.\n"
    drawn = arco("partitions", "silver.visits", *flags).stdout
    assert "2026-01  C C C C C" in drawn

    code = folder / "pipelines" / "visits.py"
    code.write_text(code.read_text().replace('seconds > 0")\n', 'seconds > 1")\n'))
    plan = json.loads(arco("plan", "--json", *flags).stdout)
    reasons = {(each["asset"], each["reason"]) for each in plan["tasks"]}
    assert reasons == {
        ("silver.visits", "CODE_CHANGED"),
        ("gold.visits_by_page", "UPSTREAM_CHANGED"),
    }
    stale = arco("partitions", "silver.visits", *flags).stdout
    assert "2026-01  S S S S S" in stale


@pytest.mark.interop
def test_the_unit_tests_of_a_new_project_pass(tmp_path: Path) -> None:
    assert arco("init", tmp_path / "mine").returncode == 0

    tested = unit_tests(tmp_path / "mine")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_the_shop_is_sound() -> None:
    run = arco("check", "--project", SHOP)

    assert run.stdout == "The project shop is sound: 10 assets, 1 task, 14 checks.\n"


@pytest.mark.interop
def test_the_unit_tests_of_the_shop_pass() -> None:
    tested = unit_tests(SHOP)

    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.interop
@pytest.mark.parametrize("format_", ["iceberg", "parquet"])
def test_of_the_shop_one_check_blocks_one_day_and_its_readers(tmp_path: Path, format_: str) -> None:
    flags = ("--project", str(SHOP), "--format", format_)
    root = ("--root", str(tmp_path / "store"), "--no-fsync")

    run = arco("run", "--json", *flags, *root)
    document = json.loads(run.stdout)
    assert run.returncode == 1
    statuses = {each["key"]: each["status"] for each in document["tasks"]}
    assert {key for key, status in statuses.items() if status == "BLOCKED"} == BLOCKED
    assert {status for key, status in statuses.items() if key not in BLOCKED} == {"SUCCESS"}
    warned = {
        each["key"]
        for each in document["tasks"]
        if any(not check["passed"] and check["severity"] == "warn" for check in each["checks"])
    }
    assert warned == {"silver.orders@ds=2026-01-12"}
