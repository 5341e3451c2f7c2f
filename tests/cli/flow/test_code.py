"""A worker's project: loaded again when its files have changed, and kept when they cannot be loaded."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from arco.cli.flow.project import LoadedProject, ReloadingProject, load, load_files
from arco.core.errors import Unavailable
from arco.flow.define import Project
from arco.flow.run.wire import LeasedTask, MakerCode

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
        self.said: list[str] = []
        self.spark = Switches()
        files = load_files(folder, self.load)
        self.code = ReloadingProject(files, self.load, self.spark, self.said.append)

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
    assert watched.said == []
    watched.write(file, text)
    watched.code.refresh()
    assert watched.code.code[NAME] != before
    assert watched.said == ["reloaded the project"]
    assert watched.spark.modules[-1][file] == text.encode()


def test_files_that_cannot_be_loaded_leave_the_code_as_it_was(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    before = watched.code.code
    watched.write("helper.py", "def rows(:")
    watched.code.refresh()
    watched.code.refresh()
    assert watched.code.code == before
    assert [each for each in watched.said if "helper.py:1" in each] == watched.said[:1]
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


def _leased(code: MakerCode) -> LeasedTask:
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
