"""The protocols of the coordinator: what its clients call, what it needs, and the errors that callers get.

The coordinator reaches the ledger, the catalog and the event tables through these alone, so that the same
code runs over a real workspace, in tests without an engine, and under the simulator.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from arco.catalog.publication import DispatchedAttempt, NumberedPublication
from arco.core.errors import Invalid, NotFound, Unavailable
from arco.events.payload import Payload
from arco.flow.coordinator.messages import (
    AttemptReport,
    CheckOutcome,
    Heartbeat,
    HeartbeatResponse,
    LeaseRequest,
    LeaseResponse,
    RunRequest,
    RunStatus,
    RunView,
    TaskStatus,
)
from arco.flow.plan.plan import Plan
from arco.flow.plan.table_state import PlanningState


class TaskCoordinator(Protocol):
    """What a worker calls.

    `NotFound` for an unknown attempt, `AttemptFenced` for one that has lost its task.
    """

    async def lease(self, request: LeaseRequest, /) -> LeaseResponse:
        """Tasks for a worker; waits for some if the request says so."""

    async def heartbeat(self, heartbeat: Heartbeat, /) -> HeartbeatResponse:
        """Extend the lease of an attempt."""

    async def watch(
        self, worker: str, attempt_ids: tuple[str, ...], wait_ms: int = 0
    ) -> tuple[str, ...]:
        """Which of these attempts must stop; waits up to `wait_ms` for one."""

    async def complete(self, report: AttemptReport, /) -> None:
        """Record how an attempt ended, durably on return; repeating it has no further effect."""


class Coordinator(TaskCoordinator, Protocol):
    """What workers, the command line and the API call, in process or over HTTP.

    `NotFound` for an unknown run, `Invalid` for a run key that belongs to another plan.
    """

    async def state(self, tables: Sequence[str], files_of: Sequence[str] = ()) -> PlanningState:
        """The state of these tables now, as a `StateReader` reads it."""

    async def submit(self, request: RunRequest, /) -> RunView:
        """Start a run, durably on return."""

    async def get_run(self, run_id: str, since: int = 0, wait_ms: int = 0) -> RunView:
        """The run once it has changed since a number, or after `wait_ms`."""

    async def cancel(self, run_id: str, by: str | None = None) -> RunView:
        """Stop a run for good. What is published stays published."""

    async def retry(self, run_id: str, worker: str = "", plan: Plan | None = None) -> RunView:
        """A new run of what failed, was skipped, blocked or cancelled in a run that has ended.

        `plan` is a plan of some or all of these tasks, made with the present code; without one the plan of
        the run is used again, by workers that have the code that it was made with.
        """


class ApiCoordinator(Coordinator, Protocol):
    """The coordinator as the API calls it, for a `caller`.

    Events that a request causes name its principal, and SQL runs in the caller's share of the processes;
    the reads of workers are Arco's own.
    """

    async def state(
        self, tables: Sequence[str], files_of: Sequence[str] = (), *, caller: str | None = None
    ) -> PlanningState: ...

    async def get_run(
        self, run_id: str, since: int = 0, wait_ms: int = 0, *, caller: str | None = None
    ) -> RunView: ...

    async def submit(self, request: RunRequest, /, *, caller: str | None = None) -> RunView: ...

    async def cancel(
        self, run_id: str, by: str | None = None, *, caller: str | None = None
    ) -> RunView: ...

    async def retry(
        self,
        run_id: str,
        worker: str = "",
        plan: Plan | None = None,
        *,
        caller: str | None = None,
    ) -> RunView: ...

    async def lease(
        self, request: LeaseRequest, /, *, caller: str | None = None
    ) -> LeaseResponse: ...

    async def complete(self, report: AttemptReport, /, *, caller: str | None = None) -> None: ...


@dataclass(frozen=True)
class TableHead:
    """A table and the head of its chain of versions."""

    table_id: str
    format: str
    number: int


class Fences(Protocol):
    """The chains of tables, where late attempts are fenced (P35)."""

    async def head(self, table: str) -> TableHead | None:
        """The head of a table now, by its full name; None if the table does not exist."""

    async def fence(
        self, table_id: str, attempt: DispatchedAttempt, since: int
    ) -> NumberedPublication | int:
        """The publication of any attempt at the task above `since`, or else the number of a new fence."""


@dataclass(frozen=True)
class RunEvent:
    """An event for the ledger; `key` is its idempotency key.

    `caller` is the principal whose request caused it; None for an event of the coordinator itself.
    """

    name: str
    key: str
    payload: Payload
    execution_id: str
    caller: str | None = None


class EventWriter(Protocol):
    """Appends events to the ledger."""

    async def append(self, events: Sequence[RunEvent], /) -> None:
        """Durable on return. `Unavailable`: repeat it; what was stored already is recognised."""


@dataclass(frozen=True)
class StoredTask:
    """A task as the ledger has it."""

    key: str
    status: TaskStatus
    attempt: int = 0
    worker: str | None = None
    error: str | None = None
    started_at_ms: int | None = None
    completed_at_ms: int | None = None
    rows_written: int | None = None
    outputs: tuple[str, ...] = ()  # ids of tables, in the order of the maker's targets
    checks: tuple[CheckOutcome, ...] = ()  # with ids of tables in place of their names
    failures: int = 0  # failed attempts, if the task is to be retried


@dataclass(frozen=True)
class StoredRun:
    """A run as the ledger has it. `is_over`: its end is recorded; a cancel request alone is none."""

    run_id: str
    status: RunStatus
    is_over: bool
    completed_at_ms: int | None = None
    error: str | None = None
    tasks: tuple[StoredTask, ...] = ()


class RunReader(Protocol):
    """Reads runs from the ledger, including all acknowledged events.

    `caller` is whose share of the SQL processes a read uses; None stands for Arco itself.
    """

    async def unfinished(self) -> tuple[StoredRun, ...]:
        """All executions without a recorded end, oldest first, those of other programs included."""

    async def run(self, run_id: str, *, caller: str | None = None) -> StoredRun | None:
        """One execution, if any event names it."""


class ErrorReporter(Protocol):
    """Reports an error that no caller gets: what was being done, and the ids it concerns."""

    def __call__(self, what: str, problem: Exception, /, **labels: str) -> None: ...


class CoordinatedElsewhere(Unavailable):
    """Another process coordinates the runs of this workspace."""


def run_not_found(message: str) -> NotFound:
    """The run does not exist."""
    return _with_hint(message, "Check its id; `arco runs` lists all runs.")


def task_not_found(message: str) -> NotFound:
    """The run has no such task."""
    return _with_hint(message, "Check its name; `arco runs RUN` lists the tasks of a run.")


def run_not_over(run_id: str) -> Invalid:
    """A run cannot be retried because it, or a retry of it, is still active."""
    error = Invalid(f"run {run_id} is not over")
    error.add_note("Cancel it first, or wait for its end.")
    return error


def nothing_to_retry(run_id: str) -> Invalid:
    """A run cannot be retried because all its tasks succeeded."""
    return Invalid(f"all tasks of run {run_id} succeeded: there is nothing to retry")


def _with_hint(message: str, hint: str) -> NotFound:
    error = NotFound(message)
    error.add_note(hint)
    return error
