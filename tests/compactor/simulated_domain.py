"""A domain of Tier 2 in virtual time: writers, a compactor of a few lines, and the janitor after them.

The compactor here folds one row a line, straight through the publisher: what the janitor and the verifier
do must not rest on how the real one works.
"""

import io
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from arco.catalog.compactor_port import CompactorPort
from arco.catalog.manifest import (
    Base,
    BaseIndex,
    CommitKind,
    Counts,
    FileRef,
    Manifest,
    Ref,
    read_index,
)
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.compactor.domains import file_path, index_path
from arco.compactor.garbage_collection import GcReport, collect_garbage
from arco.compactor.publisher import (
    ManifestChange,
    NewFile,
    Publisher,
    manifest_at,
    new_attempt_ulid,
    orphan_mark,
)
from arco.compactor.state_file_writer import encode_state_file
from arco.compactor.verification import verify
from arco.compactor.verification_report import VerificationReport
from arco.core import json
from arco.core.clock import utc
from arco.core.hashing import sha256_hex
from arco.core.ids import new_ulid
from arco.core.scope import Scope
from arco.fold.fold import conform
from arco.fold.table import StateTable
from arco.fold.tier2 import EXECUTIONS, EXECUTIONS_DOMAIN, QUARANTINE
from arco.ledger.segment import Segment, SegmentHeader, find_segment
from arco.ledger.stream import Slot, Watermark, slot_chain
from arco.ledger.writer import LedgerWriter
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.compactor.simulated_catalog import PATIENT, PowerCut
from tests.ledger.events import note
from tests.ledger.simulated import Calm, simulate
from tests.sim.store import SimBackend
from tests.sim.world import HOUR_MS
from tests.storage.interposed import Interposed, Step, nothing

DOMAIN = EXECUTIONS_DOMAIN
RETENTION_MS = int(24 * HOUR_MS)
LIFE_MS = int(6 * HOUR_MS)

NewSegments = tuple[list[Segment], Watermark]


@dataclass
class SimulatedDomain:
    """One store, a writer at a time, and how many events were written."""

    simulation: Calm
    reported: int = 0
    _writer: LedgerWriter | None = None

    def store(self, role: Role, *, before: Step = nothing) -> Store:
        backend = Interposed(
            SimBackend(self.simulation.objects, self.simulation.incarnation), before=before
        )
        return Store(backend, self.simulation.runtime, scope=Scope(), role=role, retry=PATIENT)

    async def pass_hours(self, hours: float) -> None:
        await self.simulation.clock.sleep(hours * HOUR_MS)

    async def append_events(self, segments: int = 1) -> str:
        """Append segments of one event each, and return their stream."""
        if self._writer is None:
            self._writer = LedgerWriter(self.store(Role.API), DOMAIN, life_ms=LIFE_MS)
        stream = ""
        for _ in range(segments):
            stream = (await self._writer.append([note(self.simulation.runtime)])).stream
            self.reported += 1
        return stream

    async def restart(self) -> None:
        """End the writer as one ends that is asked to: with a seal."""
        if self._writer is not None:
            await self._writer.close()
        self._writer = None

    def kill(self) -> None:
        """End the writer without a seal."""
        self._writer = None

    async def fold(self, *, before: Step = nothing, retained_from: datetime | None = None) -> int:
        """Publish all that is new; the number of the manifest."""
        publisher = Publisher(self.store(Role.COMPACTOR, before=before), DOMAIN)
        head = await publisher.chain.head()
        parent = manifest_at(head)
        old = Watermark() if parent is None else parent.watermark
        segments, mark = await read_on(publisher.store, old)
        attempt = new_attempt_ulid(self.simulation.runtime, orphan_mark(parent))
        files = [
            (table.name, *new_file(table, rows, f"000{len(segments):09d}-{attempt}"))
            for table, rows in rows_of(segments)
        ]
        tail = {} if parent is None else dict(parent.tail)
        for name, ref, _ in files:
            tail[name] = (*tail.get(name, ()), ref)
        change = ManifestChange(
            kind=CommitKind.FOLD,
            commit_ulid=new_ulid(self.simulation.runtime),
            tail=tail,
            base=Base() if parent is None else parent.base,
            changes_rows=bool(files),
            watermark=mark,
            retained_from=None if retained_from is None else {EXECUTIONS.name: retained_from},
            streams=spans(segments),
            counts=Counts(
                segments=sum(not each.seal for each in segments),
                events=sum(len(each.lines) for each in segments),
                bytes=sum(map(size_of, segments)),
            ),
            files=[(ref, raw) for _, ref, raw in files],
        )
        return (await publisher.publish(head, change)).number

    async def merge(self) -> int:
        """Publish the tail as a base: one file a bucket, and quarantine in one piece."""
        publisher = Publisher(self.store(Role.COMPACTOR), DOMAIN)
        head = await publisher.chain.head()
        parent = manifest_at(head)
        assert parent is not None
        attempt = new_attempt_ulid(self.simulation.runtime, orphan_mark(parent))
        rows = await all_rows(publisher.store, parent)
        files: list[NewFile] = []
        buckets: dict[str, FileRef] = {}
        for bucket in sorted(set(EXECUTIONS.buckets_of(rows[EXECUTIONS.name]))):
            mask = pa.array([b == bucket for b in EXECUTIONS.buckets_of(rows[EXECUTIONS.name])])
            some = rows[EXECUTIONS.name].filter(mask)
            files.append(new_file(EXECUTIONS, some, f"{bucket:012d}-{attempt}"))
            buckets[str(bucket)] = files[-1][0]  # type: ignore[assignment]  # a file of ours
        raw = json.encode(BaseIndex(tables={EXECUTIONS.name: buckets}))
        index = Ref(path=index_path(DOMAIN, attempt), sha256=sha256_hex(raw))
        quarantine_base = {}
        if QUARANTINE.name in rows:
            ref, body = new_file(QUARANTINE, rows[QUARANTINE.name], f"000{0:09d}-{attempt}")
            quarantine_base = {QUARANTINE.name: ref}
            files.append((ref, body))
        change = ManifestChange(
            kind=CommitKind.MERGE,
            commit_ulid=new_ulid(self.simulation.runtime),
            tail={},
            base=Base(unbucketed=quarantine_base, index=index),
            files=[*files, (index, raw)],
        )
        return (await publisher.publish(head, change)).number

    async def leave_orphans(self) -> None:
        """A fold whose compactor dies before the manifest."""

        async def die(verb: str, key: str) -> None:
            if verb == "create" and "/manifests/" in key:
                raise PowerCut

        await self.append_events()
        try:
            await self.fold(before=die)
        except PowerCut:
            return
        raise AssertionError("it lives")

    def compactor(self) -> CatalogCompactor:
        return CatalogCompactor(self.store(Role.COMPACTOR))

    async def collect(
        self,
        *,
        dry_run: bool = False,
        before: Step = nothing,
        compactor: CompactorPort | None = None,
        alone: bool = False,
    ) -> GcReport:
        return await collect_garbage(
            self.store(Role.JANITOR, before=before),
            None if alone else compactor or self.compactor(),
            domain=DOMAIN,
            retention_ms=RETENTION_MS,
            dry_run=dry_run,
        )

    async def verify(self, role: Role = Role.JANITOR) -> VerificationReport:
        return await verify(self.store(role), DOMAIN, everything=True)

    async def manifests(self) -> dict[int, Manifest]:
        """All that are kept."""
        chain = Publisher(self.store(Role.JANITOR), DOMAIN).chain
        floor, head = await chain.floor(), (await chain.head()).number
        entries = await chain.history(floor, head)
        return {each.number: each.body(Manifest) for each in entries}

    def paths(self, prefix: str = "") -> list[str]:
        root = Scope().prefix
        return sorted(
            key.removeprefix(root)
            for key in list(self.simulation.objects.keys())
            if key.startswith(root + prefix)
        )

    async def remove(self, path: str) -> None:
        """As a careless operator would."""
        await SimBackend(self.simulation.objects, self.simulation.incarnation).delete(
            Scope().prefix + path
        )

    async def overwrite(self, path: str, raw: bytes) -> None:
        await SimBackend(self.simulation.objects, self.simulation.incarnation).put(
            Scope().prefix + path, raw
        )


async def read_on(store: Store, mark: Watermark) -> NewSegments:
    """The segments that are new since a watermark, and the watermark after them."""
    slots, segments = slot_chain(store, DOMAIN), list[Segment]()
    while (entry := await slots.find(mark.frontier)) is not None:
        mark = mark.registered(entry.body(Slot).stream)
    for stream, last_seq in mark.open.items():
        seq = last_seq + 1
        while (segment := await find_segment(store, DOMAIN, stream, seq)) is not None:
            segments.append(segment)
            mark = mark.folded(stream, seq, seal=segment.seal)
            seq += 1
    return segments, mark


def size_of(segment: Segment) -> int:
    """The bytes of a segment as it is stored; a seal has no events, so it is not counted."""
    header = SegmentHeader(
        format=1, create_id=segment.stream, stream=segment.stream, seq=segment.seq
    )
    encoded = b"\n".join([json.encode(header), *segment.lines, b""])
    return 0 if segment.seal else len(encoded)


def spans(segments: list[Segment]) -> dict[str, tuple[int, int]]:
    seqs_by_stream: dict[str, tuple[int, int]] = {}
    for each in segments:
        seqs_by_stream[each.stream] = (seqs_by_stream.get(each.stream, (each.seq, 0))[0], each.seq)
    return seqs_by_stream


def rows_of(segments: list[Segment]) -> list[tuple[StateTable, pa.Table]]:
    """A row of `executions` for each line, and one of `quarantine` for the first line of each segment."""
    runs, bad = list[dict[str, object]](), list[dict[str, object]]()
    for segment in segments:
        for line, _ in enumerate(segment.lines, 1):
            run = f"{segment.stream}-{segment.seq:04d}-{line}"
            at = utc(1_000 * (segment.seq + 1))
            runs.append({"execution_id": run, "status": "RUNNING", "_occurred_at": at})
        if segment.lines:
            position = {"stream": segment.stream, "segment": segment.seq, "line": 1}
            bad.append({**position, "reason": "for the sake of it"})
    pairs = ((EXECUTIONS, runs), (QUARANTINE, bad))
    return [(table, table_of(table, rows)) for table, rows in pairs if rows]


def table_of(table: StateTable, rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=table.schema)


def new_file(table: StateTable, rows: pa.Table, name: str) -> tuple[FileRef, bytes]:
    order = [(each, "ascending") for each in dict.fromkeys((*table.sort, *table.key))]
    return encode_state_file(
        table, conform(table, rows).sort_by(order), file_path(DOMAIN, table, name)
    )


async def all_rows(store: Store, manifest: Manifest) -> dict[str, pa.Table]:
    """Every row of a state whose keys never meet twice."""
    files = {name: list(refs) for name, refs in manifest.tail.items()}
    for name, ref in manifest.base.unbucketed.items():
        files.setdefault(name, []).append(ref)
    if manifest.base.index is not None:
        index = await read_index(store, manifest.base.index)
        for name, buckets in index.tables.items():
            files.setdefault(name, []).extend(buckets.values())
    return {
        name: pa.concat_tables(
            [pq.read_table(io.BytesIO(await store.get(ref.path))) for ref in refs]
        )
        for name, refs in files.items()
    }


def in_simulated_domain(
    scenario: Callable[[SimulatedDomain], Coroutine[Any, Any, None]], *, hours: float = 10_000
) -> None:
    """Run a scenario on an empty domain."""

    async def run_scenario(simulation: Calm) -> None:
        await scenario(SimulatedDomain(simulation))

    simulate(run_scenario, hours=hours)
