"""Retention of rows: from when on a table keeps what it was told (P20).

The bound moves by whole hours, so that it stays the same from one manifest to the next but seldom, and it
never moves back. So a clock that is ahead must not move it: ours is believed only as far as the store bears
it out, which has stamped the newest manifest (ADR 0059).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from arco.core.clock import utc
from arco.core.errors import NotFound
from arco.storage.chain import Chain

# A domain in which nothing happens gets a manifest a day; an hour more is for clocks that differ a little.
_BEYOND_STAMP_MS = 25 * 3_600_000

Bounds = Mapping[str, datetime]


class Retention:
    """How long rows are kept, by table, in one domain; of other tables all are kept for ever."""

    def __init__(self, manifests: Chain, spans: Mapping[str, timedelta]) -> None:
        self._manifests = manifests
        self._clock = manifests.store.runtime.clock
        self._spans = spans
        # The number of a manifest, and when it was stored.
        self._stamp: tuple[int, int] | None = None

    async def raised(self, head: int, bounds: Bounds) -> dict[str, datetime]:
        """The bounds after the manifest `head` has these; the first of all manifests has none."""
        if head < 0 or self._raised(bounds, self._now()) == bounds:
            return dict(bounds)
        believed = await self._believed(head)
        return dict(bounds) if believed is None else self._raised(bounds, believed)

    async def is_overdue(self, head: int, bounds: Bounds) -> bool:
        """Whether the bounds of the manifest `head` are so old that they are worth one of their own."""
        if not self._is_overdue(bounds, self._now()):
            return False
        believed = await self._believed(head)
        return believed is not None and self._is_overdue(bounds, believed)

    async def _believed(self, head: int) -> datetime | None:
        """What our clock says, but not much later than the newest manifest was stored.

        If it was stored long ago, another one is published, and then its stamp counts. One that is gone is
        not the newest, as we are about to find out.
        """
        if self._stamp is None or self._stamp[0] != head:
            try:
                meta = await self._manifests.store.head(self._manifests.key(head))
            except NotFound:
                return None
            self._stamp = head, meta.modified_ms
        return min(self._now(), utc(self._stamp[1] + _BEYOND_STAMP_MS))

    def _now(self) -> datetime:
        return utc(self._clock.now_ms())

    def _raised(self, bounds: Bounds, now: datetime) -> dict[str, datetime]:
        hour = now.replace(minute=0, second=0, microsecond=0)
        new = dict(bounds)
        for table, keep in self._spans.items():
            bound = hour - keep
            new[table] = max(bound, new.get(table, bound))
        return new

    def _is_overdue(self, bounds: Bounds, now: datetime) -> bool:
        return any(
            table not in bounds or bound - bounds[table] >= timedelta(days=1)
            for table, bound in self._raised(bounds, now).items()
        )
