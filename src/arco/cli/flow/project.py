"""The project that a command is about: found, loaded, and refused while something is wrong with it."""

import shlex
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from arco.core.errors import Invalid, NotFound

if TYPE_CHECKING:
    from arco.cli.flow.flags import DataFormat
    from arco.flow.define import Project

SETTINGS = "arco.toml"
PACKAGE = "pipelines"


@dataclass(frozen=True)
class Loaded:
    """A project without problems, and the full names of the tables that it is about."""

    project: "Project"
    tables: tuple[str, ...]
    flags: str = ""  # by which another command finds the same project and format

    @property
    def replaced(self) -> tuple[str, ...]:
        """The tables whose appended rows are replaced on a change, unless others have added files."""
        return tuple(
            output.table
            for each in self.project.assets
            if each.mode.on_change == "replace"
            for output in each.outputs
        )


def find_folder(given: str | None) -> Path:
    """The folder of the project: the one that is named, or the nearest one here or above."""
    if given is not None:
        folder = Path(given).expanduser()
        if not folder.is_dir():
            raise _advised(f"there is no folder {given}", "Check --project.")
        return folder
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / SETTINGS).is_file() or (folder / PACKAGE).is_dir():
            return folder
    raise _advised(
        f"there is no project here: neither {SETTINGS} nor {PACKAGE}/ in {here} or above it",
        "Make one with `arco init`, or name one with --project.",
    )


def load(given: str | None, format_: "DataFormat | None" = None) -> Loaded:
    """The project, or `Invalid` with the first thing that is wrong with it."""
    from arco.flow.define import find_problems

    folder = find_folder(given)
    project = load_folder(folder, format=None if format_ is None else format_.value)
    found = find_problems(project)
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        wrong = Invalid(f"the project {project.name} has a problem{more}: {found[0]}")
        flags = "" if given is None else f" --project {shlex.quote(given)}"
        wrong.add_note(f"`arco validate{flags}` tells all of them.")
        raise wrong
    return Loaded(project, tables_of(project), _flags(given, format_))


def load_folder(folder: Path, *, format: str | None = None) -> "Project":  # noqa: A002 - as it is declared
    """The project of a folder, whatever is wrong with it."""
    from arco.flow.define import load_project

    if find_spec("pyspark") is not None:
        from arco.flow.spark.user_code import allow_early_udfs

        allow_early_udfs()
    with redirect_stdout(sys.stderr):  # what its modules print is no part of what a command says
        return load_project(folder, format=format)


def _flags(given: str | None, format_: "DataFormat | None") -> str:
    said = [] if given is None else ["--project", given]
    said += [] if format_ is None else ["--format", format_.value]
    return shlex.join(said)


def tables_of(project: "Project") -> tuple[str, ...]:
    """All tables that the project reads or writes, and its tasks."""
    read = {each.table for maker in project.makers() for each in maker.inputs}
    tasks = {each.name for each in project.tasks}
    return tuple(sorted({*project.tables, *read, *tasks}))


def _advised(said: str, step: str) -> NotFound:
    missing = NotFound(said)
    missing.add_note(step)
    return missing
