"""The ports of the book of runs: whom it tells, whom it asks, and who keeps late attempts out.

The book decides alone; all that it needs of the world comes through these, so that it runs over a real
workspace, in a test without any engine, and under the simulator.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from arco.catalog.publication import Attempt, Numbered
from arco.events.payload import Payload
from arco.flow.run.wire import CheckOutcome, RunStatus, TaskStatus


@dataclass(frozen=True)
class Place:
    """A table and the head of its chain of versions."""

    table_id: str
    format: str
    number: int


class Fences(Protocol):
    """Chains of tables, as far as they keep late attempts out (P35)."""

    async def place(self, table: str) -> Place | None:
        """Where a table stands now, by its full name; None if there is no such table."""

    async def fence(self, table_id: str, attempt: Attempt, since: int) -> Numbered | int:
        """The publication of any attempt at the task above `since`, or else the number of a new fence."""


class Versions(Protocol):
    """What the data are of tables that no pipeline makes."""

    async def versions(
        self, table_id: str, table_format: str
    ) -> tuple[str | None, Mapping[str, str]]:
        """The version of the whole table, and materials by partition where they can be told apart."""


@dataclass(frozen=True)
class UnprovenFile:
    """A file of a table that the table itself does not show to be of a pipeline.

    `snapshot_id` names the snapshot that added it.
    """

    partition: str
    path: str
    snapshot_id: str


class Contents(Versions, Protocol):
    """What tables hold, those of pipelines too."""

    async def unproven_files(self, table_id: str, table_format: str) -> tuple[UnprovenFile, ...]:
        """The files that others may have added, of tables whose partitions are told apart by columns."""


@dataclass(frozen=True)
class Fact:
    """An event that is to be told; `key` makes it the same however often it is."""

    name: str
    key: str
    payload: Payload
    execution_id: str


class Facts(Protocol):
    """The way into the ledger."""

    async def append(self, facts: Sequence[Fact]) -> None:
        """Durable on return. `Unavailable`: repeat it; whatever was stored of it is absorbed."""


@dataclass(frozen=True)
class StoredTask:
    """A task as the ledger knows it."""

    key: str
    status: TaskStatus
    attempt: int = 0
    worker: str | None = None
    error: str | None = None
    started_at_ms: int | None = None
    completed_at_ms: int | None = None
    rows_written: int | None = None
    outputs: tuple[str, ...] = ()  # ids of tables, in the order of the maker's targets
    checks: tuple[CheckOutcome, ...] = ()  # with the ids of their tables where names belong
    failures: int = 0  # attempts that ended badly, as far as it is tried again


@dataclass(frozen=True)
class StoredRun:
    """A run as the ledger knows it. `is_over`: its end was told; a wish to cancel alone is none."""

    run_id: str
    status: RunStatus
    is_over: bool
    completed_at_ms: int | None = None
    error: str | None = None
    tasks: tuple[StoredTask, ...] = field(default=())


class RunReader(Protocol):
    """Reads runs from the ledger, acknowledged facts included."""

    async def unfinished(self) -> tuple[StoredRun, ...]:
        """All executions whose end was not told, those of others too."""

    async def run(self, run_id: str) -> StoredRun | None:
        """One execution, if anything was told of it."""


class Tell(Protocol):
    """Hears of trouble that no caller is told of: what was being done, and of whom."""

    def __call__(self, what: str, problem: Exception, /, **whose: str) -> None: ...
