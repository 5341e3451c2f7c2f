"""The backlog of an event domain: what its ledger holds beyond the published watermark.

`NewSegments` is the backlog as one compactor finds it; `has_backlog` and `count_waiting_segments` look
once. A slot or a seal alone does not change what readers see, so it waits for events, but only for a
minute: until it is published, every compactor that starts polls its stream again.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from arco.catalog.manifest import Manifest, manifests_of
from arco.compactor.engine import SegmentRef
from arco.compactor.publisher import manifest_at
from arco.compactor.retention import Retention
from arco.fold.tier2 import TIER2
from arco.ledger.follower import MAX_BATCH_SEGMENTS, SegmentCache, SegmentFollower
from arco.ledger.segment import SegmentLocation
from arco.ledger.stream import Watermark
from arco.storage.store import Store

LINGER_MS = 60_000

# Bytes of segments that are sent inside a job; Spark sends a job to its task in one piece.
_INLINE_BYTES = 512 * 1024


class NewSegments:
    """Segments to fold next, on top of the watermark `since`."""

    def __init__(
        self, store: Store, domain: str, since: Watermark, handed: SegmentCache | None = None
    ) -> None:
        self.since = self.watermark = since
        self.has_more = False  # whether there was more than one batch holds
        self._clock = store.runtime.clock
        self._handed = handed or SegmentCache()
        self._follower = SegmentFollower(store, domain, since, handed=self._handed)
        self._places: list[SegmentLocation] = []
        self._found_ms = 0.0

    async def poll(self, *, most: int = MAX_BATCH_SEGMENTS, everything: bool = False) -> None:
        """Poll the streams that are due, or all of them, for at most `most` segments."""
        self._follower.most = most
        batch = await self._follower.poll(everything=everything)
        if batch is None:
            return
        if self.watermark == self.since:
            self._found_ms = self._clock.elapsed_ms()
        self._places += batch.segments
        self.watermark = batch.watermark
        self.has_more = len(batch.segments) >= most

    def is_due(self) -> bool:
        """Whether there are events to publish, or slots and seals that have waited long enough."""
        has_events = any(not each.seal for each in self._places)
        return has_events or (self.watermark != self.since and self._wait_ms() <= 0)

    def segments(self) -> tuple[SegmentRef, ...]:
        """The segments with events; the first ones with their bytes, if their writer handed those over."""
        refs, free_bytes = [], _INLINE_BYTES
        for each in self._places:
            if each.seal:
                continue
            raw = self._handed.find(each.stream, each.seq)
            free_bytes -= len(raw or b"")
            refs.append(SegmentRef(each.stream, each.seq, raw if free_bytes >= 0 else None))
        return tuple(refs)

    def streams(self) -> dict[str, tuple[int, int]]:
        """The first and the last new segment of each stream, including seals."""
        spans: dict[str, tuple[int, int]] = {}
        for each in self._places:
            first, _ = spans.get(each.stream, (each.seq, each.seq))
            spans[each.stream] = (first, each.seq)
        return spans

    def mark_published(self) -> None:
        """All segments so far are published: continue from their watermark."""
        self.since = self.watermark
        for each in self._places:
            self._handed.remove(each.stream, each.seq)
        self._places.clear()

    def notify(self, streams: Iterable[str]) -> None:
        """Report new segments in these streams."""
        self._follower.notify(streams)

    def due_in_ms(self) -> float:
        """The time until the store must be polled, unless `notify` reports new segments."""
        due = self._follower.due_in_ms()
        return due if self.watermark == self.since else max(1, min(due, self._wait_ms()))

    def _wait_ms(self) -> float:
        """How long slots and seals may still wait for events."""
        return self._found_ms + LINGER_MS - self._clock.elapsed_ms()


async def has_backlog(store: Store, domain: str, retention: Mapping[str, timedelta]) -> bool:
    """Whether the ledger has unpublished events, or rows are due to expire. Seals alone do not count."""
    manifests = manifests_of(store, domain)
    head = await manifests.head()
    published = manifest_at(head)
    spans = {table: span for table, span in retention.items() if table in TIER2[domain]}
    if published is not None and await Retention(manifests, spans).is_overdue(
        head.number, published.retained_from
    ):
        return True
    return await _count_above(store, domain, published) > 0


async def count_waiting_segments(store: Store, domain: str) -> int:
    """How many segments with events are not published yet; at most as many as one job takes."""
    return await _count_above(store, domain, manifest_at(await manifests_of(store, domain).head()))


async def _count_above(store: Store, domain: str, published: Manifest | None) -> int:
    watermark = Watermark() if published is None else published.watermark
    batch = await SegmentFollower(store, domain, watermark).poll(everything=True)
    return 0 if batch is None else sum(not each.seal for each in batch.segments)
