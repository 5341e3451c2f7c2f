"""How far what is published lies behind what was acknowledged, for each domain of events."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import UNSET, UnsetType

from arco.api.query_params import Query
from arco.api.route import Call, Reply
from arco.api.services import Services
from arco.api.wire import Document
from arco.catalog.reader import SnapshotReader
from arco.core import json
from arco.core.clock import utc
from arco.ledger.lag import Waiting, waiting_above
from arco.ledger.watermark import Watermark


class DomainLag(Document, frozen=True, kw_only=True):
    """One domain. `lag_ms` is the age of its oldest event that is in no manifest; 0 if all of them are.

    `manifest` is the number that was published last, -1 before the first.
    """

    domain: str
    manifest: int
    lag_ms: int
    waiting_segments: int
    oldest_received_at: datetime | UnsetType = UNSET


class Lag(Document, frozen=True, kw_only=True):
    """The lag of every domain of events."""

    items: tuple[DomainLag, ...]


class Lags:
    """Looks how far behind the domains are."""

    def __init__(self, services: Services) -> None:
        self._runtime = services.runtime
        self._domains: Mapping[str, SnapshotReader] = services.domains

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
        return self._lag(domain, snapshot.number, await waiting_above(reader.store, domain, mark))

    def _lag(self, domain: str, number: int, waiting: Waiting) -> DomainLag:
        now, oldest = utc(self._runtime.clock.now_ms()), waiting.oldest_received
        lag_ms = 0 if oldest is None else max(1, round((now - oldest).total_seconds() * 1000))
        return DomainLag(
            domain=domain,
            manifest=number,
            lag_ms=lag_ms,
            waiting_segments=waiting.segments,
            oldest_received_at=UNSET if oldest is None else oldest,
        )
