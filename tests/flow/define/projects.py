"""Small projects, written to a folder for one test."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from arco.flow.define import AssetDef, Project, code_fingerprint, find_problems, load_project

HEAD = """\
from arco.flow.define import asset, check, checks as c, merge, source, sql, table, task, Retry
from arco.flow.partition import Daily, Hourly, Monthly, Static, identity, custom
"""


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """A folder with these files; Python files below `pipelines` begin with the imports of `HEAD`."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        head = HEAD if name.startswith("pipelines/") and name.endswith(".py") else ""
        path.write_text(head + dedent(text).lstrip("\n"), encoding="utf-8")
    return folder


def load(folder: Path, files: Mapping[str, str]) -> Project:
    return load_project(write(folder, files))


def problem_lines(folder: Path, files: Mapping[str, str]) -> list[str]:
    """The problems of a project as lines; line 1 of a Python file is the first after `HEAD`."""
    lines = []
    for each in find_problems(load(folder, files)):
        python = each.file.startswith("pipelines/") and each.file.endswith(".py") and each.line
        line = each.line - HEAD.count("\n") if python else each.line
        lines.append(f"{each.file}:{line}: {each.message}")
    return lines


def asset_of(project: Project, name: str) -> AssetDef:
    return next(each for each in project.assets if each.name == f"default.{name}")


def prints(project: Project) -> dict[str, str]:
    """The fingerprint of each asset and task, by its short name."""
    assert find_problems(project) == []
    return {
        each.name.removeprefix("default."): code_fingerprint(each, project)
        for each in project.makers()
    }
