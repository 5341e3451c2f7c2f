"""The stored plans of runs, each written once before a caller learns of the run.

A run key is claimed first, so that two requests with the same key get one run: the claim names it. Then the
request is stored with its plan, which is what a restart resumes from.
"""

from typing import TypeVar

import msgspec

from arco.core import json
from arco.core.errors import Conflict, Corrupt, Invalid
from arco.core.hashing import sha256_hex
from arco.flow.coordinator.events import MAX_LABEL_CHARS
from arco.flow.coordinator.messages import RunRequest
from arco.flow.plan.keys import MAX_KEY
from arco.flow.plan.plan import Plan
from arco.storage.store import Store

FORMAT = 1

_MAX_PLAN_BYTES = 64 * 1024 * 1024


class RunClaim(msgspec.Struct, frozen=True, kw_only=True):
    """`runs/keys/{sha256 of the run key}.json`: the run of a run key."""

    format: int = FORMAT
    create_id: str
    run_key: str
    run_id: str
    plan_id: str
    requested_at_ms: int


class TableBase(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a table's chain when a run was requested: all that the run publishes is above it.

    For a retry it is that of the first run, so that all that any of them has published is above it.
    """

    table_id: str
    number: int


class StoredPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`runs/{run_id}/plan.json`: the request of a run.

    `keeper` names the coordinator process if the run's only worker lives in it and ends with it.
    """

    format: int = FORMAT
    create_id: str
    run_id: str
    requested_at_ms: int
    bases: dict[str, TableBase]  # by table name; tables that did not exist are missing
    request: RunRequest = msgspec.field(name="wish")
    keeper: str = ""


T = TypeVar("T", RunClaim, StoredPlan)


def claim_key(run_key: str) -> str:
    """The key of the claim of a run key."""
    return f"runs/keys/{sha256_hex(run_key.encode())}.json"


def plan_key(run_id: str) -> str:
    """The key of the plan of a run."""
    return f"runs/{run_id}/plan.json"


class PlanStore:
    """Stores plans, each once."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def claim(self, claim: RunClaim) -> RunClaim:
        """The valid claim of a run key: the one given, or an earlier one."""
        key = claim_key(claim.run_key)
        try:
            await self._store.create(key, json.encode(claim))
        except Conflict:
            return _read(await self._store.get(key), RunClaim, key)
        return claim

    async def find_claim(self, run_key: str) -> RunClaim | None:
        """The claim of a run key, if there is one."""
        key = claim_key(run_key)
        raw = await self._store.find(key)
        return None if raw is None else _read(raw, RunClaim, key)

    async def create(self, plan: StoredPlan) -> StoredPlan:
        """The valid plan of a run: the one given, or the one that was stored before a crash."""
        key = plan_key(plan.run_id)
        try:
            await self._store.create(key, json.encode(plan))
        except Conflict:
            raw = await self._store.get(key, size_bytes=_MAX_PLAN_BYTES)
            return _read(raw, StoredPlan, key)
        return plan

    async def find(self, run_id: str) -> StoredPlan | None:
        """The plan of a run; None for an execution of another program."""
        key = plan_key(run_id)
        try:
            raw = await self._store.find(key, size_bytes=_MAX_PLAN_BYTES)
        except Invalid:
            return None  # another program's execution id may be no valid key
        return None if raw is None else _read(raw, StoredPlan, key)


def check_plan(plan: Plan) -> None:
    """`Invalid` if a plan cannot be executed; the planner makes no such plan, but a client may send one."""
    makers = {maker.name for maker in plan.makers}
    earlier: set[str] = set()
    for task in plan.tasks:
        if not 0 < len(task.key) <= MAX_KEY:
            raise Invalid(f"the key of a task has 1 to {MAX_KEY} characters: {task.key!r}")
        if task.key in earlier:
            raise Invalid(f"task {task.key} appears in the plan twice")
        if task.maker not in makers:
            raise Invalid(f"task {task.key} has no maker {task.maker!r} in the plan")
        missing = [dep for dep in task.deps if dep not in earlier]
        if missing:
            raise Invalid(
                f"task {task.key} depends on {missing[0]}, which does not come before it in the plan"
            )
        if any(not 0 <= index < len(plan.reads) for index in task.inputs):
            raise Invalid(f"task {task.key} reads an input that the plan does not name")
        earlier.add(task.key)
    names = [plan.project, *makers, *(maker.pool for maker in plan.makers)]
    if any(not 0 < len(name) <= MAX_LABEL_CHARS for name in names):
        raise Invalid(f"names of projects, makers and pools have 1 to {MAX_LABEL_CHARS} characters")
    if any(slots < 1 for slots in plan.pools.values()):
        raise Invalid("a pool has at least one slot")


def _read(raw: bytes, kind: type[T], key: str) -> T:
    try:
        stored = json.decode(raw, kind)
    except Invalid as error:
        raise Corrupt(f"{key} cannot be read: {error}") from error
    if stored.format > FORMAT:
        raise Corrupt(f"{key} has format {stored.format}; upgrade Arco to read it")
    return stored
