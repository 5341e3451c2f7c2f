"""An event domain with writers, the engine in process and a compactor: everything real but Spark."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa

from arco.catalog.manifest import Commit, Manifest, read_commit, read_index, read_manifest
from arco.catalog.state_file import read_rows
from arco.compactor.domain_compactor import DomainCompactor
from arco.compactor.engine import CompactionEngine, FoldJob, FoldResult, MergeJob, MergeResult
from arco.compactor.publisher import Publisher
from arco.compactor.tail_merge import TailPolicy
from arco.core.clock import utc
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.core.tasks import AsyncioTasks
from arco.fold.fold import fold, retain
from arco.fold.tier2 import EXECUTIONS_DOMAIN, TIER2
from arco.ledger.envelope import Envelope, Source
from arco.ledger.writer import LedgerWriter
from arco.storage.backend import Backend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.clocks import HandClock
from tests.compactor.dict_backend import DictBackend
from tests.compactor.in_process_engine import InProcessEngine
from tests.stores import HASTY, open_bench

DOMAIN = EXECUTIONS_DOMAIN
START = datetime(2026, 5, 1, tzinfo=UTC)

Rows = dict[str, list[dict[str, object]]]


@dataclass
class CompactionSetup:
    """One store in memory, and a clock that is moved by hand."""

    clock: HandClock
    runtime: Runtime
    backend: Backend
    reported: list[str] = field(default_factory=list)  # the executions that were acknowledged

    def store(self, role: Role = Role.COMPACTOR, backend: Backend | None = None) -> Store:
        inner = self.backend if backend is None else backend
        return Store(inner, self.runtime, scope=Scope(), role=role, retry=HASTY)

    def writer(self) -> LedgerWriter:
        return LedgerWriter(self.store(Role.API), DOMAIN)

    def compactor(
        self,
        engine: CompactionEngine | None = None,
        *,
        backend: Backend | None = None,
        retention: dict[str, timedelta] | None = None,
        most_segments: int = 8_192,
        policy: TailPolicy | None = None,
    ) -> DomainCompactor:
        store = self.store(backend=backend)
        return DomainCompactor(
            store,
            DOMAIN,
            engine or InProcessEngine(store),
            retention=retention or {},
            most_segments=most_segments,
            policy=policy,
        )

    async def report_started(
        self, writer: LedgerWriter, *names: str, at: datetime | None = None
    ) -> None:
        """Append that these executions have begun, in one segment."""
        await writer.append([self.started(name, at=at) for name in names])
        self.reported += names

    def started(self, name: str, *, at: datetime | None = None) -> Envelope:
        return self.event("execution_started", {"execution_id": name, "pipeline_id": "p"}, at=at)

    def completed(
        self, name: str, status: str = "SUCCESS", *, at: datetime | None = None
    ) -> Envelope:
        return self.event("execution_completed", {"execution_id": name, "status": status}, at=at)

    def event(self, kind: str, payload: object, *, at: datetime | None = None) -> Envelope:
        now = utc(self.clock.now_ms())
        return Envelope(
            event_id=new_ulid(self.runtime),
            event_type=kind,
            event_version=1,
            occurred_at=at or now,
            received_at=now,
            idempotency_key=new_ulid(self.runtime),
            source=Source("test"),
            payload=msgspec.Raw(msgspec.json.encode(payload)),
        )

    async def manifests(self) -> list[Manifest]:
        """All that are kept, oldest first."""
        chain = Publisher(self.store(), DOMAIN).chain
        head = await chain.head()
        floor = await chain.floor()
        return [read_manifest(each) for each in await chain.history(floor, head.number)]

    async def head(self) -> Manifest:
        return (await self.manifests())[-1]

    async def commits(self) -> list[Commit]:
        return [await read_commit(self.store(), each.commit) for each in await self.manifests()]

    async def rows(self, *, hidden: bool = False) -> Rows:
        """The state as a reader sees it; with `hidden` also what is no longer retained."""
        manifest = await self.head()
        return {
            name: rows.to_pylist()
            for name, rows in (await state_of(self.store(), manifest, hidden=hidden)).items()
        }

    async def executions(self) -> list[str]:
        return [str(row["execution_id"]) for row in (await self.rows()).get("executions", [])]


@dataclass
class Stamped:
    """A setup on a store with its own, correct clock."""

    setup: CompactionSetup
    objects: DictBackend

    def pass_ms(self, ms: float) -> None:
        self.setup.clock.pass_ms(ms)
        self.objects.now_ms = self.setup.clock.now_ms()


class Slow:
    """An engine that remembers its jobs, and lets something happen before it answers, once."""

    def __init__(self, engine: CompactionEngine) -> None:
        self._engine = engine
        self.jobs: list[FoldJob] = []
        self.merges: list[MergeJob] = []
        self.meanwhile: Callable[[], Coroutine[Any, Any, None]] | None = None

    async def fold(self, job: FoldJob) -> FoldResult:
        self.jobs.append(job)
        folded = await self._engine.fold(job)
        await self._pause()
        return folded

    async def merge(self, job: MergeJob) -> MergeResult:
        self.merges.append(job)
        merged = await self._engine.merge(job)
        await self._pause()
        return merged

    async def _pause(self) -> None:
        step, self.meanwhile = self.meanwhile, None
        if step is not None:
            await step()


async def state_of(
    store: Store, manifest: Manifest, *, hidden: bool = False
) -> dict[str, pa.Table]:
    """All rows that a manifest names, folded: base and tail, whatever lies where."""
    files = {name: list(refs) for name, refs in manifest.tail.items()}
    for name, ref in manifest.base.unbucketed.items():
        files.setdefault(name, []).append(ref)
    if manifest.base.index is not None:
        for name, buckets in (await read_index(store, manifest.base.index)).tables.items():
            files.setdefault(name, []).extend(buckets.values())
    rows_by_table = {}
    for name, refs in sorted(files.items()):
        table = TIER2[manifest.domain][name]
        read = [await read_rows(store, table, ref) for ref in refs]
        rows = fold(table, pa.concat_tables([table.schema.empty_table(), *read]))
        bound = None if hidden else manifest.retained_from.get(name)
        retained_rows = retain(table, rows, bound)
        if retained_rows.num_rows:
            rows_by_table[name] = retained_rows
    return rows_by_table


def open_setup(seed: int = 0) -> CompactionSetup:
    clock = HandClock(round(START.timestamp() * 1000))
    runtime = Runtime(clock, random.Random(seed), AsyncioTasks())
    return CompactionSetup(clock, runtime, open_bench("memory://", runtime).backend)


def open_stamped() -> Stamped:
    setup, objects = open_setup(), DictBackend()
    stamped = Stamped(CompactionSetup(setup.clock, setup.runtime, objects), objects)
    stamped.pass_ms(0)
    return stamped


async def report_all(setup: CompactionSetup, writers: Sequence[LedgerWriter], rounds: int) -> None:
    """Every writer appends so many segments, all at once."""

    async def one(number: int, writer: LedgerWriter) -> None:
        for n in range(rounds):
            await setup.report_started(writer, f"e{number}-{n:03d}")

    await asyncio.gather(*(one(number, writer) for number, writer in enumerate(writers)))
