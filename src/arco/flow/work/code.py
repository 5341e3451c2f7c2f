"""The code that a worker has loaded, as it is offered to the coordinator."""

from collections.abc import Mapping, Sequence

from arco.flow.define.project import Project
from arco.flow.run.wire import LeasedTask, MakerCode


def code_of(project: Project) -> dict[str, MakerCode]:
    """The fingerprints of all assets and tasks of a project, by their names."""
    checks = project.checks_fingerprints
    return {
        name: MakerCode(code=code, checks=checks.get(name))
        for name, code in project.fingerprints.items()
    }


class FixedCode:
    """A project that was loaded once and stays; fills `arco.flow.work.port.ProjectCode`."""

    def __init__(self, project: str, code: Mapping[str, MakerCode] | None = None) -> None:
        self.project = project
        self.code = dict(code or {})

    def refresh(self, leased: Sequence[LeasedTask] = ()) -> None:
        """Whoever planned with it plans again to have newer code."""

    def report_other_code(self, run_ids: Sequence[str]) -> None:
        """The run that it works on was planned with it."""
