"""How far what is published lies behind what was acknowledged, for each domain of events."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import UNSET, UnsetType

from arco.api.query_params import Query
from arco.api.route import Call, Reply
from arco.api.wire import Document
from arco.catalog.reader import SnapshotReader
from arco.core import json
from arco.core.clock import Clock, utc
from arco.core.ids import ulid_ms
from arco.core.runtime import Runtime
from arco.ledger.lag import waiting_above
from arco.ledger.watermark import Watermark


class DomainLag(Document, frozen=True, kw_only=True):
    """One domain. `lag_ms` is the age of its oldest event that is in no manifest; 0 if all of them are.

    `manifest` is the number that was published last, -1 before the first, and `published_at` its time.
    `waiting_events` is an estimate: the first and the last segment of each stream are counted.
    """

    domain: str
    manifest: int
    lag_ms: int
    waiting_segments: int
    waiting_events: int = 0
    oldest_received_at: datetime | UnsetType = UNSET
    published_at: datetime | UnsetType = UNSET


class Lag(Document, frozen=True, kw_only=True):
    """The lag of every domain of events."""

    items: tuple[DomainLag, ...]


class Lags:
    """Looks how far behind the domains are."""

    def __init__(self, runtime: Runtime, domains: Mapping[str, SnapshotReader]) -> None:
        self._runtime = runtime
        self._domains = domains

    async def get(self, _call: Call[Query, None]) -> Reply:
        """How long the oldest event of each domain has waited to become visible."""
        return Reply(200, json.encode(Lag(items=await self.look())))

    async def look(self) -> tuple[DomainLag, ...]:
        """All domains, as they are now."""
        tasks = self._runtime.tasks
        readers = self._domains.items()
        return tuple(await tasks.gather(*(self._look(name, each) for name, each in readers)))

    async def _look(self, domain: str, reader: SnapshotReader) -> DomainLag:
        snapshot = await reader.head()
        published = snapshot.manifest
        mark = Watermark() if published is None else published.watermark
        waiting = await waiting_above(reader.store, domain, mark)
        oldest = waiting.oldest_received
        return DomainLag(
            domain=domain,
            manifest=snapshot.number,
            lag_ms=0 if oldest is None else age_ms(oldest, self._runtime.clock),
            waiting_segments=waiting.segments,
            waiting_events=waiting.events,
            oldest_received_at=UNSET if oldest is None else oldest,
            published_at=UNSET if published is None else utc(ulid_ms(published.commit_ulid)),
        )


def age_ms(moment: datetime, clock: Clock) -> int:
    """How long ago something happened, at least 1."""
    return max(1, round((utc(clock.now_ms()) - moment).total_seconds() * 1000))
