"""Plans of runs as they are stored: once, before anybody is told of the run.

A run key is claimed first, so that whoever asks twice gets one run: the claim names it. Then the wish is
stored with the run, plan and all, which is what a restart goes on with.
"""

from typing import TypeVar

import msgspec

from arco.core import json
from arco.core.errors import Conflict, Corrupt, Invalid
from arco.core.hashing import sha256_hex
from arco.flow.run.wire import RunWish
from arco.storage.store import Store

FORMAT = 1

_LARGE_BYTES = 64 * 1024 * 1024


class RunClaim(msgspec.Struct, frozen=True, kw_only=True):
    """`runs/keys/{sha256 of the run key}.json`: which run a key stands for."""

    format: int = FORMAT
    create_id: str
    run_key: str
    run_id: str
    plan_id: str
    requested_at_ms: int


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a table's chain when a run was wanted: all that the run publishes is above it.

    Of a retry it is that of the first run, so that all that any of them has published is above it.
    """

    table_id: str
    number: int


class StoredPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`runs/{run_id}/plan.json`: what a run was asked to do.

    `keeper` is set if its only worker lives in the process that keeps the book, and dies with that.
    """

    format: int = FORMAT
    create_id: str
    run_id: str
    requested_at_ms: int
    bases: dict[str, Base]  # by the name of the table; those that were not there are not in it
    wish: RunWish
    keeper: str = ""


T = TypeVar("T", RunClaim, StoredPlan)


def claim_key(run_key: str) -> str:
    """Where the claim of a run key is stored."""
    return f"runs/keys/{sha256_hex(run_key.encode())}.json"


def plan_key(run_id: str) -> str:
    """Where the plan of a run is stored."""
    return f"runs/{run_id}/plan.json"


class PlanStore:
    """Stores plans, each once."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def claim(self, wanted: RunClaim) -> RunClaim:
        """The claim of a run key that counts: the one given, or the one that came before it."""
        key = claim_key(wanted.run_key)
        try:
            await self._store.create(key, json.encode(wanted))
        except Conflict:
            return _read(await self._store.get(key), RunClaim, key)
        return wanted

    async def find_claim(self, run_key: str) -> RunClaim | None:
        """The claim of a run key, if there is one."""
        key = claim_key(run_key)
        raw = await self._store.find(key)
        return None if raw is None else _read(raw, RunClaim, key)

    async def keep(self, plan: StoredPlan) -> StoredPlan:
        """The plan of a run that counts: the one given, or the one that was stored before a crash."""
        key = plan_key(plan.run_id)
        try:
            await self._store.create(key, json.encode(plan))
        except Conflict:
            raw = await self._store.get(key, size_bytes=_LARGE_BYTES)
            return _read(raw, StoredPlan, key)
        return plan

    async def find(self, run_id: str) -> StoredPlan | None:
        """The plan of a run, if it is one of ours."""
        key = plan_key(run_id)
        try:
            raw = await self._store.find(key, size_bytes=_LARGE_BYTES)
        except Invalid:
            return None  # an id of somebody else's run, which no key can hold
        return None if raw is None else _read(raw, StoredPlan, key)


def _read(raw: bytes, kind: type[T], key: str) -> T:
    try:
        found = json.decode(raw, kind)
    except Invalid as problem:
        raise Corrupt(f"{key} cannot be read: {problem}") from problem
    if found.format > FORMAT:
        raise Corrupt(f"{key} has format {found.format}; update Arco to read it")
    return found
