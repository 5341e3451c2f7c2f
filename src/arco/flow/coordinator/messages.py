"""The messages between workers, clients and the coordinator; the same in one process and over HTTP."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from arco.catalog.publication import DispatchedAttempt
from arco.events.lineage_payload import LineageObserved
from arco.events.payload import CheckType, ColumnProfile
from arco.flow.plan.plan import Plan
from arco.flow.plan.table_state import ColumnChange

LEASE_MS = 15_000
HEARTBEAT_MS = 5_000
RUN_END_WAIT_MS = 5_000  # how long a retry waits for a stopped run to end

ANY_WORKER = ""  # the worker of a run that any worker may execute

LogPart = Annotated[int, Meta(ge=0, lt=1_000_000)]


class _Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all messages have in common."""


class RunStatus(StrEnum):
    """The status of a run."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self not in (RunStatus.PENDING, RunStatus.RUNNING)


class TaskStatus(StrEnum):
    """The status of a task."""

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


class RunRequest(_Message, frozen=True, kw_only=True):
    """A request to run a plan. The same `run_key` names the same run; with another plan it is rejected.

    `worker` is the only worker that may execute it: the process that asked, which has its own Spark.
    """

    run_key: str
    plan: Plan
    worker: str = ANY_WORKER
    trigger_type: str = "MANUAL"
    triggered_by: str | None = None
    params: dict[str, str] = msgspec.field(default_factory=dict)
    after: tuple[str, ...] = ()  # runs that this one retries: what they published is kept


class CodeVersion(_Message, frozen=True, kw_only=True):
    """The fingerprints of the code and of the checks of an asset or task."""

    code: str
    checks: str | None = None


class LeaseRequest(_Message, frozen=True, kw_only=True):
    """A worker asks for tasks: how many it can take, of which project, and how long it waits for one.

    If it names pools, it takes tasks of those alone. `code` is what it has loaded, by the names of assets
    and tasks: it gets no task that was planned with other code. A worker of an older version sends none,
    and gets only tasks that name no fingerprint.
    """

    worker: str
    slots: Annotated[int, Meta(ge=1, le=1_000)]
    project: str
    run_id: str | None = None  # only tasks of this run
    pools: Annotated[tuple[str, ...], Meta(max_length=1_000)] = ()
    wait_ms: Annotated[int, Meta(ge=0, le=30_000)] = 0
    code: dict[str, CodeVersion] = msgspec.field(default_factory=dict)


class TaskInput(_Message, frozen=True, kw_only=True):
    """An input of a task: `digest` changes with the data of any partition that is read."""

    table: str
    table_id: str | None
    partitions: tuple[str, ...]
    digest: str


class InputDigest(msgspec.Struct, frozen=True, array_like=True):
    """An input of an attempt, without the table name and partitions, which the plan has."""

    table_id: str | None
    digest: str


class TaskOutput(_Message, frozen=True, kw_only=True):
    """A table that a task writes, and the attempt that its publication must name.

    `is_made`: it is published already and must not be published again. `replaces`: in mode append, the
    publishing commit removes the rows that were appended before.
    """

    table: str
    table_id: str | None  # None: the table does not exist yet
    attempt: DispatchedAttempt
    is_made: bool = False
    replaces: bool = False


class LeasedTask(_Message, frozen=True, kw_only=True):
    """A task that a worker may execute until its lease ends."""

    run_id: str
    key: str
    maker: str
    partition: str
    attempt: int
    attempt_id: str
    lease_until_ms: int
    reason: str
    now_ms: int  # of the plan, which decides which partitions exist
    timeout_ms: int | None = None
    dynamic: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    params: dict[str, str] = msgspec.field(default_factory=dict)
    inputs: tuple[TaskInput, ...] = ()
    outputs: tuple[TaskOutput, ...] = ()
    code: CodeVersion | None = None  # the code of the plan; no other may run


class LeaseResponse(_Message, frozen=True, kw_only=True):
    """The answer to a `LeaseRequest`. `is_over`: the requested run has ended.

    `other_code`: runs whose ready tasks were planned with other code than the worker has. Each is reported
    once, so that the worker reloads its project; the next request waits.
    """

    tasks: tuple[LeasedTask, ...] = ()
    is_over: bool = False
    other_code: tuple[str, ...] = ()


class Progress(_Message, frozen=True, kw_only=True):
    """The progress of an attempt."""

    phase: str = ""  # reading, computing, writing, checking, publishing
    done: float | None = None  # from 0 to 1, as Spark or the function reports it
    message: str = ""
    rows: int | None = None


class Heartbeat(_Message, frozen=True, kw_only=True):
    """A heartbeat of one attempt, with the lines that it has logged since the last.

    `log_part` numbers the chunks of its log from 0, so that one that is sent again is recognised. Workers
    of older versions send no numbers.
    """

    attempt_id: str
    worker: str
    progress: Progress = Progress()
    log: str = ""
    log_part: LogPart | None = None


class HeartbeatResponse(_Message, frozen=True, kw_only=True):
    """The answer to a heartbeat. `is_lost`: the attempt no longer has the lease and must stop."""

    lease_until_ms: int
    should_cancel: bool = False
    is_lost: bool = False


class CheckOutcome(_Message, frozen=True, kw_only=True):
    """The result of a check on the staged data of an attempt."""

    table: str
    table_id: str | None
    name: str
    type: CheckType
    severity: str
    passed: bool
    expected: str | None = None
    actual: str | None = None
    message: str | None = None


class OutputResult(_Message, frozen=True, kw_only=True):
    """The result of one output. Without a `version` nothing was published."""

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


class AttemptOutcome(_Message, frozen=True, kw_only=True):
    """How an attempt ended: SUCCESS, FAILED, BLOCKED (by a check) or CANCELLED.

    `code_fingerprint` is that of the code that ran, `code_parts` are the fingerprints of its parts.
    `pause_ms` is the least delay before a retry, for a failure that takes time to clear.
    """

    status: TaskStatus
    code_fingerprint: str | None = None
    code_parts: dict[str, str] = msgspec.field(default_factory=dict)
    column_changes: tuple[ColumnChange, ...] = ()  # of the result against its tables
    error: str | None = None  # frames of the user's code first
    may_retry: bool = True
    pause_ms: Annotated[int, Meta(ge=0, le=60_000)] = 0
    outputs: tuple[OutputResult, ...] = ()
    checks: tuple[CheckOutcome, ...] = ()
    lineage: tuple[LineageObserved, ...] = ()
    rows_read: int | None = None
    bytes_read: int | None = None
    metrics: dict[str, float | str] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class AttemptReport(_Message, frozen=True, kw_only=True):
    """A worker reports how an attempt ended.

    `run_id` and `key` find the task if its run has left the memory of the coordinator. `inputs` are what
    the attempt read, in the order of the plan, if the coordinator has lost them.
    """

    attempt_id: str
    worker: str
    started_at_ms: int
    completed_at_ms: int
    outcome: AttemptOutcome
    log: str = ""
    log_part: LogPart | None = None
    run_id: str = ""
    key: str = ""
    inputs: tuple[InputDigest, ...] | None = None


class TaskView(_Message, frozen=True, kw_only=True):
    """A task as clients see it."""

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
    note: str | None = None  # how it ended, if it succeeded without running
    previous_error: str | None = None  # why the previous attempt failed


class WorkerCode(_Message, frozen=True, kw_only=True):
    """The code that a connected worker has for an asset or task; None if it has none."""

    worker: str
    code: CodeVersion | None = None


class CodeWait(_Message, frozen=True, kw_only=True):
    """Ready tasks of an asset or task whose code no connected worker has."""

    maker: str
    tasks: int
    planned: CodeVersion
    workers: tuple[WorkerCode, ...] = ()


class RunView(_Message, frozen=True, kw_only=True):
    """A run as clients see it: `changed` are the tasks that changed since the requested number.

    `waits_for_code` is why ready tasks do not start although workers are connected.
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
