"""A rebuild: it recreates the state of an event domain from the ledger, with the same rows (P20).

It starts from the oldest kept manifest whose later segments are all kept, or from nothing if all are kept.
Then it replays the manifests: the segments of each are folded again with the retention bounds of that time,
and rows that a merge left out are left out again. It replays manifests that are published meanwhile too,
then publishes on the newest head. Every file that it names is new.

No manifest names its files before that, and an orphan mark may pass files that are two hours old (P27). So
a rebuild rewrites its files every hour, and may take as long as it needs.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from arco.catalog.manifest import (
    Base,
    Commit,
    CommitKind,
    Counts,
    FileRef,
    Manifest,
    Ref,
    read_commit,
    read_manifest,
)
from arco.compactor.base_files import BaseFiles, read_base
from arco.compactor.engine import (
    CompactionEngine,
    FoldJob,
    MergeJob,
    SegmentRef,
    add_counts,
    fold_isolating_crashes,
)
from arco.compactor.publisher import (
    ManifestChange,
    Publisher,
    is_below_orphan_mark,
    manifest_at,
    new_attempt_ulid,
    orphan_mark,
    publish_on_head,
)
from arco.compactor.tail_merge import buckets_in, plan_base_parts
from arco.core.errors import Corrupt, Invalid, NotFound, Unavailable
from arco.core.ids import new_ulid
from arco.fold.tier2 import TIER2
from arco.ledger.follower import MAX_BATCH_SEGMENTS
from arco.ledger.segment import find_location
from arco.storage.chain import SHORTEST_RETENTION_MS, Chain, Head
from arco.storage.store import Store

# Half the minimum age of an orphan mark: the other half is for the job in progress.
_RENEW_MS = SHORTEST_RETENTION_MS / 2


_PARALLEL_READS = 16


@dataclass(frozen=True)
class ReplayStep:
    """What one manifest did to rows, under the retention bounds of its parent."""

    number: int
    bounds: dict[str, datetime]
    segments: tuple[SegmentRef, ...] = ()
    forgets: dict[str, frozenset[int]] = field(default_factory=dict)  # the buckets by table


class RebuildReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a rebuild published."""

    domain: str
    manifest: int
    start: int  # the manifest that the rebuild started from; -1: from nothing
    counts: Counts  # of the segments that were folded again
    files: int
    size_bytes: int


async def rebuild(
    store: Store, domain: str, engine: CompactionEngine, *, most_segments: int = MAX_BATCH_SEGMENTS
) -> RebuildReport:
    """Rebuild the state of a domain and publish it; `Invalid` if nothing is published yet."""
    publisher = Publisher(store, domain)
    head = await publisher.chain.head()
    if head.entry is None:
        raise Invalid(f"nothing of {domain} was published yet, so there is nothing to rebuild")
    at_start = await publisher.chain.floor(), orphan_mark(manifest_at(head))
    try:
        return await _run(publisher, head, engine, most_segments)
    except Corrupt as problem:
        now = await publisher.chain.floor(), orphan_mark(manifest_at(await publisher.chain.head()))
        if now == at_start:
            raise
        raise Unavailable(
            "the inputs of this rebuild were collected while it ran; start it again"
        ) from problem


async def _run(
    publisher: Publisher, head: Head, engine: CompactionEngine, most_segments: int
) -> RebuildReport:
    start, steps = await _all_steps(publisher, head)
    lost = await find_last_lost_step(publisher.store, publisher.domain, steps)
    start = start if lost is None else lost
    work = _Rebuild(publisher, engine, most_segments)
    await work.begin(start)
    await work.replay([step for step in steps if step.number > start], head)
    await work.rewrite()
    while True:
        published = await work.publish(head)
        if published is not None:
            await publisher.chain.close()
            return work.report(published, start)
        head = await publisher.chain.head()
        await work.replay(await read_steps(publisher.chain, work.number, head), head)


async def _all_steps(publisher: Publisher, head: Head) -> tuple[int, list[ReplayStep]]:
    """The number of the oldest kept manifest, -1 if none was ever collected, and the steps above it."""
    while True:
        floor = await publisher.chain.floor()
        oldest = floor if floor > 0 else -1
        try:
            return oldest, await read_steps(publisher.chain, oldest, head)
        except NotFound:
            if await publisher.chain.floor() == floor:
                raise


class _Rebuild:
    """A rebuild in progress: the files that hold the rows of manifest `number`."""

    def __init__(self, publisher: Publisher, engine: CompactionEngine, most_segments: int) -> None:
        self._publisher = publisher
        self._runtime = publisher.store.runtime
        self._engine = engine
        self._most = most_segments
        self._domain = publisher.domain
        self._tables = TIER2[publisher.domain]
        self._replayed: Manifest | None = None  # the manifest whose rows these files hold
        self.number = -1
        self._base = BaseFiles(Base())
        self._tail: dict[str, list[FileRef]] = {}
        self._index: Ref | None = None  # of the current base files; None: not written yet
        self._index_bytes = 0
        self._oldest = ""  # the oldest attempt whose files are in the result
        self._written_ms = self._runtime.clock.elapsed_ms()  # before the oldest file was written
        self._counts = Counts()

    async def begin(self, start: int) -> None:
        """Start from the state of a kept manifest; -1: from nothing."""
        if start < 0:
            return
        self._replayed = manifest_at(Head(await self._publisher.chain.read(start), 0))
        self.number = start
        if self._replayed is not None:
            self._base = await read_base(self._publisher.store, self._replayed.base)
            self._tail = {name: list(files) for name, files in self._replayed.tail.items()}

    async def replay(self, steps: Sequence[ReplayStep], head: Head) -> None:
        """Repeat what the manifests up to `head` did to rows."""
        pending: list[SegmentRef] = []
        bounds: dict[str, datetime] = {}
        for step in steps:
            if pending and (step.bounds != bounds or step.forgets or len(pending) >= self._most):
                await self._fold(pending, bounds)
                pending = []
            bounds = step.bounds
            pending += step.segments
            if step.forgets:
                await self._leave_out(step)
        if pending:
            await self._fold(pending, bounds)
        self._replayed, self.number = manifest_at(head), head.number

    async def rewrite(self) -> None:
        """Write all rows into new base files, so that no file in use may be collected."""
        began_ms, attempt = self._runtime.clock.elapsed_ms(), self._attempt()
        tails, self._tail = self._tail, {}
        buckets = {
            name: buckets_in(tails.get(name, ())) | set(map(int, self._base.of(table)))
            for name, table in self._tables.items()
        }
        await self._into_base(attempt, tails, buckets, {})
        await self._write_index(attempt)
        self._oldest, self._written_ms = attempt, began_ms

    async def publish(self, head: Head) -> Head | None:
        """Publish on the newest head with the replayed rows; None if its rows have changed."""
        if is_below_orphan_mark(self._oldest, manifest_at(head)):
            await self.rewrite()
        if self._index is None:
            await self._write_index(self._attempt())
        commit_ulid = new_ulid(self._runtime)
        return await publish_on_head(
            self._publisher,
            head,
            self._oldest,
            self._is_same,
            lambda parent: self._change(parent, commit_ulid),
        )

    def report(self, published: Head, start: int) -> RebuildReport:
        files = list(self._files())
        return RebuildReport(
            domain=self._domain,
            manifest=published.number,
            start=start,
            counts=self._counts,
            files=len(files),
            size_bytes=self._index_bytes + sum(ref.bytes for ref in files),
        )

    def _is_same(self, manifest: Manifest | None) -> bool:
        return (
            manifest is not None
            and self._replayed is not None
            and manifest.watermark == self._replayed.watermark
            and manifest.rows_changed_at == self._replayed.rows_changed_at
        )

    def _change(self, parent: Manifest | None, commit_ulid: str) -> ManifestChange:
        refs = [Ref(path=ref.path, sha256=ref.sha256) for ref in self._files()]
        old = [] if parent is None else [ref.path for ref in parent.named_files()]
        if parent is not None and parent.base.index is not None:
            old.append(parent.base.index.path)
        return ManifestChange(
            kind=CommitKind.REBUILD,
            commit_ulid=commit_ulid,
            tail={name: tuple(files) for name, files in self._tail.items()},
            base=self._base.base(self._index),
            changes_rows=True,
            counts=self._counts,
            added=(*refs, *([] if self._index is None else [self._index])),
            removed=tuple(sorted(old)),
        )

    async def _fold(self, segments: Sequence[SegmentRef], bounds: dict[str, datetime]) -> None:
        for start in range(0, len(segments), self._most):
            await self._rewrite_if_old()
            job = FoldJob(
                domain=self._domain,
                attempt=self._attempt(),
                segments=tuple(segments[start : start + self._most]),
                retained_from=bounds,
            )
            folded = await fold_isolating_crashes(self._engine, job)
            self._counts = add_counts(self._counts, folded.counts)
            for new in folded.files:
                self._tail.setdefault(new.table, []).append(new.file)

    async def _rewrite_if_old(self) -> None:
        if self._runtime.clock.elapsed_ms() - self._written_ms >= _RENEW_MS:
            await self.rewrite()

    async def _leave_out(self, step: ReplayStep) -> None:
        """Leave out the rows that a merge left out of the buckets that it merged."""
        attempt = self._attempt()
        tails = {name: self._tail.pop(name, []) for name in step.forgets}
        rest = {name: buckets_in(tails[name]) - merged for name, merged in step.forgets.items()}
        await self._into_base(attempt, tails, step.forgets, step.bounds)
        await self._into_base(attempt, tails, rest, {})

    async def _into_base(
        self,
        attempt: str,
        tails: Mapping[str, Sequence[FileRef]],
        buckets: Mapping[str, AbstractSet[int]],
        bounds: dict[str, datetime],
    ) -> None:
        """Merge these buckets of these tables into the base, in one job."""
        parts = [
            part
            for name, table_buckets in buckets.items()
            for part in plan_base_parts(
                self._tables[name],
                table_buckets,
                tails.get(name, ()),
                self._base.of(self._tables[name]),
            )
        ]
        if not parts:
            return
        job = MergeJob(
            domain=self._domain, attempt=attempt, parts=tuple(parts), retained_from=bounds
        )
        merged = await self._engine.merge(job)
        self._index = None
        for name, bucket_numbers in buckets.items():
            for bucket in bucket_numbers:
                self._base.put(self._tables[name], bucket, None)
        for new in merged.files:
            self._base.put(self._tables[new.table], new.file.buckets[0], new.file)

    async def _write_index(self, attempt: str) -> None:
        self._index, raw = self._base.new_index(self._domain, attempt)
        self._index_bytes = len(raw)
        await self._publisher.create([(self._index, raw)])

    def _attempt(self) -> str:
        return new_attempt_ulid(self._runtime, orphan_mark(self._replayed))

    def _files(self) -> Iterator[FileRef]:
        yield from self._base.files()
        for files in self._tail.values():
            yield from files


async def read_steps(chain: Chain, after: int, head: Head) -> list[ReplayStep]:
    """The steps above number `after` up to `head`; `NotFound` if one was collected."""
    steps: list[ReplayStep] = []
    parent = None if after < 0 else read_manifest(await chain.read(after))
    for first in range(after + 1, head.number + 1, _PARALLEL_READS):
        entries = await chain.history(first, min(first + _PARALLEL_READS - 1, head.number))
        manifests = [read_manifest(entry) for entry in entries]
        records = await chain.store.runtime.tasks.gather(
            *(read_commit(chain.store, manifest.commit) for manifest in manifests)
        )
        for manifest, record in zip(manifests, records, strict=True):
            step = _read_step(record, manifest, parent)
            if step.segments or step.forgets:
                steps.append(step)
            parent = manifest
    return steps


async def find_last_lost_step(store: Store, domain: str, steps: Sequence[ReplayStep]) -> int | None:
    """The number of the last step with a collected segment; None if all are kept.

    The segments of a stream are collected in order, so only the first of each step is looked up.
    """
    newest_first = list(reversed(steps))
    for start in range(0, len(steps), _PARALLEL_READS):
        wave = newest_first[start : start + _PARALLEL_READS]
        are_kept = await store.runtime.tasks.gather(
            *(_is_kept(store, domain, each) for each in wave)
        )
        for step, is_kept in zip(wave, are_kept, strict=True):
            if not is_kept:
                return step.number
    return None


async def _is_kept(store: Store, domain: str, step: ReplayStep) -> bool:
    firsts: dict[str, int] = {}
    for each in step.segments:
        firsts.setdefault(each.stream, each.seq)
    locations = await store.runtime.tasks.gather(
        *(find_location(store, domain, stream, seq) for stream, seq in firsts.items())
    )
    return None not in locations


def _read_step(record: Commit, manifest: Manifest, parent: Manifest | None) -> ReplayStep:
    bounds = {} if parent is None else parent.retained_from
    if record.kind is CommitKind.FOLD:
        return ReplayStep(record.number, bounds, segments=_event_segments(record, manifest))
    if record.kind is CommitKind.MERGE and manifest.rows_changed_at == record.number:
        return ReplayStep(record.number, bounds, forgets=_merged_buckets(record, manifest, parent))
    return ReplayStep(record.number, bounds)


def _event_segments(record: Commit, manifest: Manifest) -> tuple[SegmentRef, ...]:
    """The segments with events: the last one of a stream that left the watermark is its seal."""
    return tuple(
        SegmentRef(stream, seq)
        for stream, (first_seq, last_seq) in record.streams.items()
        for seq in range(first_seq, last_seq + (stream in manifest.watermark.open))
    )


def _merged_buckets(
    record: Commit, manifest: Manifest, parent: Manifest | None
) -> dict[str, frozenset[int]]:
    """The buckets that went into the base: of tables that lost files of their tail and got none instead."""
    removed, added = set(record.removed), {ref.path for ref in record.added}
    merged: dict[str, frozenset[int]] = {}
    for name, files in ({} if parent is None else parent.tail).items():
        removed_files = [ref for ref in files if ref.path in removed]
        is_shortened = any(ref.path in added for ref in manifest.tail.get(name, ()))
        if removed_files and not is_shortened:
            merged[name] = frozenset(bucket for ref in removed_files for bucket in ref.buckets)
    return merged
