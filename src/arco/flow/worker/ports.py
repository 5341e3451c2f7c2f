"""The ports of a worker: the executor, the catalog that tasks use, and the code that is loaded."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from arco.flow.coordinator.messages import AttemptOutcome, CodeVersion, LeasedTask, Progress
from arco.flow.define.project import Project
from arco.flow.publish.wire import FilesPublished, FilesStaged, TableVersionFiles


class CatalogColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a table; the type is written as Spark writes it."""

    name: str
    data_type: str
    column_id: str | None = None
    nullable: bool = True
    comment: str | None = None
    pii_type: str | None = None


class CatalogTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the catalog as a worker needs it; `location` is the URL of its files."""

    name: str
    table_id: str
    format: str
    location: str
    columns: tuple[CatalogColumn, ...] = ()


class NewCatalogTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table to create, with its schema if that does not exist."""

    name: str
    format: str
    columns: tuple[CatalogColumn, ...]
    partition_columns: tuple[str, ...] = ()
    comment: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()


class CatalogStore(msgspec.Struct, frozen=True, kw_only=True):
    """The URL of managed tables, and the settings that clients need to reach it; no secrets."""

    location: str = ""
    settings: dict[str, str] = {}


class TaskCatalog(Protocol):
    """The catalog, called from the thread of a task; every call blocks."""

    def find(self, table: str) -> CatalogTable | None:
        """A table by its full name, if it exists."""

    def make(self, wanted: NewCatalogTable) -> CatalogTable:
        """Create a table, or return it if another process has created it."""

    def make_schema(self, table: str) -> None:
        """Create the schema of a table if it does not exist."""

    def widen(self, table: CatalogTable, columns: tuple[CatalogColumn, ...]) -> CatalogTable:
        """Add columns to a table."""

    def narrow(self, table: CatalogTable, columns: tuple[str, ...]) -> CatalogTable:
        """Drop columns of a table."""

    def describe(self, table: CatalogTable, wanted: NewCatalogTable) -> None:
        """Set comment, owner and tags to those of the definition."""

    def files(self, table_id: str) -> TableVersionFiles:
        """All files of a plain Parquet table now."""

    def publish(self, staged: FilesStaged) -> FilesPublished:
        """Publish files of a plain Parquet table; `Fenced` if another attempt holds its partitions."""


class AttemptContext(Protocol):
    """What an executor gets to report on an attempt; may be called from any thread."""

    def log(self, line: str) -> None:
        """Add a line to the log of the attempt."""

    def progress(self, progress: Progress) -> None:
        """Report the progress of the attempt."""

    def is_stopped(self) -> bool:
        """Whether the attempt was cancelled, timed out or lost: start nothing more."""


class Executor(Protocol):
    """Executes tasks; each call blocks its own thread."""

    def execute(self, task: LeasedTask, context: AttemptContext, /) -> AttemptOutcome:
        """Read, compute, stage, check and publish. Errors of the user's code are an outcome, not raised."""

    def interrupt(self, attempt_id: str) -> None:
        """Stop an attempt at once; its `execute` then returns CANCELLED."""

    def close(self) -> None:
        """Release the engine."""


class ProjectCode(Protocol):
    """The project that a worker has loaded."""

    @property
    def project(self) -> str:
        """Its name."""

    @property
    def code(self) -> dict[str, CodeVersion]:
        """The fingerprints of the loaded code, by the names of assets and tasks."""

    def refresh(self, leased: Sequence[LeasedTask] = ()) -> None:
        """Load the project again if its files have changed; called only while no task runs. May block.

        The loaded code stays if the files cannot be loaded, and if the tasks that were just leased were
        planned with it and not with what the files hold now.
        """

    def report_other_code(self, run_ids: Sequence[str]) -> None:
        """Runs wait for other code than is loaded, and the files hold nothing newer."""


class StaticProjectCode:
    """A `ProjectCode` that was loaded once and stays, for a worker of the process that planned the run."""

    def __init__(self, project: str, code: Mapping[str, CodeVersion] | None = None) -> None:
        self.project = project
        self.code = dict(code or {})

    def refresh(self, leased: Sequence[LeasedTask] = ()) -> None:
        """Does nothing: newer code needs a new plan."""

    def report_other_code(self, run_ids: Sequence[str]) -> None:
        """Does nothing: the run was planned with this code."""


def project_code(project: Project) -> dict[str, CodeVersion]:
    """The fingerprints of all assets and tasks of a project, by their names."""
    checks = project.checks_fingerprints
    return {
        name: CodeVersion(code=code, checks=checks.get(name))
        for name, code in project.fingerprints.items()
    }
