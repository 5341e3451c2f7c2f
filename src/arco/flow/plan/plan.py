"""A plan: the tasks of a run, why each is needed, what it reads and what it waits for; and its document.

The partitions that tasks read are stored once for all tasks that read the same, so that a plan in which
thousands of tasks read a complete table stays small. The document is the same text for the same plan.
"""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property

import msgspec

from arco.core.hashing import sha256_hex
from arco.core.json import Json
from arco.flow.plan.keys import key_ranges, short_name
from arco.flow.plan.table_state import LastAttempt


class Reason(StrEnum):
    """Why a partition has to be made."""

    MISSING = "MISSING"
    FAILED = "FAILED"
    CODE_CHANGED = "CODE_CHANGED"
    UPSTREAM_CHANGED = "UPSTREAM_CHANGED"
    FRESHNESS = "FRESHNESS"
    FORCED = "FORCED"


class PlanTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A table that a maker writes, by its full name; `alone`: no two tasks may write it at once.

    `on_change`: whether mode append replaces rows that were appended before.
    """

    table: str
    format: str
    mode: str
    alone: bool = False
    on_change: str = "block"


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often and after which delay a failed attempt is retried."""

    times: int = 0
    delay_ms: int = 0
    factor: float = 1.0
    max_ms: int | None = None
    jitter: float = 0.0


class Maker(msgspec.Struct, frozen=True, kw_only=True):
    """What all tasks of an asset or task of the project share."""

    name: str  # the full name of an asset, the name of a task
    kind: str  # asset or task
    targets: tuple[PlanTarget, ...] = ()
    pool: str = "default"
    retry: RetryPolicy = RetryPolicy()
    timeout_ms: int | None = None
    code_fingerprint: str | None = None  # of the code at planning time
    checks_fingerprint: str | None = None  # of the checks, if it has any


class ReadPartitions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Partitions of one table; a table without partitions has the one partition ''.

    With `skips_missing`, a task reads only those that have data when it is dispatched. `skipped` are those
    without data that the plan does not make.
    """

    table: str
    partitions: tuple[str, ...]
    skips_missing: bool = False
    skipped: tuple[str, ...] = ()


class PlannedTask(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of one maker. `inputs` are indexes into the plan's `reads`, `deps` task keys."""

    key: str
    maker: str
    partition: str
    reason: Reason
    detail: str = ""
    inputs: tuple[int, ...] = ()
    deps: tuple[str, ...] = ()


class WaitingPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A selected partition that cannot be made because inputs have no data."""

    key: str
    lacks: tuple[str, ...]


class BlockedPartition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An out-of-date partition that the plan does not make; its readers use the existing rows.

    `reason` is one word for programs, `cause` a sentence, `fix` what the user can do.
    """

    key: str
    reason: str
    cause: str
    fix: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What a run will do. Tasks come after those that they wait for."""

    project: str
    selection: str
    now_ms: int
    state_number: int  # of the manifest that the state of partitions was read from
    makers: tuple[Maker, ...] = ()
    reads: tuple[ReadPartitions, ...] = ()
    tasks: tuple[PlannedTask, ...] = ()
    waiting: tuple[WaitingPartition, ...] = ()
    blocked: tuple[BlockedPartition, ...] = ()
    columns: tuple[LastAttempt, ...] = ()  # of tables whose last attempt returned other columns
    append_again: tuple[str, ...] = ()  # keys of tasks that may add rows which were appended before
    up_to_date: int = 0  # how many selected partitions need nothing
    pools: dict[str, int] = msgspec.field(default_factory=dict)
    dynamic: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # do not prevent a run, such as a late source

    @cached_property
    def plan_id(self) -> str:
        """The SHA-256 of the JSON, which has the same bytes for the same plan."""
        return sha256_hex(msgspec.json.encode(self, order="deterministic"))


def restrict_plan(plan: Plan, keys: Collection[str]) -> Plan:
    """A plan of only these tasks, without dependencies on others."""
    tasks = tuple(
        msgspec.structs.replace(task, deps=tuple(dep for dep in task.deps if dep in keys))
        for task in plan.tasks
        if task.key in keys
    )
    return msgspec.structs.replace(plan, tasks=tasks)


def plan_document(plan: Plan) -> dict[str, Json]:
    """The plan for `--json`; consecutive partitions are written as `ds=a..b`."""
    reads = [_reads(each) for each in plan.reads]  # shared by the tasks that read the same
    return {
        "plan_id": plan.plan_id,
        "project": plan.project,
        "selection": plan.selection,
        "now": format_time(plan.now_ms),
        "state_number": plan.state_number,
        "tasks": [
            {
                "key": task.key,
                "asset": short_name(task.maker),
                "partition": task.partition,
                "reason": task.reason.value,
                "detail": task.detail,
                "inputs": [reads[number] for number in task.inputs],
                "deps": list(task.deps),
            }
            for task in plan.tasks
        ],
        "waiting": [{"key": each.key, "lacks": list(each.lacks)} for each in plan.waiting],
        "blocked": blocked_document(plan),
        "columns": columns_document(plan),
        "up_to_date": plan.up_to_date,
        "warnings": list(plan.warnings),
    }


def blocked_document(plan: Plan) -> list[Json]:
    """The blocked partitions; `fix` only where there is one."""
    documents: list[Json] = []
    for partition in plan.blocked:
        document: dict[str, Json] = {
            "key": partition.key,
            "reason": partition.reason,
            "cause": partition.cause,
        }
        documents.append(document | ({"fix": partition.fix} if partition.fix else {}))
    return documents


def columns_document(plan: Plan) -> list[Json]:
    """For each table the columns in which the result of its last attempt differed."""
    return [
        {
            "table": short_name(last.changes[0].table),
            "task": last.task,
            "run_id": last.run_id,
            "status": last.status,
            "code_fingerprint": last.code_fingerprint,
            "added": [
                {"column": each.column, "type": each.after}
                for each in last.changes
                if each.before is None
            ],
            "changed": [
                {"column": each.column, "table_type": each.before, "result_type": each.after}
                for each in last.changes
                if each.before is not None and each.after is not None
            ],
            "missing": [
                {"column": each.column, "type": each.before}
                for each in last.changes
                if each.after is None
            ],
        }
        for last in plan.columns
    ]


def format_time(ms: int) -> str:
    """A time in UTC, with milliseconds only if they are not 0."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    text = moment.isoformat(timespec="milliseconds" if ms % 1_000 else "seconds")
    return text.replace("+00:00", "Z")


def _reads(each: ReadPartitions) -> Json:
    skipped = set(each.skipped)
    read = [key for key in each.partitions if key not in skipped] if skipped else each.partitions
    document: dict[str, Json] = {"table": short_name(each.table), "partitions": [*key_ranges(read)]}
    return document | ({"skipped": [*key_ranges(each.skipped)]} if skipped else {})
