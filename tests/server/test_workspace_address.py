"""Commands that only read report a store or key that is missing, and create nothing."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.command import Run, arco, is_one_sentence
from tests.cli.serving import serving

READING = [
    ("verify",),
    ("gc",),
    ("gc", "--dry-run"),
    ("sql", "SELECT 1"),
    ("sql", "SELECT 1", "--fresh"),
    ("quarantine", "list"),
    ("preview", "sales.orders"),
    ("lineage", "sales.orders"),
    ("runs",),
    ("runs", "last"),
    ("logs", "last", "report"),
    ("cancel", "last"),
    ("partitions", "clear", "sales.orders", "all", "--yes"),
    ("partitions", "add", "customer", "acme", "--remove"),
    ("token", "mint", "user:ana"),
]
PLANNING = [("explain", "silver.ones"), ("partitions", "silver.ones"), ("retry", "last")]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that a server has written and left."""
    directory = tmp_path_factory.mktemp("place") / "store"
    with serving(directory):
        pass
    return directory


@pytest.mark.parametrize("folder", ["typo", "."])
@pytest.mark.parametrize("command", READING)
def test_a_directory_without_a_store_is_reported_and_not_changed(
    command: tuple[str, ...], folder: str, tmp_path: Path
) -> None:
    run = arco(*command, "--root", tmp_path / folder)
    assert run.returncode == 1
    assert run.stdout == ""
    assert is_one_sentence(run.stderr), run.stderr
    assert "there is no Arco store at" in run.stderr
    assert f"make one with `arco up --root {os.path.normpath(tmp_path / folder)}`" in run.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", PLANNING)
def test_what_only_reads_for_a_project_creates_no_store(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "a.py").write_text(
        "from arco import sql\nsql('silver.ones', query='select 1 as one')\n"
    )
    run = arco(*command, "--root", "typo", "--project", tmp_path, cwd=tmp_path)
    assert run.returncode == 1
    assert f"there is no Arco store at file://{tmp_path}/typo" in run.stderr
    assert not (tmp_path / "typo").exists()


def test_the_plan_of_the_first_run_needs_no_store(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "a.py").write_text(
        "from arco import sql\nsql('silver.ones', query='select 1 as one')\n"
    )
    run = arco("plan", "--root", "new", "--no-fsync", "--project", tmp_path, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "silver.ones" in run.stdout


def test_what_writes_creates_the_store(tmp_path: Path) -> None:
    run = arco("partitions", "add", "customer", "acme", "--root", tmp_path / "new", "--no-fsync")
    assert run.returncode == 0, run.stderr
    listed = arco("runs", "--root", tmp_path / "new")
    assert (listed.returncode, listed.stdout[:11]) == (0, "No runs yet")


@pytest.mark.parametrize("flag", ["--tenant", "--workspace"])
def test_verifying_a_misspelt_workspace_fails(flag: str, root: Path) -> None:
    run = arco("verify", "--root", root, flag, "typo")
    assert run.returncode == 1
    assert run.stdout == ""
    assert is_one_sentence(run.stderr), run.stderr
    assert "nothing was published in" in run.stderr
    assert flag in run.stderr
    assert "typo" in run.stderr


def test_with_json_a_misspelt_workspace_is_in_the_document(root: Path) -> None:
    run = arco("verify", "--root", root, "--tenant", "typo", "--json")
    report = json.loads(run.stdout)
    head = report["domains"]["catalog"]["head"]
    assert (run.returncode, report["ok"], head) == (1, False, -1)
    assert "tenant typo" in report["problem"]["explanation"]


def test_a_store_and_its_copy_are_verified(root: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    copied.mkdir()
    (root / "tenant=default").rename(copied / "tenant=default")  # as a copy out of a bucket is
    try:
        run = verified(copied)
    finally:
        (copied / "tenant=default").rename(root / "tenant=default")
    assert run.returncode == 0, run.stderr
    assert verified(root).stdout == run.stdout


def verified(directory: Path) -> Run:
    return arco("verify", "--root", directory)


@pytest.mark.parametrize(
    "command", [("token", "mint", "user:ana"), ("api", "--auth", "local", "--port", "0")]
)
def test_a_signing_key_file_that_is_missing_is_reported_and_not_created(
    command: tuple[str, ...], root: Path, tmp_path: Path
) -> None:
    key = tmp_path / "keys" / "typo"
    run = arco(
        *command,
        "--root",
        root,
        ARCO_SIGNING_KEY_FILE=str(key),
        ARCO_SERVICE_TOKEN="a secret of the two",
    )
    assert run.returncode == 1
    assert run.stdout == ""
    assert is_one_sentence(run.stderr), run.stderr
    assert f"ARCO_SIGNING_KEY_FILE names '{key}', and there is no such file" in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_arco_up_creates_the_signing_key_file(tmp_path: Path) -> None:
    key = tmp_path / "keys" / "new"
    with serving(tmp_path / "store", "--auth", "local", ARCO_SIGNING_KEY_FILE=str(key)):
        assert key.stat().st_mode & 0o777 == 0o600
