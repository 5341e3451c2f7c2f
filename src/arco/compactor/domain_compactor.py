"""The compactor of one domain of Tier 2: finds new segments, has them folded, publishes (P15 to P21, P27).

A cycle holds on a head whose watermark is the one that it began with: then nobody else has folded its
segments. Otherwise another compactor was first; our files are left to the janitor, and the cycle begins
again from the head. So every segment is folded exactly once, whoever dies when. The watermark moves by
published manifests alone: what fails or is cancelled is found again.

A warm cycle over one new segment costs 7 requests, one after the other: the segment and the miss after it,
the head, the engine's read and its file, the commit record, the manifest. Each further table costs a file.
Of segments that their writer has handed over, only the miss after them is asked for.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
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
)
from arco.compactor.retention import Retention
from arco.compactor.tail_merge import TailMerge, TailPolicy
from arco.core.clock import Clock
from arco.core.errors import Conflict, Corrupt
from arco.core.ids import new_ulid
from arco.fold.tier2 import TIER2
from arco.ledger.bell import Bell
from arco.ledger.follower import MOST_PLACES
from arco.ledger.handed import HandedSegments
from arco.ledger.segment import Segment
from arco.ledger.watermark import Watermark
from arco.storage.chain import FRESH_MS, Head
from arco.storage.store import Store

_KEEP_ALL: Mapping[str, timedelta] = MappingProxyType({})


class PhaseTimer:
    """Time by phase; the same phase may come again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ms = clock.elapsed_ms()
        self._spent_ms: dict[str, float] = {}

    def end(self, phase: str) -> None:
        """What has passed since the last lap belongs to `phase`."""
        now = self._clock.elapsed_ms()
        self._spent_ms[phase] = self._spent_ms.get(phase, 0) + now - self._since_ms
        self._since_ms = now

    def ms(self) -> dict[str, int]:
        """So far, in whole milliseconds."""
        return {phase: round(ms) for phase, ms in self._spent_ms.items()}


class CycleReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was published, and what its time went into."""

    domain: str
    kind: CommitKind
    manifest: int
    counts: Counts
    files: int
    size_bytes: int
    phases_ms: dict[str, int]  # find, fold and publish; or merge and publish
    lag_ms: int | None = None  # from the receipt of its oldest event until all can see it


class DomainCompactor:
    """Compacts one domain with one engine. One call at a time.

    `retention` says by table how long rows are kept; of the others all are kept for ever.
    """

    def __init__(
        self,
        store: Store,
        domain: str,
        engine: CompactionEngine,
        *,
        retention: Mapping[str, timedelta] = _KEEP_ALL,
        bell: Bell | None = None,
        most_segments: int = MOST_PLACES,
        policy: TailPolicy | None = None,
        on_crash: CrashCallback | None = None,
    ) -> None:
        self.domain = domain
        self._on_crash = on_crash
        self._store = store
        self._clock = store.runtime.clock
        self._engine = engine
        self._tables = TIER2[domain]
        self._bell = bell or Bell(store.runtime.tasks)
        self._most = self._room = most_segments
        self._policy = policy or TailPolicy()
        self._publisher = Publisher(store, domain)
        self._retention = Retention(
            self._publisher.chain,
            {table: span for table, span in retention.items() if table in self._tables},
        )
        self._handed = HandedSegments()
        self._news: NewSegments | None = None  # None: to be looked for from the head on
        self._seen: Manifest | None = None  # at the head as it was last seen
        self._seen_number = -1
        self._seen_ms = 0.0
        self._index: tuple[Ref, BaseIndex] | None = None
        self._may_forget = True
        self.is_behind = False  # whether the last cycle left some of what it had found

    async def follow(self) -> AsyncIterator[CycleReport]:
        """Cycles as there is work, for ever, hardly asking the store while there is none (P17)."""
        while True:
            cycle = await self.cycle()
            if cycle is not None:
                yield cycle
                continue
            self.ring(*await self._bell.wait(self.due_in_ms()))

    def ring(self, *streams: str, handed: Iterable[Segment] = ()) -> None:
        """These streams have something new, of which these segments need not be read any more."""
        for segment in handed:
            self._handed.add(segment)
        if self._news is not None:
            self._news.ring(streams)

    def due_in_ms(self) -> float:
        """How long it takes until there is something to do, if nobody rings."""
        return 1 if self._news is None else self._news.due_in_ms()

    async def cycle(self, *, everything: bool = False) -> CycleReport | None:
        """Fold one batch of new segments and publish it; None if there is nothing to publish.

        `everything` looks at all streams, due or not, and waits for nothing.
        """
        laps = PhaseTimer(self._clock)
        try:
            while True:
                news = await self._look(everything=everything)
                if not await self._is_worth_it(news, everything=everything):
                    self.is_behind = False
                    return None
                head = await self._head()
                laps.end("find")
                if not await self._is_worth_it(news, everything=everything):
                    return None  # another has seen to it
                if _watermark(manifest_at(head)) == news.since:
                    cycle = await self._fold_unless_collected(news, head, laps)
                    if cycle is not None:
                        return cycle
                self._news = None  # another has published, or it was too much at once
        except BaseException:
            # What was found and not published has to be found again, and read from the store.
            self._news = None
            self._handed.clear()
            raise

    async def merge(self) -> CycleReport | None:
        """Make long tails shorter, or bring them into the base; None if that is not due, or was lost."""
        laps = PhaseTimer(self._clock)
        head = self._publisher.chain.remembered() or await self._publisher.chain.head()
        manifest = manifest_at(head)
        if manifest is None or not self._policy.is_due(manifest, behind=self.is_behind):
            return None
        base = BaseFiles(manifest.base, await self._read_index(manifest.base.index))
        parts = self._policy.plan_merge(manifest, base, self._tables, behind=self.is_behind)
        if not parts:
            return None
        work = TailMerge(self._publisher, manifest, base, self._tables, parts)
        try:
            await work.fold(self._engine, forget=self._may_forget)
        except Corrupt:
            if work.holds(manifest_at(await self._publisher.chain.head())):
                raise
            return None  # we slept: another has merged these files, and they were collected
        laps.end("merge")
        published = await work.publish(head)
        laps.end("publish")
        self._may_forget = published is not None
        if published is None:
            return None
        return CycleReport(
            domain=self.domain,
            kind=CommitKind.MERGE,
            manifest=published.number,
            counts=Counts(),
            files=work.files,
            size_bytes=work.size_bytes,
            phases_ms=laps.ms(),
        )

    async def close(self) -> None:
        """Leave a fresh hint."""
        await self._publisher.chain.close()

    async def _look(self, *, everything: bool) -> NewSegments:
        """What is new since the watermark that is published."""
        if self._news is None or await self._has_lost_touch(self._news):
            self._news = await self._begin()
        try:
            await self._news.look(most=self._room, everything=everything)
        except Conflict as gap:
            stale, self._news = self._news.since, await self._begin()
            if self._news.since == stale:
                raise Corrupt(f"{gap}, and no newer watermark is published") from gap
            await self._news.look(most=self._room, everything=everything)
        return self._news

    async def _has_lost_touch(self, news: NewSegments) -> bool:
        """Whether another has published while we found nothing, which is asked twice an hour.

        What it has folded may be collected, slots too: we would look for keys that never come back.
        """
        if self._clock.elapsed_ms() - self._seen_ms < FRESH_MS / 2:
            return False
        return _watermark(manifest_at(await self._head())) != news.since

    async def _begin(self) -> NewSegments:
        since = _watermark(manifest_at(await self._head()))
        return NewSegments(self._store, self.domain, since, self._handed)

    async def _head(self) -> Head:
        head = await self._publisher.chain.head()
        self._see(head)
        return head

    def _see(self, head: Head) -> None:
        self._seen, self._seen_number, self._seen_ms = manifest_at(head), head.number, head.seen_ms

    async def _is_worth_it(self, news: NewSegments, *, everything: bool) -> bool:
        """Whether there is reason to publish now: events, what has waited long, or rows that have to go."""
        if news.is_ripe() or (everything and news.watermark != news.since):
            return True
        return self._seen is not None and await self._retention.is_overdue(
            self._seen_number, _bounds(self._seen)
        )

    async def _fold_unless_collected(
        self, news: NewSegments, head: Head, laps: PhaseTimer
    ) -> CycleReport | None:
        """`_fold`; None also if we slept, and another has folded what was collected since."""
        try:
            return await self._fold(news, head, laps)
        except Corrupt:
            if _watermark(manifest_at(await self._head())) == news.since:
                raise
            return None

    async def _fold(self, news: NewSegments, head: Head, laps: PhaseTimer) -> CycleReport | None:
        """Have the news folded, and publish them; None if they must be looked for again.

        That is so if another has published meanwhile, or if they are too many for one publication.
        """
        parent = manifest_at(head)
        attempt = new_attempt_ulid(self._store.runtime, orphan_mark(parent))
        folded = FoldResult(files=(), counts=Counts())
        if segments := news.segments():
            job = FoldJob(
                domain=self.domain,
                attempt=attempt,
                segments=segments,
                retained_from=_bounds(parent),
                # Every stream has one segment in a batch at least, so fewer could not be taken.
                divisible=len(segments) > len({each.stream for each in segments}),
            )
            try:
                folded = await self._fold_on_engine(job)
            except JobTooLarge as too_large:
                self._room = too_large.fitting_segments
                return None
        laps.end("fold")
        commit_ulid = new_ulid(self._store.runtime)
        bounds = await self._retention.raised(head.number, _bounds(parent))
        published = await publish_on_head(
            self._publisher,
            head,
            attempt,
            lambda found: _watermark(found) == news.since and _bounds(found) == _bounds(parent),
            lambda found: _change(found, news, folded, bounds, commit_ulid),
        )
        laps.end("publish")
        if published is None:
            return None
        news.published()
        self._see(published)
        self.is_behind = news.is_cut_short
        return self._report(published, folded, laps)

    async def _fold_on_engine(self, job: FoldJob) -> FoldResult:
        try:
            folded = await fold_isolating_crashes(self._engine, job, self._on_crash)
        except JobTooLarge:
            raise
        except Exception:
            self._room = max(1, self._room // 4)  # perhaps it was too much at once
            raise
        self._room = min(self._most, self._room * 2)
        return folded

    def _report(self, published: Head, folded: FoldResult, laps: PhaseTimer) -> CycleReport:
        oldest = folded.counts.oldest_received
        now_ms = self._clock.now_ms()
        return CycleReport(
            domain=self.domain,
            kind=CommitKind.FOLD,
            manifest=published.number,
            counts=folded.counts,
            files=len(folded.files),
            size_bytes=sum(new.file.bytes for new in folded.files),
            phases_ms=laps.ms(),
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


def _bounds(manifest: Manifest | None) -> dict[str, datetime]:
    return {} if manifest is None else manifest.retained_from


def _change(
    parent: Manifest | None,
    news: NewSegments,
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
        changes_rows=bool(folded.files) or bounds != _bounds(parent),
        watermark=news.watermark,
        retained_from=bounds,
        streams=news.streams(),
        counts=folded.counts,
        added=tuple(Ref(path=new.file.path, sha256=new.file.sha256) for new in folded.files),
    )
