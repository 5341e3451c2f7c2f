"""The project of a command: found, loaded, and refused while something is wrong with it.

A worker loads it again when its files change. Fingerprints are of the code as it was loaded, and Spark gets
the modules as they were at that moment, whatever the files hold since.
"""

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from arco.core.errors import ArcoError, Invalid, NotFound, Unavailable
from arco.flow.coordinator.messages import CodeVersion, LeasedTask
from arco.flow.define import Project
from arco.flow.define.load import FileStamps, file_stamps, python_files
from arco.flow.worker.ports import project_code

if TYPE_CHECKING:
    from arco.cli.flow.flags import DataFormat
    from arco.flow.define import Project

SETTINGS = "arco.toml"
PACKAGE = "pipelines"


@dataclass(frozen=True)
class LoadedProject:
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


def find_folder(directory: str | None) -> Path:
    """The folder of the project: the one that is named, or the nearest one here or above."""
    if directory is not None:
        folder = Path(directory).expanduser()
        if not folder.is_dir():
            raise _advised(f"there is no folder {directory}", "Check --project.")
        return folder
    current = Path.cwd()
    for folder in (current, *current.parents):
        if (folder / SETTINGS).is_file() or (folder / PACKAGE).is_dir():
            return folder
    raise _advised(
        f"there is no project here: neither {SETTINGS} nor {PACKAGE}/ in {current} or above it",
        "Make one with `arco init`, or name one with --project.",
    )


def load(directory: str | None, format_: "DataFormat | None" = None) -> LoadedProject:
    """The project, or `Invalid` with its first problem."""
    from arco.flow.define import find_problems

    folder = find_folder(directory)
    project = load_folder(folder, format=None if format_ is None else format_.value)
    problems = find_problems(project)
    if problems:
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        problem = Invalid(f"the project {project.name} has a problem{more}: {problems[0]}")
        flags = "" if directory is None else f" --project {shlex.quote(directory)}"
        problem.add_note(f"`arco validate{flags}` lists all of them.")
        raise problem
    return LoadedProject(project, tables_of(project), _flags(directory, format_))


def load_folder(folder: Path, *, format: str | None = None) -> "Project":  # noqa: A002 - as it is declared
    """The project of a folder, whatever is wrong with it."""
    from arco.flow.define import load_project

    if find_spec("pyspark") is not None:
        from arco.flow.spark.user_code import allow_early_udfs

        allow_early_udfs()
    with redirect_stdout(sys.stderr):  # what its modules print is not output of the command
        return load_project(folder, format=format)


def _flags(directory: str | None, format_: "DataFormat | None") -> str:
    flags = [] if directory is None else ["--project", directory]
    flags += [] if format_ is None else ["--format", format_.value]
    return shlex.join(flags)


def tables_of(project: "Project") -> tuple[str, ...]:
    """All tables that the project reads or writes, and its tasks."""
    read = {each.table for maker in project.makers() for each in maker.inputs}
    tasks = {each.name for each in project.tasks}
    return tuple(sorted({*project.tables, *read, *tasks}))


def _advised(message: str, step: str) -> NotFound:
    missing = NotFound(message)
    missing.add_note(step)
    return missing


_TRIES = 5


@dataclass(frozen=True)
class LoadedFiles:
    """A project, its modules, and its files as they stood before and after it was loaded."""

    loaded: LoadedProject
    modules: dict[str, bytes]
    stamps: FileStamps
    code: dict[str, CodeVersion]


def load_files(folder: Path, load: Callable[[], LoadedProject]) -> LoadedFiles:
    """The project of a folder, out of files that did not change while it was loaded."""
    for _ in range(_TRIES):
        stamps = file_stamps(folder)
        loaded = load()
        files = LoadedFiles(loaded, python_files(folder), stamps, project_code(loaded.project))
        if file_stamps(folder) == stamps:
            return files
    raise Unavailable(
        f"the files of the project in {folder} changed each time while they were loaded: wait until "
        "whatever writes them is done"
    )


class SwitchableExecutor(Protocol):
    """What carries tasks out, and can be given a project that was loaded again."""

    def switch(self, project: Project, modules: Mapping[str, bytes]) -> None:
        """Use it from now on; no task runs."""


class ReloadingProject:
    """Implements `arco.flow.worker.ports.ProjectCode`; a project is loaded again when its files change."""

    def __init__(
        self,
        files: LoadedFiles,
        load: Callable[[], LoadedProject],
        executor: SwitchableExecutor,
        print_line: Callable[[str], None],
    ) -> None:
        self._files = files
        self._folder = files.loaded.project.folder
        self._load = load
        self._executor = executor
        self._print = print_line
        self._failed: FileStamps | None = None  # the files that could not be loaded

    @property
    def project(self) -> str:
        return self._files.loaded.project.name

    @property
    def code(self) -> dict[str, CodeVersion]:
        return self._files.code

    def refresh(self, leased: Sequence[LeasedTask] = ()) -> None:
        """Load the project again if its files have changed, unless leased tasks need what is loaded."""
        stamps = file_stamps(self._folder)
        if stamps in (self._files.stamps, self._failed):
            return
        try:
            new = load_files(self._folder, self._load)
            if not all(_has_code(new, task) for task in leased):
                return  # looked at again once these are done
            self._executor.switch(new.loaded.project, new.modules)
        except ArcoError as problem:
            self._failed = stamps
            self._print(f"the project has changed and cannot be loaded: {problem}")
            self._print("going on with the code that was loaded before")
            return
        changed = new.code != self._files.code
        self._files, self._failed = new, None
        self._print(
            "reloaded the project" + ("" if changed else ": no asset or task has other code")
        )

    def report_other_code(self, run_ids: Sequence[str]) -> None:
        """Print which runs wait for other code than this worker has."""
        for run_id in run_ids:
            self._print(
                f"run {run_id} was planned with other code than this worker has: `arco runs {run_id}` "
                "shows both; update the project here, or `arco cancel` and `arco retry` the run"
            )


def _has_code(new: LoadedFiles, task: LeasedTask) -> bool:
    return task.code is None or new.code.get(task.maker) == task.code
