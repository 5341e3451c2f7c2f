import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App

from arco import __version__
from arco.cli.main import app
from tests.cli.command import ARCO, arco, is_one_sentence
from tests.cli.serving import Served, serving

HEAVY = ("obstore", "msgspec", "asyncio", "ulid", "rfc8785", "markdown_it", "pygments")

# What a command that only asks a server needs none of.
OF_SERVERS_AND_PIPELINES = (
    *("cryptography", "datafusion", "duckdb", "fastavro", "numpy", "obstore", "opentelemetry"),
    *("pandas", "prometheus_client", "py4j", "pyarrow", "pyspark", "sqlglot", "structlog"),
    *("uvicorn", "yaml"),
)


@pytest.mark.parametrize("arguments", [(), ("doctor",), ("iam",), ("iam", "render")])
def test_help_gives_examples(arguments: tuple[str, ...]) -> None:
    run = arco(*arguments, "--help")

    assert run.returncode == 0
    assert "Examples:\n  arco " in run.stdout
    assert run.stderr == ""


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from arco.cli.main import app\n"
        "try:\n    app.meta(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    imported = run.stderr.split()
    assert "arco.cli.main" in imported
    assert [name for name in imported if name.partition(".")[0] in HEAVY] == []
    assert [name for name in imported if name.startswith(("arco.storage", "arco.ledger"))] == []
    assert "rich.markdown" not in imported


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("sample") / "store", "--sample") as served:
        yield served


@pytest.mark.parametrize(
    "command",
    [
        *("catalog list", "schema list", "view list", "table list", "table list sales --json"),
        *("table show sales.orders", "table history sales.orders", "runs"),
        *("lineage sales.orders", "connect spark", "connect duckdb"),
    ],
)
def test_a_short_command_imports_no_library_of_servers_or_pipelines(
    sample: Served, command: str
) -> None:
    code = (
        "import atexit, sys\n"
        "from arco.cli.main import main\n"
        "atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr))\n"
        "main()\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *command.split(), "--url", sample.url],
        capture_output=True,
        text=True,
        check=True,
    )

    imported = run.stderr.split()
    assert run.stdout
    assert "arco.client.client" in imported
    assert [name for name in imported if name in OF_SERVERS_AND_PIPELINES] == []


def test_the_module_can_be_run_without_the_script() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "arco.cli.main", "version"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout == f"{__version__}\n"


@pytest.mark.parametrize("arguments", [("version",), ("--version",)])
def test_the_version_is_printed(arguments: tuple[str, ...]) -> None:
    run = arco(*arguments)

    assert (run.returncode, run.stdout) == (0, f"{__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("doctor", "--nonsense"),
        ("doctor", "unexpected"),
        ("doctor", "--root"),
        ("iam", "nonsense"),
        ("iam", "render"),
        ("iam", "render", "--cloud", "ibm", "--bucket", "lake"),
        ("iam", "render", "--cloud", "aws", "--bucket", "lake", "--role", "root"),
    ],
)
def test_misuse_exits_with_2_and_a_sentence(arguments: tuple[str, ...]) -> None:
    run = arco(*arguments, COLUMNS="40")

    assert run.returncode == 2
    assert is_one_sentence(run.stderr), run.stderr
    command = "arco iam render" if "render" in arguments else "arco"
    assert re.search(rf"See `{command}[a-z ]* --help`\.$", run.stderr)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("iam", "render"), "--cloud is required. See `arco iam render --help`."),
        (("doctor", "--root"), "--root needs a value. See `arco doctor --help`."),
        (("doctor", "extra"), "unexpected argument 'extra'. See `arco doctor --help`."),
    ],
)
def test_misuse_is_reported_in_plain_words(arguments: tuple[str, ...], message: str) -> None:
    assert arco(*arguments).stderr == f"arco: {message}\n"


def test_a_traceback_is_shown_only_to_who_asks_for_it() -> None:
    hidden = arco("doctor", "--store", "ftp://x")
    by_flag = arco("doctor", "--store", "ftp://x", "--debug")
    by_variable = arco("doctor", "--store", "ftp://x", ARCO_DEBUG="1")

    assert "Traceback" not in hidden.stderr
    assert "Traceback" in by_flag.stderr
    assert "Traceback" in by_variable.stderr
    assert {run.returncode for run in (hidden, by_flag, by_variable)} == {2}
    assert by_flag.stderr.endswith(hidden.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this machine has no /dev/full")
@pytest.mark.parametrize("arguments", [("version",), ("doctor", "--help"), ("doctor",)])
def test_a_full_disk_behind_stdout_is_no_bug_of_ours(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [ARCO, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=tmp_path,
        )

    assert run.returncode == 1
    assert is_one_sentence(run.stderr), run.stderr
    assert "could not be written" in run.stderr


def test_a_bug_of_ours_is_one_sentence_too(tmp_path: Path) -> None:
    (tmp_path / "arco_broken.py").write_text("def command():\n    raise ZeroDivisionError\n")
    code = "from arco.cli.main import app, main\napp.command('arco_broken:command', name='broken')\nmain()"
    run = subprocess.run(
        [sys.executable, "-c", code, "broken"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert run.returncode == 1
    assert is_one_sentence(run.stderr)
    assert "ZeroDivisionError" in run.stderr
    assert "--debug" in run.stderr


def test_a_reader_that_leaves_early_is_no_error() -> None:
    process = subprocess.Popen(
        [ARCO, "iam", "render", "--cloud", "gcp", "--bucket", "lake"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()

    assert process.stderr.read() == ""
    process.stderr.close()
    process.wait()


def _flags(branch: App) -> set[str]:
    names = {
        name
        for argument in branch.assemble_argument_collection()
        for name in argument.names
        if name.startswith("--")
    }
    for name in branch:
        if not name.startswith("-"):
            names |= _flags(branch[name])
    return names


def test_every_flag_shows_the_variable_that_sets_it() -> None:
    flags = _flags(app["doctor"]) | _flags(app["iam"]["render"])
    shown = arco("doctor", "--help").stdout + arco("iam", "render", "--help").stdout

    assert len(flags) >= 10
    words = " ".join(shown.replace("│", " ").split())
    for flag in flags:
        assert f"ARCO_{flag[2:].replace('-', '_').upper()}" in words


def test_variables_stand_in_for_flags(tmp_path: Path) -> None:
    (tmp_path / "store" / ".arco").mkdir(parents=True)
    run = arco(
        "doctor",
        ARCO_ROOT=str(tmp_path / "store"),
        ARCO_TENANT="acme",
        ARCO_WORKSPACE="main",
        ARCO_JSON="1",
        ARCO_NO_FSYNC="1",
    )

    assert run.returncode == 0
    subject = json.loads(run.stdout)["subject"]
    assert subject["store"].endswith("/store")
    assert (subject["tenant"], subject["workspace"]) == ("acme", "main")


@pytest.mark.parametrize("name", ["ARCO_STORE", "ARCO_STORAGE_BUCKET"])
def test_a_store_can_come_from_either_variable(name: str, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/bucket"

    run = arco("doctor", "--json", "--no-fsync", cwd=tmp_path, **{name: url})

    assert json.loads(run.stdout)["subject"]["store"] == url


def test_of_two_variables_for_the_store_its_own_name_wins(tmp_path: Path) -> None:
    run = arco("doctor", "--json", ARCO_STORE=str(tmp_path), ARCO_STORAGE_BUCKET="gs://elsewhere")

    assert json.loads(run.stdout)["subject"]["store"] == f"file://{tmp_path}"


def test_a_flag_beats_the_variable_of_the_flag_that_it_excludes(tmp_path: Path) -> None:
    by_root = arco("doctor", "--json", "--root", tmp_path, ARCO_STORE="gs://elsewhere")
    by_store = arco("doctor", "--json", "--store", tmp_path, ARCO_ROOT="/elsewhere")

    for run in (by_root, by_store):
        assert json.loads(run.stdout)["subject"]["store"] == f"file://{tmp_path}"


@pytest.mark.parametrize("store", ["ARCO_STORE", "ARCO_STORAGE_BUCKET"])
def test_two_variables_that_exclude_each_other_are_misuse(store: str) -> None:
    run = arco("doctor", cwd=None, ARCO_ROOT="/a", **{store: "gs://b"})

    assert run.returncode == 2
    assert is_one_sentence(run.stderr)
    assert f"ARCO_ROOT and {store} both" in run.stderr


@pytest.mark.parametrize(
    "name", ["ARCO_ROOT", "ARCO_STORE", "ARCO_STORAGE_BUCKET", "ARCO_TENANT", "ARCO_DEBUG"]
)
def test_a_variable_that_is_empty_is_not_set(name: str, tmp_path: Path) -> None:
    (tmp_path / ".arco").mkdir()
    run = arco("doctor", "--json", "--no-fsync", cwd=tmp_path, ARCO_NO_FSYNC="", **{name: ""})

    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["subject"]["store"] == f"file://{tmp_path}/.arco"


def test_a_bucket_variable_without_its_kind_is_not_taken_for_a_directory(tmp_path: Path) -> None:
    run = arco("doctor", cwd=tmp_path, ARCO_STORAGE_BUCKET="lake")

    assert run.returncode == 2
    assert "gs://lake" in run.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("flags", [(), ("--debug",)])
def test_code_of_a_project_may_import_pandas(flags: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "a.py").write_text("import pandas\n")
    run = subprocess.run(
        [ARCO, *flags, "validate", "--project", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "pandas" not in run.stdout + run.stderr
