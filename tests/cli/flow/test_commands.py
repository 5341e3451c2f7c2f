"""The commands about pipelines against `arco up`, with tasks that need no Spark."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from arco.client import Arco
from tests.cli import command
from tests.cli.command import is_one_sentence
from tests.cli.serving import NO_SPARK, Served, inherited, serving

DEFINITIONS = """
import time
from pathlib import Path

from arco import Daily, Dynamic, task

DAYS = Daily("ds", start="2026-01-01", end="2026-01-04")


@task(partitions=DAYS, tags=["good"])
def greet(ctx):
    ctx.log.info("hello %s, %s", ctx.partition["ds"], ctx.params.get("who", "nobody"))


@task(tags=["bad"])
def stumble(ctx):
    if not (Path(__file__).parent / "repaired").exists():
        raise ValueError("the road is not even")


@task()
def falter(ctx):
    raise ValueError("the road is too long")


@task(retries=1)
def waver(ctx):
    if ctx.attempt == 1:
        raise ValueError("not yet")


@task()
def spin(ctx, spark):
    ctx.log.info("it would need Spark")


@task(partitions=Dynamic("customer"), tags=["of_customers"])
def bill(ctx):
    ctx.log.info("a bill for %s", ctx.partition["customer"])


@task(partitions=Dynamic("parcel"))
def ship(ctx):
    ctx.log.info("nobody ever adds a parcel")


@task(tags=["slow"])
def doze(ctx):
    (Path(__file__).parent / "dozing").touch()
    for _ in range(1_200):
        time.sleep(0.05)
"""
RUN = re.compile(r"Run ([0-9A-Z]{26})")


@pytest.fixture(scope="module")
def arco(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("flow") / "store") as served:
        yield served


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "tasks.py").write_text(DEFINITIONS)
    return folder


@pytest.fixture(autouse=True)
def _work_in_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)


def test_a_plan_prints_ranges_and_a_document_lists_each_task(arco: Served) -> None:
    output = arco.done("plan", "greet", "--force")  # it may have run before, in another test
    assert re.search(r"greet +3 +ds=2026-01-01\.\.2026-01-03 +FORCED", output)
    assert output.endswith("3 tasks to do of 1 @task.\n")
    every = arco.done("plan", "greet", "--force", "--all")
    assert "greet@ds=2026-01-02" in every

    days = ("--partitions", "2026-01-02..2026-01-03")
    document = arco.document("plan", "greet", "--force", *days)
    assert [each["key"] for each in document["tasks"]] == [
        "greet@ds=2026-01-02",
        "greet@ds=2026-01-03",
    ]
    assert document["plan_id"]


def test_a_run_says_what_happens_and_what_came_of_it(arco: Served) -> None:
    output = arco.done("run", "greet", "--force", "--param", "who=ana")

    run_match = RUN.search(output)
    assert run_match is not None
    assert "start     greet@ds=2026-01-01  forced" in output
    assert re.search(r"done      greet@ds=2026-01-03  [0-9.]+s", output)
    assert re.search(r"greet \(task\) +ds=2026-01-01\.\.2026-01-03 \(3\)", output)
    assert f"arco runs {run_match[1]} --url {arco.url}" in output
    assert "hello 2026-01-02, ana" in arco.done("logs", run_match[1], "greet@ds=2026-01-02")
    log = arco.document("logs", run_match[1], "greet@ds=2026-01-02")
    assert (log["attempt"], log["is_over"]) == (1, True)
    none = arco.arco("logs", run_match[1], "greet@ds=2026-01-02", "--attempt", "9")
    assert (none.returncode, none.stdout) == (1, "")
    assert is_one_sentence(none.stderr)
    assert "has no attempt 9" in none.stderr


def test_a_failure_exits_with_1_and_shows_the_line_of_the_user(arco: Served, project: Path) -> None:
    run = arco.arco("run", "stumble")

    assert run.returncode == 1
    assert "ValueError: the road is not even" in run.stdout
    assert re.search(r"pipelines/tasks.py:[0-9]+ in stumble", run.stdout)
    run_match = RUN.search(run.stdout)
    assert run_match is not None
    shown = arco.done("runs", run_match[1])
    assert re.search(r"stumble +failed +1 ", shown)
    assert f"`arco logs {run_match[1]} stumble --url {arco.url}` shows more." in shown
    logged = arco.done("logs", run_match[1], "stumble")
    assert re.search(r"pipelines/tasks.py:[0-9]+ in stumble", logged)

    (project / "pipelines" / "repaired").touch()
    retry = arco.arco("retry", run_match[1])
    assert retry.returncode == 0, retry.stderr
    assert "done      stumble" in retry.stdout
    second = RUN.search(retry.stdout)
    assert second is not None
    silent = arco.arco("logs", second[1], "stumble")
    assert (silent.returncode, silent.stdout) == (0, "")
    assert f"nothing: `arco runs {second[1]} --url {arco.url}` shows" in silent.stderr


def test_why_a_task_failed_is_shown_with_its_run(arco: Served) -> None:
    run = RUN.search(arco.arco("run", "falter").stdout)
    assert run is not None
    output = arco.done("explain", "falter")
    assert output.startswith("falter: FAILED - the last attempt failed\n")
    assert f"  falter failed in run {run[1]}: ValueError: the road is too long" in output
    [failure] = json.loads(arco.done("explain", "falter", "--json"))["failures"]
    assert (failure["task"], failure["run_id"]) == ("falter", run[1])


def test_a_program_gets_one_document_and_nothing_else(arco: Served) -> None:
    run = arco.arco("run", "greet", "--force", "--partitions", "latest", "--json")

    document = json.loads(run.stdout)
    assert run.stderr == ""
    assert (document["status"], document["counts"]) == ("SUCCESS", {"SUCCESS": 1})
    (task,) = document["tasks"]
    assert (task["key"], task["reason"]) == ("greet@ds=2026-01-03", "FORCED")
    assert task["duration_ms"] >= 0
    listed = arco.items("runs", "--limit", "1")
    assert [each["run_id"] for each in listed] == [document["run_id"]]
    assert document["run_id"] in arco.done("runs", "--status", "success")


def test_what_cannot_be_made_fails_a_run_and_not_a_plan(arco: Served, tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "p.py").write_text(
        "from arco import source, task\n"
        "source('raw.gone')\n"
        "@task(reads=['raw.gone'])\n"
        "def look(): pass\n"
    )
    for words, code_of_exit in (("plan", 0), ("run", 1)):
        result = arco.arco(words, "--project", str(tmp_path))
        assert result.returncode == code_of_exit, result.stderr
        assert "look: cannot be made, as raw.gone lacks the data it reads" in result.stdout


APPENDED = """
from arco import asset, task

@asset("silver.log", mode="append", format="parquet")
def log(spark): return spark.range(1)

@task()
def note(ctx): ctx.log.info("noted")
"""


@pytest.mark.parametrize("flag", ["", "--detach"])
def test_rows_that_other_code_has_appended_fail_a_run_that_makes_the_rest(
    arco: Served, tmp_path: Path, flag: str
) -> None:
    schema = f"silver{len(flag)}"
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "p.py").write_text(APPENDED.replace("silver.", f"{schema}."))
    arco.done("schema", "create", schema)
    arco.done("table", "create", f"{schema}.log", "--format", "parquet", "--column", "id bigint")
    appended = {
        "event_type": "partition_completed",
        "event_version": 1,
        "occurred_at": "2026-01-01T00:00:00Z",
        "source": {"type": "test"},
        "payload": {
            "table_id": arco.document("table", "show", f"{schema}.log")["id"],
            "partition_key": "",
            "version": 1,
            "materialization_id": "an attempt",
            "code_fingerprint": "older code",
        },
    }
    with Arco(arco.url) as client:
        client.events.send([appended])
    at = ("--project", str(tmp_path))
    run = arco.arco("run", *at, "--force", *filter(None, [flag]))
    assert run.returncode == 1, run.stderr
    assert f"{schema}.log: blocked (APPENDED)" in run.stdout
    if flag:
        assert "1 of what was asked for cannot be made, and is not part of this run" in run.stdout
    run_match = RUN.search(run.stdout)
    assert run_match is not None
    tasks = arco.document("runs", run_match[1])["changed"]
    status = "READY" if flag else "SUCCESS"
    assert [(each["key"], each["status"]) for each in tasks] == [("note", status)]
    arco.arco("cancel", run_match[1])


def test_nothing_to_do_is_one_sentence_and_a_success(arco: Served) -> None:
    assert arco.done("run", "ship") == "Nothing to do.\n"
    assert arco.document("run", "ship")["run_id"] is None


def test_values_of_a_dynamic_dimension_are_partitions_once_they_are_added(arco: Served) -> None:
    output = arco.done("partitions", "add", "customer", "acme", "globex")
    assert output == "Added 2 values to the dimension customer.\n"
    assert len(arco.document("plan", "bill")["tasks"]) == 2

    arco.done("partitions", "add", "customer", "acme", "--remove")
    keys = [each["key"] for each in arco.document("plan", "bill")["tasks"]]
    assert keys == ["bill@customer=globex"]


def test_values_of_a_dimension_that_the_project_lacks_are_kept_and_warned_of(
    arco: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("partitions", "add", "custommer", "acme")
    run = arco.arco(*words)
    assert (run.returncode, run.stdout) == (0, "Added 1 value to the dimension custommer.\n")
    assert is_one_sentence(run.stderr)
    assert "has no dimension Dynamic('custommer'); is customer meant?" in run.stderr
    assert arco.arco("partitions", "add", "ds", "2026-01-09").stderr  # it follows from the calendar
    assert arco.arco(*words, "--remove").stderr == ""
    monkeypatch.chdir(tmp_path)  # where there is no project
    assert arco.arco(*words).stderr == ""


def test_what_is_left_to_workers_is_done_by_one(arco: Served) -> None:
    output = arco.done("run", "greet", "--force", "--detach")
    run_match = RUN.search(output)
    assert run_match is not None
    assert "waits for workers" in output

    arco.done("run", "waver", "--detach")
    document = arco.document("worker", "--once", "--name", "bench-1")  # a retried failure is none
    assert document == {"worker": "bench-1", "tasks": {"SUCCESS": 4, "FAILED": 1}}
    view = arco.document("runs", run_match[1])
    assert view["status"] == "SUCCESS"
    assert {each["worker"] for each in view["changed"]} == {"bench-1"}


def test_a_worker_that_ends_by_itself_says_whether_a_task_of_it_failed(arco: Served) -> None:
    arco.done("run", "falter", "--detach")
    ended = arco.arco("worker", "--once")
    assert ended.returncode == 1, ended.stdout
    assert re.search(r"ended: 1 failed\.$", ended.stdout.strip())


def test_a_run_without_a_worker_is_cancelled_at_once(arco: Served) -> None:
    run_match = RUN.search(arco.done("run", "greet", "--force", "--detach"))
    assert run_match is not None

    output = arco.done("cancel", run_match[1])
    assert output == f"Run {run_match[1]} is cancelled: 3 cancelled.\n"


def test_a_retry_of_a_run_that_is_not_over_is_refused_before_spark_starts(arco: Served) -> None:
    run_match = RUN.search(arco.done("run", "spin", "--detach"))
    assert run_match is not None

    retry = arco.arco("retry", run_match[1])
    assert retry.returncode == 2
    assert retry.stdout == ""
    assert f"run {run_match[1]} is not over. Cancel it first, or wait for its end." in retry.stderr
    arco.done("cancel", run_match[1])


def test_unknown_names_are_reported_in_one_sentence(arco: Served) -> None:
    for arguments in (
        ("runs", "01M7GVFS186HGNANJXDTGV0000"),
        ("cancel", "01M7GVFS186HGNANJXDTGV0000"),
        ("logs", "01M7GVFS186HGNANJXDTGV0000", "greet"),
        ("retry", "01M7GVFS186HGNANJXDTGV0000"),
        ("lineage", "gold.nothing"),
    ):
        run = arco.arco(*arguments)
        assert run.returncode == 1, arguments
        assert is_one_sentence(run.stderr), run.stderr


def test_what_the_project_does_not_declare_is_misuse(arco: Served) -> None:
    for words in ("plan", "explain", "partitions"):
        run = arco.arco(words, "gold.nothing")
        assert (run.returncode, run.stdout) == (2, ""), words
        assert is_one_sentence(run.stderr), run.stderr
    unknown = arco.arco("run", "greeet")
    assert unknown.returncode == 2
    assert "is greet meant?" in unknown.stderr


def test_ctrl_c_cancels_the_run_and_exits_with_130(arco: Served, project: Path) -> None:
    dozing = project / "pipelines" / "dozing"
    environment = inherited() | NO_SPARK | {"ARCO_URL": arco.url}
    with subprocess.Popen(
        [command.ARCO, "run", "doze"],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("start"):
                break
        os.kill(process.pid, signal.SIGINT)
        lines += process.stdout.readlines()
    output = "".join(lines)

    assert process.returncode == 130, output
    assert "Cancelling the run" in output
    run_match = RUN.search(output)
    assert run_match is not None
    assert arco.document("runs", run_match[1])["status"] == "CANCELLED"
    dozing.unlink(missing_ok=True)


def test_a_directory_is_enough_for_a_run_and_for_those_who_look_later(
    project: Path, tmp_path: Path
) -> None:
    root = ("--root", str(tmp_path / "store"), "--no-fsync")

    run = command.arco("run", "greet", *root, cwd=project)
    assert run.returncode == 0, run.stderr
    run_match = RUN.search(run.stdout)
    assert run_match is not None
    assert f"arco runs {run_match[1]} --root {tmp_path / 'store'}" in run.stdout
    shown = command.arco("runs", run_match[1], *root, cwd=project)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "greet@ds=2026-01-03" in shown.stdout


HELPED = """
from arco import Daily, task

DAYS = Daily("ds", start="2026-01-01", end="2026-01-04")
FACTOR = 2


def scaled(number):
    return number * FACTOR


def named(number):
    return f"number {number}"


@task(partitions=DAYS)
def count(ctx):
    ctx.log.info(named(scaled(1)))
"""


def test_what_has_changed_in_the_code_is_named(arco: Served, tmp_path: Path) -> None:
    code = tmp_path / "pipelines" / "counting.py"
    code.parent.mkdir()
    code.write_text(HELPED)
    at = ("--project", str(tmp_path))
    arco.done("run", "count", *at, "--partitions", "2026-01-01..2026-01-02")
    assert "recorded" not in arco.done("explain", "count", *at)

    code.write_text(HELPED.replace("FACTOR = 2", "FACTOR = 3").replace("number {", "count {"))
    changes = ["constant FACTOR changed", "function named changed"]
    one = arco.document("explain", "count", "2026-01-01", *at)
    assert sorted(one["code_changes"]) == changes
    every = arco.document("explain", "count", *at)
    assert [sorted(each["changes"]) for each in every["older_codes"]] == [changes]
    for words in (("count", "2026-01-01"), ("count",)):
        output = arco.done("explain", *words, *at)
        assert all(f"    {change}\n" in output for change in changes)
    assert "ds=2026-01-01..2026-01-02" in output

    arco.done("run", "count", *at, "--partitions", "2026-01-02")
    every = arco.document("explain", "count", *at)
    assert [each["partitions"] for each in every["older_codes"]] == [["ds=2026-01-01"]]
