"""The ports of a worker: who executes, what it can ask of the lake, and whom it tells how far it is."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from arco.flow.publish.wire import FilesPublished, FilesStaged, TableVersionFiles
from arco.flow.run.wire import LeasedTask, MakerCode, Outcome, Progress


class LakeColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a table; the type is written as Spark writes it."""

    name: str
    data_type: str
    column_id: str | None = None
    nullable: bool = True
    comment: str | None = None
    pii_type: str | None = None


class LakeTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the catalog as a worker needs it; `location` is where its files lie, as a URL."""

    name: str
    table_id: str
    format: str
    location: str
    columns: tuple[LakeColumn, ...] = ()


class NewLakeTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that is to be made, its schema too if that is missing."""

    name: str
    format: str
    columns: tuple[LakeColumn, ...]
    partition_columns: tuple[str, ...] = ()
    comment: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()


class LakeStore(msgspec.Struct, frozen=True, kw_only=True):
    """Where managed tables lie, as a URL, and what clients are told to reach it; no secrets."""

    location: str = ""
    settings: dict[str, str] = {}


class Lake(Protocol):
    """The catalog, asked from the thread of a task; every call blocks."""

    def find(self, table: str) -> LakeTable | None:
        """A table by its full name, if there is one."""

    def make(self, wanted: NewLakeTable) -> LakeTable:
        """A table that is there once this returns; somebody else may have been faster."""

    def make_schema(self, table: str) -> None:
        """See to it that the schema of a table is there, whether or not the table is."""

    def widen(self, table: LakeTable, columns: tuple[LakeColumn, ...]) -> LakeTable:
        """The table with columns that it lacked."""

    def narrow(self, table: LakeTable, columns: tuple[str, ...]) -> LakeTable:
        """The table without columns that it had."""

    def describe(self, table: LakeTable, wanted: NewLakeTable) -> None:
        """Bring comment, owner and tags to what the definition says."""

    def files(self, table_id: str) -> TableVersionFiles:
        """All files of a plain Parquet table as it stands now."""

    def publish(self, staged: FilesStaged) -> FilesPublished:
        """Publish files of a plain Parquet table; `Fenced` if another attempt holds its partitions."""


class Watch(Protocol):
    """Whom an executor tells what it does; may be called from any thread."""

    def log(self, line: str) -> None:
        """Keep a line with the attempt."""

    def progress(self, progress: Progress) -> None:
        """How far it is."""

    def is_stopped(self) -> bool:
        """Whether the attempt was cancelled, timed out or lost: begin nothing more."""


class ProjectCode(Protocol):
    """The project that a worker has loaded."""

    @property
    def project(self) -> str:
        """Its name."""

    @property
    def code(self) -> dict[str, MakerCode]:
        """The fingerprints of what is loaded, by the names of assets and tasks."""

    def refresh(self, leased: Sequence[LeasedTask] = ()) -> None:
        """Load the project again if its files have changed; called only while no task runs. May block.

        What is loaded stays if it cannot be loaded now, and if the tasks that were just leased were planned
        with it and not with what the files hold now.
        """

    def report_other_code(self, run_ids: Sequence[str]) -> None:
        """Runs wait for other code than is loaded, and the files hold none that is newer."""


class Executor(Protocol):
    """Whoever carries tasks out; each call blocks a thread of its own."""

    def execute(self, task: LeasedTask, watch: Watch) -> Outcome:
        """Read, compute, stage, check and publish. Errors of the user's code are an outcome, not raised."""

    def interrupt(self, attempt_id: str) -> None:
        """Stop an attempt at once; its `execute` then returns CANCELLED."""

    def close(self) -> None:
        """Let go of the engine."""
