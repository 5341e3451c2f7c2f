"""The compactor of one event domain (Tier 2): a cycle folds new segments and publishes (P15 to P21, P27).

A cycle publishes only on a head with the watermark that it started from. Otherwise another compactor has
folded the segments; the new files become garbage, and the cycle starts again from the head. So every
segment is folded exactly once. The watermark moves only with published manifests: segments of a failed or
cancelled cycle are found again.

A warm cycle over one new segment costs 7 sequential requests: the segment and the miss after it, the head,
the engine's read and its file, the commit record, the manifest. Each further table costs a file. For
segments that were handed over by their writer, only the miss after them is requested.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

import msgspec

from arco.catalog.manifest import Base, BaseIndex, CommitKind, Counts, Manifest, Ref, read_index
from arco.compactor.backlog import NewSegments
from arco.compactor.base_files import BaseFiles
from arco.compactor.engine import (
    CompactionEngine,
    CrashCallback,
    FoldJob,
    FoldResult,
    JobTooLarge,
    fold_isolating_crashes,
)
from arco.compactor.publisher import (
    ManifestChange,
    Publisher,
    manifest_at,
    new_attempt_ulid,
    orphan_mark,
    publish_on_head,
    retained_from_of,
)
from arco.compactor.retention import Retention
from arco.compactor.tail_merge import TailMerge, TailPolicy
from arco.core.clock import Clock
from arco.core.errors import Conflict, Corrupt
from arco.core.ids import new_ulid
from arco.fold.tier2 import TIER2
from arco.ledger.follower import MAX_BATCH_SEGMENTS, SegmentCache
from arco.ledger.segment import Segment
from arco.ledger.stream import Watermark
from arco.storage.chain import FRESH_MS, Head
from arco.storage.store import Store

_KEEP_ALL: Mapping[str, timedelta] = MappingProxyType({})


class PhaseTimer:
    """Sums up the time that a piece of work spends in each phase."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ms = clock.elapsed_ms()
        self._spent_ms: dict[str, float] = {}

    def end(self, phase: str) -> None:
        """Add the time since the last call to `phase`."""
        now = self._clock.elapsed_ms()
        self._spent_ms[phase] = self._spent_ms.get(phase, 0) + now - self._since_ms
        self._since_ms = now

    def ms(self) -> dict[str, int]:
        """The time of each phase so far, in whole milliseconds."""
        return {phase: round(ms) for phase, ms in self._spent_ms.items()}


class CycleReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a cycle or a merge published, and how long its phases took."""

    domain: str
    kind: CommitKind
    manifest: int
    counts: Counts
    files: int
    size_bytes: int
    phases_ms: dict[str, int]  # find, fold and publish; or merge and publish
    lag_ms: int | None = None  # from the receipt of its oldest event to the publication


class DomainCompactor:
    """Compacts one domain with one engine. Not reentrant: one call at a time.

    `retention` is how long rows are kept, by table; rows of other tables are kept for ever.
    """

    def __init__(
        self,
        store: Store,
        domain: str,
        engine: CompactionEngine,
        *,
        retention: Mapping[str, timedelta] = _KEEP_ALL,
        most_segments: int = MAX_BATCH_SEGMENTS,
        policy: TailPolicy | None = None,
        on_crash: CrashCallback | None = None,
    ) -> None:
        self.domain = domain
        self._on_crash = on_crash
        self._store = store
        self._clock = store.runtime.clock
        self._engine = engine
        self._tables = TIER2[domain]
        self._max_segments = self._batch_segments = most_segments
        self._policy = policy or TailPolicy()
        self._publisher = Publisher(store, domain)
        self._retention = Retention(
            self._publisher.chain,
            {table: span for table, span in retention.items() if table in self._tables},
        )
        self._handed = SegmentCache()
        self._new_segments: NewSegments | None = None  # None: start from the head
        # The head of the chain when it was last read.
        self._head_manifest: Manifest | None = None
        self._head_number = -1
        self._head_seen_ms = 0.0
        self._index: tuple[Ref, BaseIndex] | None = None
        self._may_remove_rows = True
        self.is_behind = False  # whether the last cycle left segments for the next

    def notify(self, *streams: str, handed: Iterable[Segment] = ()) -> None:
        """Report new segments in these streams; those in `handed` need not be read from the store."""
        for segment in handed:
            self._handed.add(segment)
        if self._new_segments is not None:
            self._new_segments.notify(streams)

    def due_in_ms(self) -> float:
        """The time until the store must be polled, unless `notify` reports new segments."""
        return 1 if self._new_segments is None else self._new_segments.due_in_ms()

    async def cycle(self, *, everything: bool = False) -> CycleReport | None:
        """Fold one batch of new segments and publish it; None if there is nothing to publish.

        `everything` polls all streams, due or not, and publishes slots and seals without events.
        """
        timer = PhaseTimer(self._clock)
        try:
            while True:
                new_segments = await self._find_new_segments(everything=everything)
                if not await self._should_publish(new_segments, everything=everything):
                    self.is_behind = False
                    return None
                head = await self._head()
                timer.end("find")
                if not await self._should_publish(new_segments, everything=everything):
                    return None  # another process has published them
                if _watermark(manifest_at(head)) == new_segments.since:
                    cycle = await self._fold_unless_collected(new_segments, head, timer)
                    if cycle is not None:
                        return cycle
                # Another process has published, or the batch was too large.
                self._new_segments = None
        except BaseException:
            # Segments that were not published must be found again, and read from the store.
            self._new_segments = None
            self._handed.clear()
            raise

    async def merge(self) -> CycleReport | None:
        """Shorten long tails or merge them into the base; None if not due or another was first."""
        timer = PhaseTimer(self._clock)
        head = self._publisher.chain.remembered() or await self._publisher.chain.head()
        manifest = manifest_at(head)
        if manifest is None or not self._policy.is_due(manifest, is_behind=self.is_behind):
            return None
        base = BaseFiles(manifest.base, await self._read_index(manifest.base.index))
        parts = self._policy.plan_merge(manifest, base, self._tables, is_behind=self.is_behind)
        if not parts:
            return None
        work = TailMerge(self._publisher, manifest, base, self._tables, parts)
        try:
            await work.fold(self._engine, remove_expired=self._may_remove_rows)
        except Corrupt:
            if work.holds(manifest_at(await self._publisher.chain.head())):
                raise
            return None  # another process has merged these files, and they were collected
        timer.end("merge")
        published = await work.publish(head)
        timer.end("publish")
        self._may_remove_rows = published is not None
        if published is None:
            return None
        return CycleReport(
            domain=self.domain,
            kind=CommitKind.MERGE,
            manifest=published.number,
            counts=Counts(),
            files=work.files,
            size_bytes=work.size_bytes,
            phases_ms=timer.ms(),
        )

    async def close(self) -> None:
        """Write a fresh hint."""
        await self._publisher.chain.close()

    async def _find_new_segments(self, *, everything: bool) -> NewSegments:
        """The segments beyond the published watermark."""
        if self._new_segments is None or await self._is_outdated(self._new_segments):
            self._new_segments = await self._begin()
        try:
            await self._new_segments.poll(most=self._batch_segments, everything=everything)
        except Conflict as gap:
            stale, self._new_segments = self._new_segments.since, await self._begin()
            if self._new_segments.since == stale:
                raise Corrupt(f"{gap}, and no newer watermark is published") from gap
            await self._new_segments.poll(most=self._batch_segments, everything=everything)
        return self._new_segments

    async def _is_outdated(self, new_segments: NewSegments) -> bool:
        """Whether another process has published while this one found nothing; checked twice an hour.

        The segments and slots that it folded may be collected, so polling for them would never end.
        """
        if self._clock.elapsed_ms() - self._head_seen_ms < FRESH_MS / 2:
            return False
        return _watermark(manifest_at(await self._head())) != new_segments.since

    async def _begin(self) -> NewSegments:
        since = _watermark(manifest_at(await self._head()))
        return NewSegments(self._store, self.domain, since, self._handed)

    async def _head(self) -> Head:
        head = await self._publisher.chain.head()
        self._see(head)
        return head

    def _see(self, head: Head) -> None:
        self._head_manifest = manifest_at(head)
        self._head_number = head.number
        self._head_seen_ms = head.seen_ms

    async def _should_publish(self, new_segments: NewSegments, *, everything: bool) -> bool:
        """Whether to publish now: events, slots and seals that have waited long, or rows to expire."""
        if new_segments.is_due() or (everything and new_segments.watermark != new_segments.since):
            return True
        return self._head_manifest is not None and await self._retention.is_overdue(
            self._head_number, retained_from_of(self._head_manifest)
        )

    async def _fold_unless_collected(
        self, new_segments: NewSegments, head: Head, timer: PhaseTimer
    ) -> CycleReport | None:
        """`_fold`; None also if another process has folded these segments and they were collected."""
        try:
            return await self._fold(new_segments, head, timer)
        except Corrupt:
            if _watermark(manifest_at(await self._head())) == new_segments.since:
                raise
            return None

    async def _fold(
        self, new_segments: NewSegments, head: Head, timer: PhaseTimer
    ) -> CycleReport | None:
        """Fold the new segments and publish the result; None if they must be found again.

        That is the case if another process has published, or if one publication cannot take them all.
        """
        parent = manifest_at(head)
        attempt = new_attempt_ulid(self._store.runtime, orphan_mark(parent))
        folded = FoldResult(files=(), counts=Counts())
        if segments := new_segments.segments():
            job = FoldJob(
                domain=self.domain,
                attempt=attempt,
                segments=segments,
                retained_from=retained_from_of(parent),
                # A batch has at least one segment of each stream, so it cannot be smaller than that.
                divisible=len(segments) > len({each.stream for each in segments}),
            )
            try:
                folded = await self._fold_on_engine(job)
            except JobTooLarge as too_large:
                self._batch_segments = too_large.fitting_segments
                return None
        timer.end("fold")
        commit_ulid = new_ulid(self._store.runtime)
        bounds = await self._retention.raise_bounds(head.number, retained_from_of(parent))
        published = await publish_on_head(
            self._publisher,
            head,
            attempt,
            lambda head: (
                _watermark(head) == new_segments.since
                and retained_from_of(head) == retained_from_of(parent)
            ),
            lambda head: _change(head, new_segments, folded, bounds, commit_ulid),
        )
        timer.end("publish")
        if published is None:
            return None
        new_segments.mark_published()
        self._see(published)
        self.is_behind = new_segments.has_more
        return self._report(published, folded, timer)

    async def _fold_on_engine(self, job: FoldJob) -> FoldResult:
        try:
            folded = await fold_isolating_crashes(self._engine, job, self._on_crash)
        except JobTooLarge:
            raise
        except Exception:
            # The batch may have been too large.
            self._batch_segments = max(1, self._batch_segments // 4)
            raise
        self._batch_segments = min(self._max_segments, self._batch_segments * 2)
        return folded

    def _report(self, published: Head, folded: FoldResult, timer: PhaseTimer) -> CycleReport:
        oldest = folded.counts.oldest_received
        now_ms = self._clock.now_ms()
        return CycleReport(
            domain=self.domain,
            kind=CommitKind.FOLD,
            manifest=published.number,
            counts=folded.counts,
            files=len(folded.files),
            size_bytes=sum(new.file.bytes for new in folded.files),
            phases_ms=timer.ms(),
            lag_ms=None if oldest is None else max(0, now_ms - round(oldest.timestamp() * 1000)),
        )

    async def _read_index(self, ref: Ref | None) -> BaseIndex | None:
        if ref is None:
            return None
        if self._index is None or self._index[0] != ref:
            self._index = (ref, await read_index(self._store, ref))
        return self._index[1]


def _watermark(manifest: Manifest | None) -> Watermark:
    return Watermark() if manifest is None else manifest.watermark


def _change(
    parent: Manifest | None,
    new_segments: NewSegments,
    folded: FoldResult,
    bounds: dict[str, datetime],
    commit_ulid: str,
) -> ManifestChange:
    tail = {} if parent is None else dict(parent.tail)
    for new in folded.files:
        tail[new.table] = (*tail.get(new.table, ()), new.file)
    return ManifestChange(
        kind=CommitKind.FOLD,
        commit_ulid=commit_ulid,
        tail=tail,
        base=Base() if parent is None else parent.base,
        changes_rows=bool(folded.files) or bounds != retained_from_of(parent),
        watermark=new_segments.watermark,
        retained_from=bounds,
        streams=new_segments.streams(),
        counts=folded.counts,
        added=tuple(Ref(path=new.file.path, sha256=new.file.sha256) for new in folded.files),
    )
