"""News: what the ledger of a domain holds beyond a published watermark, as far as it was looked for.

A slot or a seal alone tells readers nothing, so it waits for events to come with it, but not for ever:
until it is published, its stream is asked for again by every compactor that starts.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from arco.catalog.manifest import Manifest, manifests_of
from arco.compactor.engine import SegmentRef
from arco.compactor.publisher import manifest_at
from arco.compactor.retention import Retention
from arco.fold.tier2 import TIER2
from arco.ledger.follower import MOST_PLACES, PlaceFollower
from arco.ledger.handed import HandedSegments
from arco.ledger.segment import SegmentPlace
from arco.ledger.watermark import Watermark
from arco.storage.store import Store

LINGER_MS = 60_000

# Bytes of segments that go along with a job; Spark sends a job to its task in one piece.
_SENT_BYTES = 512 * 1024


class NewSegments:
    """Segments that are to be folded next, on top of the watermark `since`."""

    def __init__(
        self, store: Store, domain: str, since: Watermark, handed: HandedSegments | None = None
    ) -> None:
        self.since = self.watermark = since
        self.is_cut_short = False  # whether there was more than one batch holds
        self._clock = store.runtime.clock
        self._handed = handed or HandedSegments()
        self._follower = PlaceFollower(store, domain, since, handed=self._handed)
        self._places: list[SegmentPlace] = []
        self._found_ms = 0.0

    async def look(self, *, most: int = MOST_PLACES, everything: bool = False) -> None:
        """Look on in the streams that are due, or in all of them, for that many segments at most."""
        self._follower.most = most
        batch = await self._follower.poll(everything=everything)
        if batch is None:
            return
        if self.watermark == self.since:
            self._found_ms = self._clock.elapsed_ms()
        self._places += batch.segments
        self.watermark = batch.watermark
        self.is_cut_short = len(batch.segments) >= most

    def is_ripe(self) -> bool:
        """Whether there is something to publish, and reason not to wait for more."""
        has_events = any(not each.seal for each in self._places)
        return has_events or (self.watermark != self.since and self._rest_ms() <= 0)

    def segments(self) -> tuple[SegmentRef, ...]:
        """Those that have events; the first ones with their bytes, where those were handed over."""
        refs, room = [], _SENT_BYTES
        for each in self._places:
            if each.seal:
                continue
            raw = self._handed.find(each.stream, each.seq)
            room -= len(raw or b"")
            refs.append(SegmentRef(each.stream, each.seq, raw if room >= 0 else None))
        return tuple(refs)

    def streams(self) -> dict[str, tuple[int, int]]:
        """The first and the last segment that are new in each stream, seals included."""
        found: dict[str, tuple[int, int]] = {}
        for each in self._places:
            first, _ = found.get(each.stream, (each.seq, each.seq))
            found[each.stream] = (first, each.seq)
        return found

    def published(self) -> None:
        """All of it is: from here on it goes on."""
        self.since = self.watermark
        for each in self._places:
            self._handed.remove(each.stream, each.seq)
        self._places.clear()

    def ring(self, streams: Iterable[str]) -> None:
        """These streams have something new."""
        self._follower.ring(streams)

    def due_in_ms(self) -> float:
        """How long it takes until there is something to do, if nobody rings."""
        due = self._follower.due_in_ms()
        return due if self.watermark == self.since else max(1, min(due, self._rest_ms()))

    def _rest_ms(self) -> float:
        """How long what was found may still wait."""
        return self._found_ms + LINGER_MS - self._clock.elapsed_ms()


async def has_backlog(store: Store, domain: str, retention: Mapping[str, timedelta]) -> bool:
    """Whether the ledger has events that are not published, or rows are kept for too long."""
    manifests = manifests_of(store, domain)
    head = await manifests.head()
    published = manifest_at(head)
    mine = {table: span for table, span in retention.items() if table in TIER2[domain]}
    if published is not None and await Retention(manifests, mine).is_overdue(
        head.number, published.retained_from
    ):
        return True
    return await _above(store, domain, published) > 0


async def count_waiting_segments(store: Store, domain: str) -> int:
    """How many segments of the ledger are in no manifest yet; of very many, as many as one job takes."""
    return await _above(store, domain, manifest_at(await manifests_of(store, domain).head()))


async def _above(store: Store, domain: str, published: Manifest | None) -> int:
    watermark = Watermark() if published is None else published.watermark
    batch = await PlaceFollower(store, domain, watermark).poll(everything=True)
    return 0 if batch is None else sum(not each.seal for each in batch.segments)
