"""Garbage of runs: plans, claims of run keys, logs, and what tells of leases that are long over.

All ages are by the store's own stamps. A hint of a lease is written anew with each sign of life, so one
that is a day old is of an attempt that ended; an epoch of the book goes a day after the next has come. What
is left of a run goes once the youngest object of it is older than the retention and its end was told: a run
that is not over is read back by the next book of runs. The claim goes before the plan, so that a run key
never stands for a run that cannot be found.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from arco.catalog.epoch import collect_epochs
from arco.core import json
from arco.core.errors import Invalid, NotFound
from arco.flow.run.plan_store import RunClaim
from arco.flow.run.ports import RunReader
from arco.flow.run.tenure import DOMAIN
from arco.storage.backend import Meta
from arco.storage.store import Store
from arco.storage.store_clock import store_now_ms

DEFAULT_RUN_RETENTION_MS = 30 * 24 * 3_600_000
LEASE_RETENTION_MS = 24 * 3_600_000

_LEASE = re.compile(r"leases/[0-9a-f]{32}\.json")
_CLAIM = re.compile(r"runs/keys/[0-9a-f]{64}\.json")
_PLAN = re.compile(r"runs/([^/]+)/plan\.json")
_LOG = re.compile(r"logs/([^/]+)/[0-9a-f]{32}/[0-9]{6}\.txt")


@dataclass
class RunCollection:
    """What one collection did, or would do."""

    leases: int = 0
    claims: int = 0
    plans: int = 0
    logs: int = 0
    epochs: int = 0  # of whoever has kept the book, and the notes beside them
    bytes: int = 0
    dry_run: bool = False
    problem: str | None = None  # why runs were left alone

    def total(self) -> int:
        """All that went."""
        return self.leases + self.claims + self.plans + self.logs + self.epochs


class RunJanitor:
    """Collects what runs leave behind, with the janitor's handle; `runs` tells which are not over."""

    def __init__(
        self, store: Store, runs: RunReader, *, retention_ms: int = DEFAULT_RUN_RETENTION_MS
    ) -> None:
        self._store = store
        self._runs = runs
        self._retention_ms = retention_ms

    async def collect(self, *, dry_run: bool = False) -> RunCollection:
        """One collection. Runs are asked after only if something is old enough to go."""
        done = RunCollection(dry_run=dry_run)
        now_ms = await store_now_ms(self._store)
        done.leases = await self._leases(now_ms - LEASE_RETENTION_MS, done)
        done.epochs = await self._epochs(done)
        before_ms = now_ms - self._retention_ms
        plans = [meta async for meta in self._store.list("runs/") if meta.modified_ms <= before_ms]
        young, logs = set[str](), list[tuple[str, list[Meta]]]()
        async for run_id, parts in _by_run(self._store):
            if max(part.modified_ms for part in parts) > before_ms:
                young.add(run_id)
            else:
                logs.append((run_id, parts))
        if not plans and not logs:
            return done
        # Asked after the listings: what is old and over by now cannot begin again.
        live = young | {run.run_id for run in await self._runs.unfinished()}
        await self._claims(plans, live, done)
        for meta in plans:
            named = _PLAN.fullmatch(meta.key)
            if named is not None and named[1] not in live:
                await self._delete(meta, done)
                done.plans += 1
        for part in (part for run_id, parts in logs if run_id not in live for part in parts):
            await self._delete(part, done)
            done.logs += 1
        return done

    async def _leases(self, before_ms: int, done: RunCollection) -> int:
        count = 0
        async for meta in self._store.list("leases/"):
            if meta.modified_ms <= before_ms and _LEASE.fullmatch(meta.key):
                await self._delete(meta, done)
                count += 1
        return count

    async def _epochs(self, done: RunCollection) -> int:
        gone = await collect_epochs(
            self._store, DOMAIN, retention_ms=LEASE_RETENTION_MS, dry_run=done.dry_run
        )
        done.bytes += sum(meta.size_bytes for meta in gone)
        return len(gone)

    async def _claims(self, old: list[Meta], live: set[str], done: RunCollection) -> None:
        for meta in old:
            if not _CLAIM.fullmatch(meta.key):
                continue
            try:
                claim = json.decode(await self._store.get(meta.key), RunClaim)
            except (Invalid, NotFound):
                continue  # another janitor was here, or it is of a later Arco
            if claim.run_id not in live:
                await self._delete(meta, done)
                done.claims += 1

    async def _delete(self, meta: Meta, done: RunCollection) -> None:
        done.bytes += meta.size_bytes
        if not done.dry_run:
            await self._store.delete(meta.key)


async def _by_run(store: Store) -> AsyncIterator[tuple[str, list[Meta]]]:
    """The parts of logs, run by run: those of one run stand together in a listing."""
    run_id, parts = "", list[Meta]()
    async for meta in store.list("logs/"):
        named = _LOG.fullmatch(meta.key)
        if named is None:
            continue
        if named[1] != run_id and parts:
            yield run_id, parts
            parts = []
        run_id = named[1]
        parts.append(meta)
    if parts:
        yield run_id, parts
