"""A plan: the tasks of a run, with why each is needed, what it reads and what it waits for.

The partitions that tasks read are kept once for all tasks that read the same, so that a plan in which
thousands of tasks read a whole table stays small.
"""

from enum import StrEnum
from functools import cached_property

import msgspec

from arco.core.hashing import sha256_hex
from arco.flow.plan.table_state import LastAttempt


class Reason(StrEnum):
    """Why a partition has to be made."""

    MISSING = "MISSING"
    FAILED = "FAILED"
    CODE_CHANGED = "CODE_CHANGED"
    UPSTREAM_CHANGED = "UPSTREAM_CHANGED"
    FRESHNESS = "FRESHNESS"
    FORCED = "FORCED"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A table that a maker writes, by its full name; `alone`: no two tasks may write it at once.

    `on_change` is of mode append: whether rows that were appended before are replaced.
    """

    table: str
    format: str
    mode: str
    alone: bool = False
    on_change: str = "block"


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """When a failed attempt is made again."""

    times: int = 0
    delay_ms: int = 0
    factor: float = 1.0
    max_ms: int | None = None
    jitter: float = 0.0


class Maker(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for all tasks of an asset or task of the project."""

    name: str  # the full name of an asset, the name of a task
    kind: str  # asset or task
    targets: tuple[Target, ...] = ()
    pool: str = "default"
    retry: Again = Again()
    timeout_ms: int | None = None
    code_fingerprint: str | None = None  # of the code that the plan was made with
    checks_fingerprint: str | None = None  # of the checks, if it has any


class Reads(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Partitions of one table; a table that is not cut has the one partition ''.

    `skipped` are those that have no data and that nothing in the plan makes, where `skips_missing` allows
    it: a task reads only those that have data when it is dispatched.
    """

    table: str
    partitions: tuple[str, ...]
    skips_missing: bool = False
    skipped: tuple[str, ...] = ()


class PlannedTask(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of one maker. `inputs` are places in the plan's `reads`, `deps` keys of tasks."""

    key: str
    maker: str
    partition: str
    reason: Reason
    detail: str = ""
    inputs: tuple[int, ...] = ()
    deps: tuple[str, ...] = ()


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that was asked for and cannot be made, as data that it reads are not there."""

    key: str
    lacks: tuple[str, ...]


class Blocked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A partition that is out of date and that the plan does not make; its readers use the existing rows.

    `reason` is one word for programs, `cause` a sentence that says why, `fix` what a user can do about it.
    """

    key: str
    reason: str
    cause: str
    fix: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All that a run is going to do. Tasks stand after those that they wait for."""

    project: str
    selection: str
    now_ms: int
    state_number: int  # of the manifest that the state of partitions was read from
    makers: tuple[Maker, ...] = ()
    reads: tuple[Reads, ...] = ()
    tasks: tuple[PlannedTask, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    columns: tuple[
        LastAttempt, ...
    ] = ()  # of tables whose last attempt met other columns than it returned
    append_again: tuple[str, ...] = ()  # keys of tasks that may add rows which were appended before
    up_to_date: int = 0  # how many partitions were asked for and need nothing
    pools: dict[str, int] = msgspec.field(default_factory=dict)
    dynamic: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # what keeps nobody from running, such as a source that is late

    @cached_property
    def plan_id(self) -> str:
        """The SHA-256 of its JSON, in which the same plan is always the same bytes."""
        return sha256_hex(msgspec.json.encode(self, order="deterministic"))
