"""The project of a worker, loaded again when its files change.

What is loaded is what counts: fingerprints are of the code as it was loaded, and Spark gets the modules as
they were at that moment, whatever the files hold since.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from arco.cli.flow.project import Loaded
from arco.core.errors import ArcoError, Unavailable
from arco.flow.coordinator.messages import CodeVersion, LeasedTask
from arco.flow.define import Project
from arco.flow.define.load import FileStamps, file_stamps, python_files
from arco.flow.worker.ports import project_code

_TRIES = 5


@dataclass(frozen=True)
class LoadedFiles:
    """A project, its modules, and its files as they stood before and after it was loaded."""

    loaded: Loaded
    modules: dict[str, bytes]
    stamps: FileStamps
    code: dict[str, CodeVersion]


def load_files(folder: Path, load: Callable[[], Loaded]) -> LoadedFiles:
    """The project of a folder, out of files that did not change while it was loaded."""
    for _ in range(_TRIES):
        stamps = file_stamps(folder)
        loaded = load()
        found = LoadedFiles(loaded, python_files(folder), stamps, project_code(loaded.project))
        if file_stamps(folder) == stamps:
            return found
    raise Unavailable(
        f"the files of the project in {folder} changed each time while they were loaded: wait until "
        "whatever writes them is done"
    )


class Switched(Protocol):
    """What carries tasks out, and can be given a project that was loaded again."""

    def switch(self, project: Project, modules: Mapping[str, bytes]) -> None:
        """Use it from now on; no task runs."""


class WatchedCode:
    """A project that is loaded again when its files change; fills `arco.flow.worker.ports.ProjectCode`."""

    def __init__(
        self,
        now: LoadedFiles,
        load: Callable[[], Loaded],
        crew: Switched,
        say: Callable[[str], None],
    ) -> None:
        self._now = now
        self._folder = now.loaded.project.folder
        self._load = load
        self._crew = crew
        self._say = say
        self._failed: FileStamps | None = None  # the files that could not be loaded

    @property
    def project(self) -> str:
        return self._now.loaded.project.name

    @property
    def code(self) -> dict[str, CodeVersion]:
        return self._now.code

    def refresh(self, leased: Sequence[LeasedTask] = ()) -> None:
        """Load the project again if its files have changed, unless leased tasks need what is loaded."""
        stamps = file_stamps(self._folder)
        if stamps in (self._now.stamps, self._failed):
            return
        try:
            new = load_files(self._folder, self._load)
            if not all(_has_code(new, task) for task in leased):
                return  # looked at again once these are done
            self._crew.switch(new.loaded.project, new.modules)
        except ArcoError as problem:
            self._failed = stamps
            self._say(f"the project has changed and cannot be loaded: {problem}")
            self._say("going on with the code that was loaded before")
            return
        changed = new.code != self._now.code
        self._now, self._failed = new, None
        self._say("reloaded the project" + ("" if changed else ": no asset or task has other code"))

    def report_other_code(self, run_ids: Sequence[str]) -> None:
        """Say which runs wait for other code than this worker has."""
        for run_id in run_ids:
            self._say(
                f"run {run_id} was planned with other code than this worker has: `arco runs {run_id}` "
                "shows both; update the project here, or `arco cancel` and `arco retry` the run"
            )


def _has_code(new: LoadedFiles, task: LeasedTask) -> bool:
    return task.code is None or new.code.get(task.maker) == task.code
