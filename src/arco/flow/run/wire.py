"""What workers and the book of runs say to each other; the same in one process and over HTTP."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from arco.catalog.publication import Attempt
from arco.events.lineage import LineageObserved
from arco.events.quality import CheckType
from arco.events.table import ColumnProfile
from arco.flow.plan.plan import Plan
from arco.flow.state import ColumnChange

LEASE_MS = 15_000
HEARTBEAT_MS = 5_000
ENDING_MS = 5_000  # how long whoever tries a run again waits for the end of one that was stopped

ANYBODY = ""  # a run that any worker may work on

LogPart = Annotated[int, Meta(ge=0, lt=1_000_000)]


class _Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Parts of the conversation."""


class RunStatus(StrEnum):
    """How a run stands."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self not in (RunStatus.PENDING, RunStatus.RUNNING)


class TaskStatus(StrEnum):
    """How a task stands."""

    PENDING = "PENDING"
    READY = "READY"
    DISPATCHED = "DISPATCHED"
    RUNNING = "RUNNING"
    RETRY_WAIT = "RETRY_WAIT"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    BLOCKED = "BLOCKED"
    CANCELLED = "CANCELLED"


class RunWish(_Said, frozen=True, kw_only=True):
    """A plan to be carried out. The same `run_key` again is the same run; with another plan it is refused.

    `worker` is who alone works on it: the process that asked, which lends its own Spark.
    """

    run_key: str
    plan: Plan
    worker: str = ANYBODY
    trigger_type: str = "MANUAL"
    triggered_by: str | None = None
    params: dict[str, str] = msgspec.field(default_factory=dict)
    after: tuple[str, ...] = ()  # runs that have tried the same: what they published stands


class MakerCode(_Said, frozen=True, kw_only=True):
    """The fingerprints of the code and of the checks of an asset or task."""

    code: str
    checks: str | None = None


class Offer(_Said, frozen=True, kw_only=True):
    """A worker asks for tasks: how many it can take, of which project, and how long it would wait.

    Pools that it names are those whose tasks it takes, and no others. `code` is what it has loaded, by the
    names of assets and tasks: it is given no task that was planned with other code. A worker of an older
    version sends none, and is given only tasks that name no fingerprint.
    """

    worker: str
    slots: Annotated[int, Meta(ge=1, le=1_000)]
    project: str
    run_id: str | None = None  # of this run alone
    pools: Annotated[tuple[str, ...], Meta(max_length=1_000)] = ()
    wait_ms: Annotated[int, Meta(ge=0, le=30_000)] = 0
    code: dict[str, MakerCode] = msgspec.field(default_factory=dict)


class InputMaterial(_Said, frozen=True, kw_only=True):
    """An input of a task as it stands: `digest` changes with the data of any partition that is read."""

    table: str
    table_id: str | None
    partitions: tuple[str, ...]
    digest: str


class InputGiven(msgspec.Struct, frozen=True, array_like=True):
    """An input as it was given; which partitions it reads stands in the plan."""

    table_id: str | None
    digest: str


class OutputPlace(_Said, frozen=True, kw_only=True):
    """A table that a task writes, and the attempt that its publication must name.

    `is_made`: it was published before, so it must not be published again with the others. `replaces`: of
    mode append, the rows that were appended before are removed in the publishing commit.
    """

    table: str
    table_id: str | None  # None: there is no such table yet
    attempt: Attempt
    is_made: bool = False
    replaces: bool = False


class LeasedTask(_Said, frozen=True, kw_only=True):
    """A task that a worker may work on until its lease ends."""

    run_id: str
    key: str
    maker: str
    partition: str
    attempt: int
    attempt_id: str
    lease_until_ms: int
    reason: str
    now_ms: int  # of the plan: what exists is asked as of then
    timeout_ms: int | None = None
    dynamic: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    params: dict[str, str] = msgspec.field(default_factory=dict)
    inputs: tuple[InputMaterial, ...] = ()
    outputs: tuple[OutputPlace, ...] = ()
    code: MakerCode | None = None  # that it was planned with; no other may run


class Leased(_Said, frozen=True, kw_only=True):
    """The answer to an offer. `is_over`: the run that was asked for has ended.

    `other_code`: runs whose ready tasks were planned with other code than the worker offers. Each is
    reported once, so that a worker looks at its files at once; asking again waits.
    """

    tasks: tuple[LeasedTask, ...] = ()
    is_over: bool = False
    other_code: tuple[str, ...] = ()


class Progress(_Said, frozen=True, kw_only=True):
    """How far an attempt is."""

    phase: str = ""  # reading, computing, writing, checking, publishing
    done: float | None = None  # from 0 to 1, by what Spark or the function tells
    message: str = ""
    rows: int | None = None


class Beat(_Said, frozen=True, kw_only=True):
    """A sign of life of one attempt, with the lines it has logged since the last.

    `log_part` counts the parts of its log from 0 on: one that comes again is known by its number. Workers
    of older versions do not count.
    """

    attempt_id: str
    worker: str
    progress: Progress = Progress()
    log: str = ""
    log_part: LogPart | None = None


class Pulse(_Said, frozen=True, kw_only=True):
    """The answer to a sign of life. `is_lost`: the task was given to somebody else, stop."""

    lease_until_ms: int
    should_cancel: bool = False
    is_lost: bool = False


class CheckOutcome(_Said, frozen=True, kw_only=True):
    """What a check found in what an attempt has staged."""

    table: str
    table_id: str | None
    name: str
    type: CheckType
    severity: str
    passed: bool
    expected: str | None = None
    actual: str | None = None
    message: str | None = None


class OutputDone(_Said, frozen=True, kw_only=True):
    """What became of one output. Without a `version` nothing was published."""

    table: str
    table_id: str | None
    partition: str
    version: int | None = None  # the number of the table's chain that publishes it
    snapshot_id: str | None = None
    rows: int | None = None
    bytes: int | None = None
    files: int | None = None
    table_rows: int | None = None  # of the whole table now
    table_bytes: int | None = None
    columns: tuple[ColumnProfile, ...] = ()


class Outcome(_Said, frozen=True, kw_only=True):
    """How an attempt ended: SUCCESS, FAILED, BLOCKED (by a check) or CANCELLED.

    `code_fingerprint` is of the code that ran, as the worker has it, and `code_parts` are its parts.
    `pause_ms` is how long whoever tries it again should wait at least, should what was missing take its
    time.
    """

    status: TaskStatus
    code_fingerprint: str | None = None
    code_parts: dict[str, str] = msgspec.field(default_factory=dict)
    column_changes: tuple[
        ColumnChange, ...
    ] = ()  # how the result differs from the tables as they were
    error: str | None = None  # frames of the user's code first
    may_retry: bool = True
    pause_ms: Annotated[int, Meta(ge=0, le=60_000)] = 0
    outputs: tuple[OutputDone, ...] = ()
    checks: tuple[CheckOutcome, ...] = ()
    lineage: tuple[LineageObserved, ...] = ()
    rows_read: int | None = None
    bytes_read: int | None = None
    metrics: dict[str, float | str] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Completed(_Said, frozen=True, kw_only=True):
    """A worker tells how an attempt ended.

    `run_id` and `key` find the task of an attempt that the book has forgotten, as its run is long over.
    `inputs` are what it was given to read, in the order of the plan, should the book have forgotten that.
    """

    attempt_id: str
    worker: str
    started_at_ms: int
    completed_at_ms: int
    outcome: Outcome
    log: str = ""
    log_part: LogPart | None = None
    run_id: str = ""
    key: str = ""
    inputs: tuple[InputGiven, ...] | None = None


class TaskView(_Said, frozen=True, kw_only=True):
    """A task as people see it."""

    key: str
    status: TaskStatus
    attempt: int = 0
    reason: str = ""
    worker: str | None = None
    progress: Progress | None = None
    started_at_ms: int | None = None
    completed_at_ms: int | None = None
    rows_written: int | None = None
    error: str | None = None
    checks: tuple[CheckOutcome, ...] = ()
    warnings: tuple[str, ...] = ()
    note: str | None = None  # how it came to its end, where nothing is wrong with that
    previous_error: str | None = None  # why the attempt before this one failed


class WorkerCode(_Said, frozen=True, kw_only=True):
    """The code that a connected worker offers for an asset or task; None if it offers none."""

    worker: str
    code: MakerCode | None = None


class CodeWait(_Said, frozen=True, kw_only=True):
    """Ready tasks of an asset or task whose code no connected worker offers."""

    maker: str
    tasks: int
    planned: MakerCode
    workers: tuple[WorkerCode, ...] = ()


class RunView(_Said, frozen=True, kw_only=True):
    """A run as people see it: `changed` are the tasks that changed since the number they asked with.

    `waits_for_code` is why ready tasks do not begin though workers may be connected.
    """

    run_id: str
    status: RunStatus
    plan_id: str
    number: int  # grows with every change of the run
    counts: dict[str, int]  # of tasks, by status
    changed: tuple[TaskView, ...] = ()
    waits_for_code: tuple[CodeWait, ...] = ()
    requested_at_ms: int | None = None
    completed_at_ms: int | None = None
    error: str | None = None
