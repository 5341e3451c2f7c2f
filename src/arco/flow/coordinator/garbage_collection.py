"""Garbage collection of runs: plans, claims of run keys, logs, lease hints and old coordinator leases.

All ages are by the store's own timestamps. A lease hint is rewritten with each heartbeat, so one that is
a day old belongs to an attempt that ended; an epoch of the coordinator's lease goes a day after the next
one. A run goes once its youngest object is older than the retention and its end is recorded: a run that
has not ended is resumed by the next coordinator. The claim goes before the plan, so that a run key never
names a missing run.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from arco.catalog.epoch import collect_epochs
from arco.core import json
from arco.core.errors import Invalid, NotFound
from arco.flow.coordinator.coordinator_lease import DOMAIN
from arco.flow.coordinator.plan_store import RunClaim
from arco.flow.coordinator.ports import RunReader
from arco.storage.backend import Meta
from arco.storage.store import Store, store_now_ms

DEFAULT_RUN_RETENTION_MS = 30 * 24 * 3_600_000
LEASE_RETENTION_MS = 24 * 3_600_000

_LEASE = re.compile(r"leases/[0-9a-f]{32}\.json")
_CLAIM = re.compile(r"runs/keys/[0-9a-f]{64}\.json")
_PLAN = re.compile(r"runs/([^/]+)/plan\.json")
_LOG = re.compile(r"logs/([^/]+)/[0-9a-f]{32}/[0-9]{6}\.txt")


@dataclass
class RunGcReport:
    """What one collection deleted, or would delete."""

    leases: int = 0
    claims: int = 0
    plans: int = 0
    logs: int = 0
    epochs: int = 0  # of the coordinator's lease, with their renewals
    bytes: int = 0
    dry_run: bool = False
    problem: str | None = None  # why runs were not collected

    def total(self) -> int:
        """The number of all deleted objects."""
        return self.leases + self.claims + self.plans + self.logs + self.epochs


class RunGarbageCollector:
    """Deletes what runs leave behind; `store` has the role of the garbage collector."""

    def __init__(
        self, store: Store, runs: RunReader, *, retention_ms: int = DEFAULT_RUN_RETENTION_MS
    ) -> None:
        self._store = store
        self._runs = runs
        self._retention_ms = retention_ms

    async def collect(self, *, dry_run: bool = False) -> RunGcReport:
        """One collection. Runs are read only if something is old enough to be deleted."""
        report = RunGcReport(dry_run=dry_run)
        now_ms = await store_now_ms(self._store)
        report.leases = await self._leases(now_ms - LEASE_RETENTION_MS, report)
        report.epochs = await self._epochs(report)
        before_ms = now_ms - self._retention_ms
        plans = [meta async for meta in self._store.list("runs/") if meta.modified_ms <= before_ms]
        young_runs, logs = set[str](), list[tuple[str, list[Meta]]]()
        async for run_id, chunks in _logs_by_run(self._store):
            if max(chunk.modified_ms for chunk in chunks) > before_ms:
                young_runs.add(run_id)
            else:
                logs.append((run_id, chunks))
        if not plans and not logs:
            return report
        # Read after the listings: what is old and has ended by now cannot start again.
        needed_runs = young_runs | {run.run_id for run in await self._runs.unfinished()}
        await self._claims(plans, needed_runs, report)
        for meta in plans:
            match = _PLAN.fullmatch(meta.key)
            if match is not None and match[1] not in needed_runs:
                await self._delete(meta, report)
                report.plans += 1
        for chunk in (
            chunk for run_id, chunks in logs if run_id not in needed_runs for chunk in chunks
        ):
            await self._delete(chunk, report)
            report.logs += 1
        return report

    async def _leases(self, before_ms: int, report: RunGcReport) -> int:
        count = 0
        async for meta in self._store.list("leases/"):
            if meta.modified_ms <= before_ms and _LEASE.fullmatch(meta.key):
                await self._delete(meta, report)
                count += 1
        return count

    async def _epochs(self, report: RunGcReport) -> int:
        deleted = await collect_epochs(
            self._store, DOMAIN, retention_ms=LEASE_RETENTION_MS, dry_run=report.dry_run
        )
        report.bytes += sum(meta.size_bytes for meta in deleted)
        return len(deleted)

    async def _claims(self, listed: list[Meta], needed_runs: set[str], report: RunGcReport) -> None:
        for meta in listed:
            if not _CLAIM.fullmatch(meta.key):
                continue
            try:
                claim = json.decode(await self._store.get(meta.key), RunClaim)
            except (Invalid, NotFound):
                continue  # another collector deleted it, or a newer version wrote it
            if claim.run_id not in needed_runs:
                await self._delete(meta, report)
                report.claims += 1

    async def _delete(self, meta: Meta, report: RunGcReport) -> None:
        report.bytes += meta.size_bytes
        if not report.dry_run:
            await self._store.delete(meta.key)


async def _logs_by_run(store: Store) -> AsyncIterator[tuple[str, list[Meta]]]:
    """The chunks of logs, run by run: a listing has those of one run next to each other."""
    run_id, chunks = "", list[Meta]()
    async for meta in store.list("logs/"):
        match = _LOG.fullmatch(meta.key)
        if match is None:
            continue
        if match[1] != run_id and chunks:
            yield run_id, chunks
            chunks = []
        run_id = match[1]
        chunks.append(meta)
    if chunks:
        yield run_id, chunks
