"""The project of a command: how it is found and loaded, and loaded again when its files change."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from arco.cli.flow.project import LoadedProject, ReloadingProject, load, load_files
from arco.core.errors import Unavailable
from arco.flow.coordinator.messages import CodeVersion, LeasedTask
from arco.flow.define import Project
from tests.cli.command import arco, is_one_sentence

BROKEN = """
from arco.flow.define import asset, table


@asset("silver.orders")
def orders(raw=table("raw.orderz")):
    ...


@asset("gold.spend")
def spend(orders, nobody_knows):
    ...
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("init") / "my shop"
    run = arco("init", folder)
    assert run.returncode == 0, run.stderr
    assert "arco run --root .arco" in run.stdout
    return folder


def project(folder: Path, text: str) -> Path:
    (folder / "pipelines").mkdir(parents=True)
    (folder / "pipelines" / "shop.py").write_text(text)
    return folder


def test_a_new_project_is_sound(made: Path) -> None:
    run = arco("validate", cwd=made)

    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("The project my-shop is sound: 3 assets, ")


def test_a_new_project_declares_assets_and_checks(made: Path) -> None:
    document = json.loads(arco("validate", "--json", "--project", made).stdout)

    assert document["ok"] is True
    assert document["assets"] == [
        "default.raw.visits",
        "default.silver.visits",
        "default.gold.visits_by_page",
    ]
    assert document["checks"] >= 4
    assert (made / ".gitignore").read_text().startswith(".arco/")


def test_the_tests_of_a_new_project_are_its_own_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-flag\n")
    arco("init", tmp_path / "shop")

    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q"],
        cwd=tmp_path / "shop",
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "tests/test_visits.py::test_visits_are_counted_by_page" in run.stdout


def test_the_guide_names_the_files_of_a_new_project(tmp_path: Path) -> None:
    first_line = arco("init", "shop", cwd=tmp_path).stdout.splitlines()[0]
    guide = Path(__file__).parents[3] / "docs" / "reference" / "cli-pipelines.md"
    assert first_line in guide.read_text(encoding="utf-8").splitlines()


def test_nothing_is_written_over(made: Path) -> None:
    before = (made / "arco.toml").read_text()

    run = arco("init", made)
    assert run.returncode == 1
    assert is_one_sentence(run.stderr)
    assert (made / "arco.toml").read_text() == before


def test_a_folder_with_pipelines_is_left_alone(tmp_path: Path) -> None:
    project(tmp_path, "")

    run = arco("init", cwd=tmp_path)
    assert run.returncode == 1
    assert not (tmp_path / "arco.toml").exists()


def test_all_problems_are_reported_at_once_with_file_and_line(tmp_path: Path) -> None:
    run = arco("validate", cwd=project(tmp_path, BROKEN))

    assert run.returncode == 1
    assert "pipelines/shop.py:6: default.raw.orderz is neither an asset nor a source" in run.stdout
    assert (
        "pipelines/shop.py:10: the parameter 'nobody_knows' is the name of no table" in run.stdout
    )
    assert "2 problems in the project" in run.stdout


def test_a_program_gets_the_problems_as_a_list(tmp_path: Path) -> None:
    run = arco("validate", "--json", cwd=project(tmp_path, BROKEN))

    document = json.loads(run.stdout)
    assert run.returncode == 1
    assert document["ok"] is False
    assert [(each["file"], each["line"]) for each in document["problems"]] == [
        ("pipelines/shop.py", 6),
        ("pipelines/shop.py", 10),
    ]


def test_what_a_file_that_cannot_be_loaded_may_hide_is_reported(tmp_path: Path) -> None:
    hidden = project(tmp_path, "import nowhere\n" + BROKEN)
    assert arco("validate", cwd=hidden).stdout.endswith(
        f"\n1 problem in the project {tmp_path.name}. There may be more once all files can be loaded.\n"
    )
    assert json.loads(arco("validate", "--json", cwd=hidden).stdout)["may_be_more"] is True


def test_a_query_that_declares_nothing_is_warned_of_and_no_problem(tmp_path: Path) -> None:
    project(tmp_path, "")
    (tmp_path / "pipelines" / "x.sql").write_text("select 1\n")
    run = arco("validate", cwd=tmp_path)
    assert run.returncode == 0
    assert run.stdout.startswith("pipelines/x.sql:1: warning: declares nothing: it has no header")
    document = json.loads(arco("validate", "--json", cwd=tmp_path).stdout)
    assert (document["problems"], document["may_be_more"]) == ([], False)
    assert [(each["file"], each["line"]) for each in document["warnings"]] == [
        ("pipelines/x.sql", 1)
    ]


def test_a_project_is_found_from_a_folder_within_it(tmp_path: Path) -> None:
    below = project(tmp_path, "x = 1\n") / "pipelines" / "deep"
    below.mkdir()

    assert arco("validate", cwd=below).returncode == 0


def test_a_missing_project_is_reported_with_what_to_do(tmp_path: Path) -> None:
    run = arco("validate", cwd=tmp_path)

    assert run.returncode == 1
    assert is_one_sentence(run.stderr)
    assert run.stderr.endswith("Make one with `arco init`, or name one with --project.\n")


def test_a_project_with_problems_is_not_planned(tmp_path: Path) -> None:
    run = arco("plan", cwd=project(tmp_path, BROKEN))

    assert run.returncode == 2
    assert is_one_sentence(run.stderr)
    assert "has a problem and 1 more: pipelines/shop.py:6" in run.stderr
    assert run.stderr.endswith("`arco validate` lists all of them.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--force", "--stale"), "--force makes everything that is meant"),
        (("run", "--parallel", "0"), "--parallel takes 1 to 1,000"),
        (("run", "--memory", "much"), "--memory takes a size"),
        (("run", "--conf", "x"), "--conf takes key=value"),
        (("run", "--param", "x"), "--param takes key=value"),
        (("run", "--url", "http://x", "--root", "y"), "give one of them"),
        (("run", "--detach", "--root", "y"), "use --url"),
        (("run", "--format", "delta"), "--format"),
        (("worker", "--slots", "0"), "--slots takes 1 to 1,000"),
        (("runs", "--status", "odd"), "--status takes one of"),
        (("partitions", "add", "customer"), "there is no value to add"),
        (("logs", "01M7GVFS186HGNANJXDTGV0000"), "TASK is required"),
    ],
)
def test_misuse_is_reported_in_one_sentence_and_exits_with_2(
    made: Path, arguments: tuple[str, ...], message: str
) -> None:
    run = arco(*arguments, cwd=made)

    assert run.returncode == 2, run.stderr
    assert is_one_sentence(run.stderr)
    assert message in run.stderr


def test_of_two_variables_the_url_is_meant(made: Path, tmp_path: Path) -> None:
    run = arco("plan", cwd=made, ARCO_URL="http://127.0.0.1:9", ARCO_ROOT=str(tmp_path / "store"))

    assert run.returncode == 1
    assert "no Arco is running at http://127.0.0.1:9" in run.stderr
    assert not (tmp_path / "store").exists()


def test_a_partition_does_not_speak_to_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "a.py").write_text(
        "from arco import Dynamic, sql\n"
        "sql('silver.bills', query='select 1 as customer', partitions=Dynamic('customer'))\n"
    )
    root = ("--root", tmp_path / "store", "--no-fsync")
    assert arco("partitions", "add", "customer", "\x1b[2Jgone", *root).returncode == 0
    for words in (("plan",), ("explain", "silver.bills")):
        run = arco(*words, "--project", tmp_path, *root)
        assert (run.returncode, run.stderr) == (0, "")
        assert r"customer=\x1b[2Jgone" in run.stdout
        assert "\x1b" not in run.stdout


@pytest.mark.parametrize(
    "command",
    [
        "init",
        "validate",
        "plan",
        "explain",
        "run",
        "runs",
        "logs",
        "cancel",
        "retry",
        "partitions",
        "worker",
    ],
)
def test_every_command_has_examples_and_a_document_for_programs(command: str) -> None:
    output = arco(command, "--help").stdout

    assert "Examples:" in output
    assert "--json" in output
    assert all(len(line) <= 100 for line in output.splitlines())


def test_functions_for_spark_may_be_declared_where_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "a.py").write_text(
        "from pyspark.sql import functions as F\n"
        "@F.udf('string')\n"
        "def loud(text): return text.upper()\n"
        "longer = F.udf(lambda n: n + 1, 'bigint')\n"
        "twice = F.pandas_udf(lambda n: n * 2, 'long')\n"
    )
    run = arco("validate", "--project", tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    assert "nothing is declared yet" in run.stdout


ASSET = """
from arco import asset, checks as c
import helper

@asset("gold.a", checks=[c.row_count(min=1)])
def a(spark):
    return helper.rows(spark)
"""
NAME = "default.gold.a"


class Switches:
    """Notes what Spark is given."""

    def __init__(self) -> None:
        self.modules: list[Mapping[str, bytes]] = []

    def switch(self, project: Project, modules: Mapping[str, bytes]) -> None:
        self.modules.append(modules)


class Watched:
    """A project of files, and the worker's view of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("pipelines/a.py", ASSET)
        self.write("helper.py", "def rows(spark):\n    return spark.range(1)\n")
        self.messages: list[str] = []
        self.spark = Switches()
        files = load_files(folder, self.load)
        self.code = ReloadingProject(files, self.load, self.spark, self.messages.append)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def load(self) -> LoadedProject:
        return load(str(self.folder))


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("helper.py", "def rows(spark):\n    return spark.range(22)\n"),
        ("pipelines/a.py", ASSET.replace("helper.rows(spark)", "spark.range(3)")),
        ("pipelines/a.py", ASSET.replace("min=1", "min=100")),
    ],
    ids=["a helper", "the asset", "a check"],
)
def test_an_edit_is_loaded_and_offered(tmp_path: Path, file: str, text: str) -> None:
    watched = Watched(tmp_path)
    before = watched.code.code[NAME]
    watched.code.refresh()
    assert watched.messages == []
    watched.write(file, text)
    watched.code.refresh()
    assert watched.code.code[NAME] != before
    assert watched.messages == ["reloaded the project"]
    assert watched.spark.modules[-1][file] == text.encode()


def test_files_that_cannot_be_loaded_leave_the_code_as_it_was(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    before = watched.code.code
    watched.write("helper.py", "def rows(:")
    watched.code.refresh()
    watched.code.refresh()
    assert watched.code.code == before
    assert [each for each in watched.messages if "helper.py:1" in each] == watched.messages[:1]
    assert watched.spark.modules == []
    watched.write("helper.py", "def rows(spark):\n    return spark.range(4)\n")
    watched.code.refresh()
    assert watched.code.code != before


def test_leased_tasks_keep_the_code_that_they_were_planned_with(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    before = watched.code.code
    watched.write("helper.py", "def rows(spark):\n    return spark.range(4)\n")
    watched.code.refresh([_leased(before[NAME])])
    assert watched.code.code == before
    watched.code.refresh()
    assert watched.code.code != before


def test_files_that_change_while_they_are_loaded_are_refused(tmp_path: Path) -> None:
    watched, count = Watched(tmp_path), 0

    def load_and_edit() -> LoadedProject:
        nonlocal count
        count += 1
        watched.write("helper.py", f"def rows(spark):\n    return spark.range({10**count})\n")
        return watched.load()

    with pytest.raises(Unavailable, match="changed each time while they were loaded"):
        load_files(tmp_path, load_and_edit)


def _leased(code: CodeVersion) -> LeasedTask:
    return LeasedTask(
        run_id="r",
        key="gold.a",
        maker=NAME,
        partition="",
        attempt=1,
        attempt_id="x",
        lease_until_ms=0,
        reason="MISSING",
        now_ms=0,
        code=code,
    )
