"""Retention of rows: the bound before which a table of an event domain drops its rows (P20).

The bound moves by whole hours, so it rarely changes from one manifest to the next, and it never moves back.
A clock that is ahead must not move it: the local clock counts only up to a limit after the time at which
the store stamped the newest manifest (ADR 0059).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from arco.core.clock import utc
from arco.core.errors import NotFound
from arco.storage.chain import Chain

# An idle domain gets a manifest a day; the extra hour allows for clocks that differ a little.
_BEYOND_STAMP_MS = 25 * 3_600_000

Bounds = Mapping[str, datetime]


class Retention:
    """How long rows of a domain are kept, by table; rows of other tables are kept for ever."""

    def __init__(self, manifests: Chain, spans: Mapping[str, timedelta]) -> None:
        self._manifests = manifests
        self._clock = manifests.store.runtime.clock
        self._spans = spans
        # The number of a manifest, and when the store created it.
        self._stamp: tuple[int, int] | None = None

    async def raise_bounds(self, head: int, bounds: Bounds) -> dict[str, datetime]:
        """The bounds of the manifest after `head`, which has `bounds`; the first manifest has none."""
        if head < 0 or self._raised(bounds, self._now()) == bounds:
            return dict(bounds)
        now = await self._trusted_now(head)
        return dict(bounds) if now is None else self._raised(bounds, now)

    async def is_overdue(self, head: int, bounds: Bounds) -> bool:
        """Whether the bounds of manifest `head` are so old that raising them is worth a manifest."""
        if not self._is_overdue(bounds, self._now()):
            return False
        now = await self._trusted_now(head)
        return now is not None and self._is_overdue(bounds, now)

    async def _trusted_now(self, head: int) -> datetime | None:
        """The local time, but not much later than the newest manifest was stored.

        If that was long ago, another manifest is published, and then its time counts. None if the manifest
        was collected, so that it is not the newest.
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
